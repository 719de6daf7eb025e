"""What ag-tab1 concludes from cross-validation on 15 data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Chart, Series
from softmargin.papers.core import Finished, Scope
from softmargin.papers.cross_scores import BASELINE, Scores, described, entries_of
from softmargin.papers.findings import Floats, direction, interval, verdict
from softmargin.papers.outcome import (
    SIGNIFICANT,
    Entry,
    Finding,
    Outcome,
    ResultTable,
)
from softmargin.papers.printed import printed, printed_means
from softmargin.papers.runs import Key
from softmargin.papers.statistics import (
    average_ranks,
    complete_sets,
    corrected_resampled_t_test,
    critical_difference,
    friedman,
    wins,
)
from softmargin.papers.tabular import (
    METHODS,
    SEVEN,
    TRIED,
    UCI_TABLES,
    Regime,
    by_regime,
    is_whole,
    table_name,
)

CLAIMED = "ArcGrad 5"
BETAS = {method.name: method.beta for method in METHODS}
PAPER_METHODS = [method.name for method in SEVEN]

NEAREST = (
    "The regime that is judged follows from Soft alone, by a rule that was fixed before these "
    "runs: the one whose average accuracy of Soft is nearest to the paper's; where not all methods "
    "were trained there, the nearest of those in which they were. The others stand beside it and "
    f"do not decide. {TRIED}"
)


def averages_of(finished: Finished) -> Floats:
    """Return the average accuracy of every method over the tables of a regime, in percent."""
    found: Floats = np.mean([100 * each.arrays["accuracy"].mean((1, 2)) for _, each in finished], 0)
    return found


def paper_averages(rows: Sequence[str]) -> dict[str, float]:
    """Return the paper's average of every method over some tables."""
    numbers = [printed_means("ag-tab1")[row] for row in rows]
    return {
        name: round(float(np.mean([each[name] for each in numbers])), 2) for name in PAPER_METHODS
    }


def regimes_table(scope: Scope, parts: Mapping[Regime, Finished]) -> ResultTable:
    """Return every method's average by regime, beside the paper's."""
    values = dict[Key, Floats]()
    for regime, own in parts.items():
        scores = Scores(scope, own, [table_name(cell) for cell, _ in own])
        values |= scores.by_name(scores.accuracy.mean((0, 3))[None], [regime.name])
    in_print = paper_averages([table_name(cell) for cell, _ in next(iter(parts.values()))])
    return ResultTable(
        "Average accuracy by regime",
        "%",
        entries_of(values, dict.fromkeys((regime.name for regime in parts), in_print)),
        row_heading="regime",
        better="higher",
        note=f"{scope.scale} scale; ± is over runs, of which regimes that do not decide have "
        f"fewer. {NEAREST}",
    )


def beside(parts: Mapping[Regime, Finished], judged: Regime) -> str:
    """Say what the averages are in the other regimes that have the claimed method."""
    told = []
    for regime, own in parts.items():
        methods = own[0][1].numbers["methods"]
        if regime != judged and CLAIMED in methods:
            pairs = zip(methods, averages_of(own), strict=True)
            said = ", ".join(f"{name} {mean:.2f} %" for name, mean in pairs if np.isfinite(mean))
            told.append(f"With {regime.name}, averages are {said}.")
    return " ".join(told)


