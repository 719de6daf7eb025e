"""One pass over predictions: the numbers that the metrics need of every row.

Sums and exponentials are float64, for a few rows at a time so that they stay in the processor's
cache. Comparisons are made in the predictions' own precision, where they are exact and cheap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.calibration._batch import (
    RANGE_TOLERANCE,
    Batch,
    find_wrong,
    like_probabilities,
    sum_tolerance,
)
from softmargin.functional import _fused
from softmargin.functional._fused_settings import PLAIN, TYPES
from softmargin.functional.margins import may_look

BLOCK_ROWS = 1 << 16
# With fewer classes, a chunk is transposed so that the values of one class are contiguous.
FEW_CLASSES = 32


class Likely(NamedTuple):
    """All probabilities above a threshold: row, class and value of each."""

    row: Tensor
    label: Tensor
    probability: Tensor


class Rows(NamedTuple):
    """Up to :data:`BLOCK_ROWS` rows; vectors have shape (n,) unless noted otherwise.

    The rank is the number of classes with a larger prediction than the target, or with the same
    and a smaller index: the prediction is right if it is 0.
    """

    target: Tensor
    weight: Tensor
    confidence: Tensor  # the largest probability
    rank: Tensor
    own: Tensor  # the target's probability
    nll: Tensor  # its negative logarithm
    brier: Tensor  # Σ_k (p_k - y_k)²
    class_sums: Tensor  # Σ over rows of weight times probability, of shape (C,)
    likely: Likely  # all probabilities of at least the threshold
    like_probabilities: int  # rows that are declared as logits but look like probabilities


class _Chunk(NamedTuple):
    """Raw numbers of some rows; vectors of shape (n,).

    "Values" are e^(z - max z) for logits, and the probabilities themselves otherwise.
    """

    lowest: Tensor
    highest: Tensor
    own: Tensor  # the prediction for the target
    rank: Tensor  # of the target
    total: Tensor  # the sum of the values
    squares: Tensor  # the sum of their squares


def measure(
    batch: Batch,
    *,
    from_logits: bool,
    threshold: float | None = None,
    with_scores: bool = True,
) -> Iterator[Rows]:
    """Yield the numbers of all rows that count, a block at a time.

    Args:
        batch: the predictions.
        from_logits: whether they are logits.
        threshold: list every probability of at least this; by default there is no list.
        with_scores: whether to compute ranks and Brier scores; if not, they are empty.

    Raises:
        ValueError: if a value cannot be a logit or a probability, as declared.
    """
    fused = from_logits and fits_kernel(batch)
    step = BLOCK_ROWS if fused and threshold is None else batch.rows_per_chunk()
    for start in range(0, len(batch), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(batch))
        sums = batch.weight.new_zeros(batch.num_classes)
        chunks, found = [], []
        for first in range(start, stop, step):
            part = slice(first, min(first + step, stop))
            given, target = batch.chunk(part), batch.target[part]
            if fused:
                chunk = _measure_by_kernel(given, target)
                if threshold is not None:
                    values = _values(_in_order(given), chunk.highest, from_logits)
            else:
                values, chunk = _measure_chunk(given, target, from_logits, with_scores)
            chunks.append(chunk)
            if threshold is not None:
                # a little below the threshold, so that rounding loses none
                weight, limit = batch.weight[part], chunk.total.new_tensor(threshold * (1 - 1e-9))
                if from_logits:
                    weight, limit = weight / chunk.total, (limit * chunk.total).unsqueeze(1)
                sums.addmv_(values.t(), weight)
                found.append(_find_likely(values, limit, first - start))
        block = chunks[0]
        if len(chunks) > 1:
            block = _Chunk(*(torch.cat(each) for each in zip(*chunks, strict=True)))
        # before the values are used
        like = _check_values(batch, block, from_logits, start)
        yield _rows(batch, slice(start, stop), block, sums, found, like, from_logits)


def fits_kernel(batch: Batch) -> bool:
    """Whether the kernel can read the rows where they are."""
    given = batch.predictions
    if _fused.kernel is None or batch.rows is not None or not may_look():
        return False
    plain = type(given) in PLAIN and type(batch.target) is Tensor and given.is_cpu
    if not plain or not batch.target.is_cpu or given.is_neg():
        return False
    return given.dtype in (torch.float32, torch.float64) and given.stride(1) == 1


def _measure_by_kernel(given: Tensor, target: Tensor) -> _Chunk:
    """Return the numbers of some rows in one pass, without a copy of their values."""
    numbers = torch.empty(len(_Chunk._fields), len(given), dtype=torch.float64)
    target = target.contiguous()
    many = given.numel() >= _fused.WORTH_THREADS
    packed = library.MEASURE.pack(
        *(given.data_ptr(), target.data_ptr(), numbers.data_ptr()),
        *(*given.shape, given.stride(0), TYPES[given.dtype]),
        *(torch.get_num_threads() if many else 1, _fused.instructions, 0),
    )
    assert _fused.kernel is not None
    _fused.kernel.measure(packed)
    return _Chunk(*numbers)


def _measure_chunk(
    given: Tensor, target: Tensor, from_logits: bool, with_scores: bool
) -> tuple[Tensor, _Chunk]:
    """Return the values of a few rows, and the numbers of each row."""
    given = _in_order(given)
    own = given.gather(1, target.unsqueeze(1))
    highest = given.amax(1)
    values = _values(given, highest, from_logits)
    rank = squares = highest[:0]
    if with_scores:
        rank, squares = _rank(given, own, target), _squares(values)
    return values, _Chunk(
        lowest=given.amin(1),
        highest=highest,
        own=own.squeeze(1),
        rank=rank,
        total=values.sum(1),
        squares=squares,
    )


def _rank(given: Tensor, own: Tensor, target: Tensor) -> Tensor:
    """Return how many classes rank above the target; of tied classes, the earlier ranks higher."""
    marks = torch.empty_like(given)  # comparing into floats and summing those is fast
    rank = torch.gt(given, own, out=marks).sum(1)
    from_own_on = torch.ge(given, own, out=marks).sum(1)
    tied = (from_own_on - rank > 1).nonzero().squeeze(1)
    if len(tied):
        earlier = torch.arange(given.shape[1], device=given.device) < target[tied].unsqueeze(1)
        rank[tied] += ((given[tied] == own[tied]) & earlier).sum(1)
    return rank


def _in_order(given: Tensor) -> Tensor:
    """Return some rows in at least float32, with what is added up next to each other."""
    if given.dtype in (torch.float16, torch.bfloat16):
        given = given.float()
    by_row = given.shape[1] >= FEW_CLASSES
    return given.contiguous() if by_row else given.t().contiguous().t()


def _values(given: Tensor, highest: Tensor, from_logits: bool) -> Tensor:
    values = torch.empty_like(given, dtype=torch.float64).copy_(given)
    return values.sub_(highest.double().unsqueeze(1)).exp_() if from_logits else values


def _squares(values: Tensor) -> Tensor:
    """Return the sum of squares of every row; the norm is fast along rows, and slow across."""
    if not values.is_contiguous():
        return values.square().sum(1)
    norm: Tensor = torch.linalg.vector_norm(values, dim=1)
    return norm.square_()


def _find_likely(values: Tensor, limit: Tensor, first: int) -> Likely:
    """Return row, class and value of all values of at least their row's limit."""
    by_row = values.is_contiguous()
    if not by_row:
        values, limit = values.t(), limit.t()
    if values.device.type == "cpu":  # where NumPy is faster at this
        place = torch.from_numpy(np.flatnonzero(values.numpy() >= limit.numpy()))
    else:
        place = (values >= limit).flatten().nonzero().squeeze(1)
    line = place.div(values.shape[1], rounding_mode="floor")
    across = place.sub(line, alpha=values.shape[1])
    row, label = (line, across) if by_row else (across, line)
    return Likely(row + first, label, values.flatten().index_select(0, place))


