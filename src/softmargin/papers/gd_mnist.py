"""The gradient-decay paper on MNIST: Table 1 and Figure 1.

Table 1 and the figures of :mod:`softmargin.papers.gd_curves` share their cells; the figure of
features has its own, since its network is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers import desk
from softmargin.papers.charts import banded, bars, lines, whiskered
from softmargin.papers.core import Result
from softmargin.papers.findings import Compare, Monotone, Rule
from softmargin.papers.grid import Grid, Method, Plan
from softmargin.papers.methods import betas
from softmargin.papers.printed import printed_means
from softmargin.papers.regimes import (
    CAPACITIES,
    CUT_SHORT,
    EARLIER,
    METHODS,
    NEAREST,
    agreement,
    distance_table,
    in_regime,
    nearest,
    of_nearest,
    regimes,
    short,
)
from softmargin.papers.regimes import SEEDS as REGIME_SEEDS
from softmargin.papers.rows import Row
from softmargin.papers.runs import Runs, Score
from softmargin.papers.tables import MethodTable, ScoreTable, method_values, turned

# with five seeds no exact paired test can give a p below 0.06
SEEDS = {"smoke": 2, "desk": 12, "paper": 12}
SMALLEST, LARGEST, TINY = "β = 0.01", "β = 5", "β = 0.001"

FEW_SEEDS = (
    "With n seeds the exact p-values of the tables cannot be below 2/2ⁿ (0.0625 for 5), before "
    "Holm's correction: intervals say more there."
)
AGAINST_ONE = "Differences are against β = 1, Holm's correction is over the table."
_SMOKE = (
    "8×8 digits instead of MNIST, 8 epochs, a learning rate of 0.02 and few values of β: this "
    "proves that the path works, nothing else."
)
ONE_RUN = (
    "The paper reports one run; here every seed gives all variants the same initial weights and "
    "batches, so that differences are paired."
)
OPEN = (
    "The paper leaves the length of the warm-up open: here β moves linearly over the first 30 % of "
    f"all steps. {ONE_RUN}"
)
QUICKER = (
    "All 60,000 images, but networks other than the paper's 784-50-20-10 stand beside it; the "
    "learning rate is ten times the paper's 0.001, for fewer epochs than its 100 (see the setup). "
    "The paper does not say how pixels were scaled: both usual ways are tried."
)


def mnist_deviations(text: str) -> dict[str, str]:
    """Return the deviations by scale; desk scale is the paper's."""
    return {"smoke": _SMOKE, "desk": text, "paper": text}


def regime_deviations(text: str) -> dict[str, str]:
    """Return the deviations of an experiment in several regimes, by scale."""
    smoke = (
        "8×8 digits instead of MNIST, one network, 8 epochs and a learning rate of 0.02: this "
        "proves that the path works, nothing else."
    )
    return {"smoke": smoke, "desk": f"{QUICKER} {ONE_RUN} {text}", "paper": f"{ONE_RUN} {text}"}


def shared_plan(methods: Sequence[Method]) -> Plan:
    """Return a plan on MNIST's shared cells; small scales have fewer methods."""
    whole: Grid = [(desk.CONFIDENCES, methods)]
    there = [method for method in methods if method in desk.DIGITS.methods]
    return Plan(desk=whole, paper=whole, smoke=[(desk.DIGITS, there)])


def chart_name(stem: str, method: Method) -> str:
    """Return a name for a chart of a method, without dots, which would look like an ending."""
    return f"{stem}-beta-{method.short_name.replace('.', '_')}"


# --- Table 1: how many training samples end in each interval of confidence

INTERVALS = ("p ≤ 0.2", "0.2 < p ≤ 0.4", "0.4 < p ≤ 0.6", "0.6 < p ≤ 0.8", "0.8 < p")
PHRASES = {0: "the number of samples at p ≤ 0.2", 4: "the number above 0.8"}
IN_PRINT = betas(1, 0.5, 0.1, 0.01, 0.001)


def counts(*epoch: int, **where: Any) -> list[Score]:
    """Return a score for each interval, from counts (seeds, intervals) or those of an epoch."""
    return [
        Score(
            title,
            **where,
            reduce=itemgetter((slice(None), *epoch, place)),
            unit="samples",
            digits=0,
            phrase=PHRASES.get(place, ""),
        )
        for place, title in enumerate(INTERVALS)
    ]


