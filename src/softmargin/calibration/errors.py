"""Calibration errors from confidences and whether each prediction was right.

For a multi-class model, :func:`softmargin.calibration.top_label` returns both. For the positive
class of a binary model, pass its probability and whether it occurred: that is the other meaning of
"accuracy" in the binary case.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.calibration._batch import Array, TopLabelBatch, check_bins, top_label_batch
from softmargin.calibration.binning import (
    CONFIDENCE_ARGUMENTS,
    bin_statistics,
    equal_mass_residuals,
    histogram,
    kolmogorov_smirnov_error,
    mass_and_residual,
)

# The smooth calibration error.
SMALLEST_BANDWIDTH = 0.001
HALVINGS = 10


@document_arguments(CONFIDENCE_ARGUMENTS)
def calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    norm: str = "l1",
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    r"""Return the calibration error over bins of equal width.

    With :math:`g_m = |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|` the gap of bin m, the norms are

    - ``"l1"``, the ECE: :math:`\sum_m \frac{|B_m|}{n} g_m`
    - ``"l2"``, the RMS error: :math:`\big(\sum_m \frac{|B_m|}{n} g_m^2\big)^{1/2}`
    - ``"max"``, the MCE: :math:`\max_m g_m` over the bins that are not empty
    - ``"debiased_l2"``: the L2 error without what noise adds to it on average (Kumar et al., 2019),

    .. math:: \Big( \sum_m \frac{|B_m|}{n} \, \Big[ g_m^2 -
        \frac{\mathrm{acc}(B_m) (1 - \mathrm{acc}(B_m))}{|B_m| - 1} \Big] \Big)^{1/2}

    The debiased error is 0 if the sum is negative: noise alone explains the gaps. Bins of fewer
    than two predictions count as 0 in it. All others are biased upwards, since noise in acc(B_m)
    only adds to an absolute value.

    Example:
        >>> import torch
        >>> from softmargin.calibration import calibration_error
        >>> confidence, correct = torch.tensor([0.25, 0.75]), torch.tensor([1, 1])
        >>> [round(calibration_error(confidence, correct, norm=n), 4) for n in ("l1", "l2", "max")]
        [0.5, 0.559, 0.75]
    """
    statistics = bin_statistics(
        confidence, correct, bins, sample_weight=sample_weight, closed=closed
    )
    return statistics.calibration_error(norm)


@document_arguments(CONFIDENCE_ARGUMENTS)
def expected_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    """Return the ECE, the mean gap between confidence and accuracy over predictions.

    It is :func:`calibration_error` with ``norm="l1"``.

    Example:
        >>> import torch
        >>> from softmargin.calibration import expected_calibration_error
        >>> confidence = torch.tensor([0.95, 1.0, 1.0, 0.95])
        >>> round(expected_calibration_error(confidence, torch.tensor([0, 1, 1, 0])), 4)
        0.475
    """
    return calibration_error(
        confidence, correct, bins, norm="l1", sample_weight=sample_weight, closed=closed
    )


@document_arguments(CONFIDENCE_ARGUMENTS)
def maximum_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    """Return the MCE, the largest gap between confidence and accuracy over non-empty bins.

    It is :func:`calibration_error` with ``norm="max"``.

    Example:
        >>> import torch
        >>> from softmargin.calibration import maximum_calibration_error
        >>> maximum_calibration_error(torch.tensor([0.25, 0.75]), torch.tensor([1, 1]))
        0.75
    """
    return calibration_error(
        confidence, correct, bins, norm="max", sample_weight=sample_weight, closed=closed
    )


@document_arguments(CONFIDENCE_ARGUMENTS)
def rms_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    """Return the root-mean-square calibration error, the L2 counterpart of the ECE.

    It is :func:`calibration_error` with ``norm="l2"``.

    Example:
        >>> import torch
        >>> from softmargin.calibration import rms_calibration_error
        >>> round(rms_calibration_error(torch.tensor([0.25, 0.75]), torch.tensor([1, 1])), 4)
        0.559
    """
    return calibration_error(
        confidence, correct, bins, norm="l2", sample_weight=sample_weight, closed=closed
    )


@document_arguments(CONFIDENCE_ARGUMENTS)
def debiased_calibration_error(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> float:
    """Return the L2 calibration error without what noise adds to it (Kumar et al., 2019).

    It is :func:`calibration_error` with ``norm="debiased_l2"``.

    Example:
        >>> import torch
        >>> from softmargin.calibration import debiased_calibration_error
        >>> confidence, correct = torch.full((10,), 0.9), torch.tensor([0, 1] * 5)
        >>> round(debiased_calibration_error(confidence, correct), 4)
        0.3636
    """
    return calibration_error(
        confidence, correct, bins, norm="debiased_l2", sample_weight=sample_weight, closed=closed
    )


@document_arguments(CONFIDENCE_ARGUMENTS)
def equal_mass_calibration_error(
    confidence: Array, correct: Array, bins: int = 10, *, sample_weight: Array | None = None
) -> float:
    """Return the ECE over bins that hold equally many predictions (adaptive ECE).

    The predictions, sorted by confidence, are cut into M bins of exactly n / M. A prediction on a
    cut, or several of equal confidence, is shared between the two bins in proportion, so the order
    of the samples does not matter. This needs all confidences at once;
    :class:`CalibrationMetrics` computes an approximation from a fine histogram.

    Example:
        >>> import torch
        >>> from softmargin.calibration import equal_mass_calibration_error
        >>> confidence = torch.tensor([0.6, 0.7, 0.9, 1.0])
        >>> round(equal_mass_calibration_error(confidence, torch.tensor([1, 0, 1, 1]), bins=2), 4)
        0.1
    """
    check_bins(bins, "right")
    mass, residual = _sorted_by_confidence(confidence, correct, sample_weight)
    return float(equal_mass_residuals(mass, residual, bins).abs().sum())


@document_arguments(CONFIDENCE_ARGUMENTS)
def ks_calibration_error(
    confidence: Array, correct: Array, *, sample_weight: Array | None = None
) -> float:
    r"""Return the Kolmogorov-Smirnov calibration error (Gupta et al., 2021), which has no bins.

    .. math:: \max_t \frac{1}{n} \Big| \sum_{i: c_i \le t} (c_i - y_i) \Big|

    This needs all confidences at once; :class:`CalibrationMetrics` computes an approximation from
    a fine histogram.

    Example:
        >>> import torch
        >>> from softmargin.calibration import ks_calibration_error
        >>> confidence = torch.tensor([0.6, 0.7, 0.9, 1.0])
        >>> round(ks_calibration_error(confidence, torch.tensor([1, 0, 1, 1])), 4)
        0.1
    """
    mass, residual = _sorted_by_confidence(confidence, correct, sample_weight)
    return float(kolmogorov_smirnov_error(mass, residual))


@document_arguments(CONFIDENCE_ARGUMENTS)
def overconfidence(
    confidence: Array, correct: Array, *, sample_weight: Array | None = None
) -> float:
    """Return mean confidence minus accuracy: above 0 is over-confident, below under-confident.

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
    return mass_and_residual(histogram(place, len(distinct), *batch))


