"""``load``: a data set by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from softmargin._lazy import load_object
from softmargin.data.download import obtain
from softmargin.data.entry import DatasetEntry
from softmargin.data.errors import BrokenFileError
from softmargin.data.files import Folder, check
from softmargin.data.readers import ReadOptions, Splits
from softmargin.data.registry import entry_of
from softmargin.data.sampling import check_fraction
from softmargin.data.sets import Dataset, Provenance, Table, as_table
from softmargin.functional._checks import check_count


def load(
    name: str,
    *,
    root: Folder | None = None,
    download: bool = True,
    fraction: float | None = None,
    seed: int = 0,
    verify: bool = True,
    filtered: bool = True,
    image_size: int = 224,
) -> Dataset:
    """Load a data set: training and test split, class names, and where it came from.

    It is looked for in ``$SOFTMARGIN_DATA``, then in the cache (``$SOFTMARGIN_CACHE``, or where
    the system keeps caches), and downloaded to the cache if it is in neither. Files that have a
    published checksum are checked when they are first read in a process, and again after a
    change.

    Args:
        name: One of ``softmargin.data.names()``.
        root: The only folder to look in and to download to, instead of those.
        download: Whether to download what is missing.
        fraction: Share of the training split to keep, stratified; see ``subset``.
        seed: Seed of that choice, and of the split of a table, which has none of its own.
        verify: Whether to check checksums and published counts.
        filtered: Whether to leave out rows of a UCI table as the ArcGrad paper does.
        image_size: Height and width of pictures decoded from a folder.

    Returns:
        A ``Dataset``; for tables, digits and iris a ``Table``, which is one.

    Example:
        >>> from softmargin.data import load
        >>> digits = load("digits")
        >>> digits
        Table(digits: 1617 train, 180 test, 10 classes)
        >>> digits.train.images.shape, digits.train.images.dtype
        (torch.Size([1617, 1, 8, 8]), torch.uint8)
        >>> load("cifar")
        Traceback (most recent call last):
        ValueError: name must be a data set such as cifar10, cifar100, but got 'cifar'.
    """
    entry = entry_of(name)
    if fraction is not None:
        check_fraction(fraction)
    check_count("seed", seed, 0)
    check_count("image_size", image_size, 1)
    options = ReadOptions(entry, fraction, seed, verify, filtered, image_size)
    if entry.bundled:
        parts = _read(entry.bundled, {}, options)
        note = f"a copy inside scikit-learn {version('scikit-learn')}"
        return _dataset(parts, options, Provenance(entry.source, entry.licence, note=note))
    found = obtain(entry, root, download=download)
    records = check(found, verify=verify)
    parts = _read(found.layout.read, found.files, options)
    _check_classes(entry, parts, found.folder)
    provenance = Provenance(entry.source, entry.licence, records, found.layout.note)
    return _dataset(parts, options, provenance)


def load_table(
    name: str,
    *,
    root: Folder | None = None,
    download: bool = True,
    seed: int = 0,
    verify: bool = True,
    filtered: bool = True,
) -> Table:
    """Load a data set that comes without a split; see ``load``.

    Example:
        >>> from softmargin.data import load_table
        >>> load_table("iris").whole.class_counts(3)
        [50, 50, 50]
    """
    entry = entry_of(name)
    if entry.has_split:
        raise ValueError(f"name must be a data set without a split, but got {name!r}.")
    table = load(name, root=root, download=download, seed=seed, verify=verify, filtered=filtered)
    assert isinstance(table, Table)
    return table


def _read(address: str, files: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Return what a reader finds, its classes called as the entry says where the files do not."""
    parts: Splits = load_object(f"softmargin.data.readers.{address}")(files, options)
    return replace(parts, class_names=tuple(parts.class_names or options.entry.class_names))


def _dataset(parts: Splits, options: ReadOptions, provenance: Provenance) -> Dataset:
    """Return what was read together with its facts; a table where there is no test split."""
    entry, names = options.entry, tuple(parts.class_names)
    dataset: Dataset
    if parts.test is None:
        rows = entry.train
        if entry.recipe is not None and not options.filtered:
            rows = entry.recipe.rows
        dataset = as_table(
            entry.name,
            parts.train,
            names,
            parts.feature_names,
            provenance,
            seed=options.seed,
            is_subset=len(parts.train) < rows,
        )
    else:
        dataset = Dataset(
            entry.name,
            parts.train,
            parts.test,
            names,
            provenance,
            is_subset=len(parts.train) < entry.train or len(parts.test) < entry.test,
            mirrorable=entry.mirrorable,
        )
    if options.fraction is None or parts.is_cut:
        return dataset
    return dataset.subset(options.fraction, options.seed)


def _check_classes(entry: DatasetEntry, parts: Splits, folder: Path) -> None:
    """Raise where labels and class names do not fit together, or are of another data set."""
    if parts.test is None:
        return
    count = len(parts.class_names)
    if count > entry.num_classes:
        raise BrokenFileError(
            f"{folder} must hold at most {entry.num_classes} classes to be {entry.name}, but holds "
            f"{count}."
        )
    for split in (parts.train, parts.test):
        if len(split) and not 0 <= int(split.y.min()) <= int(split.y.max()) < count:
            raise BrokenFileError(
                f"{folder} must hold classes 0 to {count - 1} of {entry.name}, but holds "
                f"{int(split.y.max())}."
            )
