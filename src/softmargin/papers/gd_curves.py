"""The gradient-decay paper on MNIST, epoch by epoch: Figures 3, 4 and 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.charts import BAND, ByEpoch, banded
from softmargin.papers.desk import WARM_UPS
from softmargin.papers.findings import (
    Compare,
    Floats,
    Monotone,
    Rule,
    against,
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
    chart_name,
    mnist_deviations,
    shared_plan,
)
from softmargin.papers.grid import Method, Task
from softmargin.papers.methods import betas
from softmargin.papers.outcome import Finding
from softmargin.papers.rows import Row
from softmargin.papers.runs import ACCURACY_CURVE, Runs, Score, after_share
from softmargin.papers.tables import EpochTable, MethodTable

# --- Figure 3: how confidence grows, sample by sample and from hard to easy groups

BETAS = betas(5, 2, 1, 0.5, 0.2, 0.1, 0.01, 0.001)
GROUP_PANELS = BETAS[1:]
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


MEAN_GAP = Score(
    "mean over all epochs",
    array="groups",
    reduce=lambda curves: gap(curves).mean(1),
    unit="confidence",
    digits=3,
    phrase="the gap (mean over all epochs)",
)
EQUAL_GAP = replace(
    MEAN_GAP,
    title="at equal progress",
    reduce=gap_at_progress,
    phrase="the gap (at equal progress)",
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
    """Draw the confidence of five groups by epoch, a chart for each β."""
    (task,) = runs.judged
    title, y_label = "Five groups of training samples", "mean confidence in the true class"
    note = f"{runs.note}; fifths of the training samples by final confidence; {BAND}."
    charts = []
    for method in runs.present(task, GROUP_PANELS):
        curves = runs.arrays(task, method, "groups")
        epochs = drawn_epochs(curves.shape[1])
        groups = zip(GROUPS, np.moveaxis(curves[:, np.array(epochs) - 1], -1, 0), strict=True)
        series = [banded(f"group {name}", epochs, own, 3) for name, own in groups]
        charts.append(panel(method, "groups", title, y_label, series, note))
    return charts


def gap_chart(runs: Runs) -> list[Chart]:
    """Draw the gap between easiest and hardest group against the mean confidence of all."""
    (task,) = runs.judged
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
    (task,) = runs.judged
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
    plan=shared_plan(BETAS),
    findings=[
        Compare(score, name, sign)
        for score in (MEAN_GAP, EQUAL_GAP)
        for name, sign in ((SMALLEST, 1), ("β = 2", -1))
    ],
    tables=(
        MethodTable(
            "Gap between the easiest and the hardest fifth",
            (MEAN_GAP, EQUAL_GAP),
            note=f"{NEVER} The paper has curves only. {AGAINST_ONE}",
        ),
        MethodTable(
            f"First epoch in which a group's mean confidence is {HALF:g} or more",
            [until_half(place) for place in range(len(GROUPS))],
            note=NEVER,
        ),
    ),
    charts=(group_charts, gap_chart, trace_charts),
    deviations=mnist_deviations(OPEN),
    seeds=SEEDS,
    notes=(
        "The gap is the mean confidence of the easiest fifth of the training samples minus that of "
        "the hardest, in groups by final confidence, as met during training. It is taken over all "
        "epochs, and at equal progress: where the mean confidence of all samples first passes "
        f"{PROGRESS:g} (interpolated between epochs), because a small β is faster, and at the same "
        "epoch therefore nearer its end. That level was set after a look at one trial of four "
        "epochs, as one that all values of β come to pass.",
        FEW_SEEDS,
    ),
)

# --- Figures 4 and 5: accuracy and cross-entropy on test images

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


def lead_shrinks(runs: Runs, task: Task) -> list[Finding]:
    """Find whether the lead of a small β in cross-entropy melts after the early phase."""
    before, after = (
        float(np.mean(score.of(runs, task, runs.baseline) - score.of(runs, task, SMALLEST)))
        for score in (EARLY_NLL, LAST_NLL)
    )
    text = (
        f"{SMALLEST} is ahead of {runs.baseline} by {before:+.4f} nats {EARLY_NLL.title} and by "
        f"{after:+.4f} at the end"
    )
    return [Finding(text, before > 0 and after < before)]


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
FIGURE_5 = curve_row(
    5,
    "Cross-entropy by epoch and β",
    "Plain cross-entropy falls faster at first the smaller β is; the lead shrinks later, as β's "
    "own objective and cross-entropy part.",
    NLL_CURVE,
    (
        Monotone(EARLY_NLL, -1, CONSTANT),
        Compare(EARLY_NLL, SMALLEST, -1),
        Compare(EARLY_NLL, LARGEST, 1),
        lead_shrinks,
    ),
    " The paper does not say on which images its cross-entropy was taken: here it is the plain one "
    "(β = 1) of the test images, whatever β a network was trained with.",
)

ROWS = (FIGURE_3, FIGURE_4, FIGURE_5)
