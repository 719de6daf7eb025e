"""Charts that several experiments have; each is drawn from the runs of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from softmargin.charts import Chart, Series
from softmargin.papers.findings import Floats, against
from softmargin.papers.grid import Method, Task
from softmargin.papers.runs import Runs, Score
from softmargin.papers.statistics import Comparison, summary
from softmargin.papers.tables import Values, score_values

Draw = Callable[[Runs], Sequence[Chart]]
BAND = "lines are means over seeds, bands 95 % intervals of the mean (Student's t)"


@dataclass(frozen=True)
class Differences:
    """Every method's difference to the baseline with its interval, task by task."""

    score: Score

    def __call__(self, runs: Runs) -> list[Chart]:
        """Draw it."""
        found: dict[Method, list[tuple[int, Comparison]]] = {}
        for place, task in enumerate(runs.tasks):
            base = self.score.of(runs, task, runs.baseline)
            for method in runs.methods(task):
                comparison = against(self.score.of(runs, task, method), base)
                if method.name != runs.baseline and comparison is not None:
                    found.setdefault(method, []).append((place, comparison))
        series = [
            Series(
                method.name,
                [place for place, _ in own],
                [each.difference for _, each in own],
                [each.low for _, each in own],
                [each.high for _, each in own],
                beta=method.beta,
            )
            for method, own in found.items()
        ]
        ends = [-0.5, len(runs.tasks) - 0.5]
        chart = Chart(
            "differences",
            f"{self.score.title} less that of {runs.baseline}",
            "points",
            "",
            f"difference (points of {self.score.unit})",
            [*series, Series(runs.baseline, ends, [0.0, 0.0], dashed=True)],
            categories=[short(task.name) for task in runs.tasks],
            note=f"{runs.note}; means over seeds with 95 % bootstrap intervals of the paired "
            "difference.",
        )
        return [chart]


@dataclass(frozen=True)
class Bars:
    """A score by task, a bar for each method and, if asked for, the scaled baseline."""

    score: Score
    scaled: bool = False

    def __call__(self, runs: Runs) -> list[Chart]:
        """Draw it."""
        values = score_values(runs, self.score, self.scaled)
        methods = [each for task in runs.judged for each in runs.methods(task)]
        rows = [short(row) for row in dict.fromkeys(row for row, _ in values)]
        return [bars(runs, self.score, rows, whiskered(values, methods))]


def bars(runs: Runs, score: Score, rows: Sequence[str], series: Sequence[Series]) -> Chart:
    """Return a chart of bars by row."""
    return Chart(
        score.title.lower().replace(" ", "-"),
        score.title,
        "bars",
        "",
        score.label,
        series,
        categories=rows,
        note=f"{runs.note}; bars are means over seeds, whiskers the smallest and largest seed.",
    )


def whiskered(values: Values, methods: Iterable[Method] = ()) -> list[Series]:
    """Return columns of values as bars, with the smallest and largest seed as whiskers.

    Args:
        values: by row and column.
        methods: some of the columns, which have the colours of their β.
    """
    rows = list(dict.fromkeys(row for row, _ in values))
    betas = {method.name: method.beta for method in methods}
    series = []
    for column in dict.fromkeys(column for _, column in values):
        there = [place for place, row in enumerate(rows) if (row, column) in values]
        own = [values[rows[place], column] for place in there]
        means, low, high = (
            [float(reduced(each)) for each in own] for reduced in (np.mean, np.min, np.max)
        )
        series.append(Series(column, there, means, low, high, beta=betas.get(column)))
    return series


@dataclass(frozen=True)
class ByBeta:
    """A score against β, a line for each task."""

    score: Score

    def __call__(self, runs: Runs) -> list[Chart]:
        """Draw it."""
        series = []
        for task in runs.tasks:
            found = {each.beta: each for each in runs.methods(task) if each.beta is not None}
            values = sorted(found)
            curves = np.stack([self.score.of(runs, task, found[beta]) for beta in values], 1)
            series.append(banded(task.name, values, curves))
        name, title = self.score.path[-1].replace("_", "-"), f"{self.score.title} by β"
        return [lines(runs, name, title, "β", self.score.label, series, log_x=True)]


@dataclass(frozen=True)
class ByAmount:
    """A score against the amount of what methods are trained under, a line for each base.

    There is a chart for each task.

    Attributes:
        score: which score.
        name: of the file; that of the task is added where there are several tasks.
        title: of the chart.
        x_label: what the amount is.
        y_label: what is drawn.
        option: of training that the amount is of, by default any.
        gain: whether the baseline less the score is drawn; otherwise the baseline is a line, too.
    """

    score: Score
    name: str
    title: str
    x_label: str
    y_label: str
    option: str = ""
    gain: bool = False

    def __call__(self, runs: Runs) -> list[Chart]:
        """Draw it."""
        if len(runs.judged) == 1:
            return [self._of(runs, runs.judged[0], self.name, self.title)]
        return [
            self._of(
                runs.only(task), task, file_name(self.name, task), f"{self.title}, {task.name}"
            )
            for task in runs.judged
        ]

    def _of(self, runs: Runs, task: Task, name: str, title: str) -> Chart:
        values = runs.by_amount(self.score, task, self.option)
        plain = values.pop(runs.baseline) if self.gain else {}
        series = []
        for base, own in values.items():
            curves = [plain[amount] - each if plain else each for amount, each in own.items()]
            series.append(banded(base, list(own), np.stack(curves, 1)))
        if not self.gain and runs.baseline not in values:
            level = float(self.score.of(runs, task, runs.baseline).mean())
            ends = [series[0].x[0], series[0].x[-1]]
            series.append(Series(runs.baseline, ends, [level, level], dashed=True))
        return lines(runs, name, title, self.x_label, self.y_label, series)


