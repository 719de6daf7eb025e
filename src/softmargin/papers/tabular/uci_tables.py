"""The tables and charts of ag-tab1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Chart, Series
from softmargin.papers.outcome import Entry, ResultTable
from softmargin.papers.printed import printed, printed_means
from softmargin.papers.statistics import (
    Comparison,
    average_ranks,
    complete_sets,
    critical_difference,
    friedman,
    wins,
)
from softmargin.papers.tabular.arcgrad_table import PAPER_METHODS, PAPER_TABLE
from softmargin.papers.tabular.uci_scores import BASELINE, LEVEL, Floats, Scores, signs


def accuracy_table(
    scores: Scores, compared: dict[tuple[int, int], Comparison], adjusted: Floats, size: str
) -> ResultTable:
    """Return mean accuracy by table and method beside the paper's, and averages."""
    entries = []
    by_run = scores.accuracy.mean(3)
    for table, method in np.ndindex(by_run.shape[:2]):
        if np.isfinite(by_run[table, method]).all():
            comparison = compared.get((table, method))
            entries.append(
                Entry(
                    scores.tables[table],
                    scores.methods[method],
                    _plain(by_run[table, method]),
                    paper=_paper(scores, [table], method),
                    comparison=comparison,
                    adjusted=None if comparison is None else float(adjusted[table, method]),
                    baseline=None if comparison is None else (scores.tables[table], BASELINE),
                )
            )
    entries += _averages(scores, "Average", list(range(len(scores.tables))))
    several = [table for table, classes in enumerate(scores.classes) if classes > 2]
    if 0 < len(several) < len(scores.tables):
        entries += _averages(scores, "Average of those with 3 or more classes", several)
    return ResultTable(
        "Accuracy on test rows",
        "%",
        entries,
        row_heading="data set",
        better="higher",
        note=(
            f"{size}. ± is the standard deviation of the runs' means. Tests: each method against "
            f"{BASELINE} on the same folds, corrected resampled t-test, p-values after Holm's "
            f"correction over all {len(compared)} comparisons."
        ),
    )


def _averages(scores: Scores, row: str, tables: list[int]) -> list[Entry]:
    """Return averages over tables, of the methods that are defined on all of them."""
    by_run = scores.accuracy[tables].mean((0, 3))
    return [
        Entry(row, name, _plain(by_run[method]), paper=_paper(scores, tables, method))
        for method, name in enumerate(scores.methods)
        if np.isfinite(by_run[method]).all()
    ]


def _paper(scores: Scores, tables: Sequence[int], method: int) -> float | None:
    """Return the paper's accuracy of a method, averaged over tables, to two decimals."""
    name = scores.methods[method]
    if name not in PAPER_METHODS:
        return None
    table_1 = printed_means("ag-tab1")
    return round(float(np.mean([table_1[scores.tables[table]][name] for table in tables])), 2)


def against_baseline(
    scores: Scores, compared: dict[tuple[int, int], Comparison], adjusted: Floats, size: str
) -> ResultTable:
    """Return on how many tables each method is better or worse than plain softmax."""
    entries = []
    for method, name in enumerate(scores.methods):
        if name != BASELINE:
            better, worse = signs(compared, adjusted, method)
            there = sum(1 for _, other in compared if other == method)
            counts = {"better": better, "worse": worse, "not told apart": there - better - worse}
            entries += [Entry(row, name, (float(count),)) for row, count in counts.items()]
    return ResultTable(
        f"Data sets on which a method differs from {BASELINE}",
        "data sets",
        entries,
        digits=0,
        row_heading=f"than {BASELINE}",
        note=f"{size}. Adjusted p below {LEVEL:g}.",
    )


