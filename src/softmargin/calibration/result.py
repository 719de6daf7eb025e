"""All calibration metrics of one set of predictions, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from torch import Tensor

from softmargin.calibration.binning import BinStatistics


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

    def _title(self) -> str:
        title = f"CalibrationResult of {self.samples:,} predictions, {len(self.bins.counts)} bins"
        if self.confidence_level is not None:
            title += f", with {100 * self.confidence_level:g} % intervals"
        return title

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = []
        for each in self.estimates():
            interval = ""
            if each.low is not None and each.high is not None:
                interval = f"[{each.low:.4f}, {each.high:.4f}]"
            label = escape(each.label).replace("  ", "&emsp;")
            cells = f"<td>{each.value:.4f}</td><td>{interval}</td>"
            rows.append(f'<tr><th style="text-align:left">{label}</th>{cells}</tr>')
        title = f'<caption style="text-align:left">{escape(self._title())}</caption>'
        return f"<table>{title}<tbody>{''.join(rows)}</tbody></table>"

    def __repr__(self) -> str:
        """Return a table."""
        lines = [self._title()]
        for each in self.estimates():
            line = f"{each.label:24}{each.value:8.4f}"
            if each.low is not None and each.high is not None:
                line += f"  [{each.low:.4f}, {each.high:.4f}]"
            lines.append(line)
        return "\n".join(lines)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
