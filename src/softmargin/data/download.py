"""Downloads that arrive whole or not at all.

Pooch does the work: it writes to a temporary file beside the target, compares the checksum, and
only then moves the file to its name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from softmargin.data.entry import Entry, Remote
from softmargin.data.errors import DownloadError
from softmargin.data.files import DATA, Found, check_file, find
from softmargin.data.safety import extract

TIMEOUT = 30.0  # seconds without a byte


def fetch(entry: Entry, folder: Path, *, progress: bool | None = None) -> Found:
    """Download what is missing of a data set into a folder, and return the copy.

    Of several processes that want the same, one downloads and the others wait for it.

    Args:
        entry: What to download.
        folder: Root of the copy; made where it does not exist.
        progress: Whether to show a progress bar; by default on a terminal.
    """
    shown = sys.stderr.isatty() if progress is None else progress
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{entry.name}.lock"):
            found = find(entry, [folder])
            if found is None:
                for remote in entry.remotes:
                    _get(entry, remote, folder / remote.path, shown)
                found = find(entry, [folder])
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(
            f"{entry.name} could not be written to {folder}: {error.strerror or error}."
        ) from None
    if found is None:
        raise DownloadError(f"{entry.name} was downloaded to {folder}, but files are missing.")
    return found


def _get(entry: Entry, remote: Remote, target: Path, progress: bool) -> None:
    if target.exists():
        check_file(target, remote.checksum)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    _retrieve(entry, remote, target, progress)
    if remote.unpack:
        try:
            extract(target, target.parent)
        finally:
            target.unlink()  # its members have checksums of their own


def _retrieve(entry: Entry, remote: Remote, target: Path, progress: bool) -> None:
    try:
        import pooch
        import requests
    except ImportError:
        raise ImportError(
            f'Downloading {entry.name} needs pooch, not installed: pip install "softmargin[lab]".'
        ) from None
    pooch.get_logger().setLevel("ERROR")
    bar = Bar(target.name) if progress else None
    downloader = pooch.HTTPDownloader(progressbar=bar or False, timeout=TIMEOUT)
    try:
        pooch.retrieve(remote.url, remote.checksum, target.name, target.parent, None, downloader)
    except (requests.exceptions.RequestException, ValueError) as error:
        if isinstance(error, ValueError) and not isinstance(error, requests.RequestException):
            why = f"{target.name} arrived damaged: its checksum is not {remote.checksum}"
            what = "try again later"
        else:
            why, what = _reason(error), "connect to the internet and try again"
        raise DownloadError(
            f"{entry.name} is not on this machine and could not be downloaded from "
            f"{urlsplit(remote.url).netloc} ({why}): {what}, or set {DATA} to a folder "
            f"that has {remote.path}."
        ) from None
    finally:
        if bar is not None:
            bar.close()


def _reason(error: Exception) -> str:
    """Return one phrase for a failed request."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    phrases = {
        "ConnectTimeout": "no answer",
        "ReadTimeout": "the server stopped answering",
        "ChunkedEncodingError": "the connection was cut",
        "ConnectionError": "no connection",
    }
    return phrases.get(type(error).__name__, type(error).__name__)


class Bar:
    """A progress bar for Pooch, drawn by Rich on standard error."""

    def __init__(self, title: str) -> None:
        """Start to draw."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.total: int | None = None
        self._progress: Any = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=None)
        self._progress.start()

    def update(self, count: int) -> None:
        """Go on by this many bytes."""
        self._progress.update(self._task, total=self.total or None, advance=count)

    def reset(self) -> None:
        """Go back to none."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Stop drawing."""
        self._progress.stop()
