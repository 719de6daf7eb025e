"""Tables: UCI's as CSV files, with the paper's row filters, and the two inside scikit-learn."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmargin._lazy import import_extra
from softmargin._text import printable
from softmargin.data.errors import BrokenFileError, reading
from softmargin.data.files import read_limited
from softmargin.data.readers import ReadOptions, Splits
from softmargin.data.recipes import Recipe
from softmargin.data.sets import Split

LIMIT = 2**24  # bytes; the largest table has 130 kB
COLUMNS = 1000


def read_table(files: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Read a table whose classes are numbered in alphabetical order.

    Missing values are NaN, and so are the zeros that stand for them. With ``filtered`` rows that
    have any are left out; with ``verify`` what is left must have the paper's counts.
    """
    (path,), recipe = files.values(), options.entry.recipe
    assert recipe is not None
    header, lines = _read_rows(path)
    features, labels = header[:-1], [row[-1] for _, row in lines]
    cells = [[_number(path, line, cell) for cell in row[:-1]] for line, row in lines]
    x = torch.tensor(cells, dtype=torch.float64).reshape(len(lines), len(features))
    names = sorted(set(labels))
    numbers = {name: number for number, name in enumerate(names)}
    y = torch.tensor([numbers[label] for label in labels], dtype=torch.int64)
    for feature in recipe.zero_is_missing:
        if feature not in features:
            raise BrokenFileError(f"{path} must have a column {feature}, but has none.")
        column = x[:, features.index(feature)]
        column[column == 0] = torch.nan
    whole = Split(x, y)
    if options.filtered:
        whole = whole.select(~x.isnan().any(1))
        if options.verify:
            _check_counts(path, whole, names, recipe)
    return Splits(whole, class_names=names, feature_names=features)


def _number(path: Path, line: int, cell: str) -> float:
    try:
        return float(cell) if cell else torch.nan
    except ValueError:
        raise BrokenFileError(
            f"{path} must hold numbers and a class, but line {line} has '{printable(cell)}'."
        ) from None


def _read_rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and every row with the number of the line on which it starts."""
    rows: list[tuple[int, list[str]]] = []
    with reading(path, " as a table"):
        text = read_limited(path, LIMIT).decode()
        reader = csv.reader(io.StringIO(text, newline=""))
        header, start = next(reader, []), reader.line_num + 1
        if not 2 <= len(header) <= COLUMNS:
            raise ValueError(f"it has {len(header)} columns, and must have 2 to {COLUMNS}")
        for row in reader:
            if len(row) != len(header):
                raise BrokenFileError(
                    f"{path} must have {len(header)} cells in every line, but line {start} "
                    f"has {len(row)}."
                )
            rows.append((start, row))
            start = reader.line_num + 1
    return header, rows


def _check_counts(path: Path, whole: Split, names: list[str], recipe: Recipe) -> None:
    found = dict(zip(names, whole.class_counts(len(names)), strict=True))
    columns = whole.x.shape[1]
    if columns != len(recipe.features) or found != recipe.class_counts:
        raise BrokenFileError(
            f"{path} must have {len(recipe.features)} features and class counts "
            f"{recipe.class_counts} after the paper's row filter, but has {columns} and "
            f"{printable(str(found))}."
        )


def read_digits(_: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Return 1797 grey 8x8 digits with values 0 to 16."""
    bunch = _sklearn(options).load_digits()
    images = torch.from_numpy(bunch.images).to(torch.uint8)[:, None]
    return Splits(Split(images, _classes(bunch.target)), class_names=[str(i) for i in range(10)])


def read_iris(_: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Return 150 irises with 4 measures."""
    bunch = _sklearn(options).load_iris()
    whole = Split(torch.from_numpy(bunch.data).double(), _classes(bunch.target))
    names = [str(name) for name in bunch.target_names]
    return Splits(whole, class_names=names, feature_names=bunch.feature_names)


def _sklearn(options: ReadOptions) -> Any:
    return import_extra("sklearn.datasets", f"{options.entry.name} needs scikit-learn")


def _classes(target: object) -> Tensor:
    return torch.as_tensor(target).to(torch.int64)
