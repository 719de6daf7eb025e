"""From the sums of an accumulator to its metrics."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin.calibration import errors
from softmargin.calibration._bin_intervals import BRIER_LIMITS, class_intervals, top_label_intervals
from softmargin.calibration._sums import MEANS, ClassBins, Sums, class_bins
from softmargin.calibration.binning import BinStatistics, ConfidenceCells, bin_edges
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


def summarize(
    sums: Sums,
    cells: ConfidenceCells,
    num_classes: int,
    top_k: int,
    confidence_level: float | None,
    resamples: int,
    seed: int,
) -> CalibrationResult:
    """Return all metrics, and their intervals if a level is given."""
    bins = _bin_statistics(sums, cells)
    mass = sums.cells[1].sum(-1)
    residual = sums.cells[3].sum(-1) - sums.cells[1, :, 1]
    means = (sums.moments[0] / sums.totals[1]).tolist()
    values = {
        "accuracy": float(sums.cells[1, :, 1].sum() / sums.totals[1]),
        "top_k_accuracy": float(sums.totals[3] / sums.totals[1]),
        **dict(zip(MEANS, means, strict=True)),
        "ece": bins.expected_calibration_error(),
        "mce": bins.maximum_calibration_error(),
        "rms_error": bins.rms_calibration_error(),
        "debiased_error": bins.debiased_calibration_error(),
        "equal_mass_ece": float(errors.equal_mass_error(mass, residual, cells.bins)),
        "ks_error": float(errors.kolmogorov_smirnov_error(mass, residual)),
    }
    classes = class_bins(sums)
    by_class = errors.classwise_errors(*classes)
    values |= _class_values(classes, by_class, values["brier"])
    intervals = {}
    if confidence_level is not None:
        effective = float(sums.totals[1] ** 2 / sums.totals[2])
        resampling = Resampling(round(effective), resamples, seed, confidence_level)
        intervals = _intervals(sums, cells, classes, values, resampling, num_classes)
    return CalibrationResult(
        samples=int(sums.totals[0]),
        top_k=top_k,
        **values,
        classwise_errors=by_class,
        bins=bins,
        confidence_level=confidence_level,
        intervals=intervals,
    )


def _class_values(classes: ClassBins, by_class: Tensor, brier: float) -> dict[str, float]:
    """Return the metrics over the bins of every class; NaN if those were not counted."""
    reliability = uncertainty = math.nan
    if len(by_class):
        reliability, uncertainty = map(float, errors.brier_parts(*classes))
    resolution = reliability + uncertainty - brier
    return {
        "brier_reliability": reliability,
        "brier_resolution": 0.0 if abs(resolution) < 1e-12 else resolution,  # not -0
        "brier_uncertainty": uncertainty,
        "classwise_ece": float(by_class.mean()),
    }


def _intervals(
    sums: Sums,
    cells: ConfidenceCells,
    classes: ClassBins,
    values: dict[str, float],
    resampling: Resampling,
    num_classes: int,
) -> dict[str, Interval]:
    """Return the interval of every metric that has a value."""
    level = resampling.confidence_level
    least = 1 / num_classes  # of confidence
    limits = ((0.0, math.inf), BRIER_LIMITS, (least, 1.0), (least - 1, 1.0))
    result = {
        name: share_interval(values[name], resampling.samples, level)
        for name in ("accuracy", "top_k_accuracy")
    }
    for name, moments, limit in zip(MEANS, sums.moments.t(), limits, strict=True):
        result[name] = mean_interval(moments, sums.totals, level, limit)
    result["overconfidence"] = _overconfidence_interval(sums, values, result, limits[-1])
    result |= top_label_intervals(sums.cells, cells, values, resampling)
    if len(classes.mass):
        result |= class_intervals(*classes, values, resampling)
    return result


def _overconfidence_interval(
    sums: Sums, values: dict[str, float], intervals: dict[str, Interval], limits: Interval
) -> Interval:
    """Return the wider at each end of the mean's interval and of the one from its two parts."""
    named = dict(zip(MEANS, sums.moments.t(), strict=True))
    of_confidence, of_gap = (
        central_moments(named[name], sums.totals)[0]
        for name in ("mean_confidence", "overconfidence")
    )
    share = values["accuracy"]
    right, squared = float(sums.cells[2, :, 1].sum()), float(sums.totals[2])
    of_correct = max(right * (1 - 2 * share) + share**2 * squared, 0.0)
    scale = 2 * math.sqrt(of_confidence * of_correct)
    correlation = (of_confidence + of_correct - of_gap) / scale if scale > 0 else 0.0
    low, high = difference_interval(
        (values["mean_confidence"], intervals["mean_confidence"]),
        (share, intervals["accuracy"]),
        min(max(correlation, -1.0), 1.0),
    )
    own_low, own_high = intervals["overconfidence"]
    return within((min(low, own_low), max(high, own_high)), values["overconfidence"], limits)


def _bin_statistics(sums: Sums, cells: ConfidenceCells) -> BinStatistics:
    """Add up the cells of each bin."""
    by_bin = sums.cells.new_zeros(4, cells.bins, 2).index_add_(1, cells.bin_of_cell, sums.cells)
    counts, weight, squared_weight, confidence = by_bin.sum(-1)
    weighted = not torch.equal(counts, weight)
    return BinStatistics(
        edges=bin_edges(cells.bins),
        counts=counts.long(),
        confidence=confidence / weight,
        accuracy=by_bin[1, :, 1] / weight,
        weight=weight if weighted else None,
        squared_weight=squared_weight if weighted else None,
    )
