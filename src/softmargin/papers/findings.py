"""What all experiments conclude from values over seeds: findings, verdicts and bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Series
from softmargin.papers.outcome import Entry, Verdict
from softmargin.papers.statistics import Comparison, holm, summary

Floats = NDArray[np.float64]
BAND = "lines are means over seeds, bands 95 % intervals of the mean (Student's t)"


@dataclass(frozen=True)
class Finding:
    """A part of a claim: the numbers in words, and whether they agree; None if that is open."""

    text: str
    agrees: bool | None


def verdict(scale: str, findings: Sequence[Finding]) -> Verdict:
    """Return what the findings say together."""
    if scale == "smoke":
        sentence = "Smoke scale shows that data, training and page work, and says nothing else."
        return Verdict("path only", sentence)
    kinds = (("as claimed", True), ("unlike the claim", False), ("left open", None))
    parts = {
        title: [each.text for each in findings if each.agrees is agrees] for title, agrees in kinds
    }
    told = "; ".join(f"{title}, {'; '.join(texts)}" for title, texts in parts.items() if texts)
    agreeing = len(parts["as claimed"])
    word = "holds in part" if agreeing else "does not hold"
    if agreeing == len(findings):
        word = "holds"
    elif len(parts["left open"]) == len(findings):
        word = "left open"
    return Verdict(word, f"{told[0].upper()}{told[1:]}.")


def direction(comparison: Comparison) -> int:
    """Return 1 or -1 where the interval leaves out 0, otherwise 0."""
    return int(comparison.low > 0) - int(comparison.high < 0)


def interval(comparison: Comparison, digits: int) -> str:
    """Return a paired difference and its interval."""
    low, high = (f"{end:+,.{digits}f}" for end in (comparison.low, comparison.high))
    return f"paired difference {comparison.difference:+,.{digits}f}, {low} to {high}"


def adjusted(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries with p-values after Holm's correction over all of them."""
    p = [np.nan if each.comparison is None else each.comparison.p for each in entries]
    return [
        replace(each, adjusted=None if each.comparison is None else float(value))
        for each, value in zip(entries, holm(p), strict=True)
    ]


def shown(values: Floats, digits: int) -> str:
    """Return mean ± standard deviation over seeds."""
    spread = f" ± {values.std(ddof=1):,.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():,.{digits}f}{spread}"


def banded(name: str, x: Sequence[float], curves: Floats, digits: int = 4) -> Series:
    """Return the mean over seeds of curves (seeds, places), with its 95 % interval."""
    found = [summary(values) for values in curves.T]
    mean = [round(each.mean, digits) for each in found]
    if len(curves) == 1:
        return Series(name, list(x), mean)
    low = [round(each.low, digits) for each in found if each.low is not None]
    high = [round(each.high, digits) for each in found if each.high is not None]
    return Series(name, list(x), mean, low, high)
