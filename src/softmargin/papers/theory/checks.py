"""What the theory figures are checked by: deviations, crossings, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin.charts import Series
from softmargin.papers.outcome import Finding, Verdict

Floats = NDArray[np.float64]

TOLERANCE = 1e-9


def verdict_of(checks: Sequence[Finding]) -> Verdict:
    """Return "shown" where every check agrees: a figure of theory has nothing else to test.

    Example:
        >>> verdict_of([Finding("a rises", True), Finding("b falls", False)]).word
        'does not hold'
    """
    word = "shown" if all(each.agrees for each in checks) else "does not hold"
    return Verdict(word, tuple(checks), "Checked numerically, equalities to 1e-9.")


def agree(says: str, *pairs: tuple[ArrayLike, ArrayLike]) -> Finding:
    """Check that arrays are equal within the tolerance; what is not finite equals nothing."""
    deviations = [np.abs(np.asarray(a) - np.asarray(b)) for a, b in pairs]
    return Finding(says, all(bool((each <= TOLERANCE).all()) for each in deviations))


def crossing(
    falling: Callable[[Floats], Floats], low: ArrayLike, high: ArrayLike, value: float = 0.5
) -> Floats:
    """Return where falling functions, one per place, have a value, by bisection.

    Example:
        >>> crossing(lambda x: 1 - x, np.zeros(2), np.ones(2), value=0.25).round(9)
        array([0.75, 0.75])
    """
    left, right = np.asarray(low, np.float64), np.asarray(high, np.float64)
    for _ in range(64):
        middle = (left + right) / 2
        above = falling(middle) > value
        left, right = np.where(above, middle, left), np.where(above, right, middle)
    return (left + right) / 2


def curve(name: str, x: Floats, y: Floats, beta: float | None = None) -> Series:
    """Return arrays as a series."""
    return Series(name, x.tolist(), y.tolist(), beta=beta)