def wins_table(scores: Scores, size: str) -> ResultTable:
    """Return on how many tables each method is the best, as the paper counts and otherwise."""
    entries = []
    complete = len(scores.tables) == len(PAPER_TABLE)
    for places, which in ((scores.seven, "seven"), (list(range(len(scores.methods))), "all")):
        for ties, words in (("first", "a tie counts for the first"), ("each", "for each tied")):
            counts = wins(scores.means[:, places], ties=ties)
            as_paper = which == "seven" and ties == "first" and complete
            won = printed_means("ag-tab1")["Wins"] if as_paper else {}
            entries += [
                Entry(
                    f"{which} methods, {words}",
                    scores.methods[place],
                    (float(count),),
                    paper=won.get(scores.methods[place]),
                )
                for place, count in zip(places, counts, strict=True)
            ]
    return ResultTable(
        "Wins: data sets with the highest mean accuracy",
        "data sets",
        entries,
        digits=0,
        row_heading="among",
        better="higher",
        note=f"{size}. Means are compared at two decimals, as printed.",
    )


def spread_table(scores: Scores, size: str) -> ResultTable:
    """Return the standard deviation over single folds, which is what the paper's ± looks like."""
    entries = []
    for table, method in np.ndindex(scores.means.shape):
        folds, name = scores.accuracy[table, method], scores.methods[method]
        if np.isfinite(folds).all():
            pair = printed("ag-tab1")[scores.tables[table]].get(name)
            paper = pair[1] if isinstance(pair, tuple) else None
            value = round(float(folds.std(ddof=1)), 4)
            entries.append(Entry(scores.tables[table], name, (value,), paper=paper))
    return ResultTable(
        "Spread of accuracy over single folds",
        "points",
        entries,
        row_heading="data set",
        note=(
            f"{size}. Standard deviation over all folds of all runs; the paper's is the number "
            "after its ±, whose size only single folds explain."
        ),
    )


def plain_table(scores: Scores, by_run: Floats, title: str, unit: str, size: str) -> ResultTable:
    """Return a score that the paper does not have, by table and method."""
    entries = [
        Entry(scores.tables[table], scores.methods[method], _plain(by_run[table, method]))
        for table, method in np.ndindex(by_run.shape[:2])
        if np.isfinite(by_run[table, method]).all()
    ]
    note = f"{size}. ± is the standard deviation over runs."
    digits = 3 if unit == "nats" else 2
    return ResultTable(title, unit, entries, digits, "data set", "lower", note)


def rank_charts(scores: Scores, size: str) -> list[Chart]:
    """Return average ranks of the methods defined everywhere, and of all where all are."""
    everywhere = np.isfinite(scores.means).all(0)
    charts = [_ranks(scores, np.flatnonzero(everywhere), "ranks", size)]
    if not everywhere.all() and np.isfinite(scores.means).all(1).any():
        every = np.arange(len(scores.methods))
        charts.append(_ranks(scores, every, "ranks-several-classes", size))
    return charts


def _ranks(scores: Scores, places: NDArray[np.int64], name: str, size: str) -> Chart:
    means = scores.means[:, places]
    ranks, sets = average_ranks(means), len(complete_sets(means))
    cd = critical_difference(len(places), sets)
    note = f"{size}. Ranks of mean accuracy at two decimals, 1 is best."
    if sets > 1:
        test = friedman(means)
        note += f" Friedman: χ² = {test.statistic:.2f}, p = {test.p:.2g}."
    return Chart(
        name,
        f"Average rank of {len(places)} methods over {sets} data sets",
        "ranks",
        "average rank (1 is best)",
        "",
        [
            Series(scores.methods[place], [0.0], [float(rank)], beta=_beta(scores.methods[place]))
            for place, rank in zip(places, ranks, strict=True)
        ],
        note=note,
        extra={"cd": cd, "sets": float(sets)},
    )


def _beta(name: str) -> float | None:
    """Return the β of a method that is gradient decay, which gives its colour."""
    return float(name.removeprefix("β = ")) if name.startswith("β = ") else None


def _plain(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
