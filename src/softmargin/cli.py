"""The ``softmargin`` command.

A subcommand is a module of :mod:`softmargin.commands`; what it needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from softmargin.commands import COMMANDS
from softmargin.commands.common import UsageError

NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)")
BAD_INPUT, INTERRUPTED = 2, 130

DESCRIPTION = """\
Softmax losses with a margin knob, for people who care how sure their models are.

One number, β, says how fast the gradient of a sample fades as it becomes confident.
β = 1 is cross-entropy; a smaller β is a larger margin, and more confidence; a larger
β lets go of samples early, and calibrates."""

EPILOG = """\
example:
  softmargin demo                        see what β does, in half a minute
  softmargin demo --betas 10,1,0.1       with your own β
  softmargin calibrate predictions.npz   how calibrated anyone's predictions are
  softmargin train --out run --beta 5    train a model
  softmargin losses ArcFaceHead          what a loss or head computes
  softmargin reproduce run gd-fig2       a figure of a paper, beside the paper's

Each command has its own help: softmargin demo --help
In Python: from softmargin import GradientDecayLoss"""


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake in one line, without repeating the usage."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end."""
        self.exit(BAD_INPUT, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Greek letters shows "?"
            stream.reconfigure(errors="replace")
    parser = build_parser()
    given = sys.argv[1:] if arguments is None else arguments
    # argparse takes "-1,5" for an option; after a space it is a value, and can be refused as one
    options = parser.parse_args([f" {x}" if NEGATIVE.match(x) else x for x in given])
    if options.command is None:
        parser.print_help()
        return 0
    try:
        code = COMMANDS[options.command].run(options)
        sys.stdout.flush()
        return code or 0
    except UsageError as error:
        print(f"softmargin {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        resumes = "; the same command resumes where it stopped"
        more = resumes if getattr(options, "resumes", False) else ""
        print(f"softmargin {options.command}: interrupted{more}.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    from softmargin import __version__

    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser("softmargin", None, DESCRIPTION, EPILOG, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"softmargin {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.declare(
            commands.add_parser(
                name,
                help=command.summary,
                description=command.description,
                formatter_class=plain,
                allow_abbrev=False,
            )
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
