"""What is trained, apart from method and seed: images, a network and a recipe.

An experiment names tasks and the methods it wants of each, at desk and at paper scale; cells
follow from that. Fully connected networks of a task are trained together, all methods of a seed in
one cell, so that experiments which want different methods of it share the cell. Other networks
are trained one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from softmargin.papers.core import Cell, Scope
from softmargin.papers.images.methods import Method

ONE, TOGETHER = "train", "together"  # the two kinds of work
CHEAPEST = 0.3  # seconds: what loading and measuring take anyway


@dataclass(frozen=True)
class Task:
    """Images, a network and a recipe.

    Attributes:
        name: as a row of tables.
        data: name of a data set.
        model: name of a network.
        training: options of a :class:`TrainingConfig` for all methods.
        part: which images: ``train``, ``test`` and ``held_out`` how many of them (all, and none
            held out, where not given), ``size`` to which height and width they are reduced.
        methods: all methods that are trained together, or none if they are trained one by one.
        measures: what is measured besides scores, see :mod:`softmargin.papers.images.measures`
        most_seeds: how many seeds at most, or None.
        seconds: about how long one method takes with one seed.
        beside: the row of the paper's table that its numbers are set beside.
    """

    name: str
    data: str
    model: str
    training: Mapping[str, Any]
    part: Mapping[str, int] = field(default_factory=dict)
    methods: tuple[Method, ...] = ()
    measures: tuple[str, ...] = ()
    most_seeds: int | None = None
    seconds: float = 60.0
    beside: str = ""

    def __hash__(self) -> int:
        """Hash by name: no two tasks share one."""
        return hash(self.name)

    def cells(self, methods: Sequence[Method], seeds: Sequence[int]) -> list[Cell]:
        """Return the cells that hold some methods for some seeds."""
        make = self._together if self.methods else self._one_by_one
        return [cell for seed in seeds[: self.most_seeds] for cell in make(methods, seed)]

    def _together(self, methods: Sequence[Method], seed: int) -> list[Cell]:
        config = self._config(seed, self.training)
        config["methods"] = [{"name": each.name, **each.training} for each in self.methods]
        seconds = CHEAPEST + sum(each.share for each in self.methods) * self.seconds
        return [Cell(TOGETHER, config, f"{self.name}, seed {seed}", seconds, (self.data,))]

    def _one_by_one(self, methods: Sequence[Method], seed: int) -> list[Cell]:
        found = []
        for each in methods:
            config = self._config(seed, {**self.training, **each.training})
            config["method"] = each.name
            if each.beta is not None:
                config["beta"] = each.beta
            label = f"{self.name}, {each.name}, seed {seed}"
            seconds = CHEAPEST + self.seconds * each.share
            found.append(Cell(ONE, config, label, seconds, (self.data,)))
        return found

    def _config(self, seed: int, training: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "task": self.name,
            "data": self.data,
            "model": self.model,
            "seed": seed,
            "training": dict(training),
            "part": dict(self.part),
            "measures": list(self.measures),
        }


Grid = Sequence[tuple[Task, Sequence[Method]]]
"""What an experiment wants at a scale: tasks, and of each some methods."""


@dataclass(frozen=True)
class Plan:
    """What an experiment trains at every scale; smoke is desk on digits, in seconds."""

    desk: Grid
    paper: Grid

    def grid(self, scale: str) -> Grid:
        """Return the tasks and methods at a scale."""
        if scale == "smoke":
            return [(shrunk(task), methods) for task, methods in self.desk]
        return self.paper if scale == "paper" else self.desk

    def cells(self, setting: Scope) -> list[Cell]:
        """Return the cells at a setting, each once."""
        found = [
            cell
            for task, methods in self.grid(setting.scale)
            for cell in task.cells(methods, setting.seeds)
        ]
        return list({cell.key: cell for cell in found}.values())


SMALL: Mapping[str, Mapping[str, Any]] = {
    "fcnn": {"model_options": {"widths": [24, 16]}, "epochs": 3, "lr": 0.02},
    "small_resnet": {"model_options": {"width": 4}, "epochs": 2},
}


def shrunk(task: Task) -> Task:
    """Return a desk task on 8×8 digits with a tiny network: only proves that the path works."""
    small = dict(SMALL[task.model])
    if task.training["epochs"] < 10:
        small["epochs"] = 1
    part = {"train": 400, **({"held_out": 200} if "held_out" in task.part else {})}
    return replace(
        task,
        name=f"digits for {task.name}",
        data="digits",
        training={**task.training, **small, "batch": 32},
        part=part,
        seconds=0.05 if task.methods else 1.0,
        most_seeds=None,
        beside="",
    )


def each(tasks: Sequence[Task], methods: Sequence[Method]) -> Grid:
    """Return a grid in which all tasks have the same methods."""
    return [(task, methods) for task in tasks]
