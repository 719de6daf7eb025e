"""Metrics of whole predictions: accuracy, NLL, Brier score, class-wise calibration error."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from softmargin.calibration import errors
from softmargin.calibration._batch import Array, Batch, prediction_batch
from softmargin.calibration._checks import check_bins, check_said_logits, check_whole
from softmargin.calibration._rows import Rows, measure
from softmargin.calibration._sums import class_bins, count_classes, no_sums
from softmargin.calibration.accumulator import CalibrationMetrics
from softmargin.calibration.binning import ConfidenceCells
from softmargin.calibration.result import CalibrationResult
from softmargin.functional._checks import check_flag


class TopLabel(NamedTuple):
    """The confidence of each prediction in float64, and whether it was right."""

    confidence: Tensor
    correct: Tensor


class BrierDecomposition(NamedTuple):
    """The parts of a Brier score: it is reliability - resolution + uncertainty."""

    reliability: float
    resolution: float
    uncertainty: float


def calibration_metrics(
    predictions: Array,
    target: Array,
    *,
    from_logits: bool,
    sample_weight: Array | None = None,
    bins: int = 10,
    top_k: int = 5,
    classwise: bool = True,
    ignore_index: int | None = None,
    closed: str = "right",
    confidence_level: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> CalibrationResult:
    """Return all metrics of one set of predictions, see :class:`CalibrationMetrics`.

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        from_logits: whether predictions are logits (True) or probabilities (False).
        sample_weight: one number of at least 0 per target.
        bins: number of bins.
        top_k: k of the top-k accuracy.
        classwise: whether to count the bins of every class.
        ignore_index: a target whose rows do not count.
        closed: which edge belongs to a bin, ``"right"`` or ``"left"``.
        confidence_level: level of the intervals, such as 0.95; None for no intervals.
        resamples: number of bootstrap resamples.
        seed: what they are drawn from.

    Example:
        >>> import torch
        >>> from softmargin.calibration import calibration_metrics
        >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
        >>> result = calibration_metrics(logits, torch.tensor([0, 1, 1]), from_logits=True, bins=3)
        >>> round(result.overconfidence, 4)
        0.1881
    """
    metrics = _counted(
        predictions,
        target,
        sample_weight,
        from_logits=from_logits,
        bins=bins,
        top_k=top_k,
        classwise=classwise,
        ignore_index=ignore_index,
        closed=closed,
    )
    return metrics.compute(confidence_level, resamples=resamples, seed=seed)


def top_label(predictions: Array, target: Array, *, from_logits: bool) -> TopLabel:
    """Return the probability of the most probable class, and whether it is the target.

    Of equally probable classes the first counts as predicted.

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        from_logits: whether predictions are logits (True) or probabilities (False).

    Example:
        >>> import torch
        >>> from softmargin.calibration import expected_calibration_error, top_label
        >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
        >>> confidence, correct = top_label(logits, torch.tensor([0, 1, 1]), from_logits=True)
        >>> confidence
        tensor([0.8808, 0.7311, 0.9526], dtype=torch.float64)
        >>> round(expected_calibration_error(confidence, correct), 4)
        0.2992
    """
    blocks = _blocks(predictions, target, None, None, from_logits)
    return TopLabel(
        torch.cat([rows.confidence for rows in blocks]),
        torch.cat([rows.rank == 0 for rows in blocks]),
    )


def accuracy(
    predictions: Array,
    target: Array,
    *,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    """Return the share of predictions whose most probable class is the target.

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        sample_weight: one number of at least 0 per target.
        ignore_index: a target whose rows do not count.

    Example:
        >>> import torch
        >>> from softmargin.calibration import accuracy
        >>> accuracy(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
        0.5
    """
    return top_k_accuracy(
        predictions, target, 1, sample_weight=sample_weight, ignore_index=ignore_index
    )


def top_k_accuracy(
    predictions: Array,
    target: Array,
    k: int = 5,
    *,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    """Return the share of predictions whose target is among the k most probable classes.

    Of equally probable classes the first comes first.

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        k: how many classes count.
        sample_weight: one number of at least 0 per target.
        ignore_index: a target whose rows do not count.

    Example:
        >>> import torch
        >>> from softmargin.calibration import top_k_accuracy
        >>> top_k_accuracy(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2)
        1.0
    """
    check_whole("k", k, 1)
    blocks = _blocks(predictions, target, sample_weight, ignore_index, None)
    return _mean([(rows.rank < k).double() for rows in blocks], blocks)


def negative_log_likelihood(
    predictions: Array,
    target: Array,
    *,
    from_logits: bool,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    r"""Return the mean negative log-likelihood of the targets, in nats.

    .. math:: \frac{1}{n} \sum_i \Big( \log \sum_k e^{z_{ik}} - z_{i y_i} \Big)

    Nothing is clipped: a target that is given the probability 0 makes it infinite. From logits it
    is right where probabilities have long been rounded to 0.

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        from_logits: whether predictions are logits (True) or probabilities (False).
        sample_weight: one number of at least 0 per target.
        ignore_index: a target whose rows do not count.

    Example:
        >>> import torch
        >>> from softmargin.calibration import negative_log_likelihood
        >>> logits = torch.tensor([[200.0, 0.0]])
        >>> negative_log_likelihood(logits, torch.tensor([1]), from_logits=True)
        200.0
    """
    blocks = _blocks(predictions, target, sample_weight, ignore_index, from_logits)
    return _mean([rows.nll for rows in blocks], blocks)


def brier_score(
    predictions: Array,
    target: Array,
    *,
    from_logits: bool,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    r"""Return the Brier score, summed over classes and not halved: from 0 to 2.

    .. math:: \frac{1}{n} \sum_i \sum_k (p_{ik} - y_{ik})^2

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        from_logits: whether predictions are logits (True) or probabilities (False).
        sample_weight: one number of at least 0 per target.
        ignore_index: a target whose rows do not count.

    Example:
        >>> import torch
        >>> from softmargin.calibration import brier_score
        >>> p = torch.tensor([[0.75, 0.25]])
        >>> round(brier_score(p, torch.tensor([0]), from_logits=False), 4)
        0.125
    """
    blocks = _blocks(predictions, target, sample_weight, ignore_index, from_logits)
    return _mean([rows.brier for rows in blocks], blocks)


def brier_decomposition(
    predictions: Array,
    target: Array,
    *,
    from_logits: bool,
    bins: int = 10,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
    closed: str = "right",
) -> BrierDecomposition:
    r"""Return the Brier score's reliability, resolution and uncertainty, which add up to it.

    With each class's probabilities in bins (k, m), ō the frequency of the class and p̄ its mean
    probability there,

    .. math:: \mathrm{reliability} = \sum_{k,m} \frac{n_{km}}{n} (\bar p_{km} - \bar o_{km})^2
        \qquad \mathrm{uncertainty} = \sum_k \bar o_k (1 - \bar o_k)

    and resolution is what makes reliability - resolution + uncertainty the Brier score: Murphy's
    (1973) where all probabilities in a bin are equal, and otherwise the generalised resolution of
    Stephenson et al. (2008), which counts what is lost within bins.

    Args:
        predictions: logits or probabilities, of shape (N, C) or (N, C, d1, ...).
        target: class indices of shape (N,) or (N, d1, ...).
        from_logits: whether predictions are logits (True) or probabilities (False).
        bins: number of bins.
        sample_weight: one number of at least 0 per target.
        ignore_index: a target whose rows do not count.
        closed: which edge belongs to a bin, ``"right"`` or ``"left"``.

    Example:
        >>> import torch
        >>> from softmargin.calibration import brier_decomposition
        >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]])
        >>> brier_decomposition(p, torch.tensor([0, 0, 1, 0]), from_logits=False, bins=2)
        BrierDecomposition(reliability=0.125, resolution=0.125, uncertainty=0.375)
    """
    metrics = _counted(
        predictions,
        target,
        sample_weight,
        from_logits=from_logits,
        bins=bins,
        ignore_index=ignore_index,
        closed=closed,
    )
    result = metrics.compute()
    return BrierDecomposition(
        result.brier_reliability, result.brier_resolution, result.brier_uncertainty
    )


def classwise_calibration_error(
    predictions: Array,
    target: Array,
    *,
    from_logits: bool,
    bins: int = 10,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
    closed: str = "right",
) -> float:
    r"""Return the class-wise ECE: each class's own ECE, averaged over the C classes.

    .. math:: \frac{1}{C} \sum_k \sum_m \frac{n_{km}}{n} \, |\bar o_{km} - \bar p_{km}|

    The bins (k, m) hold every probability of class k, whether predicted or not; ō is how often
    the class came true there and p̄ its mean probability. A class that never occurs counts like
    the others. Each class's own error is ``calibration_metrics(...).classwise_errors``.

    Arguments as in :func:`brier_decomposition`.

    Example:
        >>> import torch
        >>> from softmargin.calibration import classwise_calibration_error
        >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25]])
        >>> classwise_calibration_error(p, torch.tensor([0, 1]), from_logits=False, bins=2)
        0.25
    """
    check_flag("from_logits", from_logits)
    check_bins(bins, closed)
    layout = ConfidenceCells(bins, closed)
    batch = _not_empty(prediction_batch(predictions, target, sample_weight, ignore_index))
    sums = no_sums(layout, batch.num_classes, batch.target.device)
    like_probabilities = 0
    for rows in measure(
        batch, from_logits=from_logits, threshold=layout.first_edge, with_scores=False
    ):
        count_classes(sums, rows, layout)
        like_probabilities += rows.like_probabilities
    if from_logits:
        check_said_logits(like_probabilities, len(batch.target))
    return float(errors.classwise_errors(*class_bins(sums)).mean())


def _counted(
    predictions: Array, target: Array, sample_weight: Array | None, **settings: Any
) -> CalibrationMetrics:
    """Return an accumulator that has counted one batch, for as many classes as it has."""
    shape = tuple(getattr(predictions, "shape", ()))
    # what is no matrix of two classes or more, update refuses with the right words
    metrics = CalibrationMetrics(max(shape[1] if len(shape) > 1 else 2, 2), **settings)
    metrics.update(predictions, target, sample_weight)
    return metrics


def _blocks(
    predictions: Array,
    target: Array,
    sample_weight: Array | None,
    ignore_index: int | None,
    from_logits: bool | None,
) -> list[Rows]:
    """Return all rows that count; None for ``from_logits`` where only their order matters."""
    if from_logits is not None:
        check_flag("from_logits", from_logits)
    batch = _not_empty(prediction_batch(predictions, target, sample_weight, ignore_index))
    blocks = list(measure(batch, from_logits=from_logits is not False))
    if from_logits:
        check_said_logits(sum(rows.like_probabilities for rows in blocks), len(batch.target))
    return blocks


def _not_empty(batch: Batch) -> Batch:
    if not len(batch.target):
        raise ValueError("predictions must hold at least one row that counts, but there is none.")
    return batch


def _mean(values: list[Tensor], blocks: list[Rows]) -> float:
    """Return the weighted mean."""
    weight = torch.cat([rows.weight for rows in blocks])
    return float(torch.cat(values) @ weight / weight.sum())
