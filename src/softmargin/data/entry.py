"""The description of a data set, as ``published.toml`` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softmargin.data.recipes import Recipe


@dataclass(frozen=True)
class Layout:
    """One way in which the files of a data set may lie below a data folder.

    Args:
        folders: Folders within the data folder, "" for the data folder itself, any of which may
            hold the files.
        files: Name within the folder → checksums as "algorithm:hex", none where none is published.
        read: The function that turns the files into splits, as "module:function" within
            ``readers``.
        url: Address of the folder that the files can be downloaded from, "" if they cannot.
        into: Which of the folders they are downloaded into, if not the first one.
        unpack: If what is downloaded is an archive of the files of another layout, its folder.
        optional: Names of which some may be absent.
        note: In what way this copy differs from the published one.
        is_part: Whether samples of the published set are missing in it.
        named_only: Whether it only counts in a folder that the caller named.
    """

    folders: Sequence[str]
    files: Mapping[str, Sequence[str]]
    read: str
    url: str = ""
    into: str = ""
    unpack: str = ""
    optional: Sequence[str] = ()
    note: str = ""
    is_part: bool = False
    named_only: bool = False


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
        megabytes: Size of the download, rounded down.
        recipe: How the file of a table is made.
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
        return self.recipe is not None or any(layout.url for layout in self.layouts)

    @property
    def has_split(self) -> bool:
        """Whether it comes with a test split."""
        return self.test > 0
