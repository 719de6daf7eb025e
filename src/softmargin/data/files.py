"""Where files are looked for, and whether they are what they should be."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from softmargin._text import printable
from softmargin.data.entry import DatasetEntry, Layout
from softmargin.data.errors import REMEDY, BrokenFileError, MissingDataError, reading

Folder = str | os.PathLike[str]
DATA, CACHE = "SOFTMARGIN_DATA", "SOFTMARGIN_CACHE"
SUMS = "SHA256SUMS"

_digests: dict[tuple[str, str, int, int], str] = {}


@dataclass(frozen=True)
class FileRecord:
    """One file that was read: its path, its sha256, and whether that was checked."""

    path: str
    sha256: str
    verified: bool


@dataclass(frozen=True)
class Found:
    """A copy of a data set: where it is, its layout and the files that are there."""

    root: Path
    folder: Path
    layout: Layout
    files: Mapping[str, Path]

    @property
    def is_part(self) -> bool:
        """Whether it can be seen from the files that samples are missing."""
        return self.layout.is_part or len(self.files) < len(self.layout.files)


def cache_folder() -> Path:
    """Return the folder for downloads: ``$SOFTMARGIN_CACHE``, or the system's for caches."""
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    try:
        from platformdirs import user_cache_path
    except ImportError:  # then there is nothing to download with either
        return Path.home() / ".cache" / "softmargin"
    return user_cache_path("softmargin", appauthor=False)


def search_folders(root: Folder | None = None) -> list[Path]:
    """Return the folders to look in: ``root`` alone, or ``$SOFTMARGIN_DATA`` and the cache."""
    if root is not None:
        return [existing("root", root)]
    if given := os.environ.get(DATA):
        return [existing(DATA, given), cache_folder()]
    return [cache_folder()]


def existing(name: str, folder: Folder) -> Path:
    """Return a folder; say what its caller calls it where there is none."""
    if not os.fspath(folder) or not os.path.isdir(folder):
        shown = printable(os.fspath(folder))
        raise MissingDataError(f"{name} must name a folder that exists, but got '{shown}'.")
    return Path(folder)


def find(entry: DatasetEntry, folders: list[Path], *, named: bool = False) -> Found | None:
    """Return the first copy of a data set, looking for each layout in each folder.

    ``named`` says that the caller named the folder, which may then be that of this data set.
    """
    layouts = [layout for layout in entry.layouts if named or not layout.named_only]
    for root, layout in itertools.product(folders, layouts):
        for folder in (root / each for each in layout.folders):
            there = {name: folder / name for name in layout.files if _exists(folder / name)}
            if there and all(name in there or name in layout.optional for name in layout.files):
                return Found(root, folder, layout, there)
    return None


def _exists(path: Path) -> bool:
    with reading(path, remedy=""):  # such as a folder that may not be entered
        return path.exists()


def check(found: Found, *, verify: bool = True) -> tuple[FileRecord, ...]:
    """Return a record of each file; raise where one is not what its checksum says.

    A file is read for this once per process, and again after it changes.
    """
    sums = read_sums(found.root)
    records = []
    for name, path in found.files.items():
        if path.is_dir():
            records.append(FileRecord(str(path), "", False))
            continue
        within = path.relative_to(found.root).as_posix()
        expected = found.layout.files[name] or sums.get(within, ())
        if verify and expected:
            check_file(path, expected)
        records.append(FileRecord(str(path), digest(path, "sha256"), verify and bool(expected)))
    return tuple(records)


def check_file(path: Path, checksums: Sequence[str]) -> None:
    """Raise ``BrokenFileError`` unless the file has these checksums, each "algorithm:hex"."""
    for checksum in checksums:
        algorithm, _, wanted = checksum.partition(":")
        if (got := digest(path, algorithm)) != wanted:
            raise BrokenFileError(
                f"{path} is damaged: its {algorithm} must be {wanted}, but is {got}; {REMEDY}."
            )


def digest(path: Path, algorithm: str) -> str:
    """Return a file's checksum in hexadecimal, remembered until the file changes."""
    with reading(path, remedy=""):
        status = path.stat()
        key = (algorithm, str(path.resolve()), status.st_size, status.st_mtime_ns)
        if key not in _digests:
            with path.open("rb") as file:
                _digests[key] = hashlib.file_digest(file, algorithm).hexdigest()
        return _digests[key]


def read_limited(path: Path, limit: int) -> bytes:
    """Return what a file holds, if that is not more than so many bytes."""
    if path.stat().st_size > limit:
        raise ValueError(f"{path.name} is larger than {limit >> 20} MB")
    return path.read_bytes()


def read_sums(root: Path) -> dict[str, list[str]]:
    """Return the checksums that a ``SHA256SUMS`` file in the folder lists, if there is one."""
    try:
        lines = (root / SUMS).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):  # it may hold the only checksum of a file
        raise BrokenFileError(
            f"{root / SUMS} cannot be read: delete it, or put the right one in its place."
        ) from None
    parts = (line.split(maxsplit=1) for line in lines if line.strip())
    named = {pair[1].lstrip("*").removeprefix("./"): pair[0].lower() for pair in parts if pair[1:]}
    return {name: [f"sha256:{checksum}"] for name, checksum in named.items()}
