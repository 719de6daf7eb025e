"""The ArcGrad paper on images: Tables IV to VII, Figures 3 and 4.

Its experiments on tables are in :mod:`softmargin.papers.tabular`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers import desk, recipes
from softmargin.papers import methods as m
from softmargin.papers.charts import ByAmount, ByEpoch, Differences, bars, by_length, whiskered
from softmargin.papers.findings import Best, Compare, Floats, Rule, compare
from softmargin.papers.grid import Plan, Task, each, shrunk
from softmargin.papers.outcome import Finding
from softmargin.papers.rows import FIVE_ON_PAPER, Row, deviations
from softmargin.papers.runs import ACCURACY, TOP_5, TRAINED, Runs, Score, after_epoch, after_share
from softmargin.papers.tables import (
    AmountTable,
    EpochTable,
    MethodTable,
    ScoreTable,
    method_values,
    some_epochs,
    turned,
)

AGAINST_SOFT = "Differences are against Soft."
RECIPE = (
    "Softmax and its kin have no bias, as in the paper's formulas. The one-cycle schedule is "
    "PyTorch's."
)
RESIDUAL = (
    "Networks are residual, small, on 10,000 images. "
    f"Adam's learning rate peaks at {desk.ARC_RATE:g} instead of 0.1: of 0.01 and 0.003 the better "
    "one for Soft, by its test accuracy after six epochs, one seed."
)
RESIDUAL_100 = (
    "Networks are residual, small, on all 8,000 images, 15 epochs instead of 160. "
    f"Adam's learning rate peaks at {desk.ARC_RATE:g}, as in the paper; no other was tried."
)
_row = partial(Row, seeds=FIVE_ON_PAPER, baseline=m.SOFT.name)


def _six(desk_tasks: Sequence[Task], paper_tasks: Sequence[Task]) -> Plan:
    """Return a plan in which all tasks have the paper's six methods; the two ends at smoke."""
    methods = m.ARC_GRAD_METHODS
    small = {task.name: shrunk(task) for task in (desk_tasks[0], desk_tasks[-1])}
    return Plan(
        desk=each(desk_tasks, methods),
        paper=each(paper_tasks, methods),
        smoke=each(list(small.values()), methods),
    )


# --- accuracy: Tables IV, V and VII

LEADS: tuple[Rule, ...] = (Compare(ACCURACY, m.ARC_GRAD.name, 1), Best(ACCURACY, m.ARC_GRAD.name))
TABLE_4 = _row(
    id="ag-tab4",
    title="Accuracy on CIFAR-10, with and without augmentation",
    place="Table IV",
    claim="ArcGrad has the highest accuracy of six methods, with and without augmentation.",
    plan=replace(
        _six([desk.ARC_10_PLUS, desk.ARC_10], [recipes.ARC_10_PLUS, recipes.ARC_10]),
        smoke=[
            (shrunk(desk.ARC_10_PLUS), (m.SOFT, m.ARC_GRAD)),
            (shrunk(desk.ARC_10), m.ARC_GRAD_METHODS),
        ],
    ),
    findings=LEADS,
    tables=(ScoreTable(ACCURACY, paper="ag-tab4", note=AGAINST_SOFT), ScoreTable(TRAINED)),
    charts=(Differences(ACCURACY),),
    deviations=deviations(
        (RECIPE,),
        (RESIDUAL, "18 epochs without augmentation, 15 with it, instead of 120."),
    ),
)
TABLE_5 = _row(
    id="ag-tab5",
    title="Accuracy on CIFAR-100 with augmentation",
    place="Table V",
    claim="ArcGrad has the highest top-1 accuracy of six methods, Center the highest top-5.",
    plan=Plan(
        desk=[(desk.ARC_100, m.ARC_GRAD_METHODS)],
        paper=[(recipes.ARC_100_PLUS, m.ARC_GRAD_METHODS)],
        smoke=[(shrunk(desk.ARC_100), (m.SOFT, m.CENTER, m.ARC_GRAD))],
    ),
    findings=(*LEADS, Best(TOP_5, m.CENTER.name)),
    tables=(
        *(
            ScoreTable(score, paper="ag-tab5", printed_as=score.title, note=AGAINST_SOFT)
            for score in (ACCURACY, TOP_5)
        ),
        ScoreTable(TRAINED),
    ),
    charts=(Differences(ACCURACY),),
    deviations=deviations((RECIPE,), (RESIDUAL_100,)),
)
TABLE_7 = _row(
    id="ag-tab7",
    title="Accuracy after few epochs",
    place="Table VII",
    claim="For every length of training ArcGrad is the most accurate, by most after few epochs.",
    plan=_six(desk.ARC_BY_EPOCHS, [recipes.arc_epochs(n) for n in desk.ARC_EPOCHS.values()]),
    findings=LEADS,
    tables=(ScoreTable(ACCURACY, paper="ag-tab7", note=AGAINST_SOFT), ScoreTable(TRAINED)),
    charts=(Differences(ACCURACY), lambda runs: [by_length(runs, ACCURACY)]),
    deviations=deviations(
        (
            RECIPE,
            "What the loss costs beside softmax (3.4 % in the paper) is a time, which no two "
            "runs give alike: softmargin bench measures it.",
        ),
        (
            RESIDUAL,
            "2, 4, 8 and 18 epochs stand for 10, 20, 40 and 90. Images are not augmented.",
        ),
    ),
)