def by_length(runs: Runs, score: Score) -> Chart:
    """Draw a score against the number of epochs that a training has."""
    epochs = [int(task.training["epochs"]) for task in runs.tasks]
    series = [
        method_band(method, epochs, np.stack([score.of(runs, t, method) for t in runs.tasks], 1))
        for method in runs.methods(runs.tasks[0])
    ]
    name, title = "accuracy-by-epochs", "Accuracy by the number of epochs of a training"
    note = "Every point is a training of its own."
    return lines(runs, name, title, "epochs", "test accuracy (%)", series, note, log_x=True)


@dataclass(frozen=True)
class ByEpoch:
    """A curve by epoch, a line for each method; a chart for each task.

    Attributes:
        curve: the score by epoch.
        name: of the file; that of the task is added where there are several tasks.
        skip: the share of the epochs that is left out at first.
        note: what else to know.
    """

    curve: Score
    name: str
    skip: float = 0.0
    note: str = ""

    def __call__(self, runs: Runs) -> list[Chart]:
        """Draw it."""
        several = len(runs.judged) > 1
        return [
            lines(
                runs,
                file_name(self.name, task) if several else self.name,
                f"{self.curve.title} {'later on' if self.skip else 'by epoch'}, {task.name}",
                "epoch",
                self.curve.label,
                [self._series(runs, task, method) for method in runs.methods(task)],
                self.note,
            )
            for task in runs.judged
        ]

    def _series(self, runs: Runs, task: Task, method: Method) -> Series:
        curves = self.curve.of(runs, task, method)
        skipped = int(self.skip * curves.shape[1])
        first = self.curve.first_epoch
        epochs = list(range(first + skipped, first + curves.shape[1]))
        return method_band(method, epochs, curves[:, skipped:])


def reliability(runs: Runs) -> list[Chart]:
    """Draw the reliability of test predictions by method, a chart for each task."""
    return [
        Chart(
            file_name("reliability", task),
            f"Reliability of test predictions, {task.name}",
            "reliability",
            "confidence",
            "accuracy",
            [_diagram(runs, task, method) for method in runs.methods(task)],
            note=f"{runs.scope.scale.capitalize()} scale; the test predictions of "
            f"{len(runs.runs(task, runs.baseline))} seeds together, 10 bins of equal width.",
        )
        for task in runs.tasks
    ]


def _diagram(runs: Runs, task: Task, method: Method) -> Series:
    """Return confidence, accuracy and number of predictions of every bin, over all seeds."""
    counts, confidence, accuracy = (
        runs.numbers(task, method, "bins", part) for part in ("counts", "confidence", "accuracy")
    )
    whole = counts.sum(0)
    filled = np.where(whole > 0, whole, np.nan)  # an empty bin has neither
    return Series(
        method.name,
        ((counts * confidence).sum(0) / filled).tolist(),
        ((counts * accuracy).sum(0) / filled).tolist(),
        beta=method.beta,
        size=whole.tolist(),
    )


# --- what charts are made of


def lines(
    runs: Runs,
    name: str,
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    note: str = "",
    *,
    log_x: bool = False,
) -> Chart:
    """Return a chart of means over seeds with their intervals."""
    note = f"{runs.note}; {BAND}.{note and f' {note}'}"
    return Chart(name, title, "line", x_label, y_label, series, log_x=log_x, note=note)


def method_band(method: Method, x: Sequence[float], curves: Floats) -> Series:
    """Return a method's mean over seeds of curves (seeds, places), with its interval."""
    series = banded(method.name, x, curves)
    return replace(series, beta=method.beta, dashed=method.warm_up is not None)


def banded(name: str, x: Sequence[float], curves: Floats, digits: int = 4) -> Series:
    """Return the mean over seeds of curves (seeds, places), with its 95 % interval."""
    found = [summary(values) for values in curves.T]
    mean = [round(each.mean, digits) for each in found]
    low = tuple(round(each.low, digits) for each in found if each.low is not None)
    high = tuple(round(each.high, digits) for each in found if each.high is not None)
    return Series(name, list(x), mean, low, high)


def short(row: str) -> str:
    """Return a row's name with what fits under a chart.

    Example:
        >>> short("digits for CIFAR-10, 27 epochs, fully connected")
        'CIFAR-10, 27 epochs'
    """
    return row.removeprefix("digits for ").removesuffix(", fully connected")


def file_name(stem: str, task: Task) -> str:
    """Return a name for a chart of a task.

    Example:
        >>> file_name("ece", Task("CIFAR-10, ResNet18", "cifar10", "resnet18", {}))
        'ece-cifar-10-resnet18'
    """
    letters = "".join(c if c.isascii() and c.isalnum() else " " for c in task.name.lower())
    return "-".join([stem, *letters.split()])
