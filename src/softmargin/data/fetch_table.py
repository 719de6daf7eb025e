"""A table from wherever it is published: fetched, converted, verified, and only then kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from softmargin._files import write_file
from softmargin._text import printable
from softmargin.data.entry import Entry
from softmargin.data.errors import BrokenFileError, DownloadError
from softmargin.data.files import DATA
from softmargin.data.recipe import Source
from softmargin.data.safety import extract
from softmargin.data.transfer import TransferError, transfer


def fetch_table(entry: Entry, folder: Path, waiting: Path, *, progress: bool) -> None:
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


def _converted(entry: Entry, source: Source, waiting: Path, checksum: str, progress: bool) -> bytes:
    """Return the CSV made from one source, if it is the published table."""
    assert entry.recipe is not None
    assert entry.facts is not None
    files = _Files(entry, waiting, progress)
    try:
        text, rows = entry.recipe.convert(source, files.read)
        if rows != entry.facts.rows:
            raise ValueError(f"it has {rows} rows, not {entry.facts.rows}")
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

    def __init__(self, entry: Entry, waiting: Path, progress: bool) -> None:
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
