"""Finished cells as values over seeds, by task and method, and the scores that are read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softmargin.papers.core import Finished, Result, Scope
from softmargin.papers.findings import Floats
from softmargin.papers.grid import Method, Plan, Task

Key = tuple[str, str]


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
        self._methods = {
            task.name: {each.name: each for each in (*methods, *plan.scalings)}
            for task, methods in self.grid
        }
        self._found: dict[Key, list[tuple[Result, int]]] = {}

    @property
    def tasks(self) -> list[Task]:
        """All tasks, in the order of the table."""
        return [task for task, _ in self.grid]

    @property
    def judged(self) -> list[Task]:
        """The tasks that something is claimed of: those that do not only serve another."""
        return [task for task in self.tasks if not task.serves]

    def only(self, task: Task) -> Runs:
        """Return the runs of one task."""
        fewer = copy(self)
        fewer.grid = [(own, methods) for own, methods in self.grid if own.name == task.name]
        return fewer

    def serving(self, task: Task) -> Task | None:
        """Return the task that serves another one, or None."""
        return next((each for each in self.tasks if each.serves == task.name), None)

    def methods(self, task: Task) -> Sequence[Method]:
        """Return the methods that the experiment wants of a task."""
        (found,) = (methods for own, methods in self.grid if own.name == task.name)
        return found

    def method(self, task: Task, name: str) -> Method:
        """Return a method of a task by its name."""
        return self._methods[task.name][name]

    def has(self, task: Task, names: Iterable[str]) -> bool:
        """Return whether a task has all methods of some names: small scales have fewer."""
        return self._methods[task.name].keys() >= set(names)

    def present(self, task: Task, methods: Iterable[Method]) -> list[Method]:
        """Return those of some methods that a task has."""
        return [method for method in methods if self.has(task, [method.name])]

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
            found = [
                (self._results[cell.key], variant)
                for cell, variant in task.places(own, self.scope.seeds)
            ]
            self._found[task.name, own.name] = [
                (result, result.numbers["variants"].index(variant)) for result, variant in found
            ]
        return self._found[task.name, own.name]

    def by_amount(
        self, score: Score, task: Task, option: str = ""
    ) -> dict[str, dict[float, Floats]]:
        """Return a score by base, and by the amount of what the base is trained under.

        Args:
            score: which score.
            task: of which task.
            option: of training that the amount is of, by default any.
        """
        found: dict[str, dict[float, Floats]] = {}
        for method in self.methods(task):
            if method.condition and (not option or option in method.training):
                own = found.setdefault(method.base, {})
                own[method.amount] = score.of(self, task, method)
        return found

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

# of Method.scaling: that β which is the best on held-out images, as it is or with a temperature;
# or that epoch
CHOSEN, CHOSEN_SCALED, STOPPED = "chosen", "chosen, temperature", "stopped"


@dataclass(frozen=True)
class Score:
    """A number of every run: where it stands, its unit, which way is better.

    Attributes:
        title: of tables.
        path: to the number in a result, such as ``("final", "ece")``.
        over: path to the number that it is divided by, if it is.
        array: name of the array, for a score that follows from one.
        reduce: from a list or array, (seeds, ...), to one number per seed, or to a curve of one
            number per epoch.
        first_epoch: of a curve.
        epoch: from the number of epochs to the one after which a curve is read, by default all.
        unit: of the values.
        digits: after the point.
        better: ``"higher"``, ``"lower"`` or nothing.
        factor: from the number to the value, by default 100 for % and otherwise 1.
        offset: added to that.
        phrase: what findings call it, by default the title with its unit.
    """

    title: str
    path: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    array: str = ""
    reduce: Callable[[Floats], Floats] | None = None
    first_epoch: int = 1
    epoch: Callable[[int], int] | None = None
    unit: str = "%"
    digits: int = 2
    better: str = ""
    factor: float | None = None
    offset: float = 0.0
    phrase: str = ""

    def of(self, runs: Runs, task: Task, method: Method | str) -> Floats:
        """Return the score over seeds; of scaling, that of the scaled or chosen network."""
        own = runs.method(task, method) if isinstance(method, str) else method
        if own.scaling in (CHOSEN, CHOSEN_SCALED):
            return self._chosen(runs, task, "temperature" if own.scaling == CHOSEN_SCALED else "")
        if own.scaling == STOPPED:
            found = self._stopped(runs, task, own.base)
        elif own.scaling:
            fitted = runs.serving(task) or task  # on images held out from training
            path = ("scaled", own.scaling, self.path[-1])
            found = runs.numbers(fitted, own.base or runs.baseline, *path)
        elif self.array:
            found = runs.arrays(task, own, self.array)
        else:
            found = runs.numbers(task, own, *self.path)
        if self.over:
            found = found / runs.numbers(task, own, *self.over)
        if self.reduce is not None:
            found = self.reduce(found)
        if self.epoch is not None:
            epochs = found.shape[1] + self.first_epoch - 1
            found = found[:, self.epoch(epochs) - self.first_epoch]
        factor = self.factor or (100.0 if self.unit == "%" else 1.0)
        values: Floats = self.offset + factor * found
        return values

    def _chosen(self, runs: Runs, task: Task, scaling: str) -> Floats:
        """Return, seed by seed, the score of the β whose held-out NLL is the lowest."""
        decays = [each for each in runs.methods(task) if each.beta is not None]
        path = ("held_out", scaling or "raw", "nll")
        held_out = np.stack([runs.numbers(task, each, *path) for each in decays])
        best = np.nan_to_num(held_out, nan=np.inf).argmin(0)
        if scaling:
            decays = [Method("", scaling=scaling, base=each.name) for each in decays]
        values = np.stack([self.of(runs, task, each) for each in decays])
        found: Floats = values[best, np.arange(len(best))]
        return found

    def _stopped(self, runs: Runs, task: Task, base: str) -> Floats:
        """Return, seed by seed, the number after the epoch with the lowest held-out NLL."""
        held_out = np.nan_to_num(runs.arrays(task, base, "held_out_nll"), nan=np.inf)
        best, curve = held_out.argmin(1), runs.arrays(task, base, self.path[-1])
        found: Floats = curve[np.arange(len(best)), best]
        return found

    def on(self, task: Task) -> str:
        """Return what findings call the score of a task."""
        title = self.title if self.title.isupper() else self.title[0].lower() + self.title[1:]
        phrase = self.phrase or f"{title}{f' in {self.unit}' if self.unit else ''}"
        return f"on {task.name}, {phrase}"

    @property
    def label(self) -> str:
        """The title with its unit, for an axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