def conclude(scope: Scope, finished: Finished) -> Outcome:
    """Compare the methods on all tables, in the regime that is judged."""
    parts = by_regime(finished)
    soft = {regime: float(averages_of(own)[0]) for regime, own in parts.items()}
    in_print = paper_averages([table_name(cell) for cell, _ in finished])[BASELINE]
    order = sorted(soft, key=lambda regime: abs(soft[regime] - in_print))
    judged = next(regime for regime in order if is_whole(parts[regime]))
    finished = parts[judged]
    scores = Scores(scope, finished, [table_name(cell) for cell, _ in finished])
    size, compared = scores.size, scores.compared(printed_means("ag-tab1"))
    counts = {name: signs(compared, name) for name in scores.methods if name != BASELINE}
    tables = [
        scores.table(
            "Accuracy on test rows",
            "data set",
            "on the same folds",
            [*compared, *averages(scores)],
        ),
        ResultTable(
            f"Data sets on which a method differs from {BASELINE}",
            "data sets",
            entries_of({(row, m): n for m, own in counts.items() for row, n in own.items()}),
            digits=0,
            row_heading=f"than {BASELINE}",
            note=f"{size}. Adjusted p below {SIGNIFICANT:g}.",
        ),
        wins_table(scores),
        *further_tables(scores),
    ]
    remark = (
        f"Against {BASELINE}, {CLAIMED} is clearly better on {counts[CLAIMED]['better']} and "
        f"clearly worse on {counts[CLAIMED]['worse']}. "
    )
    if len(parts) > 1:
        tables.insert(1, regimes_table(scope, parts))
        remark += f"This is {judged.name}, where {BASELINE} averages {soft[judged]:.2f} %, in the "
        remark += f"paper {in_print:.2f} %"
        if order[0] != judged:
            remark += f"; it is nearest there with {order[0].name}"
        remark += ". "
        remark += beside(parts, judged)
    else:
        remark += "Network, optimiser and epochs are not in the paper and may differ."
    return Outcome(
        verdict(scope.scale, findings(scores), remark),
        tables,
        rank_charts(scores),
        notes(scores),
        described(finished[0][0]),
    )


def further_tables(scores: Scores) -> list[ResultTable]:
    """Return the spread over folds, NLL and ECE."""
    size, spread = scores.size, scores.accuracy.std((2, 3), ddof=1)
    paper_spread = {
        row: {name: pair[1] for name, pair in own.items() if isinstance(pair, tuple)}
        for row, own in printed("ag-tab1").items()
    }
    tables = [
        ResultTable(
            "Spread of accuracy over single folds",
            "points",
            entries_of(scores.by_name(spread), paper_spread),
            row_heading="data set",
            note=f"{size}. Standard deviation over all folds of all runs; the paper's is the "
            "number after its ±, whose size only single folds explain.",
        ),
    ]
    for title, unit, values, digits in (
        ("NLL on test rows", "nats", scores.array("nll").mean(3), 3),
        ("ECE on the test rows of a run together", "%", 100 * scores.array("pooled_ece"), 2),
    ):
        entries = entries_of(scores.by_name(values))
        note = f"{size}. ± is the standard deviation over runs."
        tables.append(ResultTable(title, unit, entries, digits, "data set", "lower", note))
    return tables


def findings(scores: Scores) -> list[Finding]:
    """Find whether the claimed method has the best average, and the most wins, of the seven.

    The average counts as the best where the corrected interval of its lead over the best of the
    others leaves out 0.
    """
    names, seven = PAPER_METHODS, len(PAPER_METHODS)
    by_fold = scores.accuracy[:, :seven].mean(0)
    averages: Floats = by_fold.mean((1, 2))
    counts = wins(scores.means[:, :seven])
    claimed = names.index(CLAIMED)
    others = np.where(np.arange(seven) == claimed, np.nan, averages)
    rival, most = int(np.nanargmax(others)), int(counts.argmax())
    alone = most == claimed and int((counts == counts[claimed]).sum()) == 1
    lead = corrected_resampled_t_test(by_fold[claimed] - by_fold[rival], 1 / scores.folds)
    clear = direction(lead)
    return [
        Finding(
            f"on {len(scores.rows)} tables {CLAIMED} averages {averages[claimed]:.2f} % "
            f"({BASELINE} {averages[0]:.2f} %, the best of the others is {names[rival]} with "
            f"{averages[rival]:.2f} %; {interval(lead, 2)})",
            None if clear == 0 else clear > 0,
        ),
        Finding(
            f"{CLAIMED} wins {counts[claimed]} tables (the most are {counts[most]} by "
            f"{names[most]})",
            alone,
        ),
    ]


