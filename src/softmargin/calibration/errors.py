"""The formulas of calibration errors, on bins in the last dimension.

A bin has a mass (how many predictions, or their weight) and a residual (the sum over them of
confidence minus correctness, so that residual / mass is the gap). Leading dimensions are
independent data sets, such as the resamples of a bootstrap.
"""

from __future__ import annotations

import torch
from torch import Tensor


def expected_error(mass: Tensor, residual: Tensor) -> Tensor:
    """Return Σ_m mass_m / n · |gap_m|, the ECE."""
    return residual.abs().sum(-1) / mass.sum(-1)


def largest_error(mass: Tensor, residual: Tensor) -> Tensor:
    """Return max_m |gap_m| over the bins that are not empty, the MCE."""
    return (residual.abs() / mass).nan_to_num(0.0).amax(-1)


def squared_error(mass: Tensor, residual: Tensor) -> Tensor:
    """Return Σ_m mass_m / n · gap_m²; its root is the RMS error."""
    return (residual.square() / mass).nan_to_num(0.0).sum(-1) / mass.sum(-1)


def debiased_squared_error(
    mass: Tensor, residual: Tensor, accuracy: Tensor, counts: Tensor
) -> Tensor:
    """Return Σ_m mass_m / n · (gap_m² - acc_m (1 - acc_m) / (n_m - 1)), which may be negative.

    The second term is what the noise of acc_m adds to gap_m² on average. Bins of fewer than two
    predictions cannot tell noise from error and count as 0.
    """
    gap = residual / mass
    terms = mass * (gap.square() - accuracy * (1 - accuracy) / (counts - 1))
    return terms.where(counts >= 2, 0.0).sum(-1) / mass.sum(-1)


def equal_mass_error(mass: Tensor, residual: Tensor, bins: int) -> Tensor:
    """Return the ECE over ``bins`` bins of equal mass, from many small cells in order."""
    return equal_mass_residuals(mass, residual, bins).abs().sum(-1)


def equal_mass_residuals(mass: Tensor, residual: Tensor, bins: int) -> Tensor:
    """Return residual / n of bins of equal mass, from many small cells in order.

    A cell on a boundary is shared between the two bins in proportion. So the sum of residuals up
    to a boundary is linear in mass between the cells' ends.
    """
    mass_up_to, residual_up_to = mass.cumsum(-1), residual.cumsum(-1)
    shares = torch.arange(1, bins, dtype=mass.dtype, device=mass.device) / bins
    boundaries = mass_up_to[..., -1:] * shares
    cut = torch.searchsorted(mass_up_to, boundaries)
    beyond = (mass_up_to.gather(-1, cut) - boundaries) / mass.gather(-1, cut)
    at_boundary = residual_up_to.gather(-1, cut) - beyond * residual.gather(-1, cut)
    start = torch.zeros_like(residual_up_to[..., :1])
    curve = torch.cat([start, at_boundary, residual_up_to[..., -1:]], -1)
    return curve.diff(dim=-1) / mass_up_to[..., -1:]


def kolmogorov_smirnov_error(mass: Tensor, residual: Tensor) -> Tensor:
    """Return max over the cells' ends of |Σ residual up to there| / n."""
    return residual.cumsum(-1).abs().amax(-1) / mass.sum(-1)


def classwise_errors(mass: Tensor, probability: Tensor, occurred: Tensor) -> Tensor:
    """Return each class's own ECE, from its bins' sums; the last dimension is the bins."""
    return expected_error(mass, probability - occurred)


def brier_parts(mass: Tensor, probability: Tensor, occurred: Tensor) -> tuple[Tensor, Tensor]:
    """Return reliability and uncertainty summed over classes; the last two are (C, M).

    Reliability is Σ_k Σ_m mass_km / n · gap_km², uncertainty Σ_k ō_k (1 - ō_k) with ō_k the share
    of class k.
    """
    reliability = squared_error(mass, probability - occurred).sum(-1)
    share = occurred.sum(-1) / mass.sum(-1)
    return reliability, (share * (1 - share)).sum(-1)


def between_bins_resolution(mass: Tensor, occurred: Tensor) -> Tensor:
    """Return Σ_k Σ_m mass_km / n · (ō_km - ō_k)²: how far the bins' frequencies spread."""
    share = (occurred.sum(-1) / mass.sum(-1)).unsqueeze(-1)
    return squared_error(mass, occurred - mass * share).sum(-1)
