"""A trial of what paper scale would train: everything is built, and two real steps are taken.

The images are made up, a few of the right shape and with the right number of classes; network,
head, loss, optimiser, schedules and clipping are those of the recipe, put together by the trainer
itself.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from softmargin import models
from softmargin.data import Dataset, Provenance, Split
from softmargin.data.registry import entry_of
from softmargin.papers.core import Cell
from softmargin.papers.costs import SHAPES
from softmargin.papers.grid import ONE
from softmargin.papers.train import training_config
from softmargin.training import RunFolder
from softmargin.training.trainer import Trainer

BATCH = 4
LARGE_BATCH = 2  # of pictures of 224 by 224; batch normalisation needs two
STEPS = 2


@dataclass(frozen=True)
class DryRun:
    """What a trial found.

    Attributes:
        parameters: of network and head.
        steps: that the whole training would take.
        seconds: that the trial took here.
        gpu_hours: that the whole training would take on a GPU, by the rule of thumb of
            :mod:`softmargin.papers.costs`.
        losses: of the two steps.
    """

    parameters: int
    steps: int
    seconds: float
    gpu_hours: float
    losses: tuple[float, ...]


def dry_run(cell: Cell) -> DryRun:
    """Build what a cell trains and take two steps; cells that differ in their seed share a trial.

    Raises:
        ValueError: for a cell that is not the training of one network, or if a loss or a parameter
            is not finite afterwards.
    """
    if cell.work != ONE:
        raise ValueError(f"cell must be the training of one network, but got {cell.work!r}.")
    alike = json.dumps({**cell.config, "seed": 0}, sort_keys=True, ensure_ascii=False)
    found = _tried(alike)
    return replace(found, gpu_hours=cell.seconds / 3600)


@cache
def _tried(text: str) -> DryRun:
    cell = json.loads(text)
    config = training_config(cell)
    samples = _samples(cell)
    if config.fraction is not None:
        samples = round(config.fraction * samples)
    shape = SHAPES[config.data]
    batch = LARGE_BATCH if shape[1] > 64 else BATCH
    images = made_up(config.data, batch * STEPS)
    # a fraction and polluted labels are of images, of which there are too few here
    tried = replace(config, batch=batch, epochs=1, fraction=None, pollute=0.0)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        trainer = Trainer(tried, RunFolder(Path(folder)), "cpu", 0, 1, images)
        trainer.objective.train()
        losses = tuple(
            float(trainer.one_step(trainer.objective, x, y, chosen))
            for x, y, chosen in trainer.batches.of_epoch(0)
        )
    sound = all(bool(p.isfinite().all()) for p in trainer.model.parameters())
    if not sound or not all(map(math.isfinite, losses)):
        raise ValueError(f"two steps must leave everything finite, but losses were {losses}.")
    steps = config.epochs * math.ceil(samples / config.batch)
    seconds = time.monotonic() - started
    return DryRun(models.parameter_count(trainer.model), steps, seconds, math.nan, losses)


def made_up(name: str, count: int) -> Dataset:
    """Return random images in the shape of a data set, with its number of classes."""
    entry = entry_of(name)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, *SHAPES[name]), generator=generator, dtype=torch.uint8)
    y = torch.arange(count) % entry.num_classes
    classes = tuple(str(number) for number in range(entry.num_classes))
    split = Split(x, y)
    source = Provenance("made up", "")
    return Dataset(name, split, split, classes, source, True, mirrorable=entry.mirrorable)


def _samples(cell: dict[str, dict[str, int]]) -> int:
    """Return how many images a cell trains on."""
    part = cell["part"]
    rest = entry_of(str(cell["data"])).train - part.get("held_out", 0)
    return min(part.get("train", rest), rest)


def operations(model: str, shape: Sequence[int], options: Mapping[str, Any]) -> float:
    """Count the operations of one image forward, without any memory for weights."""
    with torch.device("meta"):
        network = models.build(model, shape, **options).eval()
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, *shape))
    return float(counter.get_total_flops())