def _rows(
    batch: Batch,
    part: slice,
    block: _Chunk,
    sums: Tensor,
    found: list[Likely],
    like_probabilities: int,
    from_logits: bool,
) -> Rows:
    """Turn the values of a block into probabilities, and those into the metrics of each row."""
    if from_logits:
        scale = block.total.reciprocal()
        confidence = scale
        below_top = block.own.double() - block.highest
        nll = block.total.log().sub_(below_top)
        own = below_top.exp_().mul_(scale)
    else:
        scale = torch.ones_like(block.total)
        confidence = block.highest.double().clamp_(0.0, 1.0)
        own = block.own.double().clamp_(0.0, 1.0)
        nll = -own.log()
    brier = block.squares
    if len(brier):
        brier = brier.mul(scale).mul_(scale).sub_(own, alpha=2).add_(1).clamp_min_(0.0)
    likely = Likely(batch.target[:0], batch.target[:0], scale[:0].clone())
    if found:
        likely = Likely(*(torch.cat(each) for each in zip(*found, strict=True)))
    row, label, value = likely
    return Rows(
        target=batch.target[part],
        weight=batch.weight[part],
        confidence=confidence,
        rank=block.rank,
        own=own,
        nll=nll,
        brier=brier,
        class_sums=sums,
        likely=Likely(row, label, value.mul_(scale.index_select(0, row)).clamp_(0.0, 1.0)),
        like_probabilities=like_probabilities,
    )


