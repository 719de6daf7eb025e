"""What an accumulator keeps of the rows it has counted, and how a row is counted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softmargin.calibration._rows import Rows
from softmargin.calibration.binning import ConfidenceCells, bin_edges, bin_index

MEANS = ("nll", "brier", "mean_confidence", "overconfidence")


class Sums(NamedTuple):
    """All that is kept, in float64; w is the weight of a row.

    Attributes:
        cells: counts, Σ w, Σ w², Σ w·confidence of each cell of confidence, for wrong and right
            predictions, of shape (4, cells, 2).
        classes: Σ w, Σ w·p, Σ w·y of each class's bins above the first, of shape (3, C, M); what
            is counted in the first bin is not complete.
        class_sums: Σ w·p and Σ w·y of each class over all bins, of shape (2, C).
        moments: Σ w·x, Σ w²·x, Σ w²·x², Σ w³·x, Σ w³·x², Σ w³·x³ for each x of :data:`MEANS`, of
            shape (6, 4).
        totals: rows, Σ w, Σ w², Σ w of rows with the target in the top k, rows that look like
            probabilities though said to be logits, and Σ w³, of shape (6,).
    """

    cells: Tensor
    classes: Tensor
    class_sums: Tensor
    moments: Tensor
    totals: Tensor


class ClassBins(NamedTuple):
    """Σ w, Σ w·p and Σ w·y in every bin of every class, each of shape (C, M)."""

    mass: Tensor
    probability: Tensor
    occurred: Tensor


def no_sums(layout: ConfidenceCells, num_classes: int, device: torch.device) -> Sums:
    """Return the sums of no rows; for no classes, those per class have no elements."""

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=device)

    return Sums(
        cells=zeros(4, len(layout), 2),
        classes=zeros(3, num_classes, layout.bins),
        class_sums=zeros(2, num_classes),
        moments=zeros(6, len(MEANS)),
        totals=zeros(6),
    )


def count_rows(sums: Sums, rows: Rows, layout: ConfidenceCells, top_k: int) -> None:
    """Count rows in everything but the bins of the classes."""
    weight, squared = rows.weight, rows.weight.square()
    correct = rows.rank == 0
    place = layout.index(rows.confidence).mul_(2).add_(correct)
    columns = (torch.ones_like(weight), weight, squared, weight * rows.confidence)
    for sum_of, values in zip(sums.cells.flatten(1), columns, strict=True):
        sum_of.scatter_add_(0, place, values)
    gap = rows.confidence - correct.double()
    each = torch.stack([rows.nll, rows.brier, rows.confidence, gap])
    cubed, powers = squared * weight, torch.stack([each, each.square(), each**3])
    sums.moments.add_(torch.cat([powers[:1] @ weight, powers[:2] @ squared, powers @ cubed]))
    in_top = weight @ (rows.rank < top_k).double()
    numbers = (
        *(len(weight), weight.sum(), squared.sum()),
        *(in_top, rows.like_probabilities, cubed.sum()),
    )
    sums.totals.add_(torch.stack([torch.as_tensor(x).to(weight) for x in numbers]))


def count_classes(sums: Sums, rows: Rows, layout: ConfidenceCells) -> None:
    """Count rows in the bins of the classes above the first; the totals leave that one over."""
    edges = bin_edges(layout.bins, rows.weight.device)

    def place_of(label: Tensor, probability: Tensor) -> Tensor:
        return bin_index(probability, edges, layout.closed).add_(label, alpha=layout.bins)

    likely = rows.likely
    place = place_of(likely.label, likely.probability)
    weight = rows.weight.index_select(0, likely.row)
    mass, probability, occurred = sums.classes.flatten(1)
    mass.scatter_add_(0, place, weight)
    probability.scatter_add_(0, place, weight.mul_(likely.probability))
    occurred.scatter_add_(0, place_of(rows.target, rows.own), rows.weight)
    sums.class_sums[0] += rows.class_sums
    sums.class_sums[1].scatter_add_(0, rows.target, rows.weight)


def class_bins(sums: Sums) -> ClassBins:
    """Return the bins of the classes, the first filled with what the others leave over."""
    filled = sums.classes.clone()
    weight = sums.class_sums[1].sum()
    totals = torch.stack([weight.expand(filled.shape[1]), *sums.class_sums])
    rest = totals - filled[:, :, 1:].sum(-1)
    # a remainder that is only rounding is nothing
    filled[:, :, 0] = rest.clamp_min(0.0).where(rest[0] > 1e-12 * weight, 0.0)
    return ClassBins(*filled)
