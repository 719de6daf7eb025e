"""What an accumulator keeps of the predictions it has seen, and all metrics that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.calibration._batch import Batch, sum_tolerance
from softmargin.calibration._bin_intervals import BRIER_LIMITS, class_intervals, top_label_intervals
from softmargin.calibration._rows import Likely, Rows, fits_kernel
from softmargin.calibration.binning import (
    BinStatistics,
    ClassBins,
    ConfidenceCells,
    bin_edges,
    bin_index,
    equal_mass_residuals,
    histogram,
    kolmogorov_smirnov_error,
    mass_and_residual,
    same_weight,
    squared_error,
)
from softmargin.calibration.intervals import (
    Interval,
    Resampling,
    central_moments,
    difference_interval,
    mean_interval,
    share_interval,
    within,
)
from softmargin.calibration.result import CalibrationResult
from softmargin.functional import _fused
from softmargin.functional._fused_settings import TYPES

MEANS = ("nll", "brier", "mean_confidence", "overconfidence")


class Sums(NamedTuple):
    """Sums over predictions in float64; w is the weight of a row.

    Attributes:
        cells: the :func:`histogram` of the cells of confidence, of shape (4, cells, 2).
        classes: Σ w, Σ w·p, Σ w·y of each class's bins above the first, of shape (3, C, M); the
            first bin is incomplete.
        class_sums: Σ w·p and Σ w·y of each class over all bins, of shape (2, C).
        moments: Σ w·x, Σ w²·x, Σ w²·x², Σ w³·x, Σ w³·x², Σ w³·x³ for each x of :data:`MEANS`, of
            shape (6, 4).
        totals: rows, Σ w, Σ w², Σ w of rows with the target in the top k, rows that are declared
            as logits but look like probabilities, and Σ w³, of shape (6,).
    """

    cells: Tensor
    classes: Tensor
    class_sums: Tensor
    moments: Tensor
    totals: Tensor

    @classmethod
    def zeros(cls, layout: ConfidenceCells, num_classes: int, device: torch.device) -> Self:
        """Return the sums of no rows; with 0 classes, those per class have no elements."""
        shapes = (
            (4, len(layout), 2),
            (3, num_classes, layout.bins),
            (2, num_classes),
            (6, len(MEANS)),
            (6,),
        )
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes))

    def count_logits(self, batch: Batch, layout: ConfidenceCells, top_k: int) -> bool:
        """Add a batch of logits to everything but the classes' bins in one pass of the kernel.

        Return False, and add nothing, where the kernel cannot do it or a logit is not finite.
        """
        into = self.cells, self.moments, self.totals
        if not len(batch) or not fits_kernel(batch):
            return False
        if not all(to.is_cpu and to.is_contiguous() for to in into):
            return False
        given, target, weight = batch.predictions, batch.target.contiguous(), batch.weight
        if not same_weight(weight):
            weight = weight.contiguous()
        edges = bin_edges(layout.bins)
        many = given.numel() >= _fused.WORTH_THREADS
        packed = library.TALLY.pack(
            *(each.data_ptr() for each in (given, target, weight, edges, *into)),
            *(*given.shape, given.stride(0), weight.stride(0), layout.bins, len(layout), top_k),
            *(sum_tolerance(given.dtype), TYPES[given.dtype]),
            *(torch.get_num_threads() if many else 1, _fused.instructions),
            layout.closed == "left",
        )
        return _fused.kernel is not None and not _fused.kernel.tally(packed)

    def count_rows(self, rows: Rows, layout: ConfidenceCells, top_k: int) -> None:
        """Add rows to everything but the bins of the classes."""
        weight, confidence, correct = rows.weight, rows.confidence, (rows.rank == 0).double()
        cells = layout.index(confidence)
        self.cells.add_(histogram(cells, len(layout), confidence, correct, weight))
        each = torch.stack([rows.nll, rows.brier, confidence, confidence - correct])
        squares = each.square()
        tops = (rows.rank < top_k).double()
        if same_weight(weight):
            first, second, third = each.sum(1), squares.sum(1), squares.mul_(each).sum(1)
            w, n, high = weight[0], len(weight), tops.sum()
            moments = [first * w, first * w**2, second * w**2]
            moments += [first * w**3, second * w**3, third * w**3]
            mass, mass_of_squares, mass_of_cubes, top = n * w, n * w**2, n * w**3, high * w
        else:
            squared = weight.square()
            cubed = squared * weight
            moments = [each @ weight, each @ squared, squares @ squared, each @ cubed]
            moments += [squares @ cubed, squares.mul_(each) @ cubed]
            mass, mass_of_squares, mass_of_cubes = weight.sum(), squared.sum(), cubed.sum()
            top = weight @ tops
        self.moments.add_(torch.stack(moments))
        totals = (len(weight), mass, mass_of_squares, top, rows.like_probabilities, mass_of_cubes)
        self.totals.add_(torch.stack([torch.as_tensor(x).to(weight) for x in totals]))

    def count_classes(self, rows: Rows, layout: ConfidenceCells) -> None:
        """Add rows to the bins of the classes above the first; the totals imply the first."""
        edges = bin_edges(layout.bins, rows.weight.device)

        def place_of(label: Tensor, probability: Tensor) -> Tensor:
            return bin_index(probability, edges, layout.closed).add_(label, alpha=layout.bins)

        likely = rows.likely
        place = place_of(likely.label, likely.probability)
        weight = rows.weight.index_select(0, likely.row)
        mass, probability, occurred = self.classes.flatten(1)
        mass.scatter_add_(0, place, weight)
        probability.scatter_add_(0, place, weight.mul_(likely.probability))
        occurred.scatter_add_(0, place_of(rows.target, rows.own), rows.weight)
        self.class_sums[0] += rows.class_sums
        self.class_sums[1].scatter_add_(0, rows.target, rows.weight)

    def class_bins(self) -> ClassBins:
        """Return the bins of the classes; the first holds what the others leave over."""
        filled = self.classes.clone()
        weight = self.class_sums[1].sum()
        totals = torch.stack([weight.expand(filled.shape[1]), *self.class_sums])
        rest = totals - filled[:, :, 1:].sum(-1)
        # a remainder that is only rounding counts as 0
        filled[:, :, 0] = rest.clamp_min(0.0).where(rest[0] > 1e-12 * weight, 0.0)
        return ClassBins(*filled)


def summarize(
    sums: Sums,
    layout: ConfidenceCells,
    num_classes: float,
    top_k: int,
    confidence_level: float | None,
    resamples: int,
    seed: int,
) -> CalibrationResult:
    """Return all metrics, and their intervals if a confidence level is given."""
    by_bin = sums.cells.new_zeros(4, layout.bins, 2)
    # index_add_ takes seven times as long
    places = layout.bin_of_cell[:, None].expand_as(sums.cells)
    bins = BinStatistics.of(by_bin.scatter_add_(1, places, sums.cells))
    mass, residual = mass_and_residual(sums.cells)
    weight = sums.totals[1]
    values = {
        "accuracy": float(sums.cells[1, :, 1].sum() / weight),
        "top_k_accuracy": float(sums.totals[3] / weight),
        **dict(zip(MEANS, (sums.moments[0] / weight).tolist(), strict=True)),
        "ece": bins.calibration_error("l1"),
        "mce": bins.calibration_error("max"),
        "rms_error": bins.calibration_error("l2"),
        "debiased_error": bins.calibration_error("debiased_l2"),
        "equal_mass_ece": float(equal_mass_residuals(mass, residual, layout.bins).abs().sum()),
        "ks_error": float(kolmogorov_smirnov_error(mass, residual)),
    }
    classes = sums.class_bins()
    values |= _class_values(classes, values["brier"])
    intervals = {}
    if confidence_level is not None:
        effective = float(weight**2 / sums.totals[2])
        resampling = Resampling(round(effective), resamples, seed, confidence_level)
        intervals = _mean_intervals(sums, values, resampling, num_classes)
        intervals |= top_label_intervals(sums.cells, layout, values, resampling)
        if len(classes.mass):
            intervals |= class_intervals(classes, values, resampling)
    return CalibrationResult(
        samples=int(sums.totals[0]),
        top_k=top_k,
        **values,
        classwise_errors=classes.errors(),
        bins=bins,
        confidence_level=confidence_level,
        intervals=intervals,
    )


def summarize_confidence(
    parts: Iterable[tuple[Tensor, Tensor]],
    bins: int,
    confidence_level: float | None,
    seed: int,
) -> CalibrationResult:
    """Return the metrics of confidences and whether they were right; those of all classes are NaN.

    Args:
        parts: vectors of confidences and of 0 and 1.
        bins: number of bins.
        confidence_level: level of the intervals, or None.
        seed: seed of the bootstrap.
    """
    layout = ConfidenceCells(bins, "right")
    sums = Sums.zeros(layout, 0, torch.device("cpu"))
    empty = torch.empty(0)
    for confidence, correct in parts:
        confidence, rank = confidence.double(), 1 - correct.long()
        weight, unknown = torch.ones_like(confidence), torch.full_like(confidence, math.nan)
        rows = Rows(
            target=rank,
            weight=weight,
            confidence=confidence,
            rank=rank,
            own=unknown,
            nll=unknown,
            brier=unknown,
            class_sums=empty,
            likely=Likely(empty, empty, empty),
            like_probabilities=0,
        )
        sums.count_rows(rows, layout, 1)
    # as of very many classes: a confidence may be as low as 0
    found = summarize(sums, layout, math.inf, 1, confidence_level, 1000, seed)
    return replace(found, top_k_accuracy=math.nan)


def _class_values(classes: ClassBins, brier: float) -> dict[str, float]:
    """Return the metrics over the bins of every class; NaN if those were not counted.

    With ō_k the share of class k, reliability is Σ_k Σ_m mass_km / n · gap_km² and uncertainty
    Σ_k ō_k (1 - ō_k).
    """
    reliability = uncertainty = math.nan
    if len(classes.mass):
        reliability = float(squared_error(classes.mass, classes.residual).sum())
        share = classes.occurred.sum(-1) / classes.mass.sum(-1)
        uncertainty = float((share * (1 - share)).sum())
    resolution = reliability + uncertainty - brier
    return {
        "brier_reliability": reliability,
        "brier_resolution": 0.0 if abs(resolution) < 1e-12 else resolution,  # not -0
        "brier_uncertainty": uncertainty,
        "classwise_ece": float(classes.errors().mean()),
    }


def _mean_intervals(
    sums: Sums, values: dict[str, float], resampling: Resampling, num_classes: float
) -> dict[str, Interval]:
    """Return the intervals of shares and means."""
    level = resampling.confidence_level
    least = 1 / num_classes  # the lowest possible confidence
    limits = ((0.0, math.inf), BRIER_LIMITS, (least, 1.0), (least - 1, 1.0))
    result = {
        name: share_interval(values[name], resampling.samples, level)
        for name in ("accuracy", "top_k_accuracy")
    }
    for name, moments, limit in zip(MEANS, sums.moments.t(), limits, strict=True):
        result[name] = mean_interval(moments, sums.totals, level, limit)
    # of over-confidence, also that of its two parts: the wider one at each end
    low, high = difference_interval(
        (values["mean_confidence"], result["mean_confidence"]),
        (values["accuracy"], result["accuracy"]),
        _correlation(sums, values["accuracy"]),
    )
    own_low, own_high = result["overconfidence"]
    widest = min(low, own_low), max(high, own_high)
    result["overconfidence"] = within(widest, values["overconfidence"], limits[-1])
    return result


def _correlation(sums: Sums, accuracy: float) -> float:
    """Return the correlation of confidence and correctness, from the variance of their gap."""
    of_confidence, of_gap = (central_moments(x, sums.totals)[0] for x in sums.moments.t()[2:])
    right, squared = float(sums.cells[2, :, 1].sum()), float(sums.totals[2])
    of_correct = max(right * (1 - 2 * accuracy) + accuracy**2 * squared, 0.0)
    scale = 2 * math.sqrt(of_confidence * of_correct)
    correlation = (of_confidence + of_correct - of_gap) / scale if scale > 0 else 0.0
    return min(max(correlation, -1.0), 1.0)
