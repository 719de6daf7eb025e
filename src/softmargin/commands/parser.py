"""The parser of the whole command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from softmargin import __version__
from softmargin._text import nearest, one_line, printable
from softmargin.commands import COMMANDS
from softmargin.commands.common import file, number, quoted

NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)")
LONG_WORD = re.compile(r"\S{210,}")
BAD_INPUT = 2

DESCRIPTION = """\
Softmax losses with a margin knob, for people who care how sure their models are.

One number, β, says how fast the gradient of a sample fades as it becomes confident.
β = 1 is cross-entropy; a smaller β is a larger margin, and more confidence; a larger
β lets go of samples early, and calibrates."""

EPILOG = """\
example:
  softmargin demo                        see what β does, in half a minute
  softmargin demo --betas 10,1,0.1       with your own β
  softmargin fit t.csv --target kind     choose β for your own table
  softmargin tune features.npz           choose β for the last layer of your own network
  softmargin calibrate predictions.npz   how calibrated anyone's predictions are
  softmargin compare mine.npz theirs.npz which of two models is better
  softmargin train --out run --beta 5 --fraction 0.1    train a model on a few digits
  softmargin losses ArcFaceHead          what a loss or head computes
  softmargin reproduce run gd-fig2       a figure of a paper, beside the paper's

Each command has its own help: softmargin demo --help
In Python: from softmargin import GradientDecayLoss"""


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake in one line, without repeating the usage.

    ``type=float`` reads finite numbers and ``type=Path`` names of files, with sentences of ours.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Read whole names of options only."""
        super().__init__(*arguments, **{**options, "allow_abbrev": False})
        self.register("type", float, number)
        self.register("type", Path, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is not among the choices, and name the one that was probably meant."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if close := nearest(str(value), list(action.choices or ())):
                error.message = f"{error.message}; did you mean {close[0]}?"
            raise

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end."""
        short = LONG_WORD.sub(lambda word: printable(word[0]), message)
        self.exit(BAD_INPUT, f"{self.prog}: {one_line(short)}\n")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; without a command, None is its name."""
    parser = build_parser()
    # argparse takes "-1,5" for an option; after a space it is a value, and can be refused as one
    options, rest = parser.parse_known_args([f" {x}" if NEGATIVE.match(x) else x for x in words])
    if rest:
        action = getattr(options, "action", None)
        asked = " ".join(("softmargin", *filter(None, (options.command, action))))
        unknown = ", ".join(quoted(word) for word in rest[:3])
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        parser.error(f"cannot make sense of {unknown}{more}; {asked} --help lists what it takes.")
    if options.command is None:
        parser.print_help()
    return options


def build_parser() -> Parser:
    """Return the parser of the whole command line."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser("softmargin", None, DESCRIPTION, EPILOG, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"softmargin {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        own = commands.add_parser(
            name, help=command.summary, description=command.description, formatter_class=plain
        )
        own.set_defaults(resumes=command.resumes)
        command.declare(own)
    return parser
