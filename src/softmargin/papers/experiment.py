"""What an experiment is: cells of work, and what is concluded from their results.

Adding a table or figure of a paper costs one :class:`Experiment` in one of the modules listed in
:mod:`softmargin.papers.registry`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
class Setting:
    """At which scale and with which seeds an experiment is run."""

    scale: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One piece of work with a result of its own; equal cells of two experiments are run once.

    Attributes:
        work: name of a function in :data:`softmargin.papers.work.WORK`.
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

    @property
    def key(self) -> str:
        """The hash of all that decides the numbers."""
        text = json.dumps([self.work, self.config], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """What a cell gave: plain numbers, and arrays that are too long for JSON."""

    numbers: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)


Finished = Sequence[tuple[Cell, Result]]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Attributes:
        id: such as ``"gd-tab1"``.
        title: what it shows, in a few words.
        paper: ``"GD"`` (gradient decay), ``"LM"`` (large margin in softmax), ``"AG"`` (ArcGrad) or
            ``"SM"``, beyond the papers.
        where: the place in the paper, such as ``"Table 1"``.
        claim: what the paper concludes from it, in our words.
        cells: the work at a setting.
        conclude: from the cells that finished to tables, charts and a verdict.
        seeds: how many at each scale.
        spread: whether the seeds are there to give a spread, so that one is too few.
        deviations: where the scales differ from the paper's recipe, by scale.
    """

    id: str
    title: str
    paper: str
    where: str
    claim: str
    cells: Callable[[Setting], Sequence[Cell]]
    conclude: Callable[[Setting, Finished], Outcome]
    seeds: Mapping[str, int] = field(default_factory=lambda: {"smoke": 2, "desk": 5, "paper": 5})
    spread: bool = True
    deviations: Mapping[str, str] = field(default_factory=dict)

    def setting(self, scale: str, seeds: int | None = None) -> Setting:
        """Return the setting at a scale, with the usual number of seeds or another."""
        return Setting(scale, tuple(range(self.seeds[scale] if seeds is None else seeds)))


def values_of(finished: Finished, name: str, **wanted: Any) -> NDArray[np.float64]:
    """Return a number of every finished cell whose configuration has these values."""
    return np.array(
        [
            result.numbers[name]
            for cell, result in finished
            if all(cell.config.get(key) == value for key, value in wanted.items())
        ],
        dtype=np.float64,
    )