FINAL = counts(path=("histogram",))  # with the final weights
LAST = counts(path=("trained_histogram",))  # as met in the last epoch


def count_findings(scores: Sequence[Score]) -> tuple[Rule, ...]:
    """Judge both halves of the claim at β fixed beforehand: the smallest, and the paper's best."""
    low, *_, high = scores
    best = "β = 0.1"
    falling = ("β = 0.5", best, "β = 0.01", TINY)  # the paper's own counts dip before
    return (
        Compare(low, TINY, 1),
        Monotone(low, 1, falling),
        Compare(high, best, 1),
        Compare(high, TINY, -1, other=best),
    )


def regime_remark(runs: Runs) -> str:
    """Say which regime is judged, and what the others would show."""
    if runs.scope.scale == "smoke":
        return ""
    task, in_print = nearest(runs), printed_means("gd-tab1")[runs.baseline]
    low, high = (FINAL[place] for place in (0, -1))
    counts = [f"{float(each.of(runs, task, runs.baseline).mean()):,.0f}" for each in (low, high)]
    printed = [f"{in_print[each.title]:,.0f}" for each in (low, high)]
    return (
        f"Judged is the regime in which {runs.baseline} comes nearest to the paper's "
        f"{runs.baseline}: there it has {counts[0]} samples at p ≤ 0.2 and {counts[1]} above 0.8, "
        f"in the paper {printed[0]} and {printed[1]}. Parts of the claim that agree, by regime: "
        f"{agreement(runs, count_findings(FINAL))}. All of them have ten times the paper's rate: "
        "with its own rate, in an earlier run, it was 1 of 4 (see the notes)."
    )


def given_up_chart(runs: Runs) -> list[Chart]:
    """Draw how many more samples the smallest β leaves at p ≤ 0.2 than β = 1, by epoch."""
    series = []
    for task in runs.judged:
        few, one = (runs.arrays(task, name, "histograms")[..., 0] for name in (TINY, runs.baseline))
        series.append(banded(short(task), list(range(1, few.shape[1] + 1)), few - one, 1))
    title, y_label = (
        f"Given up with {TINY} beyond {runs.baseline}",
        "samples at p ≤ 0.2, difference",
    )
    note = "Counted as training met the samples; above 0 is what the paper claims."
    return [lines(runs, "given-up-by-epoch", title, "epoch", y_label, series, note)]


def counts_chart(runs: Runs) -> list[Chart]:
    """Draw the counts of every interval by β."""
    task = nearest(runs)
    values = turned(method_values(runs, task, FINAL, IN_PRINT))
    samples = replace(FINAL[0], title=f"Training samples by final confidence, {task.name}")
    chart = bars(runs, samples, INTERVALS, whiskered(values, IN_PRINT))
    x_label, y_label = "confidence p in the true class", "training samples"
    return [replace(chart, name="counts", x_label=x_label, y_label=y_label, log_y=True)]


_TEST = Score("test accuracy", ("final", "accuracy"))
TABLE_1 = Row(
    id="gd-tab1",
    title="Confidence of training samples by β",
    place="Table 1",
    claim="The smaller β is, the more training samples are given up at a confidence of at most "
    "0.2, while more of the others rise above 0.8, until β is too small.",
    plan=regimes(CAPACITIES, METHODS),
    findings=[in_regime(rule) for rule in count_findings(FINAL)],
    tables=(
        of_nearest(
            MethodTable(
                "Training samples by final confidence",
                FINAL,
                IN_PRINT,
                paper="gd-tab1",
                note=f"The training set passed once more through the final network. {AGAINST_ONE}",
            )
        ),
        distance_table,
        *(
            ScoreTable(
                replace(score, title=f"Training samples at {score.title}"),
                note=f"By regime, after the last epoch. {AGAINST_ONE}",
            )
            for score in (FINAL[0], FINAL[-1])
        ),
        of_nearest(
            MethodTable(
                "The same, counted during the last epoch",
                LAST,
                IN_PRINT,
                paper="gd-tab1",
                note=f"Every sample as training met it in the last epoch. {AGAINST_ONE}",
            )
        ),
        *(
            ScoreTable(score)
            for score in (
                replace(_TEST, title="Training accuracy", path=("train_accuracy",)),
                replace(_TEST, title="Test accuracy"),
                replace(_TEST, title="Test ECE", path=("final", "ece")),
            )
        ),
    ),
    charts=(counts_chart, given_up_chart),
    deviations=regime_deviations(
        "The paper does not say when confidences were counted: here after training, with the final "
        "weights; the counts met during the last epoch are given, too."
    ),
    seeds=REGIME_SEEDS,
    notes=(FEW_SEEDS, NEAREST, EARLIER, CUT_SHORT),
    remark=regime_remark,
)

