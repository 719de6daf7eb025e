"""From numbers to a verdict, by rules that were fixed before the full runs were made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softmargin.papers.findings import Finding, direction, interval, shown
from softmargin.papers.mnist.cells import BASELINE, label
from softmargin.papers.mnist.seeds import ByVariant, against

RULE = (
    "One value is called above or below another where the 95 % bootstrap interval of the paired "
    "difference over seeds leaves out 0. The claim holds if all findings agree with it, holds in "
    "part if some do. With n seeds the exact p-values of the tables cannot be below 2/2ⁿ (0.0625 "
    "for 5), before Holm's correction: intervals say more there."
)


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
