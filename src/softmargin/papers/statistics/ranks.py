"""Methods over many data sets: average ranks, and which of them differ.

Reference:
    J. Demšar, "Statistical comparisons of classifiers over multiple data sets", 2006.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from softmargin.functional._checks import check_number
from softmargin.papers.statistics._checks import (
    Floats,
    check_count,
    check_level,
    distributions,
    finite_values,
    score_table,
)


class RankTest(NamedTuple):
    """A test of "all methods rank the same": its statistic and p-value."""

    statistic: float
    p: float


def complete_sets(scores: ArrayLike) -> Floats:
    """Return the rows of the data sets on which all methods are defined.

    Everything over ranks looks at these rows alone: a rank among fewer methods is a different
    number. To keep more data sets, leave out the columns of methods that lack many.

    Args:
        scores: of shape (data sets, methods), at least two methods; NaN where a method is not
            defined on a data set.

    Example:
        >>> complete_sets([[0.9, 0.8], [float("nan"), 0.7], [0.6, 0.6]])
        array([[0.9, 0.8], [0.6, 0.6]])
    """
    table = score_table(scores, least_methods=2)
    complete = table[~np.isnan(table).any(1)]
    if not len(complete):
        raise ValueError(
            f"scores must have a data set on which all {table.shape[1]} methods are defined, "
            f"but each of the {len(table)} lacks one."
        )
    return complete


def average_ranks(scores: ArrayLike, higher_is_better: bool = True) -> Floats:
    """Return each method's mean rank over data sets; the best method of a data set has rank 1.

    Equal scores share the mean of the ranks they take up. Scores are equal if they are equal to
    the last bit: round them first to the precision that means something.

    Args:
        scores: of shape (data sets, methods). Data sets on which some method is NaN are left out,
            see :func:`complete_sets`.
        higher_is_better: False for errors and losses.

    Returns:
        Ranks from 1 to the number of methods, of shape (methods,).

    Example:
        >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.9, 0.6]])
        array([1.5 , 1.75, 2.75])
    """
    complete = complete_sets(scores)
    ranks: Floats = _ranks(complete if not higher_is_better else -complete).mean(0)
    return ranks


def friedman(scores: ArrayLike) -> RankTest:
    """Return Friedman's test, corrected for ties, that all methods rank the same.

    With ranks r_ij of k methods on n data sets and their sums R_j,

        χ² = (k - 1) · Σ_j (R_j - n(k + 1)/2)² / (Σ_ij r_ij² - nk(k + 1)²/4),

    which without ties is Friedman's 12/(nk(k + 1)) · Σ_j R_j² - 3n(k + 1). Its p-value is from χ²
    with k - 1 degrees of freedom, which is conservative for few data sets; see
    :func:`iman_davenport`. If every data set ties all methods, the statistic is 0 and p is 1.

    Args:
        scores: of shape (data sets, methods), see :func:`average_ranks`; which direction is
            better makes no difference.

    Example:
        >>> statistic, p = friedman([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]])
        >>> round(statistic, 4), round(p, 4)
        (4.5, 0.1054)
    """
    statistic, _, methods = _friedman_statistic(scores)
    return RankTest(statistic, float(distributions().chi2.sf(statistic, methods - 1)))


def iman_davenport(scores: ArrayLike) -> RankTest:
    """Return Iman and Davenport's version of Friedman's test, less conservative.

    F = (n - 1)·χ² / (n(k - 1) - χ²), with k - 1 and (k - 1)(n - 1) degrees of freedom. If all data
    sets rank the methods in the same order, F is infinite and p is 0.

    Args:
        scores: see :func:`friedman`.

    Example:
        >>> statistic, p = iman_davenport([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]])
        >>> round(statistic, 4), round(p, 4)
        (3.8571, 0.0837)

    Reference:
        R. Iman and J. Davenport, "Approximations of the critical region of the Friedman
        statistic", 1980.
    """
    chi, sets, methods = _friedman_statistic(scores)
    largest = sets * (methods - 1)
    if math.isclose(chi, largest):
        return RankTest(math.inf, 0.0)
    statistic = (sets - 1) * chi / (largest - chi)
    freedom = methods - 1, (methods - 1) * (sets - 1)
    return RankTest(statistic, float(distributions().f.sf(statistic, *freedom)))


def critical_difference(methods: int, sets: int, level: float = 0.95) -> float:
    """Return Nemenyi's critical difference of two average ranks.

    CD = q·√(k(k + 1)/(6n)) for k methods on n data sets, where q is the quantile of the
    studentised range of k normal values, divided by √2. Two methods whose average ranks are at
    least that far apart differ, at this level for all pairs together.

    Args:
        methods: number of methods, k.
        sets: number of data sets on which all are defined, n.
        level: confidence level, 0.95 for a significance level of 0.05.

    Example:
        >>> round(critical_difference(methods=7, sets=15), 3)
        2.326
    """
    check_count("methods", methods, 2)
    check_count("sets", sets, 1)
    check_level(level)
    quantile = float(distributions().studentized_range.ppf(level, methods, np.inf))
    return quantile / math.sqrt(2) * math.sqrt(methods * (methods + 1) / (6 * sets))


def cliques(ranks: ArrayLike, cd: float) -> list[tuple[int, ...]]:
    """Return the largest groups of methods of which no two differ by the critical difference.

    Args:
        ranks: average rank by method.
        cd: the critical difference.

    Returns:
        Positions in ``ranks``, each group from its best rank to its worst, groups likewise. A
        method that differs from all others is in no group; groups may overlap.

    Example:
        >>> cliques([3.1, 1.0, 1.9, 2.5], cd=1.0)
        [(1, 2), (2, 3), (3, 0)]
    """
    check_number("cd", cd)
    row = finite_values("ranks", ranks)
    order = np.argsort(row, kind="stable")
    ends = np.searchsorted(row[order], row[order] + cd, side="left")
    groups, reached = [], 0
    for start, end in enumerate(ends.tolist()):
        if end > max(reached, start + 1):
            groups.append(tuple(order[start:end].tolist()))
            reached = end
    return groups


def _friedman_statistic(scores: ArrayLike) -> tuple[float, int, int]:
    """Return Friedman's χ², the number of data sets and the number of methods."""
    complete = complete_sets(scores)
    sets, methods = complete.shape
    if sets < 2:
        raise ValueError(
            "scores must have at least 2 data sets on which all methods are defined to test "
            f"ranks, but got {sets}."
        )
    centred = _ranks(complete) - (methods + 1) / 2
    spread = float(np.square(centred).sum())
    if spread == 0.0:
        return 0.0, sets, methods
    between = float(np.square(centred.sum(0)).sum())
    return (methods - 1) * between / spread, sets, methods


def _ranks(scores: Floats) -> Floats:
    """Rank each row, the smallest first, ties by their mean."""
    ranks: Floats = distributions().rankdata(scores, axis=1)
    return ranks
