"""Bins of confidence: their edges, which bin a value belongs to, what a model did in each."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.calibration import errors
from softmargin.calibration._batch import Array, top_label_batch
from softmargin.calibration._checks import check_bins

# cells: 2^7 to each halving of 1 - confidence, down to 1 - confidence = 2^-32
CELL_BITS = 7
HALVINGS = 32


@dataclass(frozen=True)
class BinStatistics:
    """What a model did in each bin of confidence.

    Attributes:
        edges: float64 edges of the M bins, of shape (M + 1,).
        counts: number of predictions per bin, of shape (M,).
        confidence: mean confidence per bin in float64, NaN where the bin is empty.
        accuracy: share of right predictions per bin in float64, NaN where the bin is empty.
        weight: sum of the sample weights per bin; None where every sample weighs 1.
        squared_weight: sum of the squared sample weights per bin, or None.
    """

    edges: Tensor
    counts: Tensor
    confidence: Tensor
    accuracy: Tensor
    weight: Tensor | None = None
    squared_weight: Tensor | None = None

    @property
    def mass(self) -> Tensor:
        """Return the weight of each bin in float64: the counts where every sample weighs 1."""
        return self.counts.double() if self.weight is None else self.weight

    @property
    def effective_counts(self) -> Tensor:
        """Return how many equal weights say as much: (Σ w)² / Σ w² per bin, 0 if it is empty."""
        if self.weight is None or self.squared_weight is None:
            return self.counts.double()
        return (self.weight.square() / self.squared_weight).nan_to_num(0.0)

    @property
    def gaps(self) -> Tensor:
        """Return mean confidence minus accuracy per bin: above 0 is over-confident."""
        return self.confidence - self.accuracy

    @property
    def residual(self) -> Tensor:
        """Return the sum of confidence minus correctness per bin, 0 where the bin is empty."""
        return (self.gaps * self.mass).nan_to_num(0.0)

    def expected_calibration_error(self) -> float:
        """Return the mean of the absolute gaps, weighted by the bins' mass."""
        return float(errors.expected_error(self.mass, self.residual))

    def maximum_calibration_error(self) -> float:
        """Return the largest absolute gap over the bins that are not empty."""
        return float(errors.largest_error(self.mass, self.residual))

    def rms_calibration_error(self) -> float:
        """Return the root of the mean squared gap, weighted by the bins' mass."""
        return float(errors.squared_error(self.mass, self.residual).sqrt())

    def debiased_calibration_error(self) -> float:
        """Return the debiased L2 error; 0 where noise alone explains the gaps."""
        right = self.accuracy.nan_to_num(0.0)
        squared = errors.debiased_squared_error(
            self.mass, self.residual, right, self.effective_counts
        )
        return float(squared.clamp_min(0.0).sqrt())


def bin_edges(bins: int, device: torch.device | None = None) -> Tensor:
    """Return the M + 1 edges of equal-width bins from 0 to 1: m/M, rounded correctly to float64.

    ``torch.linspace`` is an ulp off for some, and so is division by a number on some devices.
    """
    whole = torch.full((), bins, dtype=torch.float64)
    return torch.arange(bins + 1, dtype=torch.float64).div(whole).to(device)


def bin_index(values: Tensor, edges: Tensor, closed: str) -> Tensor:
    """Return the bin of each float64 value; a value on an edge goes to the side it closes.

    0 always belongs to the first bin and 1 to the last. This is what ``searchsorted`` in the inner
    edges returns, several times faster.
    """
    last = len(edges) - 2
    # the nearest edge is safe to find by rounding; on which side of it a value is, is compared
    nearest = torch.add(values * (last + 1), 0.5).long()
    edge = edges.index_select(0, nearest)
    below = values <= edge if closed == "right" else values < edge
    return nearest.sub_(below.long()).clamp_(0, last)


def bin_statistics(
    confidence: Array,
    correct: Array,
    bins: int = 10,
    *,
    sample_weight: Array | None = None,
    closed: str = "right",
) -> BinStatistics:
    """Sort predictions into M equal-width bins ((m-1)/M, m/M] of confidence.

    A confidence of 0 belongs to the first bin, of 1 to the last. Edges and sums are in float64,
    whatever the input's precision.

    Args:
        confidence: probability of the predicted class, from 0 to 1, of shape (N,). For the
            positive class of a binary task, its probability.
        correct: whether the prediction was right (for the positive class: whether it came true),
            bool or 0 and 1, of shape (N,).
        bins: number of bins M.
        sample_weight: one number of at least 0 per prediction, of shape (N,).
        closed: which edge belongs to a bin, ``"right"`` or ``"left"``.

    Example:
        >>> import torch
        >>> from softmargin.calibration import bin_statistics
        >>> confidence = torch.tensor([0.2, 0.5, 0.9, 1.0])
        >>> bin_statistics(confidence, torch.tensor([0, 1, 1, 1]), bins=2).counts
        tensor([2, 2])
    """
    check_bins(bins, closed)
    batch = top_label_batch(confidence, correct, sample_weight)
    edges = bin_edges(bins, batch.confidence.device)
    index = bin_index(batch.confidence, edges, closed)

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(bins).scatter_add_(0, index, values)

    weight = batch.weight
    mass = total(weight)
    return BinStatistics(
        edges=edges,
        counts=torch.bincount(index, minlength=bins),
        confidence=total(weight * batch.confidence) / mass,
        accuracy=total(weight * batch.correct) / mass,
        weight=None if sample_weight is None else mass,
        squared_weight=None if sample_weight is None else total(weight.square()),
    )


@dataclass(frozen=True)
class ConfidenceCells:
    """A fine histogram of confidence that is nested in the bins: no cell crosses an edge.

    Cells shrink towards a confidence of 1, where those of good models crowd: each is at most
    1/128 of 1 - confidence wide, down to 1 - confidence = 2^-32.
    """

    bins: int
    closed: str = "right"

    def __len__(self) -> int:
        """Return the number of cells."""
        return (HALVINGS << CELL_BITS) + self.bins

    @property
    def first_edge(self) -> float:
        """Return the upper edge of the first bin."""
        return float(bin_edges(self.bins)[1])

    def index(self, confidence: Tensor) -> Tensor:
        """Return the cell of each float64 confidence."""
        # The leading bits of a float64 are its exponent and the first bits of its mantissa: a
        # logarithmic scale that costs one shift. Both this scale and the bins never fall as
        # confidence rises, so their sum tells every pair of the two apart.
        one, least = (_leading_bits(torch.tensor(x).double()) for x in (1.0, 2.0**-HALVINGS))
        scale = int(one) - _leading_bits(1 - confidence).clamp_(min=int(least))
        return scale.add_(bin_index(confidence, bin_edges(self.bins, scale.device), self.closed))

    @functools.cached_property
    def bin_of_cell(self) -> Tensor:
        """Return the bin that each cell belongs to, on the CPU."""
        first = bin_edges(self.bins)[1:-1]
        if self.closed == "right":
            first = torch.nextafter(first, torch.ones_like(first))
        return torch.searchsorted(self.index(first), torch.arange(len(self)), right=True)


def _leading_bits(values: Tensor) -> Tensor:
    return values.view(torch.int64) >> (52 - CELL_BITS)
