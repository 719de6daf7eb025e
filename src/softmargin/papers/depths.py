"""What ag-fig2 concludes: accuracy on Iris by number of layers, in several regimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from softmargin.charts import Chart, Series
from softmargin.papers.charts import banded
from softmargin.papers.core import Cell, Finished, Scope
from softmargin.papers.cross_scores import BASELINE, Scores, described, entries_of
from softmargin.papers.findings import Floats, judged, verdict
from softmargin.papers.outcome import Finding, Outcome, ResultTable
from softmargin.papers.printed import printed_means
from softmargin.papers.tabular import TRIED, Regime, by_regime, is_whole

OURS = ("ArcGrad 30", "ArcGrad 5")
GUESSING = ("Soft", "ArcFace", "AdaCos")  # at the greatest depth, by the paper's words
NEAR_GUESS = 40.0  # percent; one of three classes is 33.3
DEPTH_NOTES = (
    "Layers are counted with the head: with 1 the head sees the table itself.",
    "The paper's numbers for 10 layers are words, about 33 %, not a table.",
    "Weights are drawn as nn.Linear draws them, without a remedy for depth such as residual "
    "connections or normalisation.",
)
NEAREST = (
    "The regime that is judged follows from Soft alone, by a rule that was fixed before these "
    "runs: the one in which Soft with the most layers is nearest to the paper's 33 %, to a whole "
    f"point; of equals the one in which Soft is best at its best depth. {TRIED}"
)


def conclude_depths(scope: Scope, finished: Finished) -> Outcome:
    """Compare how much accuracy the methods lose with depth, in the regime that is judged."""
    parts = {
        regime: sorted(own, key=lambda each: _depth(each[0]))
        for regime, own in by_regime(finished).items()
    }
    every = {regime: Depths(scope, own) for regime, own in parts.items()}
    order = sorted(every, key=lambda each: every[each].distance)
    found = {regime: own for regime, own in every.items() if is_whole(parts[regime])}
    regime = next(each for each in order if each in found)
    chosen = found[regime]
    remark = f"This is {regime.name}, where {BASELINE} is nearest to the paper's"
    if regime != order[0]:
        remark += f" of those with all methods; it is nearest with {order[0].name}"
    remark += "."
    for other, own in found.items():
        if other != regime:
            said = "; ".join(each.text for each in depth_findings(own))
            remark += f" With {other.name}, {said}."
    tables = chosen.tables()
    if len(every) > 1:
        tables.append(ends_table(scope, every))
    return Outcome(
        verdict(scope.scale, depth_findings(chosen), remark),
        tables,
        [depth_chart(own, each, several=len(found) > 1) for each, own in found.items()],
        (*DEPTH_NOTES, NEAREST),
        described(parts[regime][0][0], f"{chosen.depths[0]} to {chosen.depths[-1]}"),
    )


class Depths:
    """Accuracy by depth and method in one regime.

    Attributes:
        depths: numbers of layers.
        scores: by depth and method.
        by_run: accuracy, (depths, methods, runs).
        lost: from the best depth to the greatest by run, for every method.
        at_end: mean accuracy at the greatest depth, for every method.
    """

    def __init__(self, scope: Scope, ordered: Finished) -> None:
        """Gather the results of cells in the order of their depth."""
        self.depths = [_depth(cell) for cell, _ in ordered]
        self.scores = Scores(scope, ordered, [str(depth) for depth in self.depths])
        self.by_run: Floats = self.scores.accuracy.mean(3)
        best, names = self.by_run.mean(2).argmax(0), self.scores.methods
        self.lost = {n: self.by_run[best[m], m] - self.by_run[-1, m] for m, n in enumerate(names)}
        self.at_end = dict(zip(names, self.by_run[-1].mean(1), strict=True))

    @property
    def distance(self) -> tuple[float, float]:
        """How far Soft is from the paper's with the most layers, and its best accuracy, less."""
        in_print = printed_means("ag-fig2")["10"][BASELINE]
        soft = self.by_run[:, self.scores.methods.index(BASELINE)].mean(1)
        return round(abs(float(soft[-1]) - in_print)), -float(soft.max())

    def tables(self) -> list[ResultTable]:
        """Return accuracy by depth, and what is lost."""
        scores = self.scores
        return [
            scores.table(
                "Accuracy on test rows by number of layers",
                "layers",
                "of the same depth on the same folds",
                scores.compared(printed_means("ag-fig2")),
            ),
            ResultTable(
                f"Accuracy lost from the best depth to {self.depths[-1]} layers",
                "points",
                entries_of({("lost", name): own for name, own in self.lost.items()}),
                better="lower",
                note=f"{scores.size}. Best depth by the mean over runs; ± is over runs.",
            ),
        ]


def ends_table(scope: Scope, found: Mapping[Regime, Depths]) -> ResultTable:
    """Return the accuracy at the greatest depth by regime."""
    values = {
        (regime.name, name): own.by_run[-1, m]
        for regime, own in found.items()
        for m, name in enumerate(own.scores.methods)
    }
    return ResultTable(
        "Accuracy with the most layers by regime",
        "%",
        entries_of(values),
        row_heading="regime",
        better="higher",
        note=f"{scope.scale} scale; ± is over runs, of which other regimes than the judged have "
        "fewer.",
    )


def _depth(cell: Cell) -> int:
    return int(cell.config["training"]["model_options"]["depth"])


def depth_findings(found: Depths) -> list[Finding]:
    """Find whether each ArcGrad loses the least, and whether the named methods end up guessing."""
    depth, at_end = found.depths[-1], found.at_end
    lost = {name: float(own.mean()) for name, own in found.lost.items()}
    least = min((name for name in lost if name not in OURS), key=lambda name: lost[name])
    losses = [
        judged(
            f"from its best depth to {depth} layers {name} loses {lost[name]:.1f} points, "
            f"{least}, the best of the others, {lost[least]:.1f}",
            found.lost[name],
            found.lost[least],
            -1,
        )
        for name in OURS
    ]
    ends = ", ".join(f"{name} {at_end[name]:.1f} %" for name in GUESSING)
    guessing = all(at_end[name] <= NEAR_GUESS for name in GUESSING)
    return [*losses, Finding(f"at {depth} layers: {ends} (the paper: about 33 %)", guessing)]


def depth_chart(found: Depths, regime: Regime, *, several: bool) -> Chart:
    """Return accuracy against depth with intervals over runs."""
    series, x = [], [float(depth) for depth in found.depths]
    for m, name in enumerate(found.scores.methods):
        line = banded(name, x, found.by_run[:, m].T, digits=12)
        series.append(replace(line, high=[min(high, 100.0) for high in line.high]))
    series.append(Series("guessing", x, [100 / 3] * len(x), dashed=True))
    rate = f"{regime.lr:g}".replace(".", "_")
    named = f"-{regime.optimizer}-{rate}-{regime.epochs}" if several else ""
    return Chart(
        f"accuracy-by-depth{named}",
        f"Accuracy on Iris by number of layers{f', {regime.name}' if several else ''}",
        "line",
        "layers with weights, the head among them",
        "accuracy on test rows (%)",
        series,
        note=f"{found.scores.size}. Bands: 95 % intervals of the mean over runs, Student's t.",
    )
