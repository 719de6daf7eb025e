"""The scores of ag-tab1 and what is compared: paired differences, and who is better than whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softmargin.papers.core import Finished
from softmargin.papers.statistics import Comparison, corrected_resampled_t_test, holm
from softmargin.papers.tabular.arcgrad_table import PAPER_METHODS

Floats = NDArray[np.float64]
LEVEL = 0.05
BASELINE = "Soft"


@dataclass(frozen=True)
class Scores:
    """What the cells gave.

    Attributes:
        tables: names of the data sets.
        methods: names of the methods.
        classes: number of classes of each data set.
        accuracy: in percent, (data sets, methods, runs, folds).
        nll: in nats, alike.
        ece: in percent, of the test rows of a run together, (data sets, methods, runs).
    """

    tables: list[str]
    methods: list[str]
    classes: list[int]
    accuracy: Floats
    nll: Floats
    ece: Floats

    @classmethod
    def of(cls, finished: Finished) -> Scores:
        """Gather the results of all cells that finished."""
        results = [result for _, result in finished]
        return cls(
            [cell.label for cell, _ in finished],
            list(results[0].numbers["methods"]),
            [result.numbers["classes"] for result in results],
            100 * np.stack([result.arrays["accuracy"] for result in results]),
            np.stack([result.arrays["nll"] for result in results]),
            100 * np.stack([result.arrays["pooled_ece"] for result in results]),
        )

    @property
    def means(self) -> Floats:
        """Mean accuracy, (data sets, methods), to the two decimals that are shown."""
        means: Floats = self.accuracy.mean((2, 3)).round(2)
        return means

    @property
    def seven(self) -> list[int]:
        """The places of the paper's methods."""
        return [self.methods.index(name) for name in PAPER_METHODS]


def comparisons(scores: Scores) -> tuple[dict[tuple[int, int], Comparison], Floats]:
    """Compare every method with plain softmax on every table, fold by fold, in points.

    Returns:
        The comparisons by (data set, method), and their p-values after Holm's correction over all
        of them, NaN where there is none.
    """
    baseline = scores.methods.index(BASELINE)
    found = {}
    p = np.full(scores.means.shape, np.nan)
    share = 1 / scores.accuracy.shape[3]
    for table, method in np.ndindex(p.shape):
        differences = scores.accuracy[table, method] - scores.accuracy[table, baseline]
        if method != baseline and np.isfinite(differences).all():
            found[table, method] = corrected_resampled_t_test(differences, test_share=share)
            p[table, method] = found[table, method].p
    return found, holm(p)


def signs(
    compared: dict[tuple[int, int], Comparison], adjusted: Floats, method: int
) -> tuple[int, int]:
    """Return on how many tables a method is better than the baseline, and on how many worse."""
    clear = [
        comparison.difference
        for (table, other), comparison in compared.items()
        if other == method and adjusted[table, method] < LEVEL
    ]
    return sum(d > 0 for d in clear), sum(d < 0 for d in clear)
