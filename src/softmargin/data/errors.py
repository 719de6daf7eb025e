"""What can go wrong with data, each in one sentence that says what to do."""

from __future__ import annotations


class MissingDataError(FileNotFoundError):
    """A data set is neither on this machine nor to be had."""


class BrokenFileError(ValueError):
    """A file is not what its checksum or its format says; the message names the file."""


class DownloadError(ConnectionError):
    """A download did not arrive whole."""
