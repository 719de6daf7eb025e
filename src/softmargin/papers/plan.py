"""What is to be run: scopes and cells of experiments, what each trains, and what that takes.

At paper scale a plan is tried out: everything a cell trains is built and two real steps are taken,
on a few made-up images of the right shape and number of classes. Network, head, loss, optimiser,
schedules and clipping are those of the recipe, put together by the trainer itself.

Hours of a GPU are a rule of thumb. A forward pass of one image is counted by PyTorch (a
multiplication and an addition are two operations); training takes three times as many, forward and
twice backward; a GPU is taken to sustain ten tera-operations a second, about what a data-centre
card of recent years gives for these networks in float32. Small networks on 32×32 images keep a card
less busy, half precision makes it faster: read it as right to a factor of three.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from softmargin.data.errors import DownloadError, MissingDataError
from softmargin.data.registry import entry_of
from softmargin.papers.core import Cell, Experiment, Scope
from softmargin.papers.statistics import require_spread

UNSPLIT = 0.9  # the share trained on of data that come unsplit
SUSTAINED = 10e12  # operations a second
PASSES = 3  # one forward, two backward
STEPS, BATCH = 2, 4
CROPPED = (3, 224, 224)
LARGE_BATCH = 2  # of pictures of 224 by 224; batch normalisation needs two
SHOWN = 12  # allowed words in a sentence
Wanted = Mapping[str, Sequence[str]]

GIGA_OPERATIONS: Mapping[tuple[str, int], float] = {
    ("resnet18", 32): 1.111,
    ("resnet34", 32): 2.319,
    ("vgg16_bn", 32): 0.626,
    ("mobilenet_v1", 32): 0.0927,
    ("convnet13", 32): 1.557,
    ("wide_resnet", 32): 10.49,
    ("resnet34", 64): 9.275,
    ("resnet50", 64): 10.38,
    ("vgg16_bn", 224): 30.93,
    ("vgg16_mod", 224): 31.55,
    ("mobilenet_v1", 224): 1.135,
    ("resnext50", 224): 8.457,
}
"""Of one image forward, by network and height; stored, so that listing cells builds no networks."""


@dataclass(frozen=True)
class CellPlan:
    """What a cell would do.

    Attributes:
        cell: the cell, which knows about how long it takes, on two cores or on a GPU.
        what: what it trains, in words.
        models: how many networks.
        steps: of each of them.
        parameters: of network and head, where they were built.
        losses: of the steps that were tried.
    """

    cell: Cell
    what: str
    models: int
    steps: int
    parameters: int | None = None
    losses: tuple[float, ...] = ()

    @property
    def gpu(self) -> bool:
        """Whether its time is that of a GPU."""
        return is_for_gpu(self.cell)


def with_scope(
    wanted: Sequence[Experiment], scale: str, seeds: int | None = None
) -> list[tuple[Experiment, Scope]]:
    """Return experiments with their scopes, of the usual number of seeds or another."""
    if seeds is not None and any(experiment.spread for experiment in wanted):
        require_spread(seeds)
    return [(each, each.scope(scale, seeds if each.spread else None)) for each in wanted]


def chosen_cells(
    wanted: Sequence[tuple[Experiment, Scope]], only: Wanted | None = None
) -> dict[str, list[Cell]]:
    """Return the cells of every experiment by id, those that ``only`` leaves."""
    cells = {experiment.id: list(experiment.cells(scope)) for experiment, scope in wanted}
    if not only:
        return cells
    kept = {cell.key for cell in select([cell for own in cells.values() for cell in own], only)}
    return {name: [cell for cell in own if cell.key in kept] for name, own in cells.items()}


def select(cells: Sequence[Cell], wanted: Wanted) -> list[Cell]:
    """Return the cells that have one of the wanted values for every key.

    A key is a name anywhere in the configuration, such as ``beta``, or a whole path, such as
    ``training.lr``. Numbers are compared as numbers: 0.10 is 0.1.

    Raises:
        ValueError: for a key that no cell has, or a value that none has, naming those there are.
    """
    found = {cell.key: values_by_key(cell.config) for cell in cells}
    for key, texts in wanted.items():
        allowed = [value for values in found.values() for value in values.get(key, ())]
        if not allowed:
            short = [name for values in found.values() for name in values if "." not in name]
            raise ValueError(
                f"argument --only: must name a key that cells have, {_some(short)}, "
                f"but got {key!r}."
            )
        for text in texts:
            if _as_typed(text) not in allowed:
                raise ValueError(
                    f"argument --only: {key} must be one that cells have, {_some(allowed)}, "
                    f"but got {text!r}."
                )
    sought = {key: set(map(_as_typed, texts)) for key, texts in wanted.items()}
    chosen = [
        cell
        for cell in cells
        if all(own.intersection(found[cell.key].get(key, ())) for key, own in sought.items())
    ]
    if wanted and not chosen:
        together = ", ".join(f"{key}={'|'.join(texts)}" for key, texts in wanted.items())
        raise ValueError(
            f"argument --only: must be values that some cell has together, but none has {together}."
        )
    return chosen


def values_by_key(config: Mapping[str, Any], path: str = "") -> dict[str, list[str]]:
    """Return single values, as they are typed, by name and by path; lists choose no cell.

    Example:
        >>> values_by_key({"beta": 0.1, "training": {"lr": 0.01}, "runs": [0, 1]})
        {'beta': ['0.1'], 'lr': ['0.01'], 'training.lr': ['0.01']}
    """
    found: dict[str, list[str]] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            for key, values in values_by_key(value, f"{path}{name}.").items():
                found.setdefault(key, []).extend(values)
        elif not isinstance(value, (list, tuple)):
            for key in dict.fromkeys((name, f"{path}{name}")):
                found.setdefault(key, []).append(_as_typed(value))
    return found


def check_data(cells: Sequence[Cell], scale: str) -> None:
    """Find or download all data sets that cells need; say what to do where one is missing."""
    from softmargin.data.download import obtain

    less = "" if scale == "smoke" else " With --scale smoke no data set is needed."
    try:
        for name in _needed(cells):
            obtain(entry_of(name))
    except (MissingDataError, DownloadError) as error:
        raise MissingDataError(f"{error}{less}") from None


def missing_data(cells: Sequence[Cell]) -> list[str]:
    """Return the data sets that cells need and that are not on this machine."""
    from softmargin.data.download import obtain

    missing = []
    for name in _needed(cells):
        try:
            obtain(entry_of(name), download=False)
        except MissingDataError:
            missing.append(name)
    return missing


def _needed(cells: Sequence[Cell]) -> list[str]:
    """Return the data sets that cells need and that do not come with a package."""
    names = {name for cell in cells for name in cell.needs}
    return sorted(name for name in names if entry_of(name).bundled is None)


def check_means(cells: Sequence[Cell]) -> None:
    """Say in a sentence what cells would take where they lack a GPU or data here."""
    import torch

    on_gpu = [cell for cell in cells if is_for_gpu(cell)]
    lacks = ["there is no GPU here"] if on_gpu and not torch.cuda.is_available() else []
    if missing := missing_data(cells):
        lacks.append(f"{', '.join(missing)} must be fetched or found in $SOFTMARGIN_DATA first")
    if not lacks:
        return
    hours = sum(cell.seconds for cell in on_gpu) / 3600
    others = sum(cell.seconds for cell in cells) / 3600 - hours
    work = [f"{hours:,.1f} GPU hours"] if on_gpu else []
    work += [f"{others:,.1f} hours of two cores"] if len(on_gpu) < len(cells) else []
    many = f"{len(cells):,} cell{'s' if len(cells) > 1 else ''}"
    raise ValueError(
        f"this is {many} that would take about {' and '.join(work)}, but "
        f"{' and '.join(lacks)}: add --yes to go ahead anyway, or use --scale desk."
    )


def is_for_gpu(cell: Cell) -> bool:
    """Whether a cell trains one of the papers' convolutional networks, at their size."""
    return any(cell.config.get("model") == model for model, _ in GIGA_OPERATIONS)


