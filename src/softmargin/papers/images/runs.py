"""Finished cells as values over seeds, by task and method; tables and bands from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softmargin.charts import Series
from softmargin.papers.core import Finished, Result, Scope
from softmargin.papers.findings import Floats, adjusted, against, banded
from softmargin.papers.images.methods import Method
from softmargin.papers.images.tasks import Grid, Plan, Task
from softmargin.papers.outcome import Entry, ResultTable

Key = tuple[str, str]
Numbers = Mapping[str, Mapping[str, float]]
"""A paper's table: by row, then by column."""
Beside = Mapping[str, Mapping[str, float | tuple[float, float]]]
"""The same with standard deviations, where a paper has them: a mean, or a mean and an sd."""


class Runs:
    """The results of one experiment: of each task and method one per seed."""

    def __init__(self, setting: Scope, finished: Finished, plan: Plan) -> None:
        """Keep the results in the order of the seeds, so that methods are paired."""
        self.setting = setting
        self.grid: Grid = plan.grid(setting.scale)
        self.by: dict[Key, list[tuple[Result, int]]] = {}
        self.configs: dict[str, Mapping[str, Any]] = {}
        for cell, result in sorted(finished, key=lambda each: int(each[0].config["seed"])):
            task = cell.config["task"]
            self.configs.setdefault(task, cell.config)
            for place, name in enumerate(result.numbers["variants"]):
                self.by.setdefault((task, name), []).append((result, place))

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in the order of the table."""
        return [task for task, _ in self.grid]

    def methods(self, task: Task) -> Sequence[Method]:
        """Return the methods that the experiment wants of a task."""
        (found,) = (methods for own, methods in self.grid if own == task)
        return found

    def numbers(self, task: Task, method: Method | str, *path: str) -> Floats:
        """Return a number over seeds, such as ``"final", "ece"``."""
        values = []
        for result, place in self.runs(task, method):
            found: Any = result.numbers
            for name in path:
                found = found[name]
            values.append(found[place])
        return np.array(values, dtype=np.float64)

    def arrays(self, task: Task, method: Method | str, name: str) -> Floats:
        """Return an array over seeds, (seeds, ...), such as a score by epoch."""
        found = [result.arrays[name][place] for result, place in self.runs(task, method)]
        return np.stack(found).astype(np.float64)

    def runs(self, task: Task, method: Method | str) -> list[tuple[Result, int]]:
        """Return the results of a method, and its place in each."""
        return self.by[task.name, method if isinstance(method, str) else method.name]

    @property
    def note(self) -> str:
        """The scale and the seeds, in words."""
        counts = sorted({len(each) for each in self.by.values()})
        seeds = " or ".join(str(count) for count in counts)
        return f"{self.setting.scale.capitalize()} scale, {seeds} seed{'s' * (counts[-1] > 1)}"

    @property
    def setup(self) -> dict[str, str]:
        """What was trained, in words: one line for each task."""
        return {task.name: described(task, self.configs[task.name]) for task in self.tasks}


@dataclass(frozen=True)
class Score:
    """A number of every run: where it stands, its unit, and which way is better."""

    title: str
    path: tuple[str, ...]
    unit: str = "%"
    digits: int = 2
    better: str = "higher"
    factor: float = 100.0
    offset: float = 0.0

    def of(self, runs: Runs, task: Task, method: Method | str) -> Floats:
        """Return the score over seeds."""
        values: Floats = self.offset + self.factor * runs.numbers(task, method, *self.path)
        return values


ACCURACY = Score("Top-1 accuracy", ("final", "accuracy"))
TOP_5 = Score("Top-5 accuracy", ("final", "top_k_accuracy"))
ERROR = Score("Error rate", ("final", "accuracy"), better="lower", factor=-100.0, offset=100.0)
TRAINED = Score("Training accuracy", ("train_accuracy",), better="")
ECE = Score("ECE", ("final", "ece"), unit="", digits=3, better="lower", factor=1.0)
MCE = Score("MCE", ("final", "mce"), unit="", digits=3, better="lower", factor=1.0)
CONFIDENCE = Score("Mean confidence", ("final", "mean_confidence"), better="")


def described(task: Task, config: Mapping[str, Any]) -> str:
    """Return how a task is trained, in words."""
    training, part = config["training"], config["part"]
    images = [f"{part[name]:,} {title}" for name, title in _PARTS.items() if name in part]
    if "size" in part:
        images.append(f"reduced to {part['size']}×{part['size']}")
    options = ", ".join(f"{k} {v}" for k, v in training.get("model_options", {}).items())
    optimizer = training.get("optimizer", "sgd")
    return (
        f"{config['data']} ({', '.join(images) or 'all images'}), {config['model']}"
        f"{f' ({options})' if options else ''}, {training['epochs']} epochs of {optimizer}, "
        f"batch {training['batch']}, learning rate {training['lr']:g} "
        f"({training.get('lr_schedule', 'constant')}), weight decay {training['weight_decay']:g}"
        f"{', augmented' if training.get('augment') else ', no augmentation'}"
    )


_PARTS = {"train": "to train on", "test": "to test on", "held_out": "held out"}


def score_table(
    runs: Runs,
    score: Score,
    baseline: str | None,
    paper: Beside | None = None,
    *,
    columns: Callable[[Task], Sequence[Method]] | None = None,
    note: str = "",
) -> ResultTable:
    """Return a table of one score, tasks by methods, each compared with the task's baseline."""
    columns = columns or runs.methods
    values = {
        (task.name, method.name): score.of(runs, task, method)
        for task in runs.tasks
        for method in columns(task)
    }
    beside = {task.name: (paper or {}).get(task.beside, {}) for task in runs.tasks}
    return compared_table(runs, score, values, lambda key: (key[0], baseline or ""), beside, note)


