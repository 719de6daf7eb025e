"""Bins of confidence: edges, which bin a value belongs to, statistics and errors over bins.

The formulas take bins in the last dimension. A bin has a mass (the number of predictions, or their
weight) and a residual (the sum over them of confidence minus correctness), so that residual / mass
is its gap. Leading dimensions are independent data sets, such as the resamples of a bootstrap.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.calibration._batch import Array, check_bins, top_label_batch
from softmargin.functional._checks import check_choice

NORMS = ("l1", "l2", "max", "debiased_l2")
# Cells: 2^7 for each halving of 1 - confidence, down to 1 - confidence = 2^-32.
CELL_BITS = 7
HALVINGS = 32
CONFIDENCE_ARGUMENTS = {
    "confidence": """probability of the predicted class, from 0 to 1, of shape (N,). For the
        positive class of a binary task, its probability.""",
    "correct": """whether the prediction was right (for the positive class: whether it occurred),
        bool or 0 and 1, of shape (N,).""",
    "bins": "number of bins M.",
    "norm": """how the gaps of the bins are combined: ``"l1"``, ``"l2"``, ``"max"`` or
        ``"debiased_l2"``.""",
    "sample_weight": "one number of at least 0 per prediction, of shape (N,).",
    "closed": 'which edge belongs to a bin, ``"right"`` or ``"left"``.',
}


@dataclass(frozen=True)
class BinStatistics:
    """What a model did in each bin of confidence.

    Attributes:
        edges: float64 edges of the M bins, of shape (M + 1,).
        counts: number of predictions per bin, of shape (M,).
        confidence: mean confidence per bin in float64, NaN if the bin is empty.
        accuracy: share of right predictions per bin in float64, NaN if the bin is empty.
        weight: sum of the sample weights per bin; None if every sample has the weight 1.
        squared_weight: sum of the squared sample weights per bin, or None.
    """

    edges: Tensor
    counts: Tensor
    confidence: Tensor
    accuracy: Tensor
    weight: Tensor | None = None
    squared_weight: Tensor | None = None

    @classmethod
    def of(cls, table: Tensor) -> Self:
        """Return the statistics of M equal-width bins from their :func:`histogram`."""
        counts, weight, squared_weight, confidence = table.sum(-1)
        weighted = not torch.equal(counts, weight)
        return cls(
            edges=bin_edges(len(counts), table.device),
            counts=counts.long(),
            confidence=confidence / weight,
            accuracy=table[1, :, 1] / weight,
            weight=weight if weighted else None,
            squared_weight=squared_weight if weighted else None,
        )

    @property
    def mass(self) -> Tensor:
        """Return the weight of each bin in float64: the counts if there are no weights."""
        return self.counts.double() if self.weight is None else self.weight

    @property
    def effective_counts(self) -> Tensor:
        """Return the effective sample size of each bin, (Σ w)² / Σ w²; 0 if it is empty."""
        if self.weight is None or self.squared_weight is None:
            return self.counts.double()
        return (self.weight.square() / self.squared_weight).nan_to_num(0.0)

    @property
    def gaps(self) -> Tensor:
        """Return mean confidence minus accuracy per bin: above 0 is over-confident."""
        return self.confidence - self.accuracy

    @property
    def residual(self) -> Tensor:
        """Return the sum of confidence minus correctness per bin, 0 if the bin is empty."""
        return (self.gaps * self.mass).nan_to_num(0.0)

    def calibration_error(self, norm: str = "l1") -> float:
        """Return the calibration error over these bins.

        Args:
            norm: how the gaps are combined, as in :func:`softmargin.calibration.calibration_error`.
        """
        check_choice("norm", norm, NORMS)
        mass, residual = self.mass, self.residual
        if norm == "l1":
            return float(expected_error(mass, residual))
        if norm == "max":
            return float((residual.abs() / mass).nan_to_num(0.0).amax())
        squared = squared_error(mass, residual)
        if norm == "debiased_l2":
            squared = _debiased(mass, residual, self.accuracy, self.effective_counts)
        return float(squared.clamp_min(0.0).sqrt())

    def expected_calibration_error(self) -> float:
        """Return the ECE: the mean absolute gap, weighted by the mass of the bins."""
        return self.calibration_error("l1")

    def maximum_calibration_error(self) -> float:
        """Return the MCE: the largest absolute gap over the bins that are not empty."""
        return self.calibration_error("max")

    def rms_calibration_error(self) -> float:
        """Return the root of the mean squared gap, weighted by the mass of the bins."""
        return self.calibration_error("l2")

    def debiased_calibration_error(self) -> float:
        """Return the debiased L2 error; 0 if noise alone explains the gaps."""
        return self.calibration_error("debiased_l2")


def expected_error(mass: Tensor, residual: Tensor) -> Tensor:
    """Return Σ_m mass_m / n · |gap_m|, the ECE."""
    return residual.abs().sum(-1) / mass.sum(-1)


def squared_error(mass: Tensor, residual: Tensor) -> Tensor:
    """Return Σ_m mass_m / n · gap_m²; its root is the RMS error."""
    return (residual.square() / mass).nan_to_num(0.0).sum(-1) / mass.sum(-1)


def _debiased(mass: Tensor, residual: Tensor, accuracy: Tensor, counts: Tensor) -> Tensor:
    """Return Σ_m mass_m / n · (gap_m² - acc_m (1 - acc_m) / (n_m - 1)), which may be negative.

    The second term is what the noise of acc_m adds to gap_m² on average. A bin of fewer than two
    predictions cannot tell noise from error and counts as 0.
    """
    terms = mass * ((residual / mass).square() - accuracy * (1 - accuracy) / (counts - 1))
    return terms.where(counts >= 2, 0.0).sum(-1) / mass.sum(-1)


class ClassBins(NamedTuple):
    """Σ w, Σ w·p and Σ w·y in every bin of every class, each of shape (C, M)."""

    mass: Tensor
    probability: Tensor
    occurred: Tensor

    @property
    def residual(self) -> Tensor:
        """Return Σ w·(p - y)."""
        return self.probability - self.occurred

    def errors(self) -> Tensor:
        """Return each class's own ECE."""
        return expected_error(self.mass, self.residual)