def signs(entries: Sequence[Entry], method: str) -> dict[str, int]:
    """Return on how many tables a method is better or worse than the baseline, or neither."""
    found = [
        each.comparison.difference if each.is_significant else 0.0
        for each in entries
        if each.column == method and each.comparison is not None
    ]
    better, worse = sum(d > 0 for d in found), sum(d < 0 for d in found)
    return {"better": better, "worse": worse, "not told apart": len(found) - better - worse}


def averages(scores: Scores) -> list[Entry]:
    """Return averages over tables, of the methods that are defined on all of them."""
    every = range(len(scores.rows))
    several = [r for r in every if scores.results[r].numbers["classes"] > 2]
    groups = {"Average": list(every)}
    if 0 < len(several) < len(scores.rows):
        groups["Average of those with 3 or more classes"] = several
    values, paper = dict[Key, Floats](), dict[str, dict[str, float]]()
    for row, places in groups.items():
        by_run = scores.accuracy[places].mean((0, 3))
        values |= scores.by_name(by_run[None], [row])
        paper[row] = paper_averages([scores.rows[place] for place in places])
    return entries_of(values, paper)


def wins_table(scores: Scores) -> ResultTable:
    """Return on how many tables each method is the best, as the paper counts and otherwise."""
    values: dict[Key, int] = {}
    for which, names in (("seven", PAPER_METHODS), ("all", scores.methods)):
        for ties, words in (("first", "a tie counts for the first"), ("each", "for each tied")):
            counts = wins(scores.means[:, : len(names)], ties=ties)
            row = f"{which} methods, {words}"
            values |= {(row, name): int(count) for name, count in zip(names, counts, strict=True)}
    complete = len(scores.rows) == len(UCI_TABLES)
    won = printed_means("ag-tab1")["Wins"] if complete else {}
    return ResultTable(
        "Wins: data sets with the highest mean accuracy",
        "data sets",
        entries_of(values, {"seven methods, a tie counts for the first": won}),
        digits=0,
        row_heading="among",
        better="higher",
        note=f"{scores.size}. Means are compared at two decimals, as printed.",
    )


def rank_charts(scores: Scores) -> list[Chart]:
    """Return average ranks of the methods defined everywhere, and of all where all are."""
    defined = np.isfinite(scores.means)
    everywhere = defined.all(0)
    charts = [_ranks(scores, np.flatnonzero(everywhere), "ranks")]
    if not everywhere.all() and defined.all(1).any():
        charts.append(_ranks(scores, np.arange(len(scores.methods)), "ranks-several-classes"))
    return charts


def _ranks(scores: Scores, places: NDArray[np.int64], name: str) -> Chart:
    accuracy = scores.means[:, places]
    ranks, sets = average_ranks(accuracy), len(complete_sets(accuracy))
    note = f"{scores.size}. Ranks of mean accuracy at two decimals, 1 is best."
    if sets > 1:
        test = friedman(accuracy)
        note += f" Friedman: χ² = {test.statistic:.2f}, p = {test.p:.2g}."
    named = {scores.methods[place]: float(rank) for place, rank in zip(places, ranks, strict=True)}
    return Chart(
        name,
        f"Average rank of {len(places)} methods over {sets} data sets",
        "ranks",
        "average rank (1 is best)",
        "",
        [Series(method, [0.0], [rank], beta=BETAS[method]) for method, rank in named.items()],
        note=note,
        extra={"cd": critical_difference(len(places), sets), "sets": float(sets)},
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
    pairs = zip(scores.rows, scores.results, strict=True)
    if two := [row for row, result in pairs if result.numbers["classes"] < 3]:
        found += [
            f"AdaCos is not defined for two classes, where its scale √2·log(C - 1) is 0 "
            f"({', '.join(two)}): it has no entry there, no average over all tables, and ranks "
            "with it are over the others. The paper prints 46 to 54 % for it on exactly these, "
            "which is what guessing gives.",
            "For two classes the regulariser of LM is 0 whatever λ is: there that method is Soft.",
        ]
    if "Hayes-Roth" in scores.rows:
        found.append(
            "Hayes-Roth is used without the feature hobby, which is random by construction; the "
            "paper counts three features."
        )
    return found