def compared_table(
    runs: Runs,
    score: Score,
    values: Mapping[Key, Floats],
    baseline: Callable[[Key], Key],
    paper: Beside,
    note: str = "",
    title: str = "",
) -> ResultTable:
    """Return a table of values by (row, column), each compared with another of them."""
    entries = []
    for key, own in values.items():
        if np.isfinite(own).all():
            base = baseline(key)
            found = None if base == key else against(own, values.get(base, own[:0]))
            mean, sd = _pair(paper.get(key[0], {}).get(key[1]))
            known = None if found is None else base
            entries.append(Entry(*key, own.tolist(), mean, sd, found, baseline=known))
    told = "" if runs.setting.scale == "paper" else STANDS_BESIDE * any(paper.values())
    return ResultTable(
        title or score.title,
        score.unit,
        adjusted(entries),
        score.digits,
        better=score.better,
        note=" ".join(part for part in (f"{runs.note}: mean ± sd.", told, note) if part),
    )


def in_row(values: Mapping[Key, Floats], row: str) -> dict[str, Floats]:
    """Return the values of one row by column."""
    return {column: own for (name, column), own in values.items() if name == row}


def in_column(values: Mapping[Key, Floats], column: str) -> dict[str, Floats]:
    """Return the values of one column by row."""
    return {row: own for (row, name), own in values.items() if name == column}


def _pair(beside: float | tuple[float, float] | None) -> tuple[float | None, float | None]:
    return beside if isinstance(beside, tuple) else (beside, None)


STANDS_BESIDE = (
    "The paper's numbers are of its own networks on all images: compare directions, not values."
)


def file_name(stem: str, task: Task) -> str:
    """Return a name for a chart of a task.

    Example:
        >>> file_name("ece", Task("CIFAR-10, ResNet18", "cifar10", "resnet18", {}))
        'ece-cifar-10-resnet18'
    """
    letters = "".join(c if c.isascii() and c.isalnum() else " " for c in task.name.lower())
    return "-".join([stem, *letters.split()])


def method_band(method: Method, x: Sequence[float], curves: Floats) -> Series:
    """Return a method's mean over seeds of curves (seeds, places), with its interval."""
    series = banded(method.name, x, curves)
    return replace(series, beta=method.beta, dashed="→" in method.name)
