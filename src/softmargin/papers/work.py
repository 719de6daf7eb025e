"""The kinds of work that cells are made of, by name.

A function of this table gets a cell's configuration, a folder in which it may keep checkpoints,
and a callback for progress from 0 to 1. It returns numbers and arrays. It must depend on its
configuration alone, so that a cell can be run anywhere and skipped once it is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from softmargin.papers.experiment import Result

Progress = Callable[[float], None]
Work = Callable[[Mapping[str, Any], Path, Progress], Result]

WORK = {
    "nothing": "softmargin.papers.work:nothing",
    "mnist": "softmargin.papers.mnist:train_seed",
    "train": "softmargin.papers.images:train_one",
    "together": "softmargin.papers.images:train_many",
    "table": "softmargin.papers.tabular.uci:train_table",
    "depths": "softmargin.papers.tabular.iris:train_depths",
    "angles": "softmargin.papers.tabular.iris:train_angles",
}


def find_work(name: str) -> Work:
    """Return the function of that name, or of a path such as ``"package.module:function"``."""
    module, _, function = WORK.get(name, name).partition(":")
    work: Work = getattr(import_module(module), function)
    return work


def nothing(config: Mapping[str, Any], folder: Path, progress: Progress) -> Result:
    """Do nothing: for figures that are theory alone."""
    return Result()