@document_arguments(CONFIDENCE_ARGUMENTS)
def smooth_calibration_error(
    confidence: Array, correct: Array, *, sample_weight: Array | None = None
) -> float:
    r"""Return the smooth ECE of Błasiok and Nakkiran (2023), which has no bins to choose.

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac{1}{n} \sum_i K_\sigma(t, c_i)
        (c_i - y_i) \Big| \, dt

    :math:`K_\sigma` is a Gaussian of standard deviation σ, reflected at 0 and 1. The σ used is the
    largest for which the error is no smaller than σ itself, found by bisection to 1/1024. The
    integral is taken on a grid and reproduces the values of the authors' implementation. This
    needs all confidences at once; there is no streaming version.

    Example:
        >>> import torch
        >>> from softmargin.calibration import smooth_calibration_error
        >>> confidence = torch.linspace(0.5, 1, 100)
        >>> correct = torch.arange(100) % 2
        >>> round(smooth_calibration_error(confidence, correct), 3)
        0.252
    """
    batch = top_label_batch(confidence, correct, sample_weight)
    low, high = 0.0, 1.0
    if _error_at(batch, high) > high:
        return _error_at(batch, high)
    for _ in range(HALVINGS):
        bandwidth = (low + high) / 2
        if bandwidth < SMALLEST_BANDWIDTH or bandwidth < _error_at(batch, bandwidth):
            low = bandwidth
        else:
            high = bandwidth
    return _error_at(batch, high)


def _error_at(batch: TopLabelBatch, bandwidth: float) -> float:
    """Return the smooth ECE for a given bandwidth σ."""
    size = max(2000, round(20 / bandwidth)) // 2 + 1
    residual = batch.weight * (batch.confidence - batch.correct)
    values = torch.stack([residual, batch.weight])
    on_grid = _spread_on_grid(batch.confidence, values, size)
    smoothed = _convolve_reflected(on_grid, bandwidth)
    points = torch.linspace(
        0, 1, max(round(10 / bandwidth), 200), dtype=torch.float64, device=residual.device
    )
    residuals, density = _interpolate(smoothed, points)
    return float(residuals.abs().sum() / density.sum())


def _spread_on_grid(positions: Tensor, values: Tensor, size: int) -> Tensor:
    """Share each value between the two grid points around its position, by nearness."""
    left = (positions * (size - 1)).long().clamp_(0, size - 2)
    to_right = positions * (size - 1) - left
    grid = values.new_zeros(len(values), size)
    grid.index_add_(1, left, values * (1 - to_right))
    return grid.index_add_(1, left + 1, values * to_right)


def _convolve_reflected(grid: Tensor, bandwidth: float) -> Tensor:
    """Smooth by a Gaussian that reaches half the grid to either side, reflected at the ends."""
    size = grid.shape[1]
    distance = torch.linspace(-0.5, 0.5, size, dtype=torch.float64, device=grid.device)
    kernel = (-distance.square() / (2 * bandwidth**2)).exp() / (math.sqrt(2 * math.pi) * bandwidth)
    mirror = grid.flip(1)
    extended = torch.cat([mirror[:, :-1], grid, mirror[:, 1:]], 1)
    length = extended.shape[1] + size - 1
    product = torch.fft.rfft(extended, length) * torch.fft.rfft(kernel, length)
    start = size - 1 + size // 2
    smoothed: Tensor = torch.fft.irfft(product, length)
    return smoothed[:, start : start + size]


def _interpolate(grid: Tensor, points: Tensor) -> Tensor:
    """Return values between the grid's points, which lie evenly on [0, 1], linearly."""
    last = grid.shape[1] - 1
    left = (points * last).long().clamp_(0, last - 1)
    to_right = points * last - left
    return grid[:, left] * (1 - to_right) + grid[:, left + 1] * to_right
