"""All calibration metrics of one set of predictions, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from softmargin.calibration._bin_intervals import BRIER_LIMITS, class_intervals, top_label_intervals
from softmargin.calibration.binning import (
    BinStatistics,
    ConfidenceCells,
    equal_mass_residuals,
    expected_error,
    kolmogorov_smirnov_error,
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

if TYPE_CHECKING:
    from softmargin.calibration.accumulator import Sums


class Estimate(NamedTuple):
    """A metric's name, label and value, and its interval if there is one."""

    name: str
    label: str
    value: float
    low: float | None
    high: float | None


LABELS = {
    "accuracy": "accuracy",
    "top_k_accuracy": "top-{k} accuracy",
    "mean_confidence": "mean confidence",
    "overconfidence": "confidence − accuracy",
    "nll": "NLL, nats",
    "brier": "Brier score",
    "brier_reliability": "  reliability",
    "brier_resolution": "  resolution",
    "brier_uncertainty": "  uncertainty",
    "ece": "ECE",
    "mce": "MCE",
    "rms_error": "RMS calibration error",
    "debiased_error": "debiased L2 error",
    "equal_mass_ece": "equal-mass ECE",
    "ks_error": "KS error",
    "classwise_ece": "class-wise ECE",
}
PLAIN = ("nll", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty")
IN_PERCENT = LABELS.keys() - PLAIN  # shares and differences of shares
MEANS = ("nll", "brier", "mean_confidence", "overconfidence")


@dataclass(frozen=True, repr=False, eq=False)
class CalibrationResult:
    """What :meth:`CalibrationMetrics.compute` returns.

    Attributes:
        samples: number of predictions counted.
        top_k: k of the top-k accuracy.
        accuracy: share of predictions whose most probable class is the target.
        top_k_accuracy: share whose target is among the k most probable classes.
        mean_confidence: mean probability of the most probable class.
        overconfidence: mean confidence minus accuracy; below 0 is under-confident.
        nll: mean negative log-likelihood of the target, in nats.
        brier: mean of Σ_k (p_k - y_k)², summed over classes and not halved.
        brier_reliability: what miscalibration adds to the Brier score.
        brier_resolution: what distinguishing samples takes from it.
        brier_uncertainty: the Brier score of always predicting the classes' frequencies;
            brier = brier_reliability - brier_resolution + brier_uncertainty.
        ece: expected calibration error over bins of equal width.
        mce: largest gap over the bins that are not empty.
        rms_error: root of the mean squared gap over the same bins.
        debiased_error: the same without what noise adds to it (Kumar et al., 2019).
        equal_mass_ece: ECE over bins of equal mass, from the fine histogram.
        ks_error: Kolmogorov-Smirnov error (Gupta et al., 2021), from the fine histogram.
        classwise_ece: mean over classes of each class's own ECE.
        classwise_errors: each class's own ECE, of shape (C,). Without ``classwise`` it is empty,
            and the class-wise ECE and the parts of the Brier score are NaN.
        bins: the bins of equal width, for a reliability diagram.
        confidence_level: level of the intervals, or None.
        intervals: (low, high) by the name of the metric; empty if none were requested.
    """

    samples: int
    top_k: int
    accuracy: float
    top_k_accuracy: float
    mean_confidence: float
    overconfidence: float
    nll: float
    brier: float
    brier_reliability: float
    brier_resolution: float
    brier_uncertainty: float
    ece: float
    mce: float
    rms_error: float
    debiased_error: float
    equal_mass_ece: float
    ks_error: float
    classwise_ece: float
    classwise_errors: Tensor
    bins: BinStatistics
    confidence_level: float | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def estimates(self) -> Iterator[Estimate]:
        """Yield every metric that was computed, with its interval, in the order of the table."""
        for name, label in LABELS.items():
            value = getattr(self, name)
            low, high = self.intervals.get(name, (None, None))
            if not math.isnan(value):
                yield Estimate(name, label.format(k=self.top_k), value, low, high)

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, ready for JSON; None for those that are not finite."""
        bins = self.bins
        return {
            "samples": self.samples,
            "top_k": self.top_k,
            "confidence_level": self.confidence_level,
            "metrics": {
                each.name: _finite(each.value)
                if each.low is None or each.high is None
                else {
                    "value": _finite(each.value),
                    "low": _finite(each.low),
                    "high": _finite(each.high),
                }
                for each in self.estimates()
            },
            "classwise_errors": self.classwise_errors.tolist(),
            "bins": {
                "edges": bins.edges.tolist(),
                "counts": bins.counts.tolist(),
                "weight": bins.mass.tolist(),
                "confidence": [_finite(x) for x in bins.confidence.tolist()],
                "accuracy": [_finite(x) for x in bins.accuracy.tolist()],
            },
        }

    def __repr__(self) -> str:
        """Return a table."""
        lines = [f"CalibrationResult of {self.samples:,} predictions, {len(self.bins.counts)} bins"]
        if self.confidence_level is not None:
            lines[0] += f", with {100 * self.confidence_level:g} % intervals"
        for each in self.estimates():
            line = f"{each.label:24}{each.value:8.4f}"
            if each.low is not None and each.high is not None:
                line += f"  [{each.low:.4f}, {each.high:.4f}]"
            lines.append(line)
        return "\n".join(lines)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class ClassBins(NamedTuple):
    """Σ w, Σ w·p and Σ w·y in every bin of every class, each of shape (C, M)."""

    mass: Tensor
    probability: Tensor
    occurred: Tensor


def summarize(
    sums: Sums,
    cells: ConfidenceCells,
    num_classes: int,
    top_k: int,
    confidence_level: float | None,
    resamples: int,
    seed: int,
) -> CalibrationResult:
    """Return all metrics, and their intervals if a confidence level is given."""
    bins = sums.bin_statistics(cells)
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
        "equal_mass_ece": float(equal_mass_residuals(mass, residual, cells.bins).abs().sum()),
        "ks_error": float(kolmogorov_smirnov_error(mass, residual)),
    }
    classes = sums.class_bins()
    by_class = expected_error(classes.mass, classes.probability - classes.occurred)
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
    """Return the metrics over the bins of every class; NaN if those were not counted.

    With ō_k the share of class k, reliability is Σ_k Σ_m mass_km / n · gap_km² and uncertainty
    Σ_k ō_k (1 - ō_k).
    """
    reliability = uncertainty = math.nan
    if len(by_class):
        reliability = float(
            squared_error(classes.mass, classes.probability - classes.occurred).sum()
        )
        share = classes.occurred.sum(-1) / classes.mass.sum(-1)
        uncertainty = float((share * (1 - share)).sum())
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
    least = 1 / num_classes  # the lowest possible confidence
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
    """Combine the interval of the mean with that of its two parts: the wider one at each end."""
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
