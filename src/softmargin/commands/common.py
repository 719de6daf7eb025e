"""What the subcommands share: how they are declared, what goes wrong, how arguments are read.

Besides what is here, commands show progress with :func:`progress`, print tables with
:func:`print_table`, and pass what they show of files and arguments through :func:`printable`.
"""

from __future__ import annotations

import argparse
import errno
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from softmargin._progress import progress
from softmargin._table import print_table
from softmargin._text import printable

__all__ = [
    "Command",
    "UsageError",
    "check_out",
    "count",
    "file",
    "folder",
    "number",
    "print_table",
    "printable",
    "progress",
    "quoted",
    "require_lab",
    "require_reader",
    "seed",
    "writing_to",
]

EXTRAS = {
    "calibrate": ("jinja2", "matplotlib", "rich"),
    "lab": ("jinja2", "matplotlib", "pyarrow", "rich", "sklearn"),
}
"""By name of an extra, the packages without which its commands cannot begin."""
ARRAYS = (".npz", ".npy", ".pt")
"""Files of predictions that are read without pyarrow."""


class UsageError(Exception):
    """Something the user can put right; its message is the one sentence to show."""


@dataclass(frozen=True)
class Command:
    """A subcommand: its line in the help, its arguments, and what it does.

    What it does may return an exit code, for an answer that is no and not a mistake. ``resumes``
    says that the same command goes on where it was interrupted; an action of a command that
    differs in this says so by ``parser.set_defaults(resumes=...)``.
    """

    summary: str
    description: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    resumes: bool = False


def check_out(path: Path, flag: str = "--out") -> None:
    """Refuse a folder that could not be made or written to, before any time is spent.

    This makes nothing, so that a command that fails later leaves nothing behind.
    """
    place, missing = Path(os.path.abspath(path)), []
    while not os.path.lexists(place):
        missing.append(place.name)
        place = place.parent
    if not place.is_dir():
        kind = "a link to nothing" if place.is_symlink() else "a file"
        raise _not_writable(flag, path, f"{quoted(str(place)) if missing else 'it'} is {kind}")
    try:
        for name in missing:  # one may be too long
            with suppress(FileNotFoundError):
                os.stat(place / name)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise _not_writable(flag, path, _reason(error)) from None


@contextmanager
def writing_to(out: Path, *, resumes: bool = True) -> Iterator[None]:
    """Turn a failure to write into a sentence about ``--out``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            kept = "what is finished is kept, and the same command goes on once there is space"
            raise UsageError(
                f"argument --out: the disk that {quoted(str(out))} is on is full: "
                f"{kept if resumes else 'nothing was written'}."
            ) from None
        raise _not_writable("--out", out, _reason(error)) from None


def _not_writable(flag: str, path: Path, reason: str) -> UsageError:
    return UsageError(
        f"argument {flag}: must be a folder that can be written to, but "
        f"{quoted(str(path))} is not: {reason}."
    )


def _reason(error: OSError) -> str:
    """Return why the system refused, without its number."""
    reason = error.strerror or type(error).__name__
    return reason[:1].lower() + reason[1:]


def require_lab(extra: str = "lab") -> None:
    """Say what to install where the packages of the ``lab`` extra, or of another, are missing."""
    for name in EXTRAS[extra]:
        if find_spec(name) is None:  # importing all of them would take a second
            raise UsageError(
                f'this command needs {name}, which is missing: pip install "softmargin[{extra}]".'
            )


def require_reader(given: Path) -> None:
    """Say what to install to calibrate the predictions in a file: arrays need less than tables."""
    require_lab("calibrate" if given.suffix.lower() in ARRAYS else "lab")


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
            f"must be a whole number from {lowest} to {highest}, but got {quoted(text)}."
        )
    return value


def number(text: str) -> float:
    """Read a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a finite number, but got {quoted(text)}.")
    return value


def folder(text: str) -> Path:
    """Read the name of a folder."""
    return _path(text, "folder")


def file(text: str) -> Path:
    """Read the name of a file."""
    return _path(text, "file")


def _path(text: str, kind: str) -> Path:
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"must name a {kind}, but got {quoted(text)}.")
    return Path(text)


def quoted(text: str) -> str:
    """Return what was typed in quotes, cut if it is long, as safe to show as :func:`printable`."""
    return f"'{printable(text.strip())}'"
