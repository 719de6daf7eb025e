"""``load``: a data set by its name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from softmargin.data.download import obtain
from softmargin.data.entry import DatasetEntry
from softmargin.data.errors import BrokenFileError
from softmargin.data.files import Folder, Found, check
from softmargin.data.readers import ReadOptions, Splits
from softmargin.data.readers.tables import read_table
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
    options = ReadOptions(fraction, seed, image_size, filtered)
    if entry.bundled:
        return _cut(_bundled(entry, seed), options)
    found = obtain(entry, root, download=download)
    records = check(found, verify=verify)
    provenance = Provenance(entry.source, entry.licence, records, found.layout.note)
    if entry.recipe is not None:
        return _cut(_read_table(entry, found, options, provenance, verify), options)
    return _read_images(entry, found, options, provenance)


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


def _bundled(entry: DatasetEntry, seed: int) -> Table:
    try:
        whole, class_names, features = entry.bundled_reader()
    except ImportError:
        raise ImportError(
            f'{entry.name} comes with scikit-learn, not installed: pip install "softmargin[lab]".'
        ) from None
    note = f"a copy inside scikit-learn {version('scikit-learn')}"
    provenance = Provenance(entry.source, entry.licence, note=note)
    return as_table(entry.name, whole, class_names, features, provenance, seed=seed)


def _read_table(
    entry: DatasetEntry, found: Found, options: ReadOptions, provenance: Provenance, verify: bool
) -> Table:
    assert entry.recipe is not None
    (path,) = found.files.values()
    filtered = options.filtered
    whole, classes, features = read_table(path, entry.recipe, filtered=filtered, verify=verify)
    is_subset = len(whole) < (entry.train if filtered else entry.recipe.rows)
    return as_table(
        entry.name, whole, classes, features, provenance, seed=options.seed, is_subset=is_subset
    )


def _read_images(
    entry: DatasetEntry, found: Found, options: ReadOptions, provenance: Provenance
) -> Dataset:
    parts = found.layout.reader(found.files, options)
    names = tuple(parts.class_names or entry.class_names)
    _check_classes(entry, parts, names, found)
    dataset = Dataset(
        entry.name,
        parts.train,
        parts.test,
        names,
        provenance,
        is_subset=len(parts.train) < entry.train or len(parts.test) < entry.test,
        mirrorable=entry.mirrorable,
    )
    return dataset if parts.is_cut else _cut(dataset, options)


def _cut(dataset: Dataset, options: ReadOptions) -> Dataset:
    return dataset if options.fraction is None else dataset.subset(options.fraction, options.seed)


def _check_classes(entry: DatasetEntry, parts: Splits, names: Sequence[str], found: Found) -> None:
    """Raise where labels and class names do not fit together, or are of another data set."""
    where = found.root / found.layout.folder
    if len(names) > entry.num_classes:
        raise BrokenFileError(
            f"{where} must hold at most {entry.num_classes} classes to be {entry.name}, but holds "
            f"{len(names)}."
        )
    for split in (parts.train, parts.test):
        highest = int(split.y.max()) if len(split) else 0
        if len(split) and (int(split.y.min()) < 0 or highest >= len(names)):
            raise BrokenFileError(
                f"{where} must hold classes 0 to {len(names) - 1} of {entry.name}, but holds "
                f"{highest}."
            )