ACCURACY = Score("Top-1 accuracy", ("final", "accuracy"), better="higher")
TOP_5 = Score("Top-5 accuracy", ("final", "top_k_accuracy"), better="higher")
ERROR = Score("Error rate", ("final", "accuracy"), better="lower", factor=-100.0, offset=100.0)
TRAINED = Score("Training accuracy", ("train_accuracy",))
ECE = Score("ECE", ("final", "ece"), unit="", digits=3, better="lower")
MCE = Score("MCE", ("final", "mce"), unit="", digits=3, better="lower")
NLL = Score("NLL", ("final", "nll"), unit="nats", digits=3, better="lower")
BRIER = Score("Brier score", ("final", "brier"), unit="", digits=3, better="lower")
DEBIASED = Score(
    "Debiased calibration error",
    ("final", "debiased_error"),
    unit="",
    digits=3,
    better="lower",
)
CONFIDENCE = Score("Mean confidence", ("final", "mean_confidence"))
ACCURACY_CURVE = Score("Test accuracy", array="accuracy", better="higher", phrase="accuracy in %")

# --- curves: scores by epoch


def epoch_at(epochs: int, share: float) -> int:
    """Return the epoch after a share of all epochs, the first at least.

    Example:
        >>> epoch_at(100, 0.05), epoch_at(8, 0.05)
        (5, 1)
    """
    return max(1, int(share * epochs))


def after_epoch(curve: Score, epoch: int) -> Score:
    """Return the score of a curve after an epoch; 0 is before training."""
    title = f"after {epoch} epoch{'s' * (epoch > 1)}" if epoch else "before training"
    return replace(curve, title=title, epoch=lambda _: epoch, phrase=f"{curve.phrase} {title}")


def after_share(curve: Score, share: float) -> Score:
    """Return the score of a curve after a share of its epochs."""
    title = "after the last epoch" if share == 1 else f"after {share:.0%} of the epochs"
    phrase = f"{curve.phrase} {title}"
    return replace(curve, title=title, epoch=lambda epochs: epoch_at(epochs, share), phrase=phrase)