# --- accuracy by share of the images: Figure 3

SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)


def growing_lead(runs: Runs, task: Task) -> list[Finding]:
    """Find whether ArcGrad's lead is larger with the fewest images than with all."""
    values, found = runs.by_amount(ACCURACY, task), []
    ours, names = values[m.ARC_GRAD.name], ("the fewest images", "all")
    for other in (m.SOFT.name, m.ARC_FACE.name):
        ends = zip(names, (min(ours), max(ours)), strict=True)
        leads = {name: ours[share] - values[other][share] for name, share in ends}
        found.append(
            compare(f"the lead of {m.ARC_GRAD.name} over {other} in points", leads, names, 1)
        )
    return found


FIGURE_3 = _row(
    id="ag-fig3",
    title="Accuracy by share of the training images",
    place="Figure 3",
    claim="ArcGrad's advantage over other methods shows when training images are taken away.",
    plan=Plan(
        desk=[(desk.ARC_SHARES, desk.ARC_SHARES_METHODS)],
        paper=[
            (
                recipes.arc_epochs(20),
                tuple(m.fewer(method, share) for share in SHARES for method in m.COSINES),
            )
        ],
        smoke=[
            (
                shrunk(desk.ARC_SHARES),
                tuple(
                    m.fewer(method, share)
                    for share in (1.0, 0.1)
                    for method in (m.SOFT, m.ARC_FACE, m.ARC_GRAD)
                ),
            )
        ],
    ),
    findings=(
        growing_lead,
        *(  # with the fewest images, of desk or of paper scale
            Compare(ACCURACY, m.fewer(m.ARC_GRAD, share).name, 1, other=m.fewer(other, share).name)
            for share in (desk.SHARES[-1], SHARES[-1])
            for other in m.COSINES[:-1]
        ),
    ),
    tables=(
        AmountTable(
            ACCURACY,
            note="The paper has a figure only. Differences are against Soft in the same column.",
        ),
    ),
    charts=(
        ByAmount(
            ACCURACY,
            name="accuracy-by-share",
            title="Test accuracy by share of the training images",
            x_label="share of the training images",
            y_label="test accuracy (%)",
        ),
    ),
    deviations=deviations(
        (RECIPE, "The shares are not printed: 1, 0.8, 0.6, 0.4 and 0.2 at paper scale."),
        (
            RESIDUAL,
            "10 epochs, shares 1, 0.5, 0.25 and 0.1 of the part. Images are not augmented.",
        ),
    ),
)

# --- angles: Table VI

OF_TRAINING = (
    "Centres are of the training images, as where these statistics come from; the paper does not "
    "say. Between centres its formula prints another angle than its text, which is followed."
)


ANGLES = [
    Score(title, ("angles", name), unit="rad", phrase=f"the mean angle {title} in rad")
    for name, title in (
        ("wc_intra", "centre to own weight (WC-Intra)"),
        ("w_inter", "between weights (W-Inter)"),
        ("c_inter", "between centres (C-Inter)"),
    )
]
WC_INTRA, W_INTER, C_INTER = ANGLES