def equal_mass_residuals(mass: Tensor, residual: Tensor, bins: int) -> Tensor:
    """Return residual / n of bins of equal mass, from many small cells in order of confidence.

    A cell on a boundary is shared between the two bins in proportion. So the sum of residuals up
    to a boundary is linear in mass between the ends of a cell.
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
    """Return the largest |Σ residual up to a cell| / n."""
    return residual.cumsum(-1).abs().amax(-1) / mass.sum(-1)


def bin_edges(bins: int, device: torch.device | None = None) -> Tensor:
    """Return the M + 1 edges of equal-width bins from 0 to 1: m/M, rounded correctly to float64.

    ``torch.linspace`` is an ulp off for some, as is division by a scalar on some devices.
    """
    whole = torch.full((), bins, dtype=torch.float64)
    return torch.arange(bins + 1, dtype=torch.float64).div(whole).to(device)


def bin_index(values: Tensor, edges: Tensor, closed: str) -> Tensor:
    """Return the bin of each float64 value; a value on an edge belongs to the bin it closes.

    0 always belongs to the first bin and 1 to the last. The result is that of ``searchsorted`` in
    the inner edges, several times faster.
    """
    last = len(edges) - 2
    # Rounding finds the nearest edge safely; a comparison decides the side of it.
    nearest = torch.add(values * (last + 1), 0.5).long()
    edge = edges.index_select(0, nearest)
    below = values <= edge if closed == "right" else values < edge
    return nearest.sub_(below.long()).clamp_(0, last)


def histogram(
    place: Tensor, cells: int, confidence: Tensor, correct: Tensor, weight: Tensor
) -> Tensor:
    """Return counts, Σ w, Σ w² and Σ w·confidence of each cell, of shape (4, cells, 2).

    Wrong predictions (``correct`` is 0) and right ones (1) are added up apart. ``place`` is the
    cell of each prediction, w its weight.
    """
    table = weight.new_zeros(4, 2 * cells)
    place = place.mul(2).add_(correct.long())
    ones = torch.ones_like(weight)
    if same_weight(weight):
        counts, mass, squares, sums = table
        counts.scatter_add_(0, place, ones)
        mass.copy_(counts * weight[0])
        squares.copy_(mass * weight[0])
        sums.scatter_add_(0, place, confidence).mul_(weight[0])
        return table.view(4, cells, 2)
    columns = (ones, weight, weight.square(), weight * confidence)
    for total, values in zip(table, columns, strict=True):
        total.scatter_add_(0, place, values)
    return table.view(4, cells, 2)


def same_weight(weight: Tensor) -> bool:
    """Whether one number stands for the weights of all rows, as where none were given."""
    return len(weight) > 0 and weight.stride(0) == 0


def mass_and_residual(table: Tensor) -> tuple[Tensor, Tensor]:
    """Return mass and residual of every cell of a :func:`histogram`."""
    return table[1].sum(-1), table[3].sum(-1) - table[1, :, 1]


@document_arguments(CONFIDENCE_ARGUMENTS)
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

    Example:
        >>> import torch
        >>> from softmargin.calibration import bin_statistics
        >>> confidence = torch.tensor([0.2, 0.5, 0.9, 1.0])
        >>> bin_statistics(confidence, torch.tensor([0, 1, 1, 1]), bins=2).counts
        tensor([2, 2])
    """
    check_bins(bins, closed)
    batch = top_label_batch(confidence, correct, sample_weight)
    index = bin_index(batch.confidence, bin_edges(bins, batch.confidence.device), closed)
    return BinStatistics.of(histogram(index, bins, *batch))


@dataclass(frozen=True)
class ConfidenceCells:
    """The cells of a fine histogram of confidence, none of which crosses the edge of a bin.

    Cells shrink towards a confidence of 1, where good models are crowded: the width of each is at
    most 1/128 of 1 - confidence, down to 1 - confidence = 2^-32.
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
        # logarithmic scale that costs one shift. Neither this scale nor the bins ever fall as
        # confidence rises, so their sum is different for every pair of the two.
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
