"""What all experiments conclude from values over seeds: findings, verdicts and bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Series
from softmargin.papers.outcome import Entry, Finding, Verdict
from softmargin.papers.statistics import Comparison, holm, paired_bootstrap, summary

Floats = NDArray[np.float64]
BAND = "lines are means over seeds, bands 95 % intervals of the mean (Student's t)"


def verdict(scale: str, findings: Sequence[Finding], remark: str = "") -> Verdict:
    """Return what the findings say together: the one rule for every experiment."""
    if scale == "smoke":
        return Verdict("path only", remark=SMOKE)
    agreeing = sum(each.agrees is True for each in findings)
    if agreeing == len(findings):
        word = "holds"
    elif agreeing:
        word = "holds in part"
    else:
        word = "left open" if all(each.agrees is None for each in findings) else "does not hold"
    return Verdict(word, tuple(findings), remark)


RULE = (
    "One value is called above or below another where the 95 % bootstrap interval of the paired "
    "difference over seeds leaves out 0, which for three seeds means that all three differences "
    "have one sign; otherwise the finding is left open. The claim holds if all findings agree "
    "with it, holds in part if some do, is left open if all findings are, and otherwise does not "
    "hold."
)
SMOKE = "Smoke scale shows that data, training and page work, and says nothing else."


def compare(
    what: str, values: Mapping[str, Floats], names: tuple[str, str], sign: int, digits: int = 2
) -> Finding:
    """Find whether the first lies above (sign 1) or below (-1) the second beyond the spread."""
    a, b = names
    comparison = against(values[a], values[b])
    if comparison is None:
        return Finding(f"{what} of {a} and {b} cannot be compared", None)
    text = (
        f"{what} is {shown(values[a], digits)} for {a} against {shown(values[b], digits)} for {b} "
        f"({interval(comparison, digits)})"
    )
    clear = direction(comparison)
    return Finding(text, None if clear == 0 else clear == sign)


def monotone(what: str, values: Mapping[str, Floats], sign: int, digits: int) -> Finding:
    """Find whether means never move against a direction from each name to the next."""
    means = [float(own.mean()) for own in values.values()]
    listed = ", ".join(f"{mean:,.{digits}f}" for mean in means)
    text = f"the mean {what} goes {listed} along {', '.join(values)}"
    return Finding(text, bool((sign * np.diff(means) >= 0).all()))


def against(a: Floats, b: Floats) -> Comparison | None:
    """Compare over the seeds that both have; None where there are fewer than two."""
    if len(a) != len(b) or len(a) < 2 or not np.isfinite([a, b]).all():
        return None
    return paired_bootstrap(a, b, seed=0)


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
