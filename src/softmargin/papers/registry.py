"""All experiments by their id, in the order of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from softmargin.papers.experiment import Experiment

# one module per group; each has a tuple EXPERIMENTS
MODULES = ("theory", "mnist", "images", "tabular")
PAPERS = ("GD", "LM", "AG", "SM")  # the last is this library itself


def experiments() -> dict[str, Experiment]:
    """Return all experiments by id."""
    found = [
        experiment
        for name in MODULES
        for experiment in import_module(f"softmargin.papers.{name}").EXPERIMENTS
    ]
    found.sort(key=lambda each: (PAPERS.index(each.paper), _natural(each.id)))
    return {experiment.id: experiment for experiment in found}


def find(name: str) -> Experiment:
    """Return the experiment of that id, or raise with the nearest ones."""
    known = experiments()
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=3, cutoff=0.4) or list(known)[:3]
    raise ValueError(
        f"ID must be one that softmargin reproduce list shows, such as {', '.join(close)}, "
        f"but got {name!r}."
    )


def find_all(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of some ids, each once; ``["all"]`` stands for every one."""
    if list(names) == ["all"]:
        return list(experiments().values())
    return [find(name) for name in dict.fromkeys(names)]


def _natural(name: str) -> tuple[str, int]:
    """Order gd-fig10 after gd-fig9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
