"""``softmargin completion``: a script with which a shell completes the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from softmargin.commands.common import Command, UsageError, file, folder

DESCRIPTION = """\
Print a script that lets a shell complete commands, options, and names of data sets, networks,
losses, heads and experiments.

  bash  softmargin completion bash > ~/.local/share/bash-completion/completions/softmargin
  zsh   softmargin completion zsh > DIR/_softmargin, with DIR in $fpath
  fish  softmargin completion fish > ~/.config/fish/completions/softmargin.fish"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin completion``."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(options: argparse.Namespace) -> None:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise UsageError(
            'this command needs shtab, which is missing: pip install "softmargin[lab]".'
        ) from None
    from softmargin.commands.parser import build_parser

    parser = build_parser()
    for command, action in _arguments(parser):
        if action.type is folder:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.type in (file, Path):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.choices is None:
            action.choices = _names(command, action.dest)
    print(shtab.complete(parser, options.shell))


def _arguments(
    parser: argparse.ArgumentParser, command: str = ""
) -> Iterator[tuple[str, argparse.Action]]:
    """Yield every argument of every command, with the command's name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, own in action.choices.items():
                yield from _arguments(own, command or name)
        else:
            yield command, action


def _names(command: str, argument: str) -> list[str] | None:
    """Return what may stand for an argument, where that is a list of names."""
    from softmargin import catalogue, models
    from softmargin.data import registry as data
    from softmargin.papers.ids import ids

    losses, heads = ([entry.name for entry in x] for x in (catalogue.LOSSES, catalogue.HEADS))
    lists = {
        ("train", "data"): data.names(),
        ("train", "model"): models.names(),
        ("train", "loss"): losses,
        ("train", "head"): heads,
        ("losses", "name"): [*losses, *heads],
        ("data", "names"): [*data.names(), *data.groups()],
        ("reproduce", "ids"): [*ids(), "all"],
    }
    return lists.get((command, argument))


COMMAND = Command("print a script that lets a shell complete commands", DESCRIPTION, declare, run)
