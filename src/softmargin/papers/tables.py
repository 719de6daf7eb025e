"""Tables of scores over seeds, beside the paper's numbers and compared with a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from softmargin.papers.findings import Floats, against
from softmargin.papers.grid import Method, Task
from softmargin.papers.outcome import Entry, ResultTable
from softmargin.papers.printed import Printed, printed
from softmargin.papers.runs import Key, Runs, Score, after_epoch, epoch_at
from softmargin.papers.statistics import holm

Values = Mapping[Key, Floats]
"""What a table shows, by row and column: one value per seed."""
Tabulate = Callable[[Runs], Sequence[ResultTable]]

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
            return [compared(runs, self.score, turned(values), row=runs.baseline, note=self.note)]
        numbers = printed(self.paper, self.printed_as) if self.paper else {}
        paper = {task.name: numbers.get(task.paper_row, {}) for task in runs.tasks}
        return [compared(runs, self.score, values, paper, column=runs.baseline, note=self.note)]


@dataclass(frozen=True)
class MethodTable:
    """Scores by method, a table for each task: methods are rows, unless it is transposed.

    Attributes:
        title: of the table.
        scores: unit, digits and direction are those of the first.
        methods: by default all; small scales have fewer.
        paper: name of the printed table, or nothing.
        transposed: whether scores are rows.
        note: under the table.
        serves: name of the task that is served by those that are shown; by default they serve
            none.
    """

    title: str
    scores: Sequence[Score]
    methods: tuple[Method, ...] = ()
    paper: str = ""
    transposed: bool = False
    note: str = ""
    serves: str = ""

    def __call__(self, runs: Runs) -> list[ResultTable]:
        """Return the tables, which name their task where there are several."""
        return _by_task(runs, [each for each in runs.tasks if each.serves == self.serves], self._of)

    def _of(self, runs: Runs, task: Task) -> ResultTable:
        values = method_values(runs, task, self.scores, self.methods)
        table = compared(
            runs,
            self.scores[0],
            turned(values) if self.transposed else values,
            _beside(runs, self.paper),
            row="" if self.transposed else runs.baseline,
            column=runs.baseline if self.transposed else "",
            note=self.note,
        )
        heading = "" if self.transposed else "trained with"
        return replace(table, title=self.title, row_heading=heading)


@dataclass(frozen=True)
class EpochTable:
    """A curve of one task by method, after some epochs: the first, and shares of all epochs."""

    title: str
    curve: Score
    shares: tuple[float, ...]
    note: str = ""

    def __call__(self, runs: Runs) -> list[ResultTable]:
        """Return the table."""
        epochs = some_epochs(runs, self.curve, self.shares)
        scores = [after_epoch(self.curve, epoch) for epoch in epochs]
        return MethodTable(self.title, scores, note=self.note)(runs)


def some_epochs(runs: Runs, curve: Score, shares: Sequence[float]) -> list[int]:
    """Return the first epoch of a curve, and those after shares of all epochs, each once."""
    epochs = int(runs.judged[0].training["epochs"])
    return sorted({curve.first_epoch, *(epoch_at(epochs, share) for share in shares)})


@dataclass(frozen=True)
class AmountTable:
    """A score by what methods are trained under, bases by condition; a table for each task.

    Attributes:
        score: which score.
        paper: name of the printed table, or nothing.
        plain: the column of the baseline in every row; by default the baseline is a row itself.
        plain_paper: where the paper prints the baseline: table, row and column.
        note: under the table.
    """

    score: Score
    paper: str = ""
    plain: str = ""
    plain_paper: tuple[str, str, str] | None = None
    note: str = ""

    def __call__(self, runs: Runs) -> list[ResultTable]:
        """Return the tables, which name their task where there are several."""
        return _by_task(runs, runs.judged, self._of)

    def _of(self, runs: Runs, task: Task) -> ResultTable:
        values: dict[Key, Floats] = {}
        for base in runs.by_amount(self.score, task):
            if self.plain:
                values[base, self.plain] = self.score.of(runs, task, runs.baseline)
            for method in runs.methods(task):
                if method.base == base:
                    values[base, method.condition] = self.score.of(runs, task, method)
        paper = _beside(runs, self.paper)
        if self.plain_paper is not None and paper:
            table, row, column = self.plain_paper
            plain = {self.plain: printed(table)[row][column]}
            paper = {base: {**plain, **numbers} for base, numbers in paper.items()}
        row = "" if self.plain else runs.baseline
        return compared(runs, self.score, values, paper, row, self.plain, note=self.note)


# --- what tables are made of


def _by_task(
    runs: Runs, tasks: Sequence[Task], of: Callable[[Runs, Task], ResultTable]
) -> list[ResultTable]:
    """Return a table for each task, with its name in the title where there are several."""
    tables = [of(runs.only(task), task) for task in tasks]
    if len(tables) == 1:
        return tables
    pairs = zip(tables, tasks, strict=True)
    return [replace(table, title=f"{table.title}, {task.name}") for table, task in pairs]


def score_values(runs: Runs, score: Score, scaled: bool = False) -> dict[Key, Floats]:
    """Return a score by task and method, with the scaled baseline if asked for."""
    return {
        (task.name, method.name): score.of(runs, task, method)
        for task in (runs.judged if scaled else runs.tasks)
        for method in (*runs.methods(task), *(runs.scalings if scaled else ()))
    }


def method_values(
    runs: Runs, task: Task, scores: Sequence[Score], methods: Sequence[Method] = ()
) -> dict[Key, Floats]:
    """Return scores of a task by method and title, of the methods that were trained."""
    return {
        (method.name, score.title): score.of(runs, task, method)
        for score in scores
        for method in runs.present(task, methods or runs.methods(task))
    }


def turned(values: Values) -> dict[Key, Floats]:
    """Return values with columns for rows."""
    return {(column, row): own for (row, column), own in values.items()}


def _beside(runs: Runs, name: str) -> Printed:
    """Return a printed table; on other data there is nothing to set beside ours."""
    return printed(name) if name and runs.scope.scale != "smoke" else {}


def compared(
    runs: Runs,
    score: Score,
    values: Values,
    paper: Printed | None = None,
    row: str = "",
    column: str = "",
    note: str = "",
) -> ResultTable:
    """Return a table of values, each compared with one in the row or the column of the baseline.

    What is not finite for every seed has no entry. Holm's correction is over the table.
    """
    entries, paper = [], paper or {}
    for key, own in values.items():
        if not np.isfinite(own).all():
            continue
        base = (row or key[0], column or key[1])
        found = None if base == key else against(own, values.get(base, own[:0]))
        beside = paper.get(key[0], {}).get(key[1])
        mean, sd = beside if isinstance(beside, tuple) else (beside, None)
        known = None if found is None else base
        entries.append(Entry(*key, own.tolist(), mean, sd, found, baseline=known))
    stand_ins = any(task.is_stand_in for task in runs.tasks)
    told = STANDS_BESIDE if stand_ins and any(paper.values()) else ""
    return ResultTable(
        score.title,
        score.unit,
        adjusted(entries),
        score.digits,
        better=score.better,
        note=" ".join(part for part in (f"{runs.note}: mean ± sd.", told, note) if part),
    )


def adjusted(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries with p-values after Holm's correction over all of them."""
    p = holm([np.nan if each.comparison is None else each.comparison.p for each in entries])
    return [
        replace(each, adjusted=None if each.comparison is None else float(value))
        for each, value in zip(entries, p, strict=True)
    ]
