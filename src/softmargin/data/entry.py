"""The description of a data set.

An ``Entry`` is one data set. A ``Layout`` is one way its files may lie below a data folder; the
reader goes with the layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softmargin.data.readers.bundled import Bundled
from softmargin.data.readers.parts import Reader
from softmargin.data.readers.tables import TableFacts
from softmargin.data.recipe import Recipe


@dataclass(frozen=True)
class Layout:
    """Files below a data folder.

    Args:
        folder: Folder within the data folder, "" for the data folder itself.
        files: Name within ``folder`` → checksums as "algorithm:hex", with a blank between them,
            "" where none is published.
        read: Turns the files into splits; None for tables, which are read by their facts.
        optional: Names of which some may be absent.
        note: In what way this copy differs from the published one.
        is_part: Whether samples of the published set are missing in it.
        named_only: Whether it only counts in a folder that the caller named.
    """

    folder: str
    files: Mapping[str, str]
    read: Reader | None = None
    optional: frozenset[str] = frozenset()
    note: str = ""
    is_part: bool = False
    named_only: bool = False


@dataclass(frozen=True)
class Remote:
    """A file to download: its address, its checksums, its path below the data folder."""

    url: str
    checksum: str
    path: str
    unpack: bool = False


@dataclass(frozen=True)
class Entry:
    """A data set. ``train`` and ``test`` are the published sizes; a table has only ``train``.

    ``remotes`` are files to download as they are; a ``recipe`` makes the file of a table. ``group``
    is the word for all data sets of a collection, and their names start with it. ``mirrorable``
    says that a picture mirrored left to right is still one of its class, as of photographs and not
    of digits.
    """

    name: str
    title: str
    num_classes: int
    train: int
    test: int
    source: str
    licence: str
    layouts: tuple[Layout, ...] = ()
    remotes: tuple[Remote, ...] = ()
    megabytes: int = 0
    facts: TableFacts | None = None
    recipe: Recipe | None = None
    bundled: Bundled | None = None
    advice: str = ""
    group: str = ""
    mirrorable: bool = False

    @property
    def stem(self) -> str:
        """The name without that of the collection."""
        return self.name.removeprefix(f"{self.group}/")

    @property
    def has_download(self) -> bool:
        """Whether it can be had from the internet."""
        return bool(self.remotes) or self.recipe is not None
