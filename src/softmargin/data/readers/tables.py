"""The UCI tables: one CSV each, with the row filters that give the paper's counts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import torch

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.readers.parts import unreadable
from softmargin.data.sets import Split

LIMIT = 2**24  # bytes; the largest table has 130 kB
COLUMNS = 1000


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
    header, lines = _read_rows(path)
    rows = [row for _, row in lines]
    names = sorted({row[-1] for row in rows})
    cells = [[_number(path, line, cell) for cell in row[:-1]] for line, row in lines]
    x = torch.tensor(cells, dtype=torch.float64).reshape(len(rows), len(header) - 1)
    numbers = {name: number for number, name in enumerate(names)}
    y = torch.tensor([numbers[row[-1]] for row in rows], dtype=torch.int64)
    for feature in facts.zero_is_missing:
        if feature not in header[:-1]:
            raise BrokenFileError(f"{path} must have a column {feature}, but has none.")
        column = x[:, header.index(feature)]
        column[column == 0] = torch.nan
    if filtered:
        complete = ~x.isnan().any(1)
        x, y = x[complete], y[complete]
        if verify:
            _check_counts(path, y.bincount(minlength=len(names)).tolist(), names, x, facts)
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
    try:
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
    except BrokenFileError:
        raise
    except (OSError, csv.Error, ValueError) as error:
        raise unreadable(path, error, " as a table") from None
    return header, rows


def _check_counts(
    path: Path, counts: list[int], names: list[str], x: torch.Tensor, facts: TableFacts
) -> None:
    found = dict(zip(names, counts, strict=True))
    if x.shape[1] != facts.features or found != facts.class_counts:
        raise BrokenFileError(
            f"{path} must have {facts.features} features and class counts {facts.class_counts} "
            f"after the paper's row filter, but has {x.shape[1]} and {printable(str(found))}."
        )
