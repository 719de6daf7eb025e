"""Data of one's own: a table with a column of classes, or a folder of pictures per class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin._lazy import import_extra
from softmargin._text import nearest, printable
from softmargin.data.errors import BrokenFileError, reading
from softmargin.data.readers.pictures import FolderSplit, class_names, open_picture, pictures
from softmargin.data.sampling import stratified_folds
from softmargin.data.sets import Dataset, Provenance, Split, Table

LARGEST_PICTURE = 224
FEWEST = 10  # samples, of which a tenth is tested on
MANY = 200  # classes; more in a column of a table are numbers or names, not classes
OWN = Provenance("your own", "your own")
SPLITS = ("train", "val", "valid", "validation", "test")


def load_own_table(path: Path, target: str, *, seed: int = 0) -> Table:
    """Load a table of numbers and categories; a tenth of its rows, stratified, is the test split.

    Numbers that are missing become the median of their column, categories become columns of 0
    and 1, and those that the training rows do not have are all 0. Medians and categories are those
    of the training rows.

    Args:
        path: a CSV or TSV file, maybe compressed, or Parquet.
        target: the column that holds the classes.
        seed: which rows are tested on.
    """
    columns = _read(path)
    if target not in columns:
        close = nearest(target, columns) or list(columns)[:20]
        raise ValueError(
            f"target must be a column of {str(path)!r} such as "
            f"{', '.join(printable(name) for name in close)}, but got {target!r}."
        )
    y, names = _classes(path, target, columns.pop(target))
    if not columns:
        raise BrokenFileError(f"{path} must have columns beside {target}, but has none.")
    _check_size(path, len(y))
    fold = stratified_folds(y, 10, seed)
    x, features = _features(columns, (fold != 0).numpy())
    whole = Split(torch.from_numpy(x), y)
    train, test = whole.select(fold != 0), whole.select(fold == 0)
    return Table(path.name, train, test, names, OWN, whole=whole, feature_names=tuple(features))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns: float64 where all that is there are numbers, otherwise objects."""
    arrow = import_extra("pyarrow", "Tables need pyarrow")
    with reading(path, " as a table", remedy=""):
        if path.suffix == ".parquet":
            table = import_extra("pyarrow.parquet", "Tables need pyarrow").read_table(path)
        else:
            csv = import_extra("pyarrow.csv", "Tables need pyarrow")
            with arrow.input_stream(path, compression="detect") as stream:
                content = stream.read()
            first = content.partition(b"\n")[0]
            delimiter = max(",;\t", key=lambda mark: first.count(mark.encode()))
            table = csv.read_csv(
                arrow.BufferReader(content),
                parse_options=csv.ParseOptions(delimiter=delimiter),
                convert_options=csv.ConvertOptions(strings_can_be_null=True),
            )
        if len(set(table.column_names)) < table.num_columns:
            raise ValueError("two of its columns have one name")
        found = {}
        for name in table.column_names:
            column, kind = table[name], table.schema.field(name).type
            numeric = arrow.types.is_floating(kind) or arrow.types.is_integer(kind)
            if numeric:
                found[name] = np.asarray(column.to_numpy(), dtype=np.float64)
            else:
                found[name] = np.array(column.to_pylist(), dtype=object)
        return found


def _classes(path: Path, target: str, values: NDArray[Any]) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Return the number of every row's class, and the names of the classes in order."""
    absent = [row for row, value in enumerate(values.tolist()) if value is None or value != value]
    if absent:
        raise BrokenFileError(
            f"{path} must have a class in every row, but {target} is empty in {len(absent)} rows, "
            f"first in row {absent[0] + 1}."
        )
    found, y = np.unique(
        values if values.dtype != object else values.astype(str), return_inverse=True
    )
    if not 2 <= len(found) <= MANY:
        raise BrokenFileError(
            f"{path} must have 2 to {MANY} classes in its column {target}, but has {len(found)}."
        )
    names = tuple(f"{each:g}" if values.dtype != object else str(each) for each in found)
    return torch.from_numpy(y.reshape(-1).astype(np.int64)), names


def _features(
    columns: dict[str, NDArray[Any]], train: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], Sequence[str]]:
    """Return the columns as numbers, by what the training rows hold, and their names."""
    need = "Tables need scikit-learn"
    impute, encode = (import_extra(f"sklearn.{name}", need) for name in ("impute", "preprocessing"))
    blocks: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name, values in columns.items():
        if values.dtype != object:
            column = np.where(np.isfinite(values), values, np.nan)[:, None]
            model = impute.SimpleImputer(strategy="median", keep_empty_features=True)
            blocks.append(model.fit(column[train]).transform(column))
            names.append(name)
            continue
        column = np.array(["" if v is None else str(v) for v in values.tolist()], object)[:, None]
        model = encode.OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=MANY, sparse_output=False
        )
        blocks.append(model.fit(column[train]).transform(column))
        names += model.get_feature_names_out([name]).tolist()
    return np.concatenate(blocks, axis=1).astype(np.float64), names


def load_own_pictures(folder: Path, *, seed: int = 0) -> Dataset:
    """Load pictures from one folder per class; they are decoded when they are needed.

    Where ``folder`` holds ``train`` and ``val`` (or ``test``), those are the splits. Otherwise a
    tenth of the pictures, stratified, is the test split. Their height and width are the shorter
    side of the first picture, at most 224.
    """
    below = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
    if below and below <= set(SPLITS) and "train" in below and len(below) > 1:
        names, train = _pictures(folder / "train")
        other = next(name for name in SPLITS[1:] if name in below)
        _, test = _pictures(folder / other, names, train.size)
    else:
        names, whole = _pictures(folder)
        _check_size(folder, len(whole))
        fold = stratified_folds(whole.y, 10, seed)
        train, test = (whole.select(mask) for mask in (fold != 0, fold == 0))
    return Dataset(folder.name, train, test, tuple(names), OWN)


def _pictures(
    folder: Path, known: Sequence[str] = (), size: int | None = None
) -> tuple[list[str], FolderSplit]:
    found = class_names(folder)
    names = list(known) or found
    if extra := sorted(set(found) - set(names)):
        raise BrokenFileError(
            f"{folder} must have the classes of train, but also has '{printable(extra[0])}'."
        )
    pairs = [(path, names.index(name)) for name in found for path in pictures(folder / name)]
    if len(names) < 2 or not pairs:
        raise BrokenFileError(
            f"{folder} must hold a folder of pictures for each of 2 classes or more, but holds "
            f"{len(pairs)} pictures in {len(names)} folders."
        )
    paths = [path for path, _ in pairs]
    if size is None:
        with reading(paths[0], " as a picture", remedy=""):
            size = min(LARGEST_PICTURE, *open_picture(paths[0].read_bytes()).size)
    return names, FolderSplit(paths, torch.tensor([number for _, number in pairs]), size)


def _check_size(path: Path, size: int) -> None:
    if size < FEWEST:
        raise BrokenFileError(
            f"{path} must hold at least {FEWEST} samples to train and test on, but holds {size}."
        )
