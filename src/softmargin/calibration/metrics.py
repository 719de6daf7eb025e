"""Calibration errors over equal-width bins of confidence (Guo et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BinStatistics:
    """What a model did in each bin of confidence.

    Attributes:
        edges: float64 edges of the M bins, of shape (M + 1,).
        counts: number of predictions per bin, of shape (M,).
        confidence: mean confidence per bin in float64, NaN where the bin is empty.
        accuracy: share of right predictions per bin in float64, NaN where the bin is empty.
    """

    edges: Tensor
    counts: Tensor
    confidence: Tensor
    accuracy: Tensor

    @property
    def gaps(self) -> Tensor:
        """Return mean confidence minus accuracy per bin: above 0 is over-confident."""
        return self.confidence - self.accuracy

    def expected_calibration_error(self) -> float:
        """Return the mean of the absolute gaps, weighted by the bins' counts."""
        return float((self.gaps.abs().nan_to_num(0.0) * self.counts).sum() / self.counts.sum())

    def maximum_calibration_error(self) -> float:
        """Return the largest absolute gap over the bins that are not empty."""
        return float(self.gaps.abs().nan_to_num(0.0).max())


def bin_statistics(confidence: Tensor, correct: Tensor, bins: int = 10) -> BinStatistics:
    """Sort predictions into M equal-width bins ((m-1)/M, m/M] of confidence.

    Bins are closed on the right; a confidence of 0 belongs to the first. Edges and sums are in
    float64, whatever the input's precision.

    Args:
        confidence: probability of the predicted class, from 0 to 1, of shape (N,).
        correct: whether the prediction was right, bool or 0 and 1, of shape (N,).
        bins: number of bins M.

    Example:
        >>> import torch
        >>> from softmargin.calibration import bin_statistics
        >>> confidence = torch.tensor([0.2, 0.5, 0.9, 1.0])
        >>> bin_statistics(confidence, torch.tensor([0, 1, 1, 1]), bins=2).counts
        tensor([2, 2])
    """
    _check(confidence, correct, bins)
    confidence, right = confidence.detach().double(), correct.detach().double()
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=confidence.device)
    index = torch.searchsorted(edges[1:-1], confidence, right=False)
    counts = torch.bincount(index, minlength=bins)
    return BinStatistics(
        edges=edges,
        counts=counts,
        confidence=torch.bincount(index, confidence, minlength=bins) / counts,
        accuracy=torch.bincount(index, right, minlength=bins) / counts,
    )


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 10) -> float:
    r"""Return the ECE: how far confidence is from accuracy, on average over predictions.

    .. math:: \sum_m \frac{|B_m|}{n} \, |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Arguments as in :func:`bin_statistics`.

    Example:
        >>> import torch
        >>> from softmargin.calibration import expected_calibration_error
        >>> confidence = torch.tensor([0.95, 1.0, 1.0, 0.95])
        >>> round(expected_calibration_error(confidence, torch.tensor([0, 1, 1, 0])), 4)
        0.475
    """
    return bin_statistics(confidence, correct, bins).expected_calibration_error()


def maximum_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 10) -> float:
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
    return bin_statistics(confidence, correct, bins).maximum_calibration_error()


def _check(confidence: Tensor, correct: Tensor, bins: int) -> None:
    """Raise one clear sentence for what cannot be binned."""
    for name, value in (("confidence", confidence), ("correct", correct)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a Tensor, but got {type(value).__name__}.")
        if value.is_complex():
            raise ValueError(f"{name} must hold real numbers, but got {value.dtype}.")
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins must be an integer of at least 1, but got {bins!r}.")
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise ValueError(
            "confidence and correct must both have shape (N,), "
            f"but got {tuple(confidence.shape)} and {tuple(correct.shape)}."
        )
    if not len(confidence):
        raise ValueError("confidence must hold at least one value, but it is empty.")
    outside = ~((confidence >= 0) & (confidence <= 1))  # NaN is outside too
    if bool(outside.any()):
        first = confidence[outside][0].item()
        raise ValueError(f"confidence must hold probabilities from 0 to 1, but got {first:g}.")
    neither = (correct != 0) & (correct != 1)
    if bool(neither.any()):
        first = correct[neither][0].item()
        raise ValueError(f"correct must hold 0 and 1 (or False and True), but got {first:g}.")
