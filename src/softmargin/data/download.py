"""Downloads of data sets: the files as they are, or a table made of the published one.

Unfinished downloads are in one hidden folder beside the data sets. A data set has a lock there, and
a folder that only the holder of the lock uses. So whatever is in that folder when the lock is taken
was left by a process that was killed, and is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from softmargin._files import write_file
from softmargin._text import printable
from softmargin.data.archives import extract
from softmargin.data.entry import DatasetEntry, Remote
from softmargin.data.errors import BrokenFileError, DownloadError, MissingDataError
from softmargin.data.files import (
    DATA,
    Folder,
    Found,
    cache_folder,
    check_file,
    find,
    search_folders,
)
from softmargin.data.recipes import Source
from softmargin.data.transfer import TransferError, transfer

FOLDER = ".downloads"


def obtain(entry: DatasetEntry, root: Folder | None = None, *, download: bool = True) -> Found:
    """Return a copy of a data set on this machine, downloading it where that is allowed."""
    folders = search_folders(root)
    found = find(entry, folders, named=root is not None)
    if found is not None:
        return found
    if download and entry.has_download:
        return fetch(entry, cache_folder() if root is None else Path(root))
    looked = " and ".join(str(folder) for folder in folders)
    if entry.has_download:
        advice = f"fetch it with: softmargin data fetch {entry.name}"
    else:
        advice = f"get it from {entry.source} and {entry.advice}"
    elsewhere = "" if root is not None else f", or set {DATA} to a folder that has it"
    raise MissingDataError(f"{entry.name} was not found in {looked}: {advice}{elsewhere}.")


def fetch(entry: DatasetEntry, folder: Path, *, progress: bool | None = None) -> Found:
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
        with _staging(folder, entry.name) as waiting:
            found = find(entry, [folder])
            if found is None:
                if entry.recipe is not None:
                    _fetch_table(entry, folder, waiting, progress=shown)
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


def _get(entry: DatasetEntry, remote: Remote, folder: Path, waiting: Path, progress: bool) -> None:
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


@contextlib.contextmanager
def _staging(root: Path, name: str) -> Iterator[Path]:
    """Hold the lock of a data set below a data folder, and give its empty folder to work in."""
    try:
        from filelock import FileLock
    except ImportError:
        raise ImportError(
            'Downloads need filelock, which is missing: pip install "softmargin[lab]".'
        ) from None
    place = root / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    own = place / name.replace("/", "-")
    with FileLock(f"{own}.lock"):
        _clear(place, own.name)
        own.mkdir()
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def _clear(place: Path, own: str) -> None:
    """Remove what killed processes left: of this data set, and of others that nobody fetches."""
    from filelock import FileLock, Timeout

    for left in [path for path in place.iterdir() if path.is_dir()]:
        if left.name == own:
            shutil.rmtree(left)
            continue
        with contextlib.suppress(Timeout), FileLock(f"{left}.lock", timeout=0):
            shutil.rmtree(left, ignore_errors=True)


def _fetch_table(entry: DatasetEntry, folder: Path, waiting: Path, *, progress: bool) -> None:
    """Write the CSV of a table below a folder, from the first source that has the very table.

    The files of a source go to a folder of their own in ``waiting``. What they are converted to
    must have the checksum of the layout: nothing else is ever written.
    """
    assert entry.recipe is not None
    (layout,) = entry.layouts
    ((name, checksum),) = layout.files.items()
    failures: list[TransferError] = []
    for number, source in enumerate(entry.recipe.sources):
        own = waiting / str(number)
        own.mkdir()
        try:
            text = _converted(entry, source, own, checksum, progress)
        except TransferError as error:
            failures.append(error)
            continue
        target = folder / layout.folder / name
        target.parent.mkdir(exist_ok=True)
        write_file(own / name, text)
        os.replace(own / name, target)
        return
    told = "; ".join(dict.fromkeys(f"{error.where}: {error.why}" for error in failures))
    advice = next((e.advice for e in failures if not e.is_network), failures[0].advice)
    raise DownloadError(
        f"{entry.name} is not on this machine and could not be downloaded ({told}): {advice}, "
        f"or set {DATA} to a folder that has {layout.folder}/{name}."
    )


def _converted(
    entry: DatasetEntry, source: Source, waiting: Path, checksum: str, progress: bool
) -> bytes:
    """Return the CSV made from one source, if it is the published table."""
    assert entry.recipe is not None
    files = _Files(entry, waiting, progress)
    try:
        text, rows = entry.recipe.convert(source, files.read)
        if rows != entry.recipe.rows:
            raise ValueError(f"it has {rows} rows, not {entry.recipe.rows}")
        content = text.encode()
        algorithm, _, wanted = checksum.partition(":")
        if (got := hashlib.new(algorithm, content).hexdigest()) != wanted:
            raise ValueError(f"its content has {algorithm} {got[:12]}…, not {wanted[:12]}…")
    except (ValueError, IndexError) as error:
        why = f"{files.latest} is not the published table: {printable(str(error))}".rstrip(".")
        raise TransferError(source[0].url, why, is_network=False) from None
    return content


class _Files:
    """The files of a source, each fetched once, and unpacked where it is an archive."""

    def __init__(self, entry: DatasetEntry, waiting: Path, progress: bool) -> None:
        self.megabytes, self.waiting, self.progress = entry.megabytes, waiting, progress
        self.latest = ""
        self._fetched: dict[str, Path] = {}

    def read(self, url: str, member: str) -> bytes:
        """Return the bytes at an address, or of a member of the archive there."""
        self.latest = member or url.rpartition("/")[2]
        if url not in self._fetched:
            self._fetched[url] = self._fetch(url, bool(member))
        path = self._fetched[url]
        if not member:
            return path.read_bytes()
        # archives were packed by hand: the file may lie in a folder of its own
        inside = [each for each in sorted(path.rglob("*")) if each.name == member]
        if not inside:
            raise ValueError("the archive does not have it")
        return inside[0].read_bytes()

    def _fetch(self, url: str, unpack: bool) -> Path:
        target = self.waiting / url.rpartition("/")[2]
        transfer(url, target, "", megabytes=self.megabytes, progress=self.progress)
        if not unpack:
            return target
        into = self.waiting / f"{target.name} unpacked"
        into.mkdir()
        try:
            extract(target, into, self.waiting / f"{target.name} unpacking")
        except BrokenFileError as error:
            raise ValueError(str(error).removeprefix(f"{target} ")) from None
        return into
