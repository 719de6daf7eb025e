"""Beyond the papers: a large β that does not under-train, and β beside other ways to calibration.

The gradient-decay paper leaves both for later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from softmargin.charts import Chart
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import Floats, banded
from softmargin.papers.images import desk, recipes, words
from softmargin.papers.images.charts import bars
from softmargin.papers.images.findings import RULE, Finding, of_score, verdict
from softmargin.papers.images.gd_accuracy import BASELINE
from softmargin.papers.images.methods import Method, betas, smoothed
from softmargin.papers.images.runs import (
    ACCURACY,
    ECE,
    TRAINED,
    Key,
    Runs,
    Score,
    compared_table,
)
from softmargin.papers.images.tasks import Plan, Task, each
from softmargin.papers.outcome import Outcome

NLL = Score("NLL", ("final", "nll"), unit="nats", digits=3, better="lower", factor=1.0)
SEEDS = {"smoke": 2, "desk": 5, "paper": 3}
LARGE = (5.0, 20.0, 50.0)
SCALINGS = {"β = 1, temperature": "temperature", "β = 1, vector": "vector"}


def compensated(value: float) -> Method:
    """Return gradient decay whose batches pull as hard as those of β = 1.

    Example:
        >>> compensated(20).name
        'β = 20, compensated'
    """
    options = {"beta": value, "compensate": True}
    return Method(f"β = {value:g}, compensated", {"loss_options": options}, value)


def focal(gamma: float) -> Method:
    """Return the focal loss."""
    return Method(f"focal, γ = {gamma:g}", {"loss": "focal", "loss_options": {"gamma": gamma}})


PLAIN = betas(1, *LARGE)
COMPENSATED = tuple(compensated(value) for value in LARGE)
RIVALS = (smoothed(0.05), smoothed(0.1), focal(1), focal(3))
EVERYTHING = (*PLAIN, *COMPENSATED, *RIVALS)
COLOURS = {method.name: method.beta for method in EVERYTHING}
PART = {**desk.TEN_THOUSAND, "held_out": 2000}
TOGETHER = desk.connected(
    *("CIFAR-10, ways to calibration", "cifar10", desk.FITTED, PART, EVERYTHING),
    measures=desk.SCALING,
)
WHOLE = recipes.held_out(recipes.CIFAR10[0])
PLAN_COMPENSATION = Plan(
    each([TOGETHER], (*PLAIN, *COMPENSATED)), each([WHOLE], (*PLAIN, *COMPENSATED))
)
PLAN_CALIBRATION = Plan(each([TOGETHER], EVERYTHING), each([WHOLE], EVERYTHING))


def conclude_compensation(setting: Scope, finished: Finished) -> Outcome:
    """Return what compensation does to training, accuracy and calibration."""
    runs = Runs(setting, finished, PLAN_COMPENSATION)
    (task,) = runs.tasks
    values = {score: _values(runs, task, score) for score in (TRAINED, ACCURACY, ECE, NLL)}
    found = [
        of_score(runs, TRAINED, task, ("β = 50, compensated", "β = 50"), 1),
        of_score(runs, ACCURACY, task, ("β = 50, compensated", "β = 50"), 1),
        of_score(runs, ECE, task, ("β = 20, compensated", BASELINE), -1),
        of_score(runs, NLL, task, ("β = 20, compensated", BASELINE), -1),
    ]
    return _outcome(runs, values, found)


def conclude_calibration(setting: Scope, finished: Finished) -> Outcome:
    """Return accuracy and calibration of β beside scaling, smoothing and focal loss."""
    runs = Runs(setting, finished, PLAN_CALIBRATION)
    (task,) = runs.tasks
    values = {score: _values(runs, task, score) for score in (ACCURACY, ECE, NLL)}
    for score in values:
        for name, kind in SCALINGS.items():
            scaled = runs.numbers(task, BASELINE, "scaled", kind, score.path[-1])
            values[score][task.name, name] = score.factor * scaled
    found = [
        of_score(runs, ECE, task, ("β = 20", BASELINE), -1),
        of_score(runs, ECE, task, ("β = 20", "LSR, λ = 0.1"), -1),
        of_score(runs, ECE, task, ("β = 20", "focal, γ = 3"), -1),
        of_score(runs, NLL, task, ("β = 20", BASELINE), -1),
    ]
    outcome = _outcome(runs, values, found)
    return replace(outcome, charts=[_trade(runs, values), *outcome.charts])


def _trade(runs: Runs, values: Mapping[Score, Mapping[Key, Floats]]) -> Chart:
    """Draw the calibration error of every way against its accuracy."""
    series = []
    for key, errors in values[ECE].items():
        accuracy = float(values[ACCURACY][key].mean())
        point = banded(key[1], [accuracy], errors[:, None])
        series.append(replace(point, beta=COLOURS.get(key[1])))
    return Chart(
        "accuracy-and-calibration",
        "Calibration error against accuracy: right and low is better",
        *("points", "top-1 accuracy (%)", "ECE"),
        series,
        note=f"{runs.note}; means over seeds, with 95 % intervals of the mean ECE (Student's t).",
    )


def _values(runs: Runs, task: Task, score: Score) -> dict[Key, Floats]:
    return {(task.name, method.name): score.of(runs, task, method) for method in runs.methods(task)}


def _by_method(values: Mapping[Key, Floats]) -> dict[Key, Floats]:
    """Return values with the method as the row: there are many, and one task."""
    return {(method, task): own for (task, method), own in values.items()}


def _outcome(
    runs: Runs, values: Mapping[Score, Mapping[Key, Floats]], found: Sequence[Finding]
) -> Outcome:
    tables = [
        compared_table(runs, score, _by_method(own), lambda key: (BASELINE, key[1]), {}, "")
        for score, own in values.items()
    ]
    charts = [bars(runs, score, own, COLOURS) for score, own in values.items()]
    notes = [RULE]
    return Outcome(verdict(runs.setting, found), tables, charts, notes, runs.setup)


EXPERIMENTS = (
    Experiment(
        *("sm-compensation", "A large β with the mean gradient of β = 1", "SM"),
        "the gradient-decay paper's outlook",
        "Scaled so that the mean gradient of every batch is that of β = 1, a large β fits its "
        "training images and gains accuracy, and is still better calibrated than cross-entropy.",
        PLAN_COMPENSATION.cells,
        conclude_compensation,
        seeds=SEEDS,
        deviations=words.deviations(("There is no such table in the papers.",)),
    ),
    Experiment(
        *("sm-calibration", "β beside scaling, label smoothing and focal loss", "SM"),
        "the gradient-decay paper's outlook",
        "As a way to a calibrated network without a second step, a large β does better than label "
        "smoothing and focal loss.",
        PLAN_CALIBRATION.cells,
        conclude_calibration,
        seeds=SEEDS,
        deviations=words.deviations(("There is no such table in the papers.",)),
    ),
)
