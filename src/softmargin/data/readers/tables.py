"""Tables: UCI's as CSV files, with the paper's row filters, and the two inside scikit-learn."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.readers import reading
from softmargin.data.recipes import Recipe
from softmargin.data.sets import Split

LIMIT = 2**24  # bytes; the largest table has 130 kB
COLUMNS = 1000


def read_table(
    path: Path, recipe: Recipe, *, filtered: bool, verify: bool
) -> tuple[Split, list[str], list[str]]:
    """Return samples, class names (alphabetical) and feature names.

    Missing values are NaN, and so are the zeros that stand for them. With ``filtered`` rows that
    have any are left out; with ``verify`` what is left must have the paper's counts.
    """
    header, lines = _read_rows(path)
    rows = [row for _, row in lines]
    names = sorted({row[-1] for row in rows})
    cells = [[_number(path, line, cell) for cell in row[:-1]] for line, row in lines]
    x = torch.tensor(cells, dtype=torch.float64).reshape(len(rows), len(header) - 1)
    numbers = {name: number for number, name in enumerate(names)}
    y = torch.tensor([numbers[row[-1]] for row in rows], dtype=torch.int64)
    for feature in recipe.zero_is_missing:
        if feature not in header[:-1]:
            raise BrokenFileError(f"{path} must have a column {feature}, but has none.")
        column = x[:, header.index(feature)]
        column[column == 0] = torch.nan
    if filtered:
        complete = ~x.isnan().any(1)
        x, y = x[complete], y[complete]
        if verify:
            _check_counts(path, y.bincount(minlength=len(names)).tolist(), names, x, recipe)
    return Split(x, y), names, header[:-1]


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
    with reading(path, OSError, csv.Error, ValueError, what=" as a table"):
        if path.stat().st_size > LIMIT:
            raise ValueError(f"it is larger than {LIMIT >> 20} MB, and no table is")
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
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


def _check_counts(
    path: Path, counts: list[int], names: list[str], x: torch.Tensor, recipe: Recipe
) -> None:
    found = dict(zip(names, counts, strict=True))
    if x.shape[1] != len(recipe.features) or found != recipe.class_counts:
        raise BrokenFileError(
            f"{path} must have {len(recipe.features)} features and class counts "
            f"{recipe.class_counts} after the paper's row filter, but has {x.shape[1]} and "
            f"{printable(str(found))}."
        )


def read_digits() -> tuple[Split, list[str], list[str]]:
    """Return 1797 grey 8x8 digits with values 0 to 16."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).to(torch.uint8)[:, None]
    return Split(images, _classes(bunch.target)), [str(i) for i in range(10)], []


def read_iris() -> tuple[Split, list[str], list[str]]:
    """Return 150 irises with 4 measures."""
    from sklearn.datasets import load_iris

    bunch = load_iris()
    split = Split(torch.from_numpy(bunch.data).double(), _classes(bunch.target))
    return split, [str(name) for name in bunch.target_names], list(bunch.feature_names)


def _classes(target: object) -> torch.Tensor:
    return torch.as_tensor(target).to(torch.int64)