def shape_of(data: str) -> tuple[int, ...]:
    """Return the shape of an image as a network sees it; pictures of any size are cropped."""
    return entry_of(data).shape or CROPPED


def gpu_seconds(data: str, model: str, epochs: int, share: float = 1.0) -> float:
    """Return about how long a GPU trains, by the rule of thumb above.

    Example:
        >>> round(gpu_seconds("cifar10", "resnet18", 200) / 3600, 1)
        0.9
    """
    forward = 1e9 * GIGA_OPERATIONS[model, shape_of(data)[1]]
    return PASSES * forward * entry_of(data).train * share * epochs / SUSTAINED


def planned(cell: Cell) -> CellPlan:
    """Return what a cell would do, from its configuration alone."""
    config: dict[str, Any] = {**cell.config, **cell.config.get("training", {})}
    if "epochs" not in config:
        return CellPlan(cell, "nothing: theory", 0, 0)
    epochs = cell.config.get("epochs", config["epochs"])
    total = sum(epochs) if isinstance(epochs, list) else int(epochs)
    count, words = _models(cell.config)
    network = " ".join([config.get("model", "fcnn"), *_options(config)])
    what = f"{words}{network} on {config['data']}, {total} epochs in batches of {config['batch']}"
    samples = _samples(cell.config)
    if (fraction := config.get("fraction")) is not None:
        samples = round(fraction * samples)
    return CellPlan(cell, what, count, total * math.ceil(samples / config["batch"]))


