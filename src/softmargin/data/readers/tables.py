"""The UCI tables: one CSV each, with the row filters that give the paper's counts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import torch

from softmargin.data.errors import BrokenFileError
from softmargin.data.sets import Split


@dataclass(frozen=True)
class TableFacts:
    """What is published about a table.

    Args:
        rows: Rows of the file.
        paper_rows: Rows that the ArcGrad paper uses.
        features: Number of features.
        class_counts: Rows of each class among the paper's rows, classes in alphabetical order.
        zero_is_missing: Features in which 0 stands for a missing value.
    """

    rows: int
    paper_rows: int
    features: int
    class_counts: dict[str, int]
    zero_is_missing: tuple[str, ...] = ()


def read_table(
    path: Path, facts: TableFacts, *, filtered: bool, verify: bool
) -> tuple[Split, list[str], list[str]]:
    """Return samples, class names (alphabetical) and feature names.

    Missing values are NaN, and so are the zeros that stand for them. With ``filtered`` rows that
    have any are left out; with ``verify`` what is left must have the paper's counts.
    """
    header, rows = _read_rows(path)
    names = sorted({row[-1] for row in rows})
    try:
        x = torch.tensor(
            [[float(cell) if cell else torch.nan for cell in row[:-1]] for row in rows],
            dtype=torch.float64,
        ).reshape(len(rows), len(header) - 1)
    except ValueError as error:
        raise BrokenFileError(f"{path} must hold numbers and a class: {error}.") from None
    y = torch.tensor([names.index(row[-1]) for row in rows], dtype=torch.int64)
    for feature in facts.zero_is_missing:
        column = x[:, header.index(feature)]
        column[column == 0] = torch.nan
    if filtered:
        complete = ~x.isnan().any(1)
        x, y = x[complete], y[complete]
        if verify:
            _check_counts(path, y.bincount(minlength=len(names)).tolist(), names, x, facts)
    return Split(x, y), names, header[:-1]


def _read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise BrokenFileError(f"{path} cannot be read as a table: {error}.") from None
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise BrokenFileError(
                f"{path} must have {len(header)} cells in every line, but line {number} "
                f"has {len(row)}."
            )
    return header, rows


def _check_counts(
    path: Path, counts: list[int], names: list[str], x: torch.Tensor, facts: TableFacts
) -> None:
    found = dict(zip(names, counts, strict=True))
    if x.shape[1] != facts.features or found != facts.class_counts:
        raise BrokenFileError(
            f"{path} must have {facts.features} features and class counts {facts.class_counts} "
            f"after the paper's row filter, but has {x.shape[1]} and {found}."
        )