def angles_chart(runs: Runs) -> list[Chart]:
    """Draw the three angles by method."""
    series = whiskered(turned(method_values(runs, runs.tasks[0], ANGLES)))
    title = replace(WC_INTRA, title="Mean angle")
    return [bars(runs, title, [score.title for score in ANGLES], series)]


TABLE_6 = _row(
    id="ag-tab6",
    title="Angles within and between classes on CIFAR-10",
    place="Table VI",
    claim="ArcGrad brings class centres closest to their weights, and keeps classes farther apart "
    "than softmax.",
    plan=_six([desk.ARC_10], [recipes.ARC_10]),
    findings=(
        Compare(WC_INTRA, m.ARC_GRAD.name, -1),
        Best(WC_INTRA, m.ARC_GRAD.name, -1),
        Compare(W_INTER, m.ARC_GRAD.name, 1),
        Compare(C_INTER, m.ARC_GRAD.name, 1),
    ),
    tables=(
        MethodTable("Mean angle", ANGLES, paper="ag-tab6", transposed=True, note=AGAINST_SOFT),
        ScoreTable(ACCURACY),
    ),
    charts=(angles_chart,),
    deviations=deviations((RECIPE, OF_TRAINING), (RESIDUAL,)),
    notes=(OF_TRAINING,),
)

# --- angles by epoch: Figure 4

PAIR = (m.SOFT, m.ARC_GRAD)


def mean_angles(counts: Floats) -> Floats:
    """Return mean angles from histograms over [0, π], (..., bins) to (...).

    Example:
        >>> round(float(mean_angles(np.array([0.0, 2.0]))), 4) == round(0.75 * math.pi, 4)
        True
    """
    bins = counts.shape[-1]
    middles = (np.arange(bins) + 0.5) * math.pi / bins
    means: Floats = (counts * middles).sum(-1) / counts.sum(-1)
    return means


ANGLE = Score(
    "Mean intra-class angle",
    array="angle_counts",
    reduce=mean_angles,
    first_epoch=0,
    unit="rad",
    phrase="the mean intra-class angle in rad",
)
STAGES = (0.25, 0.5, 1.0)  # of the training


def histograms(runs: Runs) -> list[Chart]:
    """Draw the histograms of intra-class angles after some epochs, a chart for each method."""
    (task,) = runs.tasks
    epochs = some_epochs(runs, ANGLE, STAGES)
    charts = []
    for method in PAIR:
        counts = runs.arrays(task, method, "angle_counts").sum(0)
        edges = np.linspace(0, math.pi, counts.shape[1] + 1).tolist()
        charts.append(
            Chart(
                f"angles-{method.name.lower()}",
                f"Intra-class angles of training images, {method.name}",
                "histogram",
                "angle between feature and class weight (rad)",
                "images, all seeds together",
                [Series(after_epoch(ANGLE, n).title, edges, counts[n].tolist()) for n in epochs],
                note=f"{runs.note}; bins of four degrees, at most 2,000 images of each seed.",
            )
        )
    return charts


FIGURE_4 = _row(
    id="ag-fig4",
    title="Intra-class angles by epoch on CIFAR-10",
    place="Figure 4",
    claim="ArcGrad makes intra-class angles smaller, and sooner, than softmax.",
    plan=Plan(desk=[(desk.ARC_10, PAIR)], paper=[(recipes.ARC_10, PAIR)]),
    findings=[Compare(after_share(ANGLE, stage), m.ARC_GRAD.name, -1) for stage in STAGES],
    tables=(
        EpochTable(
            "Mean angle between a feature and its class's weight",
            ANGLE,
            STAGES,
            note="The paper has pictures only. Differences are against Soft in the same column.",
        ),
    ),
    charts=(histograms, ByEpoch(ANGLE, "mean-angle")),
    deviations=deviations((RECIPE,), (RESIDUAL,)),
)

ROWS = (TABLE_4, TABLE_5, FIGURE_3, TABLE_6, FIGURE_4, TABLE_7)
EXPERIMENTS = tuple(row.experiment for row in ROWS)