def tried_out(cell: Cell) -> CellPlan:
    """Plan a cell; build what one for a GPU trains and take two steps of it here.

    Cells that differ only in their seed share a trial.

    Raises:
        ValueError: if a loss or a parameter is not finite afterwards.
    """
    plan = planned(cell)
    if not is_for_gpu(cell):
        return plan
    alike = json.dumps({**cell.config, "seed": 0}, sort_keys=True, ensure_ascii=False)
    try:
        parameters, losses = _two_steps(alike)
    except ValueError as error:
        raise ValueError(f"{cell.label}: {error}") from None
    return replace(plan, parameters=parameters, losses=losses)


@cache
def _two_steps(config: str) -> tuple[int, tuple[float, ...]]:
    """Return how many parameters a cell's network and head have, and the losses of two steps."""
    import torch

    from softmargin.models import parameter_count
    from softmargin.papers.train import training_config
    from softmargin.training import RunFolder
    from softmargin.training.trainer import Trainer

    recipe = training_config(json.loads(config))
    batch = LARGE_BATCH if shape_of(recipe.data)[1] > 64 else BATCH
    # a fraction of the images or of their labels needs more images than there are here
    tried = replace(recipe, batch=batch, epochs=1, fraction=None, pollute=0.0)
    images = _made_up(recipe.data, batch * STEPS)
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
    return parameter_count(trainer.model), losses


def _made_up(name: str, count: int) -> Any:
    """Return random images in the shape of a data set, with its number of classes."""
    import torch

    from softmargin.data import Dataset, Provenance, Split

    entry = entry_of(name)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, *shape_of(name)), generator=generator, dtype=torch.uint8)
    split = Split(x, torch.arange(count) % entry.num_classes)
    classes = tuple(map(str, range(entry.num_classes)))
    source = Provenance("made up", "")
    return Dataset(name, split, split, classes, source, True, mirrorable=entry.mirrorable)


def _models(config: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many networks a cell trains, and the words for that."""
    lists = ("variants", "methods", "scales", "runs", "seeds")
    sizes = {name: len(config[name]) for name in lists if name in config}
    if "folds" in config:
        sizes["folds"] = config["folds"]
    words = " × ".join(f"{size} {name}" for name, size in sizes.items())
    named = config.get("method", "")
    return math.prod(sizes.values()), f"{words}: " if words else f"{named}: " if named else ""


def _options(config: Mapping[str, Any]) -> list[str]:
    options = {"widths": config["widths"]} if "widths" in config else {}
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


def _as_typed(value: Any) -> str:
    """Return how a value is typed: 0.1 for 0.10 and 1e-1, true for True."""
    try:
        return f"{float(str(value)):.10g}"
    except ValueError:
        text = str(value)
        return text.lower() if text.lower() in ("true", "false", "none") else text


def _some(words: Sequence[str]) -> str:
    words = list(dict.fromkeys(words))
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return f"such as {', '.join(words[:SHOWN])}{more}" if more else f"one of {', '.join(words)}"
