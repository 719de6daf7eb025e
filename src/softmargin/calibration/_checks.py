"""Checks of bins, and of whether predictions are what they were said to be."""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin.calibration._batch import Batch
from softmargin.calibration._samples import DEFAULT_SUM_TOLERANCE, SUM_TOLERANCE
from softmargin.functional._checks import LARGE, check_choice

RANGE_TOLERANCE = 1e-6  # how far a probability may be from [0, 1]


def check_bins(bins: int, closed: str) -> None:
    """Raise unless bins can be made."""
    check_whole("bins", bins, 1)
    check_choice("closed", closed, ("right", "left"))


def check_whole(name: str, value: int, least: int) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer from ``least`` on, of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < LARGE:
        raise ValueError(f"{name} must be an integer of at least {least}, but got {value!r}.")


def check_said_logits(like_probabilities: int, rows: int) -> None:
    """Raise if every row that was said to be logits looks like probabilities."""
    if like_probabilities == rows:
        raise ValueError(
            "predictions were said to be logits (from_logits=True), but every row holds numbers "
            "of at least 0 with a sum of 1, like probabilities; if they are logits all the same, "
            "add 1 to all of them."
        )


def check_values(
    batch: Batch, first: int, lowest: Tensor, highest: Tensor, total: Tensor, from_logits: bool
) -> int:
    """Raise if some rows are not what they were said to be, judging by a few numbers of each.

    Args:
        batch: what they are from.
        first: the number of the first of them.
        lowest: their lowest value.
        highest: their highest value; NaN here and in ``lowest`` if one of a row is.
        total: the sum of their values, where they are probabilities.
        from_logits: what they were said to be.

    Returns:
        How many rows, said to be logits, look like probabilities.
    """
    tolerance = SUM_TOLERANCE.get(batch.predictions.dtype, DEFAULT_SUM_TOLERANCE)
    if not from_logits:
        within = (lowest >= -RANGE_TOLERANCE) & (highest <= 1 + RANGE_TOLERANCE)
        within &= (total - 1).abs() <= tolerance
        if not bool(within.all()):
            _refuse_probabilities(batch, tolerance)
        return 0
    finite = lowest.isfinite() & highest.isfinite()
    if not bool(finite.all()):
        index = first + int((~finite).nonzero()[0])
        row = batch.chunk(slice(index, index + 1))
        raise ValueError(
            f"predictions must hold finite numbers, but got {row[~row.isfinite()][0].item()} "
            f"in row {batch.row_number(index)}."
        )
    like_probabilities = 0
    doubtful = ((lowest >= 0) & (highest <= 1)).nonzero().squeeze(1).add_(first)
    for part in torch.split(doubtful, batch.rows_per_chunk):
        sums = batch.chunk(part).double().sum(1)
        like_probabilities += int(((sums - 1).abs() <= tolerance).sum())
    return like_probabilities


def _refuse_probabilities(batch: Batch, tolerance: float) -> None:
    """Raise for the first value outside [0, 1], else for the sum farthest from 1."""
    worst, worst_row = 1.0, 0
    for start in range(0, len(batch.target), batch.rows_per_chunk):
        values = batch.chunk(slice(start, start + batch.rows_per_chunk)).double()
        wrong = ~((values >= -RANGE_TOLERANCE) & (values <= 1 + RANGE_TOLERANCE))  # or NaN
        if bool(wrong.any()):
            row, label = wrong.nonzero()[0].tolist()
            raise ValueError(
                "predictions must hold probabilities from 0 to 1 (from_logits=False was given), "
                f"but got {values[row, label].item():g} in row {batch.row_number(start + row)}."
            )
        sums = values.sum(1)
        row = int((sums - 1).abs().argmax())
        if abs(float(sums[row]) - 1) > abs(worst - 1):
            worst, worst_row = float(sums[row]), start + row
    raise ValueError(
        "predictions must hold probabilities with a sum of 1 in every row, within "
        f"{tolerance:g}, but the sum is {worst:.6g} in row {batch.row_number(worst_row)}, "
        f"a deviation of {abs(worst - 1):.2g}, the largest."
    )
