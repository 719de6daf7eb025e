"""Which models can be trained together, and how they are laid out: variants by streams.

A stream is an order of samples: a seed and a fold. A variant is everything else that may differ:
head, loss, their settings and schedules, rate, decay, clipping. K models that are all combinations
of M variants and S streams make one block, in which a batch is gathered once for all M, and the
first layer of all M is one product.
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
from softmargin.center import CenterLoss
from softmargin.data.sampling import stratified_indices
from softmargin.heads import Head
from softmargin.losses import LogitLoss
from softmargin.models import FCNN
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble.heads import STACKED_HEADS
from softmargin.training.ensemble.losses import STACKED_LOSSES
from softmargin.training.parts import make_center, make_head, make_loss

OWN = ("seed", "fraction", "pollute")
VARIES = (
    *OWN,
    *("head", "head_options", "loss", "loss_options", "schedules", "center"),
    *("lr", "weight_decay", "clip"),
)


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
    """An order of samples: the pool's rows to train and test on, their classes, and the seed."""

    seed: int
    fold: int
    train: Tensor
    test: Tensor
    y: Tensor


@dataclass
class Kind:
    """Neighbouring variants whose head and loss are of one kind."""

    head: Head
    loss: LogitLoss
    center: CenterLoss | None
    variants: list[int]


def check_members(configs: Sequence[TrainingConfig]) -> None:
    """Raise unless the models differ only in what models trained together may differ in."""
    if not configs:
        raise ValueError("configs must hold at least one configuration, but got none.")
    first = configs[0]
    for config in configs[1:]:
        for name in first.difference(config):
            if name not in VARIES:
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


def make_parts(
    config: TrainingConfig, features: int, classes: int
) -> tuple[Head, LogitLoss, CenterLoss | None]:
    """Return head, loss and center loss of one model, of kinds that can be stacked."""
    head = make_head(config.head, features, classes, config.head_options)
    loss = make_loss(config.loss, config.loss_options)
    center = make_center(config.center, features, classes)
    for what, module, known in (("head", head, STACKED_HEADS), ("loss", loss, STACKED_LOSSES)):
        if type(module) not in known:
            names = ", ".join(kind.__name__ for kind in known)
            raise ValueError(f"{what} must be one of {names}, but got {type(module).__name__}.")
    check_settings(head, loss)
    return head, loss, center


def check_settings(head: Head, loss: LogitLoss) -> None:
    """Raise for what a model among others cannot have."""
    if loss.weight is not None or loss.reduction != "mean":
        raise ValueError(
            "loss_options must leave weight and reduction alone for models trained together, "
            f"but got {loss}."
        )
    smoothing = loss.label_smoothing
    if smoothing and not hasattr(loss, "floored"):
        raise ValueError(
            "label_smoothing must be 0 for models trained together, except with the gradient "
            f"decay loss, but got {smoothing} with {type(loss).__name__}."
        )
    for module in (head, loss):
        for name in module.settings:
            value = getattr(module, name)
            if module.learns(name) or value.ndim:
                raise ValueError(
                    f"{name} must be one number that is not learned for models trained "
                    f"together, but got {value}."
                )


def kinds_of(
    variants: Sequence[TrainingConfig], features: int, classes: int
) -> tuple[list[Kind], list[int]]:
    """Group variants by kind; return the kinds, and the variants in the order of the kinds."""
    found: dict[tuple[Any, ...], tuple[Any, list[int]]] = {}
    for number, config in enumerate(variants):
        parts = make_parts(config, features, classes)
        found.setdefault(_kind_key(*parts), (parts, []))[1].append(number)
    kinds: list[Kind] = []
    order: list[int] = []
    for (head, loss, center), numbers in found.values():
        first = len(order)
        kinds.append(Kind(head, loss, center, list(range(first, first + len(numbers)))))
        order += numbers
    return kinds, order


def _kind_key(head: Head, loss: LogitLoss, center: CenterLoss | None) -> tuple[Any, ...]:
    """Return what must be equal for two variants to be computed by the same call."""
    static = [
        (name, value)
        for module in (head, loss)
        for name, value in sorted(vars(module).items())
        if isinstance(value, (bool, int, float, str)) and name not in (*module.settings, "training")
    ]
    return type(head), type(loss), center is not None, tuple(static)


@dataclass(frozen=True, eq=False)
class Block:
    """M variants times S streams; model (m, s) is number ``numbers[m][s]`` of the given ones."""

    variants: list[TrainingConfig]
    streams: list[Stream]
    numbers: list[list[int]]


def blocks_of(
    configs: Sequence[TrainingConfig], dataset: data.Dataset, folds: Sequence[Fold] | None
) -> list[Block]:
    """Lay the models out in as few blocks as all combinations allow."""
    streams: dict[tuple[Any, ...], Stream] = {}
    members: dict[Stream, dict[str, list[int]]] = {}
    keys: dict[str, TrainingConfig] = {}
    known: dict[tuple[Any, ...], int] = {}
    for number, config in enumerate(configs):
        fold = None if folds is None else folds[number]
        # models with the same rows to train on share their z-scores
        rows = (id(fold), config.fraction, config.fraction and config.seed)
        where = known.setdefault(rows, len(known))
        key = (config.seed, config.pollute, where)
        if key not in streams:
            streams[key] = _stream(config, dataset, fold, where)
            members[streams[key]] = defaultdict(list)
        variant = repr(dataclasses.replace(config, seed=0, fraction=None, pollute=0.0))
        keys[variant] = config
        members[streams[key]][variant].append(number)
    return _crossed(members, keys)


def _crossed(
    members: dict[Stream, dict[str, list[int]]], keys: dict[str, TrainingConfig]
) -> list[Block]:
    """Put streams that have the same variants into one block."""
    alike: dict[tuple[str, ...], list[Stream]] = defaultdict(list)
    for stream, variants in members.items():
        names = tuple(name for name, numbers in variants.items() for _ in numbers)
        alike[tuple(sorted(names))].append(stream)
    blocks = []
    for names, streams in alike.items():
        numbers = []
        for place, name in enumerate(names):
            again = place - names.index(name)
            numbers.append([members[stream][name][again] for stream in streams])
        blocks.append(Block([keys[name] for name in names], streams, numbers))
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
    if config.batch > len(train):
        raise ValueError(
            f"batch must be at most the {len(train)} training samples, but got {config.batch}."
        )
    return Stream(config.seed, where, train, test, y)


def pool(dataset: data.Dataset, *, folded: bool) -> tuple[Tensor, Tensor]:
    """Return the samples and classes that rows number: a table's own, or training and test."""
    if folded and isinstance(dataset, data.Table):
        return dataset.whole.x, dataset.whole.y
    return (
        torch.cat([dataset.train.x, dataset.test.x]),
        torch.cat([dataset.train.y, dataset.test.y]),
    )
