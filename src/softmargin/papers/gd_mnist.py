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
from softmargin.papers.charts import bars, whiskered
from softmargin.papers.core import Result
from softmargin.papers.findings import Compare, Monotone, Rule
from softmargin.papers.grid import Grid, Method, Plan, Task
from softmargin.papers.methods import betas
from softmargin.papers.outcome import ResultTable
from softmargin.papers.printed import printed_means
from softmargin.papers.rows import FIVE_SEEDS, Row
from softmargin.papers.runs import Runs, Score
from softmargin.papers.tables import MethodTable, method_values, turned

# with five seeds no exact paired test can give a p below 0.06
SEEDS = {"smoke": 2, "desk": 8, "paper": 8}
SMALLEST, LARGEST = "β = 0.01", "β = 5"

FEW_SEEDS = (
    "With n seeds the exact p-values of the tables cannot be below 2/2ⁿ (0.0625 for 5), before "
    "Holm's correction: intervals say more there."
)
AGAINST_ONE = "Differences are against β = 1, Holm's correction is over the table."
_SMOKE = (
    "8×8 digits instead of MNIST, 8 epochs, a learning rate of 0.02 and few values of β: this "
    "proves that the path works, nothing else."
)
OPEN = (
    "The paper leaves the length of the warm-up open: here β moves linearly over the first 30 % of "
    "all steps. It reports one run; here every seed gives all variants the same initial weights "
    "and batches, so that differences are paired."
)


def mnist_deviations(text: str) -> dict[str, str]:
    """Return the deviations by scale; desk scale is the paper's."""
    return {"smoke": _SMOKE, "desk": text, "paper": text}


def shared_plan(methods: Sequence[Method], *more: tuple[Task, Sequence[Method]]) -> Plan:
    """Return a plan on MNIST's shared cells; small scales have fewer methods."""
    whole: Grid = [(desk.CONFIDENCES, methods), *more]
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
    best, smallest = "β = 0.1", "β = 0.001"
    falling = ("β = 0.5", best, "β = 0.01", smallest)  # the paper's own counts dip before
    return (
        Compare(low, smallest, 1),
        Monotone(low, 1, falling),
        Compare(high, best, 1),
        Compare(high, smallest, -1, other=best),
    )


def early(runs: Runs) -> tuple[Task, int, list[Score]] | None:
    """Return the counts as met in the epoch in which β = 1 is where it is in the paper.

    The epoch is chosen by β = 1 alone, by its mean number of samples above 0.8.

    Returns:
        The task of the first epochs, the epoch, and the scores; None at small scales.
    """
    task = runs.serving(runs.judged[0])
    if task is None:
        return None
    above = runs.arrays(task, runs.baseline, "histograms")[:, :, -1].mean(0)
    in_paper = printed_means("gd-tab1")[runs.baseline][INTERVALS[-1]]
    place = int(np.abs(above - in_paper).argmin())
    return task, place + 1, counts(place, array="histograms")


EARLY_RULE = (
    "The counts of an earlier epoch were added after the first full run had shown that hardly any "
    "training sample is left at a low confidence. The epoch is chosen by β = 1 alone, and the "
    "verdict's word does not depend on it."
)


def early_table(runs: Runs) -> list[ResultTable]:
    """Tabulate the counts of the early epoch."""
    if (found := early(runs)) is None:
        return []
    task, epoch, scores = found
    table = MethodTable(
        f"The same, counted during epoch {epoch} of the same training",
        scores,
        paper="gd-tab1",
        note=f"Every sample as training met it in epoch {epoch}, in which β = 1 has about as many "
        "above 0.8 as in the paper.",
        serves=task.serves,
    )
    return table(runs)


def early_remark(runs: Runs) -> str:
    """Say what the counts of the early epoch would show."""
    if (found := early(runs)) is None:
        return ""
    task, epoch, scores = found
    judged = [each for rule in count_findings(scores) for each in rule(runs, task)]
    agree = sum(each.agrees is True for each in judged)
    return (
        f"These networks fit nearly all of their training set, the paper's did not; in epoch "
        f"{epoch}, where β = 1 has as many samples above 0.8 as in the paper, {agree} of the "
        f"{len(judged)} parts of the claim agree ({judged[1].text})."
    )


def counts_chart(runs: Runs) -> list[Chart]:
    """Draw the counts of every interval by β."""
    (task,) = runs.judged
    values = turned(method_values(runs, task, FINAL, IN_PRINT))
    samples = replace(FINAL[0], title="Training samples by final confidence")
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
    plan=shared_plan(desk.MNIST_METHODS, (desk.FIRST_EPOCHS, IN_PRINT)),
    findings=count_findings(FINAL),
    tables=(
        MethodTable(
            "Training samples by final confidence",
            FINAL,
            IN_PRINT,
            paper="gd-tab1",
            note=f"The training set passed once more through the final network. {AGAINST_ONE}",
        ),
        early_table,
        MethodTable(
            "The same, counted during the last epoch",
            LAST,
            IN_PRINT,
            paper="gd-tab1",
            note=f"Every sample as training met it in the last epoch. {AGAINST_ONE}",
        ),
        MethodTable(
            "Further β and warm-ups, which the paper's table does not have",
            FINAL,
            (IN_PRINT[0], *(method for method in desk.MNIST_METHODS if method not in IN_PRINT)),
            note="As in the first table.",
        ),
        MethodTable(
            "Scores after the last epoch",
            (
                replace(_TEST, title="training accuracy", path=("train_accuracy",)),
                _TEST,
                replace(_TEST, title="test ECE", path=("final", "ece")),
                replace(_TEST, title="test MCE", path=("final", "mce")),
            ),
            note="Calibration errors are over 10 bins of equal width.",
        ),
    ),
    charts=(counts_chart,),
    deviations=mnist_deviations(
        f"{OPEN} The paper does not say when confidences were counted: here after training, with "
        "the final weights; the counts met during the last epoch are given, too."
    ),
    seeds=SEEDS,
    notes=(FEW_SEEDS, EARLY_RULE),
    remark=early_remark,
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
    seeds=FIVE_SEEDS,
    notes=(
        "Spread is the distance of test features to their class's centre, over the mean distance "
        "between centres, so that a mere change of scale does not count. The median speaks of most "
        "samples, the root mean square also of the few that are far away.",
        FEW_SEEDS,
    ),
)

ROWS = (FIGURE_1, TABLE_1)
