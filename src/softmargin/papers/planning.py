"""What cells train, how many steps that is, how long it takes, and what it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from softmargin.data.errors import MissingDataError
from softmargin.data.loading import obtain
from softmargin.data.registry import entry_of
from softmargin.papers.core import Cell

UNSPLIT = 0.9  # of data that come unsplit are trained on


@dataclass(frozen=True)
class CellPlan:
    """What a cell would do.

    Attributes:
        label: of the cell.
        what: what it trains, in words.
        models: how many networks.
        steps: of each of them.
        seconds: about how long it takes, on two cores or on a GPU.
        gpu: whether that is a GPU.
        parameters: of a network, where one was built.
    """

    label: str
    what: str
    models: int
    steps: int
    seconds: float
    gpu: bool = False
    parameters: int | None = None


def planned(cell: Cell) -> CellPlan:
    """Return what a cell would do, from its configuration alone."""
    config: dict[str, Any] = {**cell.config, **cell.config.get("training", {})}
    if "epochs" not in config:
        return CellPlan(cell.label, "nothing: theory", 0, 0, cell.seconds)
    epochs = cell.config.get("epochs", config["epochs"])
    total = sum(epochs) if isinstance(epochs, list) else int(epochs)
    count, words = _models(cell.config)
    network = " ".join([config.get("model", "fcnn"), *_options(config)])
    what = f"{words}{network} on {config['data']}, {total} epochs in batches of {config['batch']}"
    steps = total * math.ceil(_samples(cell.config) / config["batch"])
    return CellPlan(cell.label, what, count, steps, cell.seconds, is_for_gpu(cell))


def is_for_gpu(cell: Cell) -> bool:
    """Whether a cell trains one of the papers' convolutional networks, at their size."""
    from softmargin.papers.costs import GIGA_OPERATIONS

    return any(cell.config.get("model") == model for model, _ in GIGA_OPERATIONS)


def tried_out(cell: Cell) -> CellPlan:
    """Build what a cell for a GPU trains and run two steps of it here; only list other cells."""
    from softmargin.papers.dry_run import dry_run

    plan = planned(cell)
    if not plan.gpu:
        return plan
    try:
        found = dry_run(cell)
    except ValueError as error:
        raise ValueError(f"{cell.label}: {error}") from None
    return replace(plan, parameters=found.parameters, steps=found.steps)


def missing_data(cells: Sequence[Cell]) -> list[str]:
    """Return the data sets that cells need and that are not on this machine."""
    missing = []
    for name in sorted({name for cell in cells for name in cell.needs}):
        entry = entry_of(name)
        try:
            if entry.bundled is None:
                obtain(entry, download=False)
        except MissingDataError:
            missing.append(name)
    return missing


def would_take(cells: Sequence[Cell], gpu: bool | None = None) -> str:
    """Return in a sentence what cells lack here and would take, or nothing if they lack nothing.

    Args:
        cells: those that are not finished.
        gpu: whether there is one, by default as PyTorch sees it.
    """
    there = torch.cuda.is_available() if gpu is None else gpu
    on_gpu = [cell for cell in cells if is_for_gpu(cell)]
    missing = missing_data(cells)
    lacks = ["there is no GPU here"] if on_gpu and not there else []
    if missing:
        lacks.append(f"{', '.join(missing)} must be fetched or found in $SOFTMARGIN_DATA first")
    if not lacks:
        return ""
    hours = sum(cell.seconds for cell in on_gpu) / 3600
    others = sum(cell.seconds for cell in cells) / 3600 - hours
    work = [f"{hours:,.1f} GPU hours"] if on_gpu else []
    work += [f"{others:,.1f} hours of two cores"] if len(on_gpu) < len(cells) else []
    many = f"{len(cells):,} cell{'s' if len(cells) > 1 else ''}"
    return (
        f"this is {many} that would take about {' and '.join(work)}, but "
        f"{' and '.join(lacks)}: add --yes to go ahead anyway, or use --scale desk."
    )


def _models(config: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many networks a cell trains, and the words for that."""
    sizes = {
        name: len(config[name])
        for name in ("variants", "methods", "scales", "runs", "seeds")
        if name in config
    }
    if "folds" in config:
        sizes["folds"] = config["folds"]
    words = " × ".join(f"{size} {name}" for name, size in sizes.items())
    named = config.get("method", "")
    return math.prod(sizes.values()), f"{words}: " if words else f"{named}: " if named else ""


def _options(config: Mapping[str, Any]) -> list[str]:
    options = {name: config[name] for name in ("widths",) if name in config}
    options |= config.get("model_options", {})
    return [
        f"{name} {'-'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in options.items()
    ]


def _samples(config: Mapping[str, Any]) -> int:
    """Return about how many samples an epoch has."""
    entry, part = entry_of(config["data"]), config.get("part", {})
    count = float(entry.train)
    if "folds" in config:
        return math.ceil(count * (1 - 1 / float(config["folds"])))
    if entry.test == 0 and "scales" not in config:
        count *= UNSPLIT
    rest = count - float(part.get("held_out", 0))
    return math.ceil(min(rest, float(part.get("train", rest))))
