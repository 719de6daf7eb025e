"""What can go wrong with data, each in one sentence that says what to do.

The sentences quote names and cells of files that strangers made. What would control a terminal is
shown as an escape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from softmargin._text import printable

REMEDY = "delete it and fetch it again"


class Sentence(Exception):
    """An error whose message is safe to print."""

    def __init__(self, message: str) -> None:
        """Keep the sentence."""
        super().__init__(printable(message, None))


class MissingDataError(Sentence, FileNotFoundError):
    """A data set is neither on this machine nor to be had."""


class BrokenFileError(Sentence, ValueError):
    """A file is not what its checksum or its format says; the message names the file."""


class DownloadError(Sentence, ConnectionError):
    """A download did not arrive whole."""


def reason(error: Exception) -> str:
    """Return what a library says about a file as one phrase."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return printable(text or type(error).__name__).rstrip(":.")


@contextlib.contextmanager
def reading(path: Path | str, what: str = "", remedy: str = f"; {REMEDY}") -> Iterator[None]:
    """Turn whatever a library raises over a damaged file into one sentence about that file.

    Args:
        path: The file that is read inside.
        what: As what it cannot be read, such as " as a table".
        remedy: What to do.
    """
    try:
        yield
    except (Sentence, ImportError):
        raise
    except Exception as error:
        raise BrokenFileError(f"{path} cannot be read{what}: {reason(error)}{remedy}.") from None
