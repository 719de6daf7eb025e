"""The smooth calibration error of Błasiok and Nakkiran (2023), which has no bins to choose."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin.calibration._batch import Array, TopLabelBatch, top_label_batch

SMALLEST_BANDWIDTH = 0.001
HALVINGS = 10


def smooth_calibration_error(
    confidence: Array, correct: Array, *, sample_weight: Array | None = None
) -> float:
    r"""Return the smooth ECE: the calibration error after smoothing by a Gaussian kernel.

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac{1}{n} \sum_i K_\sigma(t, c_i)
        (c_i - y_i) \Big| \, dt

    :math:`K_\sigma` is a Gaussian of standard deviation σ, reflected at 0 and 1. The σ used is the
    largest for which the error is no smaller than σ itself, found by bisection to 1/1024. It needs
    all confidences at once; there is no streaming variant.

    The integral is taken on a grid, as in the authors' reference implementation, whose values it
    reproduces.

    Args:
        confidence: probability of the predicted class, from 0 to 1, of shape (N,).
        correct: whether the prediction was right, bool or 0 and 1, of shape (N,).
        sample_weight: one number of at least 0 per prediction, of shape (N,).

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
