"""What the subcommands share: how they are declared, what goes wrong, how arguments are read."""

from __future__ import annotations

import argparse
import errno
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LAB = ("jinja2", "matplotlib", "pyarrow", "rich", "sklearn")


class UsageError(Exception):
    """Something the user can put right; its message is the one sentence to show."""


@dataclass(frozen=True)
class Command:
    """A subcommand: its line in the help, its arguments, and what it does.

    What it does may return an exit code, for an answer that is no and not a mistake.
    """

    summary: str
    description: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]


@contextmanager
def writing_to(out: Path) -> Iterator[None]:
    """Turn a failure to write into a sentence about ``--out``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UsageError(
                f"argument --out: the disk that {str(out)!r} is on is full: what is finished is "
                "kept, and the same command goes on once there is space."
            ) from None
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


def data_set(text: str) -> str:
    """Read the name of a data set."""
    from softmargin.data.registry import entry_of

    try:
        return entry_of(text, "").name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).strip()) from None


def folder(text: str) -> Path:
    """Read the name of a folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"must name a folder, but got {text!r}.")
    return Path(text)
