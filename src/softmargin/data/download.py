"""Downloads of data sets: the files as they are, or a table made of the published one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from softmargin.data.entry import Entry, Remote
from softmargin.data.errors import DownloadError
from softmargin.data.fetch_table import fetch_table
from softmargin.data.files import DATA, Found, check_file, find
from softmargin.data.safety import extract
from softmargin.data.staging import staging
from softmargin.data.transfer import TransferError, transfer


def fetch(entry: Entry, folder: Path, *, progress: bool | None = None) -> Found:
    """Download what is missing of a data set into a folder, and return the copy.

    Of several processes that want the same, one downloads and the others wait for it. A file is
    moved to its name when it is whole and verified.

    Args:
        entry: What to download.
        folder: Root of the copy; made where it does not exist.
        progress: Whether to show a progress bar; by default on a terminal.
    """
    shown = sys.stderr.isatty() if progress is None else progress
    try:
        with staging(folder, entry.name) as waiting:
            found = find(entry, [folder])
            if found is None:
                if entry.recipe is not None:
                    fetch_table(entry, folder, waiting, progress=shown)
                for remote in entry.remotes:
                    _get(entry, remote, folder, waiting, shown)
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


def _get(entry: Entry, remote: Remote, folder: Path, waiting: Path, progress: bool) -> None:
    target = folder / remote.path
    if target.exists():
        check_file(target, remote.checksum)
        return
    arrived = waiting / target.name
    try:
        transfer(remote.url, arrived, remote.checksum, megabytes=entry.megabytes, progress=progress)
    except TransferError as error:
        raise DownloadError(
            f"{entry.name} is not on this machine and could not be downloaded from "
            f"{error.where} ({error.why}): {error.advice}, or set {DATA} to a folder "
            f"that has {remote.path}."
        ) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    if remote.unpack:  # its members have checksums of their own
        extract(arrived, target.parent, waiting / "unpacked")
    else:
        os.replace(arrived, target)
