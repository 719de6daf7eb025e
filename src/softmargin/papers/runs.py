"""Finished cells as values over seeds, by task and method; scores, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softmargin.papers.core import Finished, Result, Scope
from softmargin.papers.findings import Floats, against
from softmargin.papers.grid import Method, Plan, Task
from softmargin.papers.outcome import Entry, ResultTable
from softmargin.papers.printed import Printed, printed
from softmargin.papers.statistics import holm

Key = tuple[str, str]
Values = Mapping[Key, Floats]
"""What a table shows, by row and column: one value per seed."""


class Runs:
    """The results of one experiment: of each task and method one per seed, so that they pair.

    Attributes:
        scope: scale and seeds.
        grid: tasks, and the methods that the experiment wants of each.
        baseline: name of the method that the others are compared with.
        scalings: ways to scale the baseline after training, which stand beside methods.
    """

    def __init__(
        self, scope: Scope, finished: Finished, plan: Plan, baseline: str = "β = 1"
    ) -> None:
        """Keep the results by the keys of their cells."""
        self.scope, self.grid, self.baseline = scope, plan.grid(scope.scale), baseline
        self.scalings = plan.scalings
        self._results = {cell.key: result for cell, result in finished}
        self._found: dict[Key, list[tuple[Result, int]]] = {}

    @property
    def tasks(self) -> list[Task]:
        """All tasks, in the order of the table."""
        return [task for task, _ in self.grid]

    @property
    def judged(self) -> list[Task]:
        """The tasks that something is claimed of: those that do not only serve another."""
        return [task for task in self.tasks if not task.serves]

    def serving(self, task: Task) -> Task | None:
        """Return the task that serves another one, or None."""
        return next((each for each in self.tasks if each.serves == task.name), None)

    def methods(self, task: Task) -> Sequence[Method]:
        """Return the methods that the experiment wants of a task."""
        (found,) = (methods for own, methods in self.grid if own.name == task.name)
        return found

    def has(self, task: Task, names: Iterable[str]) -> bool:
        """Return whether a task has all methods of some names."""
        there = {method.name for method in (*self.methods(task), *self.scalings)}
        return there.issuperset(names)

    def numbers(self, task: Task, method: Method | str, *path: str) -> Floats:
        """Return a number or a list over seeds, such as ``"final", "ece"``."""
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
        """Return the results of a method in the order of seeds, and its place in each."""
        own = self.method(task, method) if isinstance(method, str) else method
        if (task.name, own.name) not in self._found:
            found = [self._results[cell.key] for cell in task.cells([own], self.scope.seeds)]
            variant = task.variant(own)
            self._found[task.name, own.name] = [
                (result, result.numbers["variants"].index(variant)) for result in found
            ]
        return self._found[task.name, own.name]

    def method(self, task: Task, name: str) -> Method:
        """Return a method of a task by its name."""
        return next(each for each in (*self.methods(task), *self.scalings) if each.name == name)

    @property
    def note(self) -> str:
        """The scale and the seeds, in words."""
        counts = sorted({len(self.scope.seeds[: task.most_seeds]) for task in self.tasks})
        seeds = " or ".join(str(count) for count in counts)
        return f"{self.scope.scale.capitalize()} scale, {seeds} seed{'s' * (counts[-1] > 1)}"

    @property
    def setup(self) -> dict[str, str]:
        """What was trained, in words."""
        return {name: told for task in self.tasks for name, told in task.setup.items()}


# --- scores


@dataclass(frozen=True)
class Score:
    """A number of every run: where it stands or how it is read, its unit, which way is better.

    Attributes:
        title: of tables.
        path: to the number in a result, such as ``("final", "ece")``.
        read: where it follows from more than one number: a function of runs, task and method.
        unit: of the values.
        digits: after the point.
        better: ``"higher"``, ``"lower"`` or nothing.
        factor: from the number to the value.
        offset: added to that.
        phrase: what findings call it, by default the title with its unit.
    """

    title: str
    path: tuple[str, ...] = ()
    read: Callable[[Runs, Task, Method], Floats] | None = None
    unit: str = "%"
    digits: int = 2
    better: str = "higher"
    factor: float = 100.0
    offset: float = 0.0
    phrase: str = ""

    def of(self, runs: Runs, task: Task, method: Method | str) -> Floats:
        """Return the score over seeds; of scaling, that of the scaled baseline."""
        own = runs.method(task, method) if isinstance(method, str) else method
        if self.read is not None:
            found = self.read(runs, task, own)
        elif own.scaling:
            fitted = runs.serving(task) or task  # on images held out from training
            path = ("scaled", own.scaling, self.path[-1])
            found = runs.numbers(fitted, runs.baseline, *path)
        else:
            found = runs.numbers(task, own, *self.path)
        values: Floats = self.offset + self.factor * found
        return values

    def on(self, task: Task) -> str:
        """Return what findings call the score of a task."""
        title = self.title if self.title.isupper() else self.title[0].lower() + self.title[1:]
        phrase = self.phrase or f"{title}{f' in {self.unit}' if self.unit else ''}"
        return f"on {task.name}, {phrase}"

    @property
    def label(self) -> str:
        """The title with its unit, for an axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


