"""The ``softmargin`` command.

A subcommand is a function that takes the parsed arguments and a function that declares them;
both are named in ``COMMANDS``. What a subcommand needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

LAB = ("jinja2", "matplotlib", "rich", "sklearn")
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
  softmargin losses ArcFaceHead          what a loss or head computes

Each command has its own help: softmargin demo --help
In Python: from softmargin import GradientDecayLoss"""

DEMO_DESCRIPTION = """\
Train one small network on real handwritten digits with several β (and a warm-up of β),
over several seeds, and show what β does to accuracy and calibration. Prints a table and
writes a page with figures (index.html) and all numbers (results.json)."""


class UsageError(Exception):
    """Something the user can put right; its message is the one sentence to show."""


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake in one line, without repeating the usage."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end."""
        self.exit(BAD_INPUT, f"{self.prog}: {message}\n")


@dataclass(frozen=True)
class Command:
    """A subcommand: its line in the help, its arguments, and what it does."""

    summary: str
    description: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


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
        COMMANDS[options.command].run(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"softmargin {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"softmargin {options.command}: interrupted.", file=sys.stderr)
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


def declare_demo(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin demo``."""
    parser.add_argument(
        "--out",
        type=folder,
        default=Path("softmargin-report"),
        metavar="DIR",
        help="folder for index.html and results.json, which are replaced (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="first seed (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds",
        type=count,
        default=5,
        metavar="N",
        help="how many seeds; a spread needs at least 2 (default: %(default)s)",
    )
    parser.add_argument(
        "--betas",
        type=betas,
        nargs="+",
        default=[[20.0, 5.0, 1.0, 0.1, 0.01]],
        metavar="BETA",
        help="values of β, separated by commas or spaces (default: 20,5,1,0.1,0.01)",
    )


def run_demo(options: argparse.Namespace) -> None:
    """Train, print the table, write the page, say where it is."""
    chosen = [beta for group in options.betas for beta in group]
    if repeated := [beta for beta in chosen if chosen.count(beta) > 1]:
        raise UsageError(f"argument --betas: each β once, please: {repeated[0]:g} came twice.")
    require_lab()
    from softmargin.experiments.demo import DemoSetting, command

    setting = DemoSetting(chosen, options.seed, options.seeds)
    with writing_to(options.out):
        command.prepare_folder(options.out)
    outcomes = command.run_with_progress(setting)
    with writing_to(options.out):
        page = command.write_report(setting, outcomes, options.out)
    command.print_table(setting, outcomes)
    print(f"\nReport: {page}")


def declare_losses(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin losses``."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="one loss or head, with its whole documentation"
    )


def run_losses(options: argparse.Namespace) -> None:
    """Print the catalogue of losses and heads."""
    from softmargin import catalogue

    try:
        print(catalogue.as_text(options.name))
    except ValueError as error:
        raise UsageError(f"argument {error}") from None


@contextmanager
def writing_to(out: Path) -> Iterator[None]:
    """Turn a failure to write into a sentence about ``--out``."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            "argument --out: must be a folder that can be written to, but "
            f"{str(out)!r} is not: {error.strerror or error}."
        ) from None


def require_lab() -> None:
    """Say what to install where the packages of the ``lab`` extra are missing."""
    for name in LAB:
        try:
            importlib.import_module(name)
        except ImportError:
            raise UsageError(
                f'this command needs {name}, which is missing: pip install "softmargin[lab]".'
            ) from None


def betas(text: str) -> list[float]:
    """Read numbers above 0, separated by commas or spaces."""
    values = []
    for part in text.replace(",", " ").split():
        try:
            value = float(part)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise argparse.ArgumentTypeError(
                f"every β must be a finite number above 0, but got {part!r}."
            )
        values.append(value)
    if not values:
        raise argparse.ArgumentTypeError(
            f"at least one finite number above 0 is needed, but got {text!r}."
        )
    return values


def seed(text: str) -> int:
    """Read a seed."""
    return _integer(text, 0, 2**62)


def count(text: str) -> int:
    """Read how many."""
    return _integer(text, 1, 10**6)


def _integer(text: str, lowest: int, highest: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = lowest - 1
    if not lowest <= value <= highest:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {lowest} to {highest}, but got {text.strip()!r}."
        )
    return value


def folder(text: str) -> Path:
    """Read the name of a folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"must name a folder, but got {text!r}.")
    return Path(text)


COMMANDS = {
    "demo": Command(
        "see what β does to confidence: digits, several β, a page of figures",
        DEMO_DESCRIPTION,
        declare_demo,
        run_demo,
    ),
    "losses": Command(
        "list every loss and head: formula, paper, arguments, the β it equals",
        "List every loss and head with its formula, its paper, its arguments and the β it equals.",
        declare_losses,
        run_losses,
    ),
}

if __name__ == "__main__":
    sys.exit(main())
