"""The gradient-decay paper on MNIST, epoch by epoch: Figures 4 and 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from softmargin.charts import Chart
from softmargin.papers.charts import ByEpoch, file_name, lines, method_band
from softmargin.papers.desk import WARM_UPS
from softmargin.papers.findings import (
    Compare,
    Monotone,
    Rule,
    against,
    compare,
    interval,
    judged,
    shown,
)
from softmargin.papers.gd_mnist import (
    AGAINST_ONE,
    FEW_SEEDS,
    LARGEST,
    OPEN,
    SEEDS,
    SMALLEST,
    mnist_deviations,
    regime_deviations,
    shared_plan,
)
from softmargin.papers.grid import Task
from softmargin.papers.methods import betas
from softmargin.papers.outcome import Finding
from softmargin.papers.regimes import EARLIER, FIRST, PAPERS, PARTS, regimes, short
from softmargin.papers.regimes import SEEDS as REGIME_SEEDS
from softmargin.papers.rows import Row
from softmargin.papers.runs import ACCURACY_CURVE, Runs, Score, after_share
from softmargin.papers.tables import EpochTable, ScoreTable

CURVES = (*betas(5, 2, 1, 0.1, 0.01), *WARM_UPS)
CONSTANT = tuple(method.name for method in CURVES if method.warm_up is None)


NLL_CURVE = Score(
    "Test cross-entropy",
    array="nll",
    unit="nats",
    digits=4,
    better="lower",
    phrase="cross-entropy in nats",
)
EARLY = 0.05  # of all epochs, fixed beforehand
EARLY_ACCURACY, LAST_ACCURACY = (after_share(ACCURACY_CURVE, share) for share in (EARLY, 1))
EARLY_NLL, LAST_NLL = (after_share(NLL_CURVE, share) for share in (EARLY, 1))


def warm_up_ends_best(runs: Runs, task: Task) -> list[Finding]:
    """Find whether the warm-up ends above every constant β: above the best of them."""
    last, warm = LAST_ACCURACY, WARM_UPS[0].name
    values = {
        name: last.of(runs, task, name) for name in (*CONSTANT, warm) if runs.has(task, [name])
    }
    best = max((name for name in values if name != warm), key=lambda n: float(values[n].mean()))
    to_best = against(values[warm], values[best])
    if to_best is None:
        return [Finding(f"{last.on(task)} of {warm} cannot be compared", None)]
    text = (
        f"the {warm} ends with {shown(values[warm], 2)} % against {shown(values[best], 2)} % for "
        f"the best constant one, {best} ({interval(to_best, 2)})"
    )
    return [judged(text, values[warm], values[best], 1)]


CURVES_5 = betas(5, 2, 1, 0.1, 0.01)
TRAINING_CURVE = replace(
    NLL_CURVE,
    title="Training cross-entropy",
    array="train_nll",
    phrase="training cross-entropy in nats",
)


def after_first(share: float) -> Score:
    """Return the training cross-entropy after a share of all steps, one of the first tenth."""
    place = round(share / FIRST * PARTS) - 1
    title = f"after {100 * share:g} % of the steps"
    return replace(
        TRAINING_CURVE,
        title=f"Training cross-entropy {title}",
        array="first_nll",
        reduce=lambda curves: curves[:, place],
        phrase=f"{TRAINING_CURVE.phrase} {title}",
    )


EARLY_TRAINING = after_first(EARLY)
LAST_TRAINING = replace(
    after_share(TRAINING_CURVE, 1), title="Training cross-entropy in the last epoch"
)


def earlier_remark(runs: Runs) -> str:
    """Say what training cross-entropy is earlier still, regime by regime."""
    if runs.scope.scale == "smoke":
        return ""
    score, told = after_first(EARLY / 2), []
    for task in runs.judged:
        small, one = (score.of(runs, task, name) for name in (SMALLEST, runs.baseline))
        told.append(f"{shown(small, 3)} against {shown(one, 3)} with {short(task)}")
    return (
        f"Earlier still, {score.title.removeprefix('Training cross-entropy ')}, training "
        f"cross-entropy is, for {SMALLEST} against {runs.baseline}, {'; '.join(told)}."
    )


def by_iteration(runs: Runs) -> list[Chart]:
    """Draw the training cross-entropy of the first tenth of all steps, a chart for each regime."""
    charts = []
    for task in runs.judged:
        samples = float(runs.runs(task, runs.baseline)[0][0].numbers["samples"])
        steps = FIRST * task.training["epochs"] * samples / task.training["batch"]
        x = [round(steps * (k + 0.5) / PARTS, 1) for k in range(PARTS)]
        series = [
            method_band(method, x, runs.arrays(task, method, "first_nll"))
            for method in runs.methods(task)
        ]
        title, y_label = f"First steps, {short(task)}", TRAINING_CURVE.label
        charts.append(lines(runs, file_name("first", task), title, "step", y_label, series))
    return charts


def falls_faster(early: Score, last: Score) -> tuple[Rule, ...]:
    """Judge that a small β leads at first, and that its lead melts."""

    def lead_shrinks(runs: Runs, task: Task) -> list[Finding]:
        leads = {
            name: score.of(runs, task, runs.baseline) - score.of(runs, task, SMALLEST)
            for name, score in (("the end", last), ("the early phase", early))
        }
        what = f"on {task.name}, the lead of {SMALLEST} in {last.phrase.partition(' in ')[0]}"
        return [compare(what, leads, ("the end", "the early phase"), -1, 4)]

    return (
        Monotone(early, -1, CONSTANT),
        Compare(early, SMALLEST, -1),
        Compare(early, LARGEST, 1),
        lead_shrinks,
    )


def curve_row(
    number: int, title: str, claim: str, curve: Score, findings: Sequence[Rule], said: str = ""
) -> Row:
    """Return a figure of a curve by epoch: all epochs, and those after the first fifth again."""
    note = "Warm-ups are dashed, in the colour of the β they end with."
    return Row(
        id=f"gd-fig{number}",
        title=title,
        place=f"Figure {number}",
        claim=claim,
        plan=shared_plan(CURVES),
        findings=findings,
        tables=(
            EpochTable(
                f"{curve.title} after some epochs",
                curve,
                (EARLY, 0.25, 1.0),
                f"The paper has these values as curves only. {AGAINST_ONE}",
            ),
        ),
        charts=(
            ByEpoch(curve, f"{curve.array}-by-epoch", note=note),
            ByEpoch(curve, f"{curve.array}-later", skip=0.2, note=note),
        ),
        deviations=mnist_deviations(f"{OPEN}{said}"),
        seeds=SEEDS,
        notes=(
            FEW_SEEDS,
            f"The {WARM_UPS[0].name} is the paper's in its second version, the {WARM_UPS[1].name} "
            "in its first.",
        ),
    )


FIGURE_4 = curve_row(
    4,
    "Test accuracy by epoch and β",
    "Smaller β learns faster at first and ends with better accuracy (0.01 above 1, 5 below it); a "
    "warm-up of β ends better still.",
    ACCURACY_CURVE,
    (
        Monotone(EARLY_ACCURACY, 1, CONSTANT),
        Compare(EARLY_ACCURACY, SMALLEST, 1),
        Compare(LAST_ACCURACY, SMALLEST, 1),
        Compare(LAST_ACCURACY, LARGEST, -1),
        warm_up_ends_best,
    ),
)
FIGURE_5 = replace(
    curve_row(
        5,
        "Cross-entropy by epoch and β",
        "Plain cross-entropy falls faster at first the smaller β is; the lead shrinks later, as "
        "β's own objective and cross-entropy part.",
        NLL_CURVE,
        [
            rule
            for early, last in ((EARLY_TRAINING, LAST_TRAINING), (EARLY_NLL, LAST_NLL))
            for rule in falls_faster(early, last)
        ],
    ),
    plan=regimes([PAPERS], CURVES_5),
    tables=(
        *(ScoreTable(after_first(share), note=AGAINST_ONE) for share in (EARLY / 2, EARLY, FIRST)),
        ScoreTable(LAST_TRAINING, note=AGAINST_ONE),
        *(
            ScoreTable(replace(score, title=f"{NLL_CURVE.title} {score.title}"), note=AGAINST_ONE)
            for score in (EARLY_NLL, LAST_NLL)
        ),
    ),
    charts=(by_iteration, ByEpoch(TRAINING_CURVE, "train-nll"), ByEpoch(NLL_CURVE, "nll")),
    deviations=regime_deviations(
        "The paper does not say on which images its cross-entropy was taken: here it is the plain "
        "one (β = 1), whatever β a network was trained with, of the training images as training "
        "met them, iteration by iteration, and of the test images after every epoch. Its warm-ups "
        "are in gd-fig4."
    ),
    seeds=REGIME_SEEDS,
    notes=(
        FEW_SEEDS,
        f"At first is after {EARLY:.0%} of all steps, as in gd-fig4; of the test images, which are "
        "looked at after whole epochs, after the first epoch at least. A value of the training "
        f"images is the mean over a part of the steps, {PARTS} of which make the first tenth.",
        EARLIER,
    ),
    remark=earlier_remark,
)

ROWS = (FIGURE_4, FIGURE_5)
