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
import zipfile
from collections.abc import Iterator
from pathlib import Path

from softmargin._files import write_file
from softmargin._lazy import import_extra
from softmargin.data.archives import tar_files
from softmargin.data.entry import DatasetEntry, Layout
from softmargin.data.errors import BrokenFileError, DownloadError, MissingDataError, reason
from softmargin.data.files import (
    DATA,
    Folder,
    Found,
    cache_folder,
    check_file,
    find,
    search_folders,
)
from softmargin.data.recipes import Recipe, Rows, Source, SourceFile
from softmargin.data.transfer import TransferError, transfer

FOLDER = ".downloads"
LARGEST = 2**24  # bytes of a published table; the largest has 150 kB


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
                for layout in entry.layouts:
                    if layout.url:
                        _fetch_files(entry, layout, folder, waiting, progress=shown)
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


def _fetch_files(
    entry: DatasetEntry, layout: Layout, folder: Path, waiting: Path, *, progress: bool
) -> None:
    """Download the files of a layout that are missing below a folder."""
    place = Path(layout.into or layout.folders[0])
    for name, checksums in layout.files.items():
        target, arrived = folder / place / name, waiting / name
        if target.exists():
            check_file(target, checksums)
            continue
        url, size = f"{layout.url}/{name}", entry.megabytes
        try:
            transfer(url, arrived, checksums, megabytes=size, progress=progress)
        except TransferError as error:
            raise DownloadError(
                f"{entry.name} is not on this machine and could not be downloaded from "
                f"{error.where} ({error.why}): {error.advice}, or set {DATA} to a folder "
                f"that has {(place / name).as_posix()}."
            ) from None
        target.parent.mkdir(parents=True, exist_ok=True)
        if layout.unpack:
            (unpacked,) = (each for each in entry.layouts if layout.unpack in each.folders)
            _unpack(arrived, unpacked, folder / layout.unpack)
        else:
            os.replace(arrived, target)


def _unpack(archive: Path, layout: Layout, folder: Path) -> None:
    """Write the files of a layout out of an archive, all or none; they have their own checksums."""
    arrived = {name: archive.with_name(name) for name in layout.files}
    for name, content in tar_files(archive, arrived):
        write_file(arrived[name], content)
    if missing := [name for name, path in arrived.items() if not path.exists()]:
        raise BrokenFileError(f"{archive.name} must hold {', '.join(missing)}, but does not.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in arrived.items():
        os.replace(path, folder / name)


@contextlib.contextmanager
def _staging(root: Path, name: str) -> Iterator[Path]:
    """Hold the lock of a data set below a data folder, and give its empty folder to work in."""
    filelock = import_extra("filelock", "Downloads need filelock")
    place = root / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    own = place / name.replace("/", "-")
    with filelock.FileLock(f"{own}.lock"):
        for left in [path for path in place.iterdir() if path.is_dir()]:
            if left == own:
                shutil.rmtree(left)
                continue
            # left by a killed process that fetched another data set, unless it is being fetched
            with (
                contextlib.suppress(filelock.Timeout),
                filelock.FileLock(f"{left}.lock", timeout=0),
            ):
                shutil.rmtree(left, ignore_errors=True)
        own.mkdir()
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def _fetch_table(entry: DatasetEntry, folder: Path, waiting: Path, *, progress: bool) -> None:
    """Write the CSV of a table below a folder, from the first source that has the very table.

    The files of a source go to a folder of their own in ``waiting``. What they are converted to
    must have the checksum of the layout: nothing else is ever written.
    """
    assert entry.recipe is not None
    (layout,) = entry.layouts
    ((name, (checksum,)),) = layout.files.items()
    failures: list[TransferError] = []
    for number, source in enumerate(entry.recipe.sources):
        own = waiting / str(number)
        own.mkdir()
        try:
            content = _converted(entry.recipe, source, own, checksum, progress)
        except TransferError as error:
            failures.append(error)
            continue
        target = folder / layout.folders[0] / name
        target.parent.mkdir(exist_ok=True)
        write_file(own / name, content)
        os.replace(own / name, target)
        return
    told = "; ".join(dict.fromkeys(f"{error.where}: {error.why}" for error in failures))
    advice = next((e.advice for e in failures if not e.is_network), failures[0].advice)
    raise DownloadError(
        f"{entry.name} is not on this machine and could not be downloaded ({told}): {advice}, "
        f"or set {DATA} to a folder that has {layout.folders[0]}/{name}."
    )


def _converted(
    recipe: Recipe, source: Source, waiting: Path, checksum: str, progress: bool
) -> bytes:
    """Return the CSV made from one source, if it is the published table."""
    rows: Rows = []
    part = source[0]
    try:
        for part in source:
            rows += recipe.rows_of(part, published_bytes(part, waiting, progress))
        if len(rows) != recipe.rows:
            raise ValueError(f"it has {len(rows)} rows, not {recipe.rows}")
        content = recipe.csv(rows)
        got, wanted = hashlib.sha256(content).hexdigest(), checksum.removeprefix("sha256:")
        if got != wanted:
            raise ValueError(f"its content has sha256 {got[:12]}…, not {wanted[:12]}…")
    except (ValueError, IndexError) as error:
        why = f"{part.name} is not the published table: {reason(error)}"
        raise TransferError(part.url, why, is_network=False) from None
    return content


def published_bytes(part: SourceFile, waiting: Path, progress: bool) -> bytes:
    """Return the bytes of a published file; an archive of several is fetched once."""
    fetched = waiting / part.url.rpartition("/")[2]
    if not fetched.exists():
        transfer(part.url, fetched, (), megabytes=0, progress=progress)
    if not part.file:
        return fetched.read_bytes()
    try:
        with zipfile.ZipFile(fetched) as opened:
            # archives were packed by hand: the file may lie in a folder of its own
            names = [name for name in opened.namelist() if name.rpartition("/")[2] == part.file]
            if not names:
                raise ValueError("it does not have the file")
            member = opened.getinfo(min(names))
            if member.file_size > LARGEST:  # no more than this size is read of a member
                raise ValueError(f"the file in it is larger than {LARGEST >> 20} MB")
            return opened.read(member)
    except Exception as error:  # broken, locked, or packed in an unknown way
        raise ValueError(f"it cannot be read from the archive ({reason(error)})") from None
