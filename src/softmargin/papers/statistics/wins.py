"""On how many data sets each method is the best."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin.functional._checks import check_choice, check_number
from softmargin.papers.statistics._checks import score_table


def wins(
    scores: ArrayLike,
    tolerance: float = 0.0,
    *,
    ties: str = "first",
    higher_is_better: bool = True,
) -> NDArray[np.int64]:
    """Return how many data sets each method wins, as Table I of the ArcGrad paper counts them.

    That table gives exactly one win per data set, to the highest mean accuracy. Its only tie for
    the best (Iris, M-Soft and ArcFace, both printed as 97.53) is counted for M-Soft alone, the
    one further to the left, although ArcFace has the smaller deviation. With ``ties="first"``
    this is therefore the rule here, and the wins add up to the number of data sets. The order of
    the columns then decides ties: ``ties="each"`` counts one for every method that is tied.

    Args:
        scores: of shape (data sets, methods); NaN where a method is not defined, which never
            wins. The paper's counts follow from its table as printed, in percent with two
            decimals; round first to count at the precision shown.
        tolerance: how far from the best still is a tie.
        ties: ``"first"`` or ``"each"``.
        higher_is_better: False for errors and losses.

    Returns:
        Wins by method. A data set on which no method is defined is won by none.

    Example:
        >>> accuracy = [[97.5, 97.5, 97.0], [83.1, 84.4, 84.1]]
        >>> wins(accuracy)
        array([1, 1, 0])
        >>> wins(accuracy, ties="each")
        array([1, 2, 0])
    """
    check_choice("ties", ties, ("first", "each"))
    check_number("tolerance", tolerance, inclusive=True)
    table = score_table(scores)
    if not higher_is_better:
        table = -table
    table = np.where(np.isnan(table), -np.inf, table)
    best = table.max(1, keepdims=True)
    tied = (table >= best - tolerance) & np.isfinite(table)
    if ties == "first":
        tied &= tied.cumsum(1) == 1
    counts: NDArray[np.int64] = tied.sum(0, dtype=np.int64)
    return counts
