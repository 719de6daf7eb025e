"""Many comparisons at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from softmargin.papers.statistics._checks import Floats


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values adjusted by Holm's step-down method.

    Of m p-values, the i-th smallest (from i = 0) is multiplied by m - i; each result is then
    raised to the largest one before it, and cut at 1. Rejecting what is at most α keeps the
    chance of even one false rejection at α, however the tests depend on each other.

    Args:
        p_values: of any shape; NaN is a comparison that was not made: it stays NaN and does not
            count in m.

    Returns:
        The adjusted p-values, in the shape and order they came in.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
        >>> holm([0.01, float("nan"), 0.03])
        array([0.02,  nan, 0.03])

    Reference:
        S. Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    given = np.asarray(p_values, dtype=np.float64)
    tested = ~np.isnan(given)
    p = given[tested]
    if bad := int(((p < 0) | (p > 1)).sum()):
        raise ValueError(f"p_values must be from 0 to 1 or NaN, but {bad} of {given.size} are not.")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    undone = np.empty_like(p)
    undone[order] = np.minimum(stepped, 1.0)
    adjusted = np.full(given.shape, np.nan)
    adjusted[tested] = undone
    return adjusted
