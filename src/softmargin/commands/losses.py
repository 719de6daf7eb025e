"""``softmargin losses``: the catalogue of losses and heads."""

from __future__ import annotations

import argparse

from softmargin.commands.common import Command, UsageError


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin losses``."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="one loss or head, with its whole documentation"
    )


def run(options: argparse.Namespace) -> None:
    """Print the catalogue of losses and heads."""
    from softmargin import catalogue

    try:
        print(catalogue.as_text(options.name))
    except ValueError as error:
        raise UsageError(f"argument {error}") from None


COMMAND = Command(
    "list every loss and head: formula, paper, arguments, the β it equals",
    "List every loss and head with its formula, its paper, its arguments and the β it equals.",
    declare,
    run,
)
