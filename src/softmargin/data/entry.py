"""The description of a data set.

A ``DatasetEntry`` is one data set. A ``Layout`` is one way its files may lie below a data folder;
the reader goes with the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from softmargin._lazy import load_object
from softmargin.data.recipes import Recipe

if TYPE_CHECKING:
    from softmargin.data.readers import ReadOptions, Splits
    from softmargin.data.sets import Split

    Reader = Callable[[Mapping[str, Path], ReadOptions], Splits]
    Bundled = Callable[[], tuple[Split, list[str], list[str]]]

_READERS = "softmargin.data.readers"


@dataclass(frozen=True)
class Layout:
    """Files below a data folder.

    Args:
        folder: Folder within the data folder, "" for the data folder itself.
        files: Name within ``folder`` → checksums as "algorithm:hex", with a blank between them,
            "" where none is published.
        read: The function that turns the files into splits, as "module:function" within
            ``readers``; "" for tables, which are read by their recipe.
        optional: Names of which some may be absent.
        note: In what way this copy differs from the published one.
        is_part: Whether samples of the published set are missing in it.
        named_only: Whether it only counts in a folder that the caller named.
    """

    folder: str
    files: Mapping[str, str]
    read: str = ""
    optional: frozenset[str] = frozenset()
    note: str = ""
    is_part: bool = False
    named_only: bool = False

    @property
    def reader(self) -> Reader:
        """The function that turns the files into splits."""
        found: Reader = load_object(f"{_READERS}.{self.read}")
        return found


@dataclass(frozen=True)
class Remote:
    """A file to download: its address, its checksums, its path below the data folder."""

    url: str
    checksum: str
    path: str
    unpack: bool = False


@dataclass(frozen=True)
class DatasetEntry:
    """A data set.

    Args:
        name: What users call it; that of a table starts with its group.
        title: What it is, in one line.
        num_classes: The published number of classes.
        train: Published size of the training split, of the whole where there is no split.
        test: Published size of the test split, 0 where there is none.
        source: Address of its page.
        licence: On which terms it may be used.
        layouts: How its files may lie in a data folder, the first choice first.
        remotes: Files to download as they are.
        megabytes: Size of the download, rounded down.
        recipe: How the file of a table is made and read.
        bundled: The function that reads it out of scikit-learn, as "module:function" within
            ``readers``.
        advice: How to get it where it cannot be downloaded.
        group: The word for all data sets of a collection.
        mirrorable: Whether a picture mirrored left to right is still one of its class, as of
            photographs and not of digits.
        shape: Shape of one sample where all are images of one size.
        class_names: Names of the classes where the files do not have them.
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
    recipe: Recipe | None = None
    bundled: str | None = None
    advice: str = ""
    group: str = ""
    mirrorable: bool = False
    shape: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """The name without that of the collection."""
        return self.name.removeprefix(f"{self.group}/")

    @property
    def has_download(self) -> bool:
        """Whether it can be had from the internet."""
        return bool(self.remotes) or self.recipe is not None

    @property
    def has_split(self) -> bool:
        """Whether it comes with a test split."""
        return self.test > 0

    @property
    def bundled_reader(self) -> Bundled:
        """The function that reads it out of scikit-learn."""
        found: Bundled = load_object(f"{_READERS}.{self.bundled}")
        return found
