"""AG Table VI and Figure 4: angles within and between classes."""

from __future__ import annotations

import math

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, Floats, shown
from softmargin.papers.images import ag_numbers, desk, recipes, words
from softmargin.papers.images.ag_accuracy import DESK_RECIPE, RECIPE, SEEDS
from softmargin.papers.images.charts import bars
from softmargin.papers.images.findings import RULE, Finding, compare, verdict
from softmargin.papers.images.methods import ARC_GRAD, ARC_GRAD_METHODS, SOFT, Method
from softmargin.papers.images.runs import (
    ACCURACY,
    Runs,
    Score,
    compared_table,
    in_column,
    in_row,
    method_band,
    score_table,
)
from softmargin.papers.images.tasks import Plan
from softmargin.papers.outcome import Outcome

TITLES = {
    "wc_intra": "centre to own weight (WC-Intra)",
    "w_inter": "between weights (W-Inter)",
    "c_inter": "between centres (C-Inter)",
}
ANGLE = Score("Mean angle", (), unit="rad", better="", factor=1.0)
OF_TRAINING = (
    "Centres are of the training images, as where these statistics come from; the paper does not "
    "say. Between centres its formula prints another angle than its text, which is followed."
)
PLAN_6 = Plan([(desk.ARC_10, ARC_GRAD_METHODS)], [(recipes.ARC_10, ARC_GRAD_METHODS)])


def conclude_statistics(setting: Scope, finished: Finished) -> Outcome:
    """Return angle statistics beside the paper's, and whether ArcGrad's classes are compact."""
    runs = Runs(setting, finished, PLAN_6)
    (task,) = runs.tasks
    values = {
        (title, method.name): runs.numbers(task, method, "angles", name)
        for name, title in TITLES.items()
        for method in ARC_GRAD_METHODS
    }
    paper = {title: ag_numbers.TABLE_6[name] for name, title in TITLES.items()}
    table = compared_table(
        runs,
        ANGLE,
        values,
        lambda key: (key[0], SOFT.name),
        {} if setting.scale == "smoke" else paper,
        "Differences are against Soft.",
    )
    found = [
        _compared(values, "wc_intra", -1),
        _smallest(values),
        _compared(values, "w_inter", 1),
        _compared(values, "c_inter", 1),
    ]
    tables = [table, score_table(runs, ACCURACY, SOFT.name)]
    charts = [bars(runs, ANGLE, values)]
    return Outcome(verdict(setting, found), tables, charts, [RULE, OF_TRAINING], runs.setup)


def _compared(values: dict[tuple[str, str], Floats], name: str, sign: int) -> Finding:
    names = (ARC_GRAD.name, SOFT.name)
    what = f"the mean angle {TITLES[name]} in rad"
    return compare(what, in_row(values, TITLES[name]), names, sign)


def _smallest(values: dict[tuple[str, str], Floats]) -> Finding:
    title = TITLES["wc_intra"]
    found = in_row(values, title)
    least = min(found, key=lambda name: float(np.nan_to_num(found[name], nan=9.0).mean()))
    text = f"the smallest angle from centre to weight is that of {least}"
    text += f" with {shown(found[least], 2)} rad"
    if least != ARC_GRAD.name:
        text += f" ({ARC_GRAD.name} has {shown(found[ARC_GRAD.name], 2)})"
    return Finding(text, least == ARC_GRAD.name)


# --- Figure 4

PAIR = (SOFT, ARC_GRAD)
PLAN_4 = Plan([(desk.ARC_10_PLUS, PAIR)], [(recipes.ARC_10, PAIR)])


def conclude_histograms(setting: Scope, finished: Finished) -> Outcome:
    """Return histograms of intra-class angles by epoch, and whether ArcGrad's shrink faster."""
    runs = Runs(setting, finished, PLAN_4)
    (task,) = runs.tasks
    means = {m.name: mean_angles(runs.arrays(task, m, "angle_counts")) for m in PAIR}
    last = next(iter(means.values())).shape[1] - 1
    places = sorted({0, max(1, last // 4), max(1, last // 2), last})
    values = {
        (name, _after(epoch)): own[:, epoch] for name, own in means.items() for epoch in places
    }
    table = compared_table(
        runs,
        ANGLE,
        values,
        lambda key: (SOFT.name, key[1]),
        {},
        "The paper has pictures only. Differences are against Soft in the same column.",
        "Mean angle between a feature and its class's weight",
    )
    found = [
        compare(
            f"{_after(epoch)}, the mean intra-class angle in rad",
            in_column(values, _after(epoch)),
            (ARC_GRAD.name, SOFT.name),
            -1,
        )
        for epoch in places[1:]
    ]
    charts = [_slices(runs, method, places) for method in PAIR]
    charts.append(
        Chart(
            "mean-angle",
            "Mean intra-class angle by epoch",
            *("line", "epoch", "mean angle (rad)"),
            [method_band(m, list(range(last + 1)), means[m.name]) for m in PAIR],
            note=f"{runs.note}; {BAND}.",
        )
    )
    return Outcome(verdict(setting, found), [table], charts, [RULE], runs.setup)


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


def _after(epoch: int) -> str:
    return "before training" if epoch == 0 else f"after {epoch} epoch{'s' * (epoch > 1)}"


def _slices(runs: Runs, method: Method, places: list[int]) -> Chart:
    counts = runs.arrays(runs.tasks[0], method, "angle_counts").sum(0)
    edges = np.linspace(0, math.pi, counts.shape[1] + 1).tolist()
    return Chart(
        f"angles-{method.name.lower()}",
        f"Intra-class angles of training images, {method.name}",
        "histogram",
        "angle between feature and class weight (rad)",
        "images, all seeds together",
        [Series(_after(epoch), edges, counts[epoch].tolist()) for epoch in places],
        note=f"{runs.note}; bins of four degrees, at most 2,000 images of each seed.",
    )


EXPERIMENTS = (
    Experiment(
        *("ag-tab6", "Angles within and between classes on CIFAR-10", "AG", "Table VI"),
        "ArcGrad brings class centres closest to their weights, and keeps classes farther apart "
        "than softmax.",
        PLAN_6.cells,
        conclude_statistics,
        seeds=SEEDS,
        deviations=words.deviations((RECIPE, OF_TRAINING), (words.CONNECTED, DESK_RECIPE)),
    ),
    Experiment(
        *("ag-fig4", "Intra-class angles by epoch on CIFAR-10", "AG", "Figure 4"),
        "ArcGrad makes intra-class angles smaller, and sooner, than softmax.",
        PLAN_4.cells,
        conclude_histograms,
        seeds={**SEEDS, "desk": desk.RESIDUAL_SEEDS},
        deviations=words.deviations(
            (RECIPE,),
            ("The small residual network of ag-tab4 with augmented images, three seeds.",),
        ),
    ),
)
