"""Metrics of whole predictions: accuracy, NLL, Brier score, class-wise calibration error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.calibration._batch import Array, Batch, check_bins, check_whole, prediction_batch
from softmargin.calibration._rows import Rows, check_declared_logits, measure
from softmargin.calibration._sums import Sums
from softmargin.calibration.accumulator import PREDICTION_ARGUMENTS, CalibrationMetrics
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


@document_arguments(PREDICTION_ARGUMENTS)
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

    Example:
        >>> import torch
        >>> from softmargin.calibration import calibration_metrics
        >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
        >>> result = calibration_metrics(logits, torch.tensor([0, 1, 1]), from_logits=True, bins=3)
        >>> round(result.overconfidence, 4)
        0.1881
    """
    shape = tuple(getattr(predictions, "shape", ()))
    metrics = CalibrationMetrics(
        # update raises the right error for anything but a matrix of at least two classes
        max(shape[1] if len(shape) > 1 else 2, 2),
        from_logits=from_logits,
        bins=bins,
        top_k=top_k,
        classwise=classwise,
        ignore_index=ignore_index,
        closed=closed,
    )
    metrics.update(predictions, target, sample_weight)
    return metrics.compute(confidence_level, resamples=resamples, seed=seed)


@document_arguments(PREDICTION_ARGUMENTS)
def top_label(predictions: Array, target: Array, *, from_logits: bool) -> TopLabel:
    """Return the probability of the most probable class, and whether it is the target.

    Among equally probable classes, the first is the predicted one.

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
    blocks = list(_measured(prediction_batch(predictions, target, None, None), from_logits))
    return TopLabel(
        torch.cat([rows.confidence for rows in blocks]),
        torch.cat([rows.rank == 0 for rows in blocks]),
    )


@document_arguments(PREDICTION_ARGUMENTS)
def accuracy(
    predictions: Array,
    target: Array,
    *,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    """Return the share of predictions whose most probable class is the target.

    Example:
        >>> import torch
        >>> from softmargin.calibration import accuracy
        >>> accuracy(torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
        0.5
    """
    return top_k_accuracy(
        predictions, target, 1, sample_weight=sample_weight, ignore_index=ignore_index
    )


@document_arguments(PREDICTION_ARGUMENTS, k="how many classes count.")
def top_k_accuracy(
    predictions: Array,
    target: Array,
    k: int = 5,
    *,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    """Return the share of predictions whose target is among the k most probable classes.

    Equally probable classes are ranked by their index.

    Example:
        >>> import torch
        >>> from softmargin.calibration import top_k_accuracy
        >>> top_k_accuracy(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2)
        1.0
    """
    check_whole("k", k, 1)
    batch = prediction_batch(predictions, target, sample_weight, ignore_index)
    return _mean(lambda rows: (rows.rank < k).double(), batch, None)


@document_arguments(PREDICTION_ARGUMENTS)
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

    Nothing is clipped: a target of probability 0 makes it infinite. From logits it is exact even
    where probabilities would be rounded to 0.

    Example:
        >>> import torch
        >>> from softmargin.calibration import negative_log_likelihood
        >>> logits = torch.tensor([[200.0, 0.0]])
        >>> negative_log_likelihood(logits, torch.tensor([1]), from_logits=True)
        200.0
    """
    batch = prediction_batch(predictions, target, sample_weight, ignore_index)
    return _mean(lambda rows: rows.nll, batch, from_logits)


@document_arguments(PREDICTION_ARGUMENTS)
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

    Example:
        >>> import torch
        >>> from softmargin.calibration import brier_score
        >>> p = torch.tensor([[0.75, 0.25]])
        >>> round(brier_score(p, torch.tensor([0]), from_logits=False), 4)
        0.125
    """
    batch = prediction_batch(predictions, target, sample_weight, ignore_index)
    return _mean(lambda rows: rows.brier, batch, from_logits)


@document_arguments(PREDICTION_ARGUMENTS, bins="number of bins.")
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

    and resolution is defined so that reliability - resolution + uncertainty is the Brier score. It
    is Murphy's (1973) if all probabilities in a bin are equal, and otherwise the generalised
    resolution of Stephenson et al. (2008), which includes what is lost within bins.

    Example:
        >>> import torch
        >>> from softmargin.calibration import brier_decomposition
        >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]])
        >>> brier_decomposition(p, torch.tensor([0, 0, 1, 0]), from_logits=False, bins=2)
        BrierDecomposition(reliability=0.125, resolution=0.125, uncertainty=0.375)
    """
    result = calibration_metrics(
        predictions,
        target,
        from_logits=from_logits,
        sample_weight=sample_weight,
        bins=bins,
        ignore_index=ignore_index,
        closed=closed,
    )
    return BrierDecomposition(
        result.brier_reliability, result.brier_resolution, result.brier_uncertainty
    )


@document_arguments(PREDICTION_ARGUMENTS, bins="number of bins.")
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
    the class occurred there and p̄ its mean probability. A class that never occurs counts like the
    others. ``calibration_metrics(...).classwise_errors`` holds the error of each class.

    Example:
        >>> import torch
        >>> from softmargin.calibration import classwise_calibration_error
        >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25]])
        >>> classwise_calibration_error(p, torch.tensor([0, 1]), from_logits=False, bins=2)
        0.25
    """
    check_bins(bins, closed)
    layout = ConfidenceCells(bins, closed)
    batch = prediction_batch(predictions, target, sample_weight, ignore_index)
    sums = Sums.zeros(layout, batch.num_classes, batch.target.device)
    for rows in _measured(batch, from_logits, threshold=layout.first_edge, with_scores=False):
        sums.count_classes(rows, layout)
    return float(sums.class_bins().errors().mean())


def _measured(batch: Batch, from_logits: bool | None, **options: Any) -> Iterator[Rows]:
    """Yield all rows that count; ``from_logits`` is None if only their order matters.

    Raise an error if there are none, or if logits look like probabilities.
    """
    if from_logits is not None:
        check_flag("from_logits", from_logits)
    if not len(batch):
        raise ValueError("predictions must hold at least one row that counts, but there is none.")
    like_probabilities = 0
    for rows in measure(batch, from_logits=from_logits is not False, **options):
        like_probabilities += rows.like_probabilities
        yield rows
    if from_logits:
        check_declared_logits(like_probabilities, len(batch))


def _mean(value: Callable[[Rows], Tensor], batch: Batch, from_logits: bool | None) -> float:
    """Return the weighted mean of a number of every row."""
    total = weight = 0.0
    for rows in _measured(batch, from_logits):
        total += float(value(rows) @ rows.weight)
        weight += float(rows.weight.sum())
    return total / weight