ACCURACY = Score("Top-1 accuracy", ("final", "accuracy"))
TOP_5 = Score("Top-5 accuracy", ("final", "top_k_accuracy"))
ERROR = Score("Error rate", ("final", "accuracy"), better="lower", factor=-100.0, offset=100.0)
TRAINED = Score("Training accuracy", ("train_accuracy",), better="")
ECE = Score("ECE", ("final", "ece"), unit="", digits=3, better="lower", factor=1.0)
MCE = Score("MCE", ("final", "mce"), unit="", digits=3, better="lower", factor=1.0)
NLL = Score("NLL", ("final", "nll"), unit="nats", digits=3, better="lower", factor=1.0)
CONFIDENCE = Score("Mean confidence", ("final", "mean_confidence"), better="")

# --- tables

STANDS_BESIDE = (
    "The paper's numbers are of its own networks on all images: compare directions, not values."
)


@dataclass(frozen=True)
class ScoreTable:
    """One score, tasks by methods, each compared with the baseline of its task.

    Attributes:
        score: which score.
        paper: name of the printed table, or nothing.
        printed_as: which score of that table, where it has several.
        scaled: whether the scaled baseline stands beside the methods. Tasks that only serve to
            fit the scaling are no rows then.
        transposed: whether methods are rows, since there are many of them.
        note: under the table.
    """

    score: Score
    paper: str = ""
    printed_as: str = ""
    scaled: bool = False
    transposed: bool = False
    note: str = ""

    def __call__(self, runs: Runs) -> list[ResultTable]:
        """Return the table."""
        values = score_values(runs, self.score, self.scaled)
        if self.transposed:
            turned = {(method, task): own for (task, method), own in values.items()}
            return [compared(runs, self.score, turned, by_column(runs), note=self.note)]
        numbers = printed(self.paper, self.printed_as) if self.paper else {}
        paper = {task.name: numbers.get(task.paper_row, {}) for task in runs.tasks}
        return [compared(runs, self.score, values, by_row(runs), paper, note=self.note)]


def score_values(runs: Runs, score: Score, scaled: bool = False) -> dict[Key, Floats]:
    """Return a score by task and method, with the scaled baseline if asked for."""
    return {
        (task.name, method.name): score.of(runs, task, method)
        for task in (runs.judged if scaled else runs.tasks)
        for method in (*runs.methods(task), *(runs.scalings if scaled else ()))
    }


@dataclass(frozen=True)
class MethodTable:
    """Scores of one task by method: methods are rows, scores columns; the baseline is a row.

    Attributes:
        title: of the table.
        scores: the columns; unit, digits and direction are those of the first.
        methods: names of the rows, by default all; small scales have fewer.
        paper: name of the printed table, or nothing.
        note: under the table.
    """

    title: str
    scores: Sequence[Score]
    methods: tuple[Method, ...] = ()
    paper: str = ""
    note: str = ""

    def __call__(self, runs: Runs) -> list[ResultTable]:
        """Return the table."""
        task = runs.judged[0]
        rows = [each for each in self.methods or runs.methods(task) if runs.has(task, [each.name])]
        values = {
            (method.name, score.title): score.of(runs, task, method)
            for score in self.scores
            for method in rows
        }
        # other data have other numbers: there is nothing to set beside them
        paper = printed(self.paper) if self.paper and runs.scope.scale != "smoke" else {}
        found = compared(
            runs,
            self.scores[0],
            values,
            by_column(runs),
            paper,
            title=self.title,
            row_heading="trained with",
            note=self.note,
        )
        return [found]


def by_row(runs: Runs) -> Callable[[Key], Key]:
    """Return where the baseline of an entry stands if methods are columns."""
    return lambda key: (key[0], runs.baseline)


def by_column(runs: Runs) -> Callable[[Key], Key]:
    """Return where the baseline of an entry stands if methods are rows."""
    return lambda key: (runs.baseline, key[1])


def compared(
    runs: Runs,
    score: Score,
    values: Values,
    baseline: Callable[[Key], Key],
    paper: Printed | None = None,
    *,
    title: str = "",
    row_heading: str = "",
    note: str = "",
) -> ResultTable:
    """Return a table of values by (row, column), each compared with its baseline.

    What is not finite for every seed has no entry. Holm's correction is over the table.
    """
    entries = []
    paper = paper or {}
    for key, own in values.items():
        if not np.isfinite(own).all():
            continue
        base = baseline(key)
        found = None if base == key else against(own, values.get(base, own[:0]))
        beside = paper.get(key[0], {}).get(key[1])
        mean, sd = beside if isinstance(beside, tuple) else (beside, None)
        known = None if found is None else base
        entries.append(Entry(*key, own.tolist(), mean, sd, found, baseline=known))
    stand_ins = any(task.is_stand_in for task in runs.tasks)
    told = STANDS_BESIDE if stand_ins and any(paper.values()) else ""
    return ResultTable(
        title or score.title,
        score.unit,
        adjusted(entries),
        score.digits,
        row_heading,
        score.better,
        " ".join(part for part in (f"{runs.note}: mean ± sd.", told, note) if part),
    )


def adjusted(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries with p-values after Holm's correction over all of them."""
    p = [np.nan if each.comparison is None else each.comparison.p for each in entries]
    return [
        replace(each, adjusted=None if each.comparison is None else float(value))
        for each, value in zip(entries, holm(p), strict=True)
    ]


def in_row(values: Values, row: str) -> dict[str, Floats]:
    """Return the values of one row by column."""
    return {column: own for (name, column), own in values.items() if name == row}


def in_column(values: Values, column: str) -> dict[str, Floats]:
    """Return the values of one column by row."""
    return {row: own for (row, name), own in values.items() if name == column}
