"""Which images a cell trains on, tests on, and holds out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch.nn import functional as F

from softmargin import data
from softmargin.data import Dataset, Split
from softmargin.data.sampling import stratified_indices
from softmargin.training import TrainingConfig
from softmargin.training.held_out import hold_out

PART_SEED = 0  # seeds are for networks: the part of the images is the same for all


@dataclass(frozen=True)
class Images:
    """A data set to train and test on, and training images held out from both, if any."""

    dataset: Dataset
    held_out: Split | None = None


def load_part(name: str, part: Mapping[str, int], seed: int = 0) -> Images:
    """Return the stated part of a data set.

    Held-out images are drawn from the training split first, then those to train on from the rest,
    both stratified and the same for every seed; ``seed`` only splits data that come unsplit.

    Args:
        name: of the data set.
        part: how many images to ``train`` and ``test`` on and to have ``held_out``, and the
            ``size`` that images are reduced to.
        seed: of the split of data that have none.
    """
    dataset = data.load(name, seed=seed)
    train, test, held_out = dataset.train, dataset.test, None
    if part.get("held_out"):
        held_out, train = taken(train, part["held_out"])
    if "train" in part:
        train = taken(train, part["train"])[0]
    if "test" in part:
        test = taken(test, part["test"])[0]
    if "size" in part:
        train, test = reduced(train, part["size"]), reduced(test, part["size"])
        held_out = held_out and reduced(held_out, part["size"])
    subset = dataset.is_subset or bool(part)
    return Images(replace(dataset, train=train, test=test, is_subset=subset), held_out)


def taken(split: Split, count: int) -> tuple[Split, Split]:
    """Return a stratified part of ``count`` samples, and the rest of the split."""
    if count >= len(split):
        return split, split.select(torch.arange(0))
    chosen = stratified_indices(split.y, count / len(split), PART_SEED)
    rest = torch.ones(len(split), dtype=torch.bool)
    rest[chosen] = False
    return split.select(chosen), split.select(rest.nonzero()[:, 0])


def reduced(split: Split, size: int) -> Split:
    """Return images of a smaller height and width, each pixel the mean of those it covers."""
    factor = split.x.shape[-1] // size
    return Split(F.avg_pool2d(split.x.float(), factor).round().byte(), split.y)


def as_trained(dataset: Dataset, config: TrainingConfig) -> Dataset:
    """Return the data with what a configuration takes away or spoils, as training saw it."""
    if config.fraction is not None:
        dataset = dataset.subset(config.fraction, config.seed)
    if config.pollute:
        y = data.label_noise(dataset.train.y, config.pollute, dataset.num_classes, config.seed)
        dataset = replace(dataset, train=dataset.train.with_labels(y))
    if config.held_out:
        rows, _ = hold_out(dataset.train.y, config.held_out, config.seed)
        dataset = replace(dataset, train=dataset.train.select(rows))
    return dataset


def held_out_by(dataset: Dataset, config: TrainingConfig) -> Split | None:
    """Return the training images that a configuration holds out itself, if any."""
    if not config.held_out:
        return None
    _, held = hold_out(dataset.train.y, config.held_out, config.seed)
    return dataset.train.select(held)
