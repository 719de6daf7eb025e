"""One pass over predictions: what the metrics need to know of every row.

Sums and exponentials are float64, on a few rows at a time so that they stay in the processor's
cache; comparisons are made in the predictions' own precision, where they are exact and cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration._batch import Batch
from softmargin.calibration._checks import check_values

BLOCK_ROWS = 1 << 16
# with fewer classes than this, a chunk is turned so that a class's values lie side by side
FEW_CLASSES = 32


class Likely(NamedTuple):
    """The probabilities above a threshold, wherever they are: row, class and value of each."""

    row: Tensor
    label: Tensor
    probability: Tensor


class Rows(NamedTuple):
    """Up to :data:`BLOCK_ROWS` rows; vectors have shape (n,) unless said otherwise.

    Attributes:
        target: the classes.
        weight: the weights.
        confidence: the largest probability.
        rank: how many classes come before the target: those with a larger prediction, or with
            the same and a smaller index. The prediction is right where it is 0.
        own: the target's probability.
        nll: its negative logarithm.
        brier: Σ_k (p_k - y_k)².
        class_sums: Σ over rows of weight times probability, of shape (C,).
        likely: all probabilities from the threshold on.
        like_probabilities: how many rows, said to be logits, look like probabilities.
    """

    target: Tensor
    weight: Tensor
    confidence: Tensor
    rank: Tensor
    own: Tensor
    nll: Tensor
    brier: Tensor
    class_sums: Tensor
    likely: Likely
    like_probabilities: int


class _Chunk(NamedTuple):
    """What is known of some rows, before it is made sense of; vectors of shape (n,).

    Values are e^(z - max z) of logits, or probabilities.

    Attributes:
        lowest: the lowest number given.
        highest: the highest number given.
        own: what is given for the target.
        above: how many classes are given more.
        from_own_on: how many are given as much or more, the target among them.
        total: the sum of the values.
        squares: the sum of their squares.
    """

    lowest: Tensor
    highest: Tensor
    own: Tensor
    above: Tensor
    from_own_on: Tensor
    total: Tensor
    squares: Tensor


def measure(
    batch: Batch,
    *,
    from_logits: bool,
    threshold: float | None = None,
    with_scores: bool = True,
) -> Iterator[Rows]:
    """Yield what is to know of the rows that count, a block at a time.

    Args:
        batch: the predictions.
        from_logits: whether they are logits.
        threshold: from which probability on to list every one; by default there is no list.
        with_scores: whether ranks and Brier scores are wanted; if not, they have no elements.

    Raises:
        ValueError: where a value is not what it was said to be.
    """
    for start in range(0, len(batch.target), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(batch.target))
        sums = batch.weight.new_zeros(batch.num_classes)
        chunks, found = [], []
        for first in range(start, stop, batch.rows_per_chunk):
            part = slice(first, min(first + batch.rows_per_chunk, stop))
            given, target = batch.chunk(part), batch.target[part]
            values, chunk = _measure_chunk(given, target, from_logits, with_scores)
            chunks.append(chunk)
            if threshold is not None:
                # a little below the threshold, so that rounding loses none
                weight, limit = batch.weight[part], chunk.total.new_tensor(threshold * (1 - 1e-9))
                if from_logits:
                    weight, limit = weight / chunk.total, (limit * chunk.total).unsqueeze(1)
                sums.addmv_(values.t(), weight)
                found.append(_find_likely(values, limit, first - start))
        block = _Chunk(*(torch.cat(each) for each in zip(*chunks, strict=True)))
        # before anything is made of the values
        like = check_values(batch, start, block.lowest, block.highest, block.total, from_logits)
        yield _rows(batch, slice(start, stop), block, sums, found, like, from_logits)


def _measure_chunk(
    given: Tensor, target: Tensor, from_logits: bool, with_scores: bool
) -> tuple[Tensor, _Chunk]:
    """Return the values of a few rows, and their numbers."""
    if given.dtype in (torch.float16, torch.bfloat16):
        given = given.float()
    by_row = given.shape[1] >= FEW_CLASSES
    given = given.contiguous() if by_row else given.t().contiguous().t()
    own = given.gather(1, target.unsqueeze(1))
    highest = given.amax(1)
    values = torch.empty_like(given, dtype=torch.float64).copy_(given)
    if from_logits:
        values.sub_(highest.double().unsqueeze(1)).exp_()
    above = from_own_on = squares = highest[:0]
    if with_scores:
        marks = torch.empty_like(given)  # comparing into floats and adding those up is fast
        above = torch.gt(given, own, out=marks).sum(1)
        from_own_on = torch.ge(given, own, out=marks).sum(1)
        squares = _squares(values)
    return values, _Chunk(
        lowest=given.amin(1),
        highest=highest,
        own=own.squeeze(1),
        above=above,
        from_own_on=from_own_on,
        total=values.sum(1),
        squares=squares,
    )


def _squares(values: Tensor) -> Tensor:
    """Return the sum of squares of every row; the norm is fast along rows, and slow across."""
    if not values.is_contiguous():
        return values.square().sum(1)
    norm: Tensor = torch.linalg.vector_norm(values, dim=1)
    return norm.square_()


def _find_likely(values: Tensor, limit: Tensor, first: int) -> Likely:
    """Return row, class and value of all values from their row's limit on."""
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
    """Make probabilities of a block's values, and metrics of those."""
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
    row, label, value = _join(found, batch, scale)
    return Rows(
        target=batch.target[part],
        weight=batch.weight[part],
        confidence=confidence,
        rank=_rank(batch, part, block),
        own=own,
        nll=nll,
        brier=brier,
        class_sums=sums,
        likely=Likely(row, label, value.mul_(scale.index_select(0, row)).clamp_(0.0, 1.0)),
        like_probabilities=like_probabilities,
    )


def _rank(batch: Batch, part: slice, block: _Chunk) -> Tensor:
    """Return how many classes come before the target; of those tied with it, the earlier."""
    rank = block.above.clone()
    tied_rows = (block.from_own_on - block.above > 1).nonzero().squeeze(1)
    for tied in torch.split(tied_rows, batch.rows_per_chunk):
        target = batch.target[part][tied].unsqueeze(1)
        given = batch.chunk(tied + part.start)
        earlier = torch.arange(batch.num_classes, device=target.device) < target
        rank[tied] += ((given == given.gather(1, target)) & earlier).sum(1)
    return rank


def _join(found: list[Likely], batch: Batch, scale: Tensor) -> Likely:
    if not found:
        nothing = torch.zeros_like(batch.target[:0])
        return Likely(nothing, nothing, torch.zeros_like(scale[:0]))
    return Likely(*(torch.cat(each) for each in zip(*found, strict=True)))
