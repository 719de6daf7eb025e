"""From numbers to a verdict, by rules that were fixed before the full runs were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softmargin.experiments.mnist.cells import BASELINE, label
from softmargin.experiments.mnist.seeds import ByVariant, Floats, against
from softmargin.experiments.outcome import Verdict
from softmargin.experiments.statistics import Comparison

RULE = (
    "One value is called above or below another where the 95 % bootstrap interval of the paired "
    "difference over seeds leaves out 0. The claim holds if all findings agree with it, holds in "
    "part if some do. With n seeds the exact p-values of the tables cannot be below 2/2ⁿ (0.0625 "
    "for 5), before Holm's correction: intervals say more there."
)


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
    return Verdict(word, f"{told[0].upper()}{told[1:]}.")


def step(
    what: str, values: ByVariant, variant: str, sign: int, digits: int, baseline: str = BASELINE
) -> Finding:
    """Find whether a variant lies above (sign 1) or below (-1) another beyond the spread."""
    comparison = against(values, variant, baseline)
    text = (
        f"{what} is {shown(values[variant], digits)} for {label(variant)} against "
        f"{shown(values[baseline], digits)} for {label(baseline)} "
        f"({interval(comparison, digits)})"
    )
    return Finding(text, direction(comparison) == sign)


def course(what: str, values: ByVariant, order: Sequence[str], sign: int, digits: int) -> Finding:
    """Find whether the means never move against a direction from each variant to the next."""
    means = [float(values[variant].mean()) for variant in order]
    listed = ", ".join(f"{mean:,.{digits}f}" for mean in means)
    text = f"the mean {what} goes {listed} as β goes {', '.join(order)}"
    return Finding(text, bool((sign * np.diff(means) >= 0).all()))


def direction(comparison: Comparison) -> int:
    """Return 1 or -1 where the interval leaves out 0, otherwise 0."""
    return int(comparison.low > 0) - int(comparison.high < 0)


def interval(comparison: Comparison, digits: int) -> str:
    """Return a paired difference and its interval."""
    low, high = (f"{end:+,.{digits}f}" for end in (comparison.low, comparison.high))
    return f"paired difference {comparison.difference:+,.{digits}f}, {low} to {high}"


def shown(values: Floats, digits: int) -> str:
    """Return mean ± standard deviation over seeds."""
    spread = f" ± {values.std(ddof=1):,.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():,.{digits}f}{spread}"
