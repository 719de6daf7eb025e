"""Checks of what was read from a file, each naming the place in the file that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin.calibration._checks import RANGE_TOLERANCE
from softmargin.calibration._columns import Match
from softmargin.calibration._files import CHUNK, Reader
from softmargin.calibration._samples import DEFAULT_SUM_TOLERANCE, LARGEST, SUM_TOLERANCE


def check_labels(
    labels: NDArray[Any], classes: int, match: Match, table: Reader
) -> NDArray[np.int64]:
    """Return labels as int64, if all are classes."""
    name = f"labels {match.label_shown}"
    if labels.dtype.kind == "f":
        _refuse(labels != np.floor(labels), labels, table, f"{name} must be whole numbers")
    outside = (labels < 0) | (labels >= classes)
    _refuse(outside, labels, table, f"{name} must be classes from 0 to {classes - 1}")
    if match.first_number == 1 and not (labels == 0).any():
        raise ValueError(
            f"the columns {match.shown} in {table.file} are numbered from 1, and no label is 0: "
            "number columns and labels from 0, so that it is clear which label is which column."
        )
    return labels.astype(np.int64, copy=False)


def _refuse(wrong: NDArray[np.bool_], labels: NDArray[Any], table: Reader, rule: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{rule}, but {table.place(row)} holds {labels[row]:g}.")


def check_predictions(values: NDArray[Any], match: Match, table: Reader) -> None:
    """Raise unless all rows are what they are said to be."""
    name = f"{match.shown} in {table.file}"
    dtype = torch.from_numpy(values[:1].copy()).dtype
    tolerance = SUM_TOLERANCE.get(dtype, DEFAULT_SUM_TOLERANCE)
    like_probabilities = True
    step = max(1, CHUNK // values.shape[1])
    for start in range(0, len(values), step):
        part = values[start : start + step]
        if match.from_logits:
            _check_logits(part, start, name, table)
            if like_probabilities:
                off = np.abs(part.sum(1, dtype=np.float64) - 1)
                like_probabilities = bool((part.min() >= 0) & (off <= tolerance).all())
        else:
            _check_probabilities(part, start, name, table, tolerance)
    if match.from_logits and like_probabilities:
        raise ValueError(
            f"{match.said} that {name} holds logits, but every row holds numbers of at least 0 "
            "with a sum of 1, like probabilities: say --probabilities, or, if they are logits all "
            "the same, add 1 to all of them."
        )


def _check_logits(part: NDArray[Any], start: int, name: str, table: Reader) -> None:
    wrong = ~(np.abs(part) <= np.float64(LARGEST))  # NaN is wrong, too
    if wrong.any():
        row = int(np.argmax(wrong.any(1)))
        value = part[row][wrong[row]][0]
        raise ValueError(
            f"{name} must hold finite logits of size up to {LARGEST:g}, but "
            f"{table.place(start + row)} holds {value:g}."
        )


def _check_probabilities(
    part: NDArray[Any], start: int, name: str, table: Reader, tolerance: float
) -> None:
    wrong = ~((part >= -RANGE_TOLERANCE) & (part <= 1 + RANGE_TOLERANCE))
    if wrong.any():
        row = int(np.argmax(wrong.any(1)))
        raise ValueError(
            f"{name} must hold probabilities from 0 to 1, but {table.place(start + row)} holds "
            f"{part[row][wrong[row]][0]:g}; if they are logits, say --logits."
        )
    sums = part.sum(1, dtype=np.float64)
    row = int(np.argmax(np.abs(sums - 1)))
    off = abs(float(sums[row]) - 1)
    if off > tolerance:
        raise ValueError(
            f"{name} must hold probabilities with a sum of 1 in every row, within {tolerance:g}, "
            f"but that of {table.place(start + row)} is {sums[row]:.6g}, off by {off:.2g}."
        )
