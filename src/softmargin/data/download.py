"""Downloads of data sets: the files as they are, or a table made of the published one."""

from __future__ import annotations

import sys
from pathlib import Path

from filelock import FileLock

from softmargin.data.entry import Entry, Remote
from softmargin.data.errors import DownloadError
from softmargin.data.fetch_table import fetch_table
from softmargin.data.files import DATA, Found, check_file, find
from softmargin.data.safety import extract
from softmargin.data.transfer import TransferError, transfer


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
        with FileLock(folder / f".{entry.name.replace('/', '-')}.lock"):
            found = find(entry, [folder])
            if found is None:
                if entry.recipe is not None:
                    fetch_table(entry, folder, progress=shown)
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
    try:
        transfer(remote.url, target, remote.checksum, progress=progress, what=entry.name)
    except TransferError as error:
        raise DownloadError(
            f"{entry.name} is not on this machine and could not be downloaded from "
            f"{error.where} ({error.why}): {error.advice}, or set {DATA} to a folder "
            f"that has {remote.path}."
        ) from None
    if remote.unpack:
        try:
            extract(target, target.parent)
        finally:
            target.unlink()  # its members have checksums of their own
