"""What an experiment is: cells of work, and what is concluded from their results.

Adding a table or figure of a paper costs one :class:`Experiment` in one of the modules of
:mod:`softmargin.papers.ids`; a new kind of work costs one line in ``WORK``. Nothing here imports
torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from softmargin.papers.ids import ALL, MODULES, check_id, ids
from softmargin.papers.outcome import Outcome

SCALES = ("smoke", "desk", "paper")  # from the smallest to the largest
Array = NDArray[Any]


def usual_folder(scale: str) -> Path:
    """Return where results go unless somebody says otherwise: those of smoke scale not to others.

    Example:
        >>> str(usual_folder("smoke")), str(usual_folder("desk"))
        ('results-smoke', 'results')
    """
    return Path("results-smoke" if scale == SCALES[0] else "results")


@dataclass(frozen=True)
class Scope:
    """The scale and the seeds that an experiment is run with."""

    scale: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One piece of work with a result of its own; equal cells of two experiments are run once.

    Attributes:
        work: name of a function in ``WORK``.
        config: plain values: everything that decides the numbers.
        label: short, for people: ``"MNIST, seed 3"``.
        seconds: about how long it takes on two cores.
        needs: data sets.
    """

    work: str
    config: Mapping[str, Any]
    label: str
    seconds: float = 1.0
    needs: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The hash of all that decides the numbers; 20 and 20.0 are one number."""
        described = _whole([self.work, self.config])
        text = json.dumps(described, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole(value: Any) -> Any:
    """Return plain values with whole numbers as integers, however they were written."""
    if isinstance(value, Mapping):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class Result:
    """What a cell gave: plain numbers, arrays that are too long for JSON, and how long it took.

    ``data`` says by name which copies of data sets it was computed from, where that was recorded.
    """

    numbers: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict)


Finished = Sequence[tuple[Cell, Result]]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Attributes:
        id: such as ``"gd-tab1"``.
        title: what it shows, in a few words.
        paper: a key of :data:`softmargin._papers.PAPERS`.
        where: the place in the paper, such as ``"Table 1"``.
        claim: what the paper concludes from it, in our words.
        cells: the work of a scope.
        conclude: from the cells that finished to tables, charts and a verdict.
        seeds: how many at each scale.
        spread: whether the seeds are there to give a spread, so that one is too few.
        deviations: where the scales differ from the paper's recipe, by scale.
        titles: by scale, where the title there is another: it names what was trained.
    """

    id: str
    title: str
    paper: str
    where: str
    claim: str
    cells: Callable[[Scope], Sequence[Cell]]
    conclude: Callable[[Scope, Finished], Outcome]
    seeds: Mapping[str, int] = field(default_factory=lambda: {"smoke": 2, "desk": 5, "paper": 5})
    spread: bool = True
    deviations: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    def scope(self, scale: str, seeds: int | None = None) -> Scope:
        """Return the scope at a scale, with the usual number of seeds or another."""
        return Scope(scale, tuple(range(self.seeds[scale] if seeds is None else seeds)))

    def title_at(self, scale: str) -> str:
        """Return the title of a result at a scale, which names the network that was trained."""
        return self.titles.get(scale, self.title)


# --- kinds of work

Progress = Callable[[float], None]
Work = Callable[[Mapping[str, Any], Path, Progress], Result]
"""A function of a cell's configuration, a folder for its checkpoints, and a callback for progress
from 0 to 1. It depends on the configuration alone, so that a cell can be run anywhere and skipped
once it is finished.
"""

WORK = {
    "nothing": "softmargin.papers.core:nothing",
    "mnist": "softmargin.papers.train:train_mnist",
    "train": "softmargin.papers.train:train_one",
    "together": "softmargin.papers.train:train_many",
    "table": "softmargin.papers.cross_validation:cross_validate",
    "depths": "softmargin.papers.cross_validation:cross_validate",
    "angles": "softmargin.papers.cross_validation:train_angles",
}


def find_work(name: str) -> Work:
    """Return the function of that name, or of a path such as ``"package.module:function"``."""
    return _imported(WORK.get(name, name))


def deferred(path: str) -> Callable[..., Any]:
    """Return a function that imports another, such as ``"package.module:function"``, when called.

    So the list of experiments needs nothing of what they compute with.
    """
    return lambda *args: _imported(path)(*args)


def _imported(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def nothing(config: Mapping[str, Any], folder: Path, progress: Progress) -> Result:
    """Do nothing: for figures that are theory alone."""
    return Result()


# --- all experiments


def experiments() -> dict[str, Experiment]:
    """Return all experiments by id, in the order of the papers."""
    return {name: find(name) for name in ids()}


def find(name: str) -> Experiment:
    """Return the experiment of that id, or raise with the nearest ones."""
    check_id(name)
    module = next(each for each, own in MODULES.items() if name in own)
    declared: Sequence[Experiment] = import_module(f"softmargin.papers.{module}").EXPERIMENTS
    return next(each for each in declared if each.id == name)


def find_all(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of some ids, each once; ``"all"`` stands for every one."""
    return [find(name) for name in (ids() if ALL in names else dict.fromkeys(names))]
