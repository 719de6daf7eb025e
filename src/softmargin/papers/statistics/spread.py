"""Mean, standard deviation and confidence interval over seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from softmargin.papers.statistics._checks import (
    Floats,
    check_level,
    distributions,
    finite_values,
)

# values that differ by less than this share of their size differ by rounding only
ROUNDING = 1e-12


@dataclass(frozen=True)
class Summary:
    """Mean over seeds with its spread; one seed has a mean only.

    Attributes:
        mean: mean of the values.
        sd: standard deviation of single values, with n - 1; None for one value.
        n: how many values there are.
        low: lower end of the confidence interval of the mean; None for one value.
        high: its upper end; None for one value.
    """

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None


def summary(values: ArrayLike, level: float = 0.95) -> Summary:
    """Return mean, standard deviation and Student's t interval of the mean.

    The interval is mean ± t·sd/√n, with the quantile t of n - 1 degrees of freedom. It is for
    independent values, such as one per seed, not for folds that share training data: for these
    see :func:`corrected_resampled_t_test`.

    Args:
        values: one value per seed.
        level: how often such intervals hold the true mean, 0.95 for 95 %.

    Example:
        >>> over_seeds = summary([91.0, 92.0, 93.0])
        >>> over_seeds.mean, over_seeds.sd, over_seeds.n
        (92.0, 1.0, 3)
        >>> round(over_seeds.low, 3), round(over_seeds.high, 3)
        (89.516, 94.484)
        >>> summary([91.0])
        Summary(mean=91.0, sd=None, n=1, low=None, high=None)
    """
    check_level(level)
    row = finite_values("values", values)
    if row.size == 1:
        return Summary(float(row[0]), None, 1, None, None)
    mean, sd = mean_and_sd(row)
    reach = float(distributions().t.ppf(0.5 + level / 2, row.size - 1))
    half = reach * sd / float(np.sqrt(row.size))
    return Summary(mean, sd, row.size, mean - half, mean + half)


def require_spread(seeds: int) -> None:
    """Raise ``ValueError`` where a spread is asked of fewer than two seeds.

    Example:
        >>> require_spread(1)
        Traceback (most recent call last):
        ValueError: seeds must be at least 2 where a spread is asked for, but got 1.
    """
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2 where a spread is asked for, but got {seeds}.")


def mean_and_sd(values: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; exactly 0 where values differ by rounding only."""
    mean = float(values.mean())
    if np.ptp(values) <= ROUNDING * np.abs(values).max():
        return mean, 0.0
    return mean, float(values.std(ddof=1))
