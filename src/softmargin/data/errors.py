"""What can go wrong with data, each in one sentence that says what to do.

The sentences quote names and cells of files that strangers made. What would control a terminal is
shown as an escape.
"""

from __future__ import annotations

from softmargin._text import printable


class _Sentence(Exception):
    """An error whose message is safe to print."""

    def __init__(self, message: str) -> None:
        """Keep the sentence."""
        super().__init__(printable(message, None))


class MissingDataError(_Sentence, FileNotFoundError):
    """A data set is neither on this machine nor to be had."""


class BrokenFileError(_Sentence, ValueError):
    """A file is not what its checksum or its format says; the message names the file."""


class DownloadError(_Sentence, ConnectionError):
    """A download did not arrive whole."""
