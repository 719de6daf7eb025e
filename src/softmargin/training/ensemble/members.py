"""Which models can be trained together, and how they are laid out: variants by streams.

A stream is an order of samples: a seed and a fold. A variant is everything else that may differ:
head, loss, their settings and schedules, rate, decay, clipping. K models that are all combinations
of M variants and S streams of one length make one block, in which a batch is gathered once for all
M, and the first layer of all M is one product.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softmargin import data, models
from softmargin.data.sampling import stratified_indices
from softmargin.models import FCNN
from softmargin.training.config import TrainingConfig
from softmargin.training.held_out import hold_out

# what a stream decides, and the value that variants are compared with; any would do
OF_STREAMS: dict[str, Any] = {"seed": 0, "fraction": None, "held_out": 0.5, "pollute": 0.0}
OF_VARIANTS = {
    "head",
    "head_options",
    "loss",
    "loss_options",
    "schedules",
    "center",
    "lr",
    "weight_decay",
    "clip",
}


@dataclass(frozen=True)
class Fold:
    """Rows of a data set to train and to test on.

    Attributes:
        train: row numbers.
        test: row numbers.
    """

    train: Tensor
    test: Tensor


@dataclass(frozen=True, eq=False)
class Stream:
    """An order of samples: the pool's rows to train on, hold out and test on, classes, seed."""

    seed: int
    fold: int
    train: Tensor
    test: Tensor
    held: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Block:
    """M variants times S streams; model (m, s) is number ``numbers[m][s]`` of the given ones."""

    variants: list[TrainingConfig]
    streams: list[Stream]
    numbers: list[list[int]]


def check_members(configs: Sequence[TrainingConfig]) -> None:
    """Raise unless the models differ only in what models trained together may differ in."""
    if not configs:
        raise ValueError("configs must hold at least one configuration, but got none.")
    first = configs[0]
    for config in {id(each): each for each in configs}.values():  # folds may share theirs
        for name in first.difference(config):
            if name not in OF_VARIANTS and name not in OF_STREAMS:
                raise ValueError(
                    f"{name} must be the same for all models trained together, but got "
                    f"{getattr(first, name)!r} and {getattr(config, name)!r}."
                )
    if first.augment:
        raise ValueError("augment must be False for models trained together, but got True.")
    if first.precision not in ("32", "64"):
        raise ValueError(
            f"precision must be 32 or 64 for models trained together, but got {first.precision!r}."
        )


def build_network(config: TrainingConfig, shape: Sequence[int]) -> FCNN:
    """Return the network, which must be fully connected."""
    network = models.build(config.model, shape, **config.model_options)
    if not isinstance(network, FCNN):
        why = ", has batch-norm" if models.has_batch_norm(network) else ""
        raise ValueError(
            "model must be fully connected, fcnn or mlp, to be trained with others, but got "
            f"{config.model!r}, which is {type(network).__name__}{why}."
        )
    return network


def blocks_of(
    configs: Sequence[TrainingConfig], dataset: data.Dataset, folds: Sequence[Fold] | None
) -> list[Block]:
    """Lay the models out in as few blocks as all combinations allow."""
    streams: dict[tuple[Any, ...], Stream] = {}
    members: dict[Stream, list[tuple[str, int]]] = defaultdict(list)
    known: dict[tuple[Any, ...], int] = {}
    variants: dict[int, str] = {}
    for number, config in enumerate(configs):
        fold = None if folds is None else folds[number]
        # models with the same rows to train on share their z-scores
        drawn = config.fraction is not None or config.held_out > 0
        rows = (id(fold), config.fraction, config.held_out, drawn and config.seed)
        where = known.setdefault(rows, len(known))
        key = (config.seed, config.pollute, where)
        if key not in streams:
            streams[key] = _stream(config, dataset, fold, where)
        if id(config) not in variants:
            variants[id(config)] = repr(dataclasses.replace(config, **OF_STREAMS))
        members[streams[key]].append((variants[id(config)], number))
    alike: dict[tuple[Any, ...], list[Stream]] = defaultdict(list)
    for stream, own in members.items():
        own.sort()
        names = [variant for variant, _ in own]
        alike[*names, len(stream.train), len(stream.test), len(stream.held)].append(stream)
    blocks = []
    for group in alike.values():
        numbers = [
            [number for _, number in row] for row in zip(*(members[s] for s in group), strict=True)
        ]
        blocks.append(Block([configs[row[0]] for row in numbers], group, numbers))
    return blocks


def _stream(config: TrainingConfig, dataset: data.Dataset, fold: Fold | None, where: int) -> Stream:
    """Return the rows of the pool that a model trains and tests on, as the trainer takes them."""
    if fold is not None:
        train, test = fold.train, fold.test
    else:
        size = len(dataset.train)
        train, test = torch.arange(size), torch.arange(size, size + len(dataset.test))
    y = pool(dataset, folded=fold is not None)[1]
    if config.fraction is not None:
        train = train[stratified_indices(y[train], config.fraction, config.seed)]
    if config.pollute:
        wrong = data.label_noise(y[train], config.pollute, dataset.num_classes, config.seed)
        y = y.index_copy(0, train, wrong)
    kept, held = hold_out(y[train], config.held_out, config.seed)
    train, held = train[kept], train[held]
    if config.batch > len(train):
        raise ValueError(
            f"batch must be at most the {len(train)} training samples, but got {config.batch}."
        )
    return Stream(config.seed, where, train, test, held, y)


def pool(dataset: data.Dataset, *, folded: bool) -> tuple[Tensor, Tensor]:
    """Return the samples and classes that rows number: a table's own, or training and test."""
    if folded and isinstance(dataset, data.Table):
        return dataset.whole.x, dataset.whole.y
    return (
        torch.cat([dataset.train.x, dataset.test.x]),
        torch.cat([dataset.train.y, dataset.test.y]),
    )
