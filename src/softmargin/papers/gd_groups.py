"""The gradient-decay paper on MNIST, how confidence grows from hard to easy: Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.charts import BAND, banded
from softmargin.papers.findings import Compare, Floats, Rule
from softmargin.papers.gd_mnist import (
    AGAINST_ONE,
    FEW_SEEDS,
    SMALLEST,
    chart_name,
    regime_deviations,
)
from softmargin.papers.grid import Method
from softmargin.papers.methods import betas
from softmargin.papers.regimes import (
    CAPACITIES,
    CUT_SHORT,
    EARLIER,
    METHODS,
    NEAREST,
    agreement,
    in_regime,
    nearest,
    of_nearest,
    regimes,
)
from softmargin.papers.regimes import SEEDS as REGIME_SEEDS
from softmargin.papers.rows import Row
from softmargin.papers.runs import Runs, Score
from softmargin.papers.tables import MethodTable, ScoreTable

TRACE_PANELS = betas(2, 1, 0.1, 0.01)  # those that the paper prints
GROUPS = ("1 (hardest)", "2", "3", "4", "5 (easiest)")
PROGRESS = 0.9  # mean confidence at which variants are equally far
HALF = 0.5
EVERY_EPOCH_UP_TO = 10
DRAWN = slice(0, None, 2)  # of the traces: more than ten lines in a panel are a tangle
NEVER = "No entry where a seed never came that far."


def gap(curves: Floats) -> Floats:
    """Return easiest minus hardest group's confidence, (seeds, epochs), of (seeds, epochs, 5)."""
    difference: Floats = curves[..., -1] - curves[..., 0]
    return difference


def gap_at_progress(curves: Floats, level: float = PROGRESS) -> Floats:
    """Return each seed's gap where the mean of all groups first reaches a level, or NaN."""
    found = np.full(len(curves), np.nan)
    for seed, (mean, apart) in enumerate(zip(curves.mean(-1), gap(curves), strict=True)):
        there = int(np.argmax(mean >= level))
        if mean[there] < level or (there == 0 and mean[0] > level):
            continue  # never, or before the first epoch that was recorded
        steps = slice(max(there - 1, 0), there + 1)
        found[seed] = np.interp(level, mean[steps], apart[steps])
    return found


def epochs_until(curves: Floats, level: float = HALF) -> Floats:
    """Return the first epoch, from 1, whose value reaches a level, or NaN: (seeds, groups)."""
    reached = curves >= level
    first = reached.argmax(1) + 1.0
    return np.where(reached.any(1), first, np.nan)


def drawn_epochs(epochs: int) -> list[int]:
    """Return the epochs that are drawn: all at first, then every second, and the last."""
    later = range(EVERY_EPOCH_UP_TO + 2, epochs + 1, 2)
    return sorted({*range(1, min(epochs, EVERY_EPOCH_UP_TO) + 1), *later, epochs})


FIFTHS, INTERVALS = "fifths", "Table 1's intervals"
GROUPINGS = {FIFTHS: "groups", INTERVALS: "intervals"}
"""The arrays of curves by how samples are grouped, by final confidence either way."""


def mean_gap(grouping: str) -> Score:
    """Return the gap between the easiest and the hardest group, as a mean over all epochs."""
    return Score(
        f"by {grouping}, mean over all epochs",
        array=GROUPINGS[grouping],
        reduce=lambda curves: gap(curves).mean(1),
        unit="confidence",
        digits=3,
        phrase=f"the gap by {grouping} (mean over all epochs)",
    )


MEAN_GAPS = [mean_gap(each) for each in GROUPINGS]
EQUAL_GAP = replace(
    MEAN_GAPS[0],
    title="by fifths, at equal progress",
    reduce=gap_at_progress,
    phrase="the gap by fifths (at equal progress)",
)
WIDER: tuple[Rule, ...] = tuple(
    Compare(score, name, sign)
    for score in (*MEAN_GAPS, EQUAL_GAP)
    for name, sign in ((SMALLEST, 1), ("β = 2", -1))
)


def gap_remark(runs: Runs) -> str:
    """Say what each way to group samples shows, over all regimes."""
    if runs.scope.scale == "smoke":
        return ""
    return " ".join(
        f"Grouped by {grouping}, findings that agree by regime: "
        f"{agreement(runs, WIDER[2 * place : 2 * place + 2])}."
        for place, grouping in enumerate(GROUPINGS)
    )


def until_half(place: int) -> Score:
    """Return the first epoch in which a group is at one half."""
    return Score(
        f"group {GROUPS[place]}",
        array="groups",
        reduce=lambda curves: epochs_until(curves)[:, place],
        unit="epochs",
        digits=1,
        better="lower",
    )


def panel(
    method: Method, name: str, title: str, y_label: str, series: Sequence[Series], note: str
) -> Chart:
    """Return a chart by epoch for one β."""
    name, title = chart_name(name, method), f"{title}, {method.name}"
    return Chart(name, title, "line", "epoch", y_label, series, note=note)


