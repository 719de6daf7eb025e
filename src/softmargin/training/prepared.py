"""The data of a run: loaded, cut, spoiled and divided as its configuration says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from softmargin import data
from softmargin.data.own import load_own_pictures, load_own_table
from softmargin.data.registry import own_kind
from softmargin.training.config import OptionError, TrainingConfig, naming
from softmargin.training.held_out import hold_out


def load_data(config: TrainingConfig) -> data.Dataset:
    """Return the data set of that name, or the user's own table or pictures."""
    kind, path = own_kind(config.data), Path(config.data)
    if kind == "table":
        with naming("data"):
            try:
                return load_own_table(path, config.target, seed=config.seed)
            except ValueError as error:
                if str(error).startswith("target "):
                    raise OptionError("target", str(error)) from None
                raise
    if kind == "folder":
        with naming("data"):
            return load_own_pictures(path, seed=config.seed)
    with naming("data", "name"):
        return data.load(config.data, seed=config.seed)


def prepared_data(
    config: TrainingConfig, dataset: data.Dataset | None
) -> tuple[data.Dataset, data.Split | None]:
    """Return the data with what the configuration takes away or spoils, and what it holds out."""
    if dataset is None:
        dataset = load_data(config)
    if config.fraction is not None:
        dataset = dataset.subset(config.fraction, config.seed)
    if config.pollute:
        y = data.label_noise(dataset.train.y, config.pollute, dataset.num_classes, config.seed)
        dataset = replace(dataset, train=dataset.train.with_labels(y))
    if not config.held_out:
        return dataset, None
    rows, held = hold_out(dataset.train.y, config.held_out, config.seed)
    kept = dataset.train.select(held)
    return replace(dataset, train=dataset.train.select(rows)), kept


def check_data(
    config: TrainingConfig, dataset: data.Dataset, shape: torch.Size, world: int
) -> None:
    """Refuse what does not go with the data."""
    if config.augment and len(shape) != 3:
        raise OptionError(
            "augment", f"augment must be left out for {dataset.name}, which holds no pictures."
        )
    if not world <= config.batch <= len(dataset.train):
        least = f"at least the {world} processes and " if config.batch < world else ""
        raise OptionError(
            "batch",
            f"batch must be {least}at most the {len(dataset.train)} training samples, "
            f"but got {config.batch}.",
        )
