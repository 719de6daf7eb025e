"""What ag-tab1 concludes: accuracy beside the paper's, paired tests, wins, ranks, a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Chart, Series
from softmargin.papers.core import Finished, Scope
from softmargin.papers.cross_validation import (
    BASELINE,
    Comparisons,
    compare_methods,
    compared_entry,
    described,
    tests_note,
)
from softmargin.papers.findings import Floats, verdict
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable, rounded
from softmargin.papers.printed import printed, printed_means
from softmargin.papers.statistics import (
    average_ranks,
    complete_sets,
    critical_difference,
    friedman,
    wins,
)
from softmargin.papers.tabular import METHODS, PAPER_METHODS, UCI_TABLES

LEVEL = 0.05
CLAIMED = "ArcGrad 5"
BETAS = {each["name"]: each.get("loss_options", {}).get("beta") for each in METHODS}


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


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Compare the methods on all tables that finished."""
    scores = Scores.of(finished)
    compared, adjusted = compare_methods(scores.accuracy, scores.methods.index(BASELINE))
    runs, folds = scores.accuracy.shape[2:]
    size = f"{setting.scale} scale, {runs} runs of {folds}-fold cross-validation"
    tables = [
        accuracy_table(scores, compared, adjusted, size),
        against_baseline(scores, compared, adjusted, size),
        wins_table(scores, size),
        spread_table(scores, size),
        plain_table(scores, scores.nll.mean(3), "NLL on test rows", "nats", size),
        plain_table(scores, scores.ece, "ECE on the test rows of a run together", "%", size),
    ]
    charts = list(rank_charts(scores, size))
    told = remark(scores, compared, adjusted)
    return Outcome(
        verdict(setting.scale, findings(scores), told),
        tables,
        charts,
        notes(scores),
        described(finished[0][0]),
    )


def findings(scores: Scores) -> list[Finding]:
    """Find whether the claimed method has the best average, and the most wins, of the seven."""
    averages = scores.accuracy[:, scores.seven].mean((0, 2, 3))
    counts = wins(scores.means[:, scores.seven])
    claimed = PAPER_METHODS.index(CLAIMED)
    best, most = int(np.nanargmax(averages)), int(counts.argmax())
    alone = most == claimed and int((counts == counts[claimed]).sum()) == 1
    return [
        Finding(
            f"on {len(scores.tables)} tables {CLAIMED} averages {averages[claimed]:.2f} % "
            f"({BASELINE} {averages[0]:.2f} %, the best is {PAPER_METHODS[best]} with "
            f"{averages[best]:.2f} %)",
            best == claimed,
        ),
        Finding(
            f"{CLAIMED} wins {counts[claimed]} tables (the most are {counts[most]} by "
            f"{PAPER_METHODS[most]})",
            alone,
        ),
    ]


def remark(scores: Scores, compared: Comparisons, adjusted: Floats) -> str:
    """Return how often the claimed method differs from plain softmax, and what may differ."""
    better, worse = signs(compared, adjusted, scores.methods.index(CLAIMED))
    return (
        f"Against {BASELINE}, {CLAIMED} is clearly better on {better} and clearly worse on "
        f"{worse}. Network, optimiser and epochs are not in the paper and may differ."
    )


def notes(scores: Scores) -> list[str]:
    """Return what a reader has to know to compare."""
    found = [
        f"{BASELINE}, like all methods with inner products, has no bias in its last layer, as in "
        "the paper; so all methods start from the same weights in a fold, and see the same rows "
        "in the same order.",
        "The paper does not give parameters for these tables. ArcFace (s = 20, m = 0.1), Center "
        "(λ = 0.02) and M-Soft (m = 0.5) have those it gives for CIFAR.",
        "± in the table of accuracy is over the means of runs; see the table of spread for single "
        "folds.",
    ]
    two = [name for name, classes in zip(scores.tables, scores.classes, strict=True) if classes < 3]
    if two:
        found += [
            f"AdaCos is not defined for two classes, where its scale √2·log(C - 1) is 0 "
            f"({', '.join(two)}): it has no entry there, no average over all tables, and ranks "
            "with it are over the others. The paper prints 46 to 54 % for it on exactly these, "
            "which is what guessing gives.",
            "For two classes the regulariser of LM is 0 whatever λ is: there that method is Soft.",
        ]
    if "Hayes-Roth" in scores.tables:
        found.append(
            "Hayes-Roth is used without the feature hobby, which is random by construction; the "
            "paper counts three features."
        )
    if 1 < len(scores.tables) < len(UCI_TABLES):
        found.append(f"Only {len(scores.tables)} of {len(UCI_TABLES)} data sets are finished.")
    return found


def signs(compared: Comparisons, adjusted: Floats, method: int) -> tuple[int, int]:
    """Return on how many tables a method is better than the baseline, and on how many worse."""
    clear = [
        comparison.difference
        for (table, other), comparison in compared.items()
        if other == method and adjusted[table, method] < LEVEL
    ]
    return sum(d > 0 for d in clear), sum(d < 0 for d in clear)


def accuracy_table(
    scores: Scores, compared: Comparisons, adjusted: Floats, size: str
) -> ResultTable:
    """Return mean accuracy by table and method beside the paper's, and averages."""
    by_run = scores.accuracy.mean(3)
    entries = [
        compared_entry(
            (table, method),
            (scores.tables[table], scores.methods[method]),
            by_run[table, method],
            _paper(scores, [table], method),
            compared,
            adjusted,
        )
        for table, method in np.ndindex(by_run.shape[:2])
        if np.isfinite(by_run[table, method]).all()
    ]
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
        note=tests_note(size, "on the same folds", compared),
    )


def _averages(scores: Scores, row: str, tables: list[int]) -> list[Entry]:
    """Return averages over tables, of the methods that are defined on all of them."""
    by_run = scores.accuracy[tables].mean((0, 3))
    return [
        Entry(row, name, rounded(by_run[method]), paper=_paper(scores, tables, method))
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
    scores: Scores, compared: Comparisons, adjusted: Floats, size: str
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
    complete = len(scores.tables) == len(UCI_TABLES)
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
        Entry(scores.tables[table], scores.methods[method], rounded(by_run[table, method]))
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
            Series(
                scores.methods[place], [0.0], [float(rank)], beta=BETAS.get(scores.methods[place])
            )
            for place, rank in zip(places, ranks, strict=True)
        ],
        note=note,
        extra={"cd": cd, "sets": float(sets)},
    )