def group_charts(runs: Runs) -> list[Chart]:
    """Draw the confidence of five groups by epoch, a chart for each β and way to group."""
    task = nearest(runs)
    title, y_label = "Five groups of training samples", "mean confidence in the true class"
    charts = []
    for grouping, array in GROUPINGS.items():
        note = f"{runs.note}; {task.name}; {grouping} by final confidence; {BAND}."
        for method in runs.present(task, TRACE_PANELS):
            curves = runs.arrays(task, method, array)
            epochs = drawn_epochs(curves.shape[1])
            groups = zip(GROUPS, np.moveaxis(curves[:, np.array(epochs) - 1], -1, 0), strict=True)
            series = [
                banded(f"group {name}", epochs, own, 3)
                for name, own in groups
                if np.isfinite(own).all()  # no sample may end in an interval
            ]
            charts.append(panel(method, array, f"{title} ({grouping})", y_label, series, note))
    return charts


def gap_chart(runs: Runs) -> list[Chart]:
    """Draw the gap between easiest and hardest group against the mean confidence of all."""
    task = nearest(runs)
    series = []
    for method in runs.methods(task):
        curves = runs.arrays(task, method, "groups")
        places = np.array(drawn_epochs(curves.shape[1])) - 1
        x, y = (each.mean(0)[places].round(4).tolist() for each in (curves.mean(-1), gap(curves)))
        series.append(Series(method.name, x, y, beta=method.beta))
    chart = Chart(
        "gap-by-progress",
        "Gap between easiest and hardest fifth at equal progress",
        "line",
        "mean confidence of all training samples",
        "gap in mean confidence",
        series,
        note=f"{runs.note}; means over seeds, one point per epoch from left to right.",
    )
    return [chart]


def trace_charts(runs: Runs) -> list[Chart]:
    """Draw single samples of the first seed; a mean over seeds would be of different samples."""
    task = nearest(runs)
    title, y_label = "Single training samples", "confidence in the true class"
    note = (
        f"{runs.scope.scale.capitalize()} scale, the first seed; the same samples for every β, "
        "from hard to easy, chosen by rank of final confidence with β = 1: half of them at even "
        "steps in the hardest fifth, half in the rest."
    )
    charts = []
    for method in runs.present(task, TRACE_PANELS):
        result, place = runs.runs(task, method)[0]
        traces = result.arrays["traces"][place].astype(np.float64)
        epochs = drawn_epochs(len(traces))
        drawn = zip(result.arrays["traced"], traces[np.array(epochs) - 1].round(4).T, strict=True)
        series = [Series(f"sample {number}", epochs, own.tolist()) for number, own in drawn]
        charts.append(panel(method, "traces", title, y_label, series[DRAWN], note))
    return charts


FIGURE_3 = Row(
    id="gd-fig3",
    title="Confidence during training by β",
    place="Figure 3",
    claim="A large β keeps all samples together while they are learned; with a small one easy "
    "samples are learned first and hard ones wait: the gap between easy and hard groups is wider.",
    plan=regimes(CAPACITIES, METHODS),
    findings=[in_regime(rule) for rule in WIDER],
    tables=(
        of_nearest(
            MethodTable(
                "Gap between the easiest and the hardest group",
                (*MEAN_GAPS, EQUAL_GAP),
                note=f"{NEVER} The paper has curves only. {AGAINST_ONE}",
            )
        ),
        *(
            ScoreTable(
                replace(score, title=f"Gap {score.title}"),
                note=f"By regime; no entry where an interval is empty in a seed. {AGAINST_ONE}",
            )
            for score in MEAN_GAPS
        ),
        of_nearest(
            MethodTable(
                f"First epoch in which a fifth's mean confidence is {HALF:g} or more",
                [until_half(place) for place in range(len(GROUPS))],
                note=NEVER,
            )
        ),
    ),
    charts=(group_charts, gap_chart, trace_charts),
    deviations=regime_deviations(
        "The paper says that its five groups are by posterior probability, not how they are cut: "
        "fifths of the samples, and the intervals of Table 1, are both shown and judged."
    ),
    seeds=REGIME_SEEDS,
    notes=(
        "The gap is the mean confidence of the easiest group of the training samples minus that of "
        "the hardest, in groups by final confidence, as met during training. Groups are fifths of "
        "the samples, or the five intervals of Table 1, where the hardest group is what is given "
        "up. It is taken over all epochs, and for fifths also at equal progress: where the mean "
        f"confidence of all samples first passes {PROGRESS:g} (interpolated between epochs), "
        "because a small β is faster, and at the same epoch therefore nearer its end.",
        FEW_SEEDS,
        NEAREST,
        EARLIER,
        CUT_SHORT,
    ),
    remark=gap_remark,
)

ROWS = (FIGURE_3,)
