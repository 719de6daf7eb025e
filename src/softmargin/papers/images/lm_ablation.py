"""LM Tables 1 and 2, Figure 3: which regulariser, against what, and what it does to the bias."""

from __future__ import annotations

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, Floats, banded
from softmargin.papers.images import desk, lm_numbers, recipes, words
from softmargin.papers.images.charts import differences
from softmargin.papers.images.findings import RULE, Finding, compare, verdict
from softmargin.papers.images.methods import (
    DIVERGENCES,
    SOFTMAX,
    SUPER_SYMMETRY,
    regularized,
    smoothed,
)
from softmargin.papers.images.runs import (
    ERROR,
    TRAINED,
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

SEEDS = {"smoke": 2, "desk": 5, "paper": 3}
OURS = regularized(0.3)
SUPPLEMENT = (
    "The 13-layer network is that of the author's published code; whether images were augmented is "
    "not printed: crops with 4 pixels of padding and flips."
)
DEVIATIONS = words.deviations(
    (SUPPLEMENT,),
    (words.CONNECTED, words.OTHER_STEPS),
)

# --- Table 1

ALL = tuple(regularized(lam, d) for d in DIVERGENCES for lam in lm_numbers.LAMBDAS)
PLAN_1 = Plan(
    [(desk.ABLATION, (SOFTMAX, *desk.ALL_DIVERGENCES))], [(recipes.ABLATION, (SOFTMAX, *ALL))]
)


def conclude_divergences(setting: Scope, finished: Finished) -> Outcome:
    """Return error rates by divergence and λ, and whether all of them help."""
    runs = Runs(setting, finished, PLAN_1)
    (task,) = runs.tasks
    lambdas = desk.LAMBDAS if setting.scale != "paper" else lm_numbers.LAMBDAS
    base = ERROR.of(runs, task, SOFTMAX)
    values = {
        (row, f"λ = {lam:g}"): ERROR.of(runs, task, regularized(lam, row)) if lam else base
        for row in DIVERGENCES
        for lam in (0.0, *lambdas)
    }
    plain = {"λ = 0": lm_numbers.TABLE_2["softmax"]}
    paper = {row: {**plain, **pairs} for row, pairs in lm_numbers.TABLE_1.items()}
    table = compared_table(
        runs,
        ERROR,
        values,
        lambda key: (key[0], "λ = 0"),
        {} if setting.scale == "smoke" else paper,
        "λ = 0 is plain softmax, which the others are compared with.",
    )
    found = [
        compare(f"the error of {row} in %", in_row(values, row), names, -1)
        for names in (("λ = 0.3", "λ = 0"), ("λ = 0.9", "λ = 0.1"))
        for row in DIVERGENCES
    ]
    found.append(_symmetric(values))
    chart = Chart(
        "error-by-lambda",
        "Error rate by λ",
        *("line", "λ", "error rate (%)"),
        [
            *(_by_lambda(row, values, lambdas) for row in DIVERGENCES),
            Series("softmax", [lambdas[0], lambdas[-1]], [float(base.mean())] * 2, dashed=True),
        ],
        note=f"{runs.note}; {BAND}.",
    )
    return Outcome(verdict(setting, found), [table], [chart], [RULE], runs.setup)


def _symmetric(values: dict[tuple[str, str], Floats]) -> Finding:
    """Find whether the mean over all λ is lower for D̃ than for the divergence from q."""
    means = {
        row: np.mean(
            [own for (r, lam), own in values.items() if r == row and lam != "λ = 0"],
            axis=0,
        )
        for row in DIVERGENCES
    }
    names = ("D̃(q)", "D(q‖u)")
    return compare("the error in %, mean over all λ,", means, names, -1)


def _by_lambda(
    row: str, values: dict[tuple[str, str], Floats], lambdas: tuple[float, ...]
) -> Series:
    curves = np.stack([values[row, f"λ = {lam:g}"] for lam in lambdas], 1)
    return banded(row, lambdas, curves)


# --- Table 2 and Figure 3

SMOOTHED = tuple(smoothed(lam) for lam in (0.01, 0.05, 0.1, 0.3))
RELATED = (SOFTMAX, SUPER_SYMMETRY, *SMOOTHED, OURS)
PLAN_2 = Plan([(desk.ABLATION, RELATED)], [(recipes.ABLATION, RELATED)])


def conclude_related(setting: Scope, finished: Finished) -> Outcome:
    """Return error rates of related methods, and whether regularised logits beat them."""
    runs = Runs(setting, finished, PLAN_2)
    (task,) = runs.tasks
    values = {(method.name, "error rate"): ERROR.of(runs, task, method) for method in RELATED}
    paper = {name: {"error rate": pair} for name, pair in lm_numbers.TABLE_2.items()}
    table = compared_table(
        runs,
        ERROR,
        values,
        lambda key: (SOFTMAX.name, key[1]),
        {} if setting.scale == "smoke" else paper,
        "Differences are against plain softmax.",
    )
    found = [
        compare("the error in %", in_column(values, "error rate"), (OURS.name, other.name), -1)
        for other in (SOFTMAX, SMOOTHED[2], SUPER_SYMMETRY)
    ]
    tables = [table, score_table(runs, TRAINED, SOFTMAX.name)]
    charts = [differences(runs, ERROR, SOFTMAX.name)]
    return Outcome(verdict(setting, found), tables, charts, [RULE], runs.setup)


CURVES = (SOFTMAX, SMOOTHED[2], OURS)
PLAN_3 = Plan([(desk.ABLATION, CURVES)], [(recipes.ABLATION, CURVES)])


def conclude_bias(setting: Scope, finished: Finished) -> Outcome:
    """Return mean ρ̂ by epoch, and whether regularising makes it rise again."""
    runs = Runs(setting, finished, PLAN_3)
    (task,) = runs.tasks
    curves = {method.name: runs.arrays(task, method, "mean_bias") for method in CURVES}
    values = {
        (method, column): own
        for method, of_method in curves.items()
        for column, own in ends(of_method).items()
    }
    score = Score("Mean ρ̂ of training samples", (), "nats", 3, "", 1.0)
    table = compared_table(
        runs,
        score,
        values,
        lambda key: (SOFTMAX.name, key[1]),
        {},
        "The paper has curves only. Differences are against plain softmax.",
    )
    rise = "the rise of mean ρ̂ from its lowest to its last epoch"
    found = [
        compare(what, in_column(values, column), (method.name, SOFTMAX.name), 1, 3)
        for what, column, method in (
            *((rise, "last − lowest", method) for method in CURVES[1:]),
            ("mean ρ̂ in the last epoch", "last", OURS),
        )
    ]
    plain = in_row(values, SOFTMAX.name)
    found.append(compare("mean ρ̂ of softmax", plain, ("last", "first"), -1, 3))
    epochs = list(range(1, curves[SOFTMAX.name].shape[1] + 1))
    chart = Chart(
        "mean-bias",
        "Mean ρ̂ of training samples by epoch",
        *("line", "epoch", "mean ρ̂ (nats)"),
        [method_band(method, epochs, curves[method.name]) for method in CURVES],
        note=f"{runs.note}; {BAND}. Uniform logits have {np.log(_classes(runs) - 1):.2f}.",
    )
    return Outcome(verdict(setting, found), [table], [chart], [RULE], runs.setup)


def ends(curves: Floats) -> dict[str, Floats]:
    """Return where curves (seeds, epochs) begin, turn and end."""
    first, last, lowest = curves[:, 0], curves[:, -1], curves.min(1)
    return {"first": first, "lowest": lowest, "last": last, "last − lowest": last - lowest}


def _classes(runs: Runs) -> int:
    return int(runs.runs(runs.tasks[0], SOFTMAX)[0][0].numbers["classes"])


EXPERIMENTS = (
    Experiment(
        *("lm-tab1", "Error rate by divergence and λ", "LM", "Table 1"),
        "All three divergences lower the error, more so with a larger λ; the symmetric one and "
        "D(u‖q) a little more than D(q‖u).",
        PLAN_1.cells,
        conclude_divergences,
        seeds=SEEDS,
        deviations=DEVIATIONS,
    ),
    Experiment(
        *("lm-tab2", "Error rate of related methods", "LM", "Table 2"),
        "Regularised logits beat plain softmax, label smoothing with any λ, and a super-symmetric "
        "classifier.",
        PLAN_2.cells,
        conclude_related,
        seeds=SEEDS,
        deviations=DEVIATIONS,
    ),
    Experiment(
        *("lm-fig3", "Bias ρ̂ during training", "LM", "Figure 3"),
        "Plain softmax lets ρ̂ fall all through training; with regularised logits or label "
        "smoothing it falls at first and then rises.",
        PLAN_3.cells,
        conclude_bias,
        seeds=SEEDS,
        deviations=DEVIATIONS,
    ),
)