# --- Figure 1: where features of two dimensions lie, class by class


MEDIAN = Score(
    "median distance",
    path=("spread", "median"),
    over=("spread", "between"),
    unit="ratio",
    digits=3,
    better="lower",
    phrase="the median distance within classes over that between them",
)
GIVEN_UP = Score(
    "training samples at p ≤ 0.2",
    path=("histogram",),
    reduce=lambda counts: counts[:, 0] / counts.sum(1),
    phrase="the share of training samples at p ≤ 0.2 in %",
)


def features_charts(runs: Runs) -> list[Chart]:
    """Draw the features of the first seed: other seeds turn and mirror the plane."""
    (task,) = runs.judged
    return [
        Chart(
            chart_name("features", method),
            f"Features of test images, {method.name}",
            "points",
            "first feature",
            "second feature",
            _features(*runs.runs(task, method)[0]),
            note=f"{runs.scope.scale.capitalize()} scale, the first seed; at most 100 test images "
            "per class, the first ones; weights' directions on a circle around all of them.",
            extra={"equal": 1.0},
        )
        for method in runs.methods(task)
    ]


def _features(result: Result, place: int) -> list[Series]:
    """Return the features of every class, and rays in the directions of the weights."""
    features, weights = result.arrays["features"][place], result.arrays["weights"][place]
    labels = result.arrays["labels"]
    reach = np.linalg.norm(features, axis=1).max()
    tips = reach * weights / np.linalg.norm(weights, axis=1, keepdims=True)
    # from the origin to each tip, with a gap before the next
    rays = np.stack([np.zeros_like(tips), tips, np.full_like(tips, np.nan)], axis=1)
    points = {f"digit {k}": features[labels == k] for k in np.unique(labels)}
    drawn = {**points, "class weights": rays.reshape(-1, 2)}
    series = []
    for name, own in drawn.items():
        # three significant digits are enough for a picture
        x, y = ([float(f"{value:.3g}") for value in axis] for axis in own.T)
        series.append(Series(name, x, y, dashed=name not in points))
    return series


FIGURE_1 = Row(
    id="gd-fig1",
    title="Features in two dimensions by β",
    place="Figure 1",
    claim="With smaller β well separated samples of a class lie closer together, while some hard "
    "ones are given up.",
    plan=Plan(
        desk=[(desk.FEATURES, desk.FEATURES.methods)],
        paper=[(desk.FEATURES, desk.FEATURES.methods)],
        smoke=[(desk.DIGITS_FEATURES, desk.DIGITS_FEATURES.methods)],
    ),
    findings=(
        Compare(MEDIAN, SMALLEST, -1),
        Compare(MEDIAN, LARGEST, 1),
        Compare(GIVEN_UP, SMALLEST, 1),
    ),
    tables=(
        MethodTable(
            "Spread within classes, over the distance between them",
            (MEDIAN, replace(MEDIAN, title="root mean square distance", path=("spread", "rms"))),
            note=f"The paper has pictures only. {AGAINST_ONE}",
        ),
        MethodTable("What it costs", (_TEST, GIVEN_UP)),
    ),
    charts=(features_charts,),
    deviations=mnist_deviations(
        "The paper gives no recipe for this figure: it is that of Table 1, with a further layer "
        "of two units without ReLU before the last one. Features are those of test images."
    ),
    seeds=SEEDS,
    notes=(
        "Spread is the distance of test features to their class's centre, over the mean distance "
        "between centres, so that a mere change of scale does not count. The median speaks of most "
        "samples, the root mean square also of the few that are far away.",
        FEW_SEEDS,
    ),
)

ROWS = (FIGURE_1, TABLE_1)
