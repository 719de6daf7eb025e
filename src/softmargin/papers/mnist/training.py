"""The work of a cell: train all variants of a seed together, then measure them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softmargin import data
from softmargin.papers.core import Progress, Result
from softmargin.papers.mnist import measures
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble import train_together

SCORES = ("train_loss", "accuracy", "nll", "ece")
TRAINING = 0.97  # of the work; the rest is measuring


def train_seed(config: Mapping[str, Any], folder: Path, progress: Progress) -> Result:
    """Train every variant of a cell from one seed and return what they did.

    The numbers are ``variants`` (their names, in the order of all lists), ``samples`` (training
    samples), ``inputs``, ``final`` (lists of scores, one per variant), ``histogram`` and
    ``trained_histogram`` (GD Table 1's counts with the final weights, and as met in the last
    epoch), and for features ``spread``. The arrays are scores by epoch (variants, epochs) and
    what :mod:`softmargin.papers.mnist.measures` names.
    """
    dataset = data.load(config["data"], seed=config["seed"])
    configs = [training_config(config, variant) for variant in config["variants"]]
    trained = train_together(
        configs,
        dataset=dataset,
        out=folder / "models",
        record=True,
        progress=lambda done, total: progress(TRAINING * done / total),
    )
    result = Result(
        {
            "variants": list(config["variants"]),
            "samples": len(dataset.train),
            "inputs": dataset.train.x[0].numel(),
        },
        {name: trained.history(name).numpy() for name in SCORES},
    )
    found = [measures.scores(trained), measures.confidences(trained, dataset, config["variants"])]
    if config["features"]:
        found.append(measures.features(trained, dataset))
    for each in found:
        result.numbers.update(each.numbers)
        result.arrays.update(each.arrays)
    progress(1.0)
    return result


def training_config(config: Mapping[str, Any], variant: str) -> TrainingConfig:
    """Return how one variant of a cell is trained."""
    start, arrow, end = variant.partition("→")
    schedules = (f"beta=linear:{start}:{end}:{config['warm_up']}",) if arrow else ()
    return TrainingConfig(
        config["data"],
        "fcnn",
        model_options={"widths": config["widths"], "last_activation": config["last_activation"]},
        loss_options={"beta": float(start)},
        schedules=schedules,
        epochs=config["epochs"],
        batch=config["batch"],
        lr=config["lr"],
        momentum=config["momentum"],
        weight_decay=config["weight_decay"],
        seed=config["seed"],
    )
