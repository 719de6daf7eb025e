"""Calibration errors of the top label, from confidences and whether each was right.

For a multi-class model both come from :func:`softmargin.calibration.top_label`. For the positive
class of a binary model, pass its probability and whether it came true: that is the other meaning
of "accuracy" in the binary case.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin.calibration import errors
from softmargin.calibration._batch import Array, top_label_batch
from softmargin.calibration._checks import check_bins
from softmargin.calibration.binning import bin_statistics


def expected_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    r"""Return the ECE: how far confidence is from accuracy, on average over predictions.

    .. math:: \sum_m \frac{|B_m|}{n} \, |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    It is biased upwards: noise in acc(B_m) only adds to an absolute value.

    Arguments as in :func:`bin_statistics`.

    Example:
        >>> import torch
        >>> from softmargin.calibration import expected_calibration_error
        >>> confidence = torch.tensor([0.95, 1.0, 1.0, 0.95])
        >>> round(expected_calibration_error(confidence, torch.tensor([0, 1, 1, 0])), 4)
        0.475
    """
    statistics = bin_statistics(
        confidence, correct, bins, sample_weight=sample_weight, closed=closed
    )
    return statistics.expected_calibration_error()


def maximum_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    r"""Return the MCE: the largest gap between confidence and accuracy over non-empty bins.

    .. math:: \max_m |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Arguments as in :func:`bin_statistics`.

    Example:
        >>> import torch
        >>> from softmargin.calibration import maximum_calibration_error
        >>> confidence = torch.tensor([0.25, 0.75])
        >>> maximum_calibration_error(confidence, torch.tensor([1, 1]))
        0.75
    """
    statistics = bin_statistics(
        confidence, correct, bins, sample_weight=sample_weight, closed=closed
    )
    return statistics.maximum_calibration_error()


def rms_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    r"""Return the root-mean-square calibration error, the L2 counterpart of the ECE.

    .. math:: \Big( \sum_m \frac{|B_m|}{n} \,
        (\mathrm{acc}(B_m) - \mathrm{conf}(B_m))^2 \Big)^{1/2}

    Arguments as in :func:`bin_statistics`.

    Example:
        >>> import torch
        >>> from softmargin.calibration import rms_calibration_error
        >>> confidence = torch.tensor([0.25, 0.75])
        >>> round(rms_calibration_error(confidence, torch.tensor([1, 1])), 4)
        0.559
    """
    statistics = bin_statistics(
        confidence, correct, bins, sample_weight=sample_weight, closed=closed
    )
    return statistics.rms_calibration_error()


def debiased_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    r"""Return the L2 calibration error without what noise adds to it (Kumar et al., 2019).

    .. math:: \Big( \sum_m \frac{|B_m|}{n} \, \Big[ (\mathrm{acc}(B_m) - \mathrm{conf}(B_m))^2 -
        \frac{\mathrm{acc}(B_m) (1 - \mathrm{acc}(B_m))}{|B_m| - 1} \Big] \Big)^{1/2}

    It is 0 where the sum is negative: noise alone explains the gaps. Bins of fewer than two
    predictions count as 0.

    Arguments as in :func:`bin_statistics`.

    Example:
        >>> import torch
        >>> from softmargin.calibration import debiased_calibration_error
        >>> confidence, correct = torch.full((10,), 0.9), torch.tensor([0, 1] * 5)
        >>> round(debiased_calibration_error(confidence, correct), 4)
        0.3636
    """
    statistics = bin_statistics(
        confidence, correct, bins, sample_weight=sample_weight, closed=closed
    )
    return statistics.debiased_calibration_error()


def equal_mass_calibration_error(
    confidence: Array, correct: Array, bins: int = 10, *, sample_weight: Array | None = None
) -> float:
    r"""Return the ECE over bins that hold equally many predictions (adaptive ECE).

    The predictions in order of confidence are cut into M bins of exactly n / M. What lies on a
    cut, a prediction or several of equal confidence, is shared between the two bins in
    proportion; so the order of the samples does not matter. It needs all confidences at once;
    :class:`CalibrationMetrics` has an approximation from a fine histogram.

    Args:
        confidence: probability of the predicted class, from 0 to 1, of shape (N,).
        correct: whether the prediction was right, bool or 0 and 1, of shape (N,).
        bins: number of bins M.
        sample_weight: one number of at least 0 per prediction, of shape (N,).

    Example:
        >>> import torch
        >>> from softmargin.calibration import equal_mass_calibration_error
        >>> confidence = torch.tensor([0.6, 0.7, 0.9, 1.0])
        >>> round(equal_mass_calibration_error(confidence, torch.tensor([1, 0, 1, 1]), bins=2), 4)
        0.1
    """
    check_bins(bins, "right")
    mass, residual = _sorted_by_confidence(confidence, correct, sample_weight)
    return float(errors.equal_mass_error(mass, residual, bins))


def ks_calibration_error(
    confidence: Array, correct: Array, *, sample_weight: Array | None = None
) -> float:
    r"""Return the Kolmogorov-Smirnov calibration error (Gupta et al., 2021), which has no bins.

    .. math:: \max_t \frac{1}{n} \Big| \sum_{i: c_i \le t} (c_i - y_i) \Big|

    It needs all confidences at once; :class:`CalibrationMetrics` has an approximation from a fine
    histogram.

    Args:
        confidence: probability of the predicted class, from 0 to 1, of shape (N,).
        correct: whether the prediction was right, bool or 0 and 1, of shape (N,).
        sample_weight: one number of at least 0 per prediction, of shape (N,).

    Example:
        >>> import torch
        >>> from softmargin.calibration import ks_calibration_error
        >>> confidence = torch.tensor([0.6, 0.7, 0.9, 1.0])
        >>> round(ks_calibration_error(confidence, torch.tensor([1, 0, 1, 1])), 4)
        0.1
    """
    return float(
        errors.kolmogorov_smirnov_error(*_sorted_by_confidence(confidence, correct, sample_weight))
    )


def overconfidence(
    confidence: Array, correct: Array, *, sample_weight: Array | None = None
) -> float:
    """Return mean confidence minus accuracy: above 0 is over-confident, below under-confident.

    Args:
        confidence: probability of the predicted class, from 0 to 1, of shape (N,).
        correct: whether the prediction was right, bool or 0 and 1, of shape (N,).
        sample_weight: one number of at least 0 per prediction, of shape (N,).

    Example:
        >>> import torch
        >>> from softmargin.calibration import overconfidence
        >>> overconfidence(torch.tensor([0.75, 1.0]), torch.tensor([1, 0]))
        0.375
    """
    batch = top_label_batch(confidence, correct, sample_weight)
    gap = batch.confidence - batch.correct
    return float(gap @ batch.weight / batch.weight.sum())


def _sorted_by_confidence(
    confidence: Array, correct: Array, sample_weight: Array | None
) -> tuple[Tensor, Tensor]:
    """Return mass and residual of every distinct confidence, in order."""
    batch = top_label_batch(confidence, correct, sample_weight)
    distinct, place = torch.unique(batch.confidence, return_inverse=True)
    nothing = torch.zeros_like(distinct)
    residual = batch.weight * (batch.confidence - batch.correct)
    return nothing.scatter_add(0, place, batch.weight), nothing.scatter_add(0, place, residual)
