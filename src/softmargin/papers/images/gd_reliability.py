"""GD Figures 6 and 9 to 13: reliability diagrams; Figure 8: accuracy by epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from softmargin.calibration import bin_statistics, top_label
from softmargin.charts import Chart, Series
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, Floats
from softmargin.papers.images import desk, recipes, words
from softmargin.papers.images.findings import RULE, Finding, compare, monotone, of_score, verdict
from softmargin.papers.images.gd_accuracy import BASELINE, FIVE, SEEDS, WARM
from softmargin.papers.images.methods import Method, betas
from softmargin.papers.images.runs import (
    ACCURACY,
    CONFIDENCE,
    ECE,
    MCE,
    Runs,
    compared_table,
    file_name,
    in_row,
    method_band,
    score_table,
)
from softmargin.papers.images.tasks import Grid, Plan, Task
from softmargin.papers.outcome import Outcome

UP_TO_50 = betas(50, 20, 10, 5, 1, 0.1)
UP_TO_20 = betas(20, 10, 5, 1, 0.1, 0.01)


# --- reliability diagrams


@dataclass(frozen=True)
class Reliability:
    """A figure of reliability diagrams."""

    plan: Plan

    def conclude(self, setting: Scope, finished: Finished) -> Outcome:
        """Return the diagrams of every β, and whether a large one tempers confidence."""
        runs = Runs(setting, finished, self.plan)
        tables = [score_table(runs, score, BASELINE) for score in (ECE, MCE, CONFIDENCE, ACCURACY)]
        charts = [_diagrams(runs, task) for task in runs.tasks]
        found = [finding for task in runs.tasks for finding in _findings(runs, task)]
        return Outcome(verdict(setting, found), tables, charts, [RULE], runs.setup)


def _findings(runs: Runs, task: Task) -> list[Finding]:
    confidence = {method.name: CONFIDENCE.of(runs, task, method) for method in runs.methods(task)}
    return [
        monotone(f"confidence in % on {task.name}", confidence, 1, 2),
        of_score(runs, ECE, task, ("β = 20", BASELINE), -1),
        of_score(runs, ECE, task, ("β = 0.1", BASELINE), 1),
    ]


def _diagrams(runs: Runs, task: Task) -> Chart:
    seeds = len(runs.runs(task, BASELINE))
    return Chart(
        file_name("reliability", task),
        f"Reliability of test predictions, {task.name}",
        "reliability",
        "confidence",
        "accuracy",
        [_diagram(runs, task, method) for method in runs.methods(task)],
        note=f"{runs.setting.scale.capitalize()} scale; the test predictions of {seeds} seeds "
        "together, 10 bins of equal width.",
    )


def _diagram(runs: Runs, task: Task, method: Method) -> Series:
    """Return confidence, accuracy and number of predictions of every bin, over all seeds."""
    found = []
    for result, place in runs.runs(task, method):
        logits = torch.from_numpy(np.asarray(result.arrays["test_logits"][place])).float()
        y = torch.from_numpy(np.asarray(result.arrays["test_labels"])).long()
        found.append(top_label(logits, y, from_logits=True))
    confidence, correct = (torch.cat(each) for each in zip(*found, strict=True))
    bins = bin_statistics(confidence, correct)
    return Series(
        method.name,
        bins.confidence.tolist(),
        bins.accuracy.tolist(),
        beta=method.beta,
        size=bins.counts.tolist(),
    )


# --- accuracy by epoch

CURVES = Plan(
    [(desk.CIFAR100, (*FIVE, WARM)), (desk.CIFAR10, (*FIVE, WARM))],
    [(recipes.CIFAR100[0], (*FIVE, WARM)), (recipes.CIFAR10_PLAIN[0], (*FIVE, WARM))],
)


def conclude_curves(setting: Scope, finished: Finished) -> Outcome:
    """Return accuracy by epoch, and whether it swings more with a large β."""
    runs = Runs(setting, finished, CURVES)
    values = {
        (task.name, method.name): swing(100 * runs.arrays(task, method, "accuracy"))
        for task in runs.tasks
        for method in runs.methods(task)
    }
    title = "Swing of accuracy before the rate falls"
    table = compared_table(runs, ACCURACY, values, lambda key: (key[0], BASELINE), {}, SWING, title)
    found = [
        compare(
            f"on {task.name}, the swing of accuracy in points",
            in_row(values, task.name),
            ("β = 5", BASELINE),
            1,
        )
        for task in runs.tasks
    ]
    charts = [_curves(runs, task) for task in runs.tasks]
    tables = [table, score_table(runs, ACCURACY, BASELINE)]
    return Outcome(verdict(setting, found), tables, charts, [RULE, SWING], runs.setup)


SWING = (
    "The swing is the root mean square of the second differences of accuracy from epoch to epoch "
    "before the learning rate first falls, so that steady progress does not count."
)


def swing(curves: Floats) -> Floats:
    """Return how far curves (seeds, epochs) swing over their first half.

    Example:
        >>> swing(np.array([[0.0, 1, 2, 3, 9, 9], [0.0, 1, 0, 1, 9, 9]])).tolist()
        [0.0, 2.0]
    """
    half = curves[:, : max(3, curves.shape[1] // 2)]
    if half.shape[1] < 3:
        return np.zeros(len(curves))
    swung: Floats = np.sqrt((np.diff(half, 2, axis=1) ** 2).mean(1))
    return swung


def _curves(runs: Runs, task: Task) -> Chart:
    epochs = list(range(1, runs.arrays(task, BASELINE, "accuracy").shape[1] + 1))
    series = [
        method_band(method, epochs, 100 * runs.arrays(task, method, "accuracy"))
        for method in runs.methods(task)
    ]
    return Chart(
        file_name("accuracy", task),
        f"Test accuracy by epoch, {task.name}",
        *("line", "epoch", "test accuracy (%)"),
        series,
        note=f"{runs.note}; {BAND}.",
    )


# --- the experiments

FIGURES: dict[str, tuple[str, str, Grid, Grid]] = {
    "gd-fig6": (
        *("CIFAR-100, ResNet18", "Figure 6"),
        [(desk.CIFAR100, UP_TO_20)],
        [(recipes.CIFAR100[0], UP_TO_20)],
    ),
    "gd-fig9": (
        *("CIFAR-10, ResNet18", "Figure 9"),
        [(desk.CIFAR10, UP_TO_50), (desk.RESIDUAL, desk.RESIDUAL_DECAYS)],
        [(recipes.CIFAR10[0], UP_TO_50)],
    ),
    "gd-fig10": (
        *("CIFAR-100, ResNet34", "Figure 10"),
        [(desk.CIFAR100, UP_TO_50)],
        [(recipes.CIFAR100[1], UP_TO_50)],
    ),
    "gd-fig11": (
        *("CIFAR-100, VGG16", "Figure 11"),
        [(desk.CIFAR100, UP_TO_50)],
        [(recipes.CIFAR100[2], UP_TO_50)],
    ),
    "gd-fig12": (
        *("Tiny-ImageNet, ResNet34", "Figure 12"),
        [(desk.TINY, UP_TO_20)],
        [(recipes.TINY_34, UP_TO_20)],
    ),
    "gd-fig13": (
        *("Tiny-ImageNet, ResNet50", "Figure 13"),
        [(desk.TINY_WIDER, UP_TO_20)],
        [(recipes.TINY_50, UP_TO_20)],
    ),
}


def _figure(name: str) -> Experiment:
    what, where, at_desk, on_paper = FIGURES[name]
    plan = Plan(at_desk, on_paper)
    return Experiment(
        *(name, f"Reliability diagrams by β, {what}", "GD", where),
        "The smaller β is, the more confident the network, beyond its accuracy: small β makes "
        "over-confidence worse, large β takes it away.",
        plan.cells,
        Reliability(plan).conclude,
        seeds=SEEDS,
        deviations=words.deviations(
            (words.OPEN, *([words.CLIPPED] if on_paper[0][0].data == "tiny_imagenet" else [])),
            (words.CONNECTED, "Figures of one data set show the same networks at this scale."),
        ),
    )


EXPERIMENTS = (
    *(_figure(name) for name in FIGURES),
    Experiment(
        *("gd-fig8", "Test accuracy by epoch on CIFAR-100 and CIFAR-10", "GD", "Figure 8"),
        "Test accuracy swings visibly more from epoch to epoch with a large β.",
        CURVES.cells,
        conclude_curves,
        seeds=SEEDS,
        deviations=words.deviations(
            (words.OPEN, words.chosen("warm-up"), "CIFAR-10 is the first version's Figure 8.")
        ),
    ),
)