def check_declared_logits(like_probabilities: int, rows: int) -> None:
    """Raise if every row that is declared as logits looks like probabilities."""
    if like_probabilities == rows:
        raise ValueError(
            "predictions were said to be logits (from_logits=True), but every row holds numbers "
            "of at least 0 with a sum of 1, like probabilities; if they are logits all the same, "
            "add 1 to all of them."
        )


def _check_values(batch: Batch, block: _Chunk, from_logits: bool, first: int) -> int:
    """Return how many rows are declared as logits but look like probabilities.

    Raise an error if some cannot be what they are declared as, judging by a few numbers of each;
    ``lowest`` and ``highest`` are NaN if a value of the row is.
    """
    lowest, highest = block.lowest, block.highest
    tolerance = sum_tolerance(batch.predictions.dtype)
    if from_logits:
        good = (lowest > -math.inf) & (highest < math.inf)  # which NaN is not
    else:
        good = (lowest >= -RANGE_TOLERANCE) & (highest <= 1 + RANGE_TOLERANCE)
        good &= (block.total - 1).abs() <= tolerance
    if not bool(good.all()):
        _refuse(batch, tolerance, from_logits)
    if not from_logits:
        return 0
    doubtful = ((lowest >= 0) & (highest <= 1)).nonzero().squeeze(1).add_(first)
    parts = torch.split(doubtful, batch.rows_per_chunk())
    return sum(int(like_probabilities(batch.chunk(part), tolerance).sum()) for part in parts)


def _refuse(batch: Batch, tolerance: float, from_logits: bool) -> None:
    """Raise for the first impossible value, else for the sum farthest from 1."""
    largest = torch.finfo(torch.float64).max if from_logits else None
    wrong = find_wrong((chunk.logits for chunk in batch.chunks()), tolerance, largest)
    if wrong is None:  # a sum at the edge of the tolerance
        return
    row = batch.row_number(wrong.row)
    if from_logits:
        raise ValueError(
            f"predictions must hold finite numbers, but got {wrong.value} in row {row}."
        )
    if not wrong.is_sum:
        raise ValueError(
            "predictions must hold probabilities from 0 to 1 (from_logits=False was given), "
            f"but got {wrong.value:g} in row {row}."
        )
    raise ValueError(
        "predictions must hold probabilities with a sum of 1 in every row, within "
        f"{tolerance:g}, but the sum is {wrong.value:.6g} in row {row}, "
        f"a deviation of {abs(wrong.value - 1):.2g}, the largest."
    )
