"""Methods compared by repeated cross-validation, all models of a table trained together.

The models of one fold start from the same weights, see the same rows in the same order, and differ
in their method alone: differences between methods are paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration import expected_calibration_error, top_label
from softmargin.data import Table, load_table
from softmargin.data.sampling import stratified_folds
from softmargin.papers.core import Array, Cell, Result
from softmargin.training import TrainingConfig
from softmargin.training.ensemble import EnsembleResult, Fold, train_together

Method = Mapping[str, Any]
"""Options of a :class:`TrainingConfig` by their names, and ``"name"``."""

SCORES = ("accuracy", "nll", "ece")
SECONDS_PER_STEP = 12e-6  # of one model among many, on two cores

# AG trains its softmax without a bias (eq. 4), which also gives all heads the same parameters
_NO_BIAS = {"head_options": {"bias": False}}
METHODS: tuple[Method, ...] = (
    {"name": "Soft", **_NO_BIAS},
    {"name": "Center", "center": 0.02, **_NO_BIAS},
    {"name": "M-Soft", "loss": "soft_margin_softmax", "loss_options": {"margin": 0.5}, **_NO_BIAS},
    {"name": "ArcFace", "head": "arcface", "head_options": {"scale": 20.0, "margin": 0.1}},
    {"name": "AdaCos", "head": "adacos"},
    {"name": "ArcGrad 30", "head": "arcgrad", "head_options": {"scale": 30.0}},
    {"name": "ArcGrad 5", "head": "arcgrad", "head_options": {"scale": 5.0}},
    {"name": "β = 5", "loss_options": {"beta": 5.0}, **_NO_BIAS},
    {"name": "β = 0.1", "loss_options": {"beta": 0.1}, **_NO_BIAS},
    {
        "name": "LM, λ = 0.3",
        "loss": "regularized_softmax",
        "loss_options": {"lam": 0.3},
        **_NO_BIAS,
    },
)


def training(width: int, lr: float, epochs: int, depth: int = 3) -> dict[str, Any]:
    """Return what all models of a table share; layers are counted with the head."""
    return {
        "model": "mlp",
        "model_options": {"width": width, "depth": depth},
        "optimizer": "adam",
        "lr": lr,
        "batch": 32,
        "epochs": epochs,
    }


TRAINING = training(width=32, lr=0.003, epochs=50)  # chosen in docs/choices.md


def is_defined(method: Method, classes: int) -> bool:
    """Return whether a method exists for so many classes: AdaCos's scale is log 1 = 0 for two."""
    return method.get("head") != "adacos" or classes > 2


def read_table(name: str, without: Sequence[str] = ()) -> Table:
    """Return a table, less some of its features."""
    return load_table(name).without(*without)


def folds_of(y: Tensor, folds: int, run: int) -> list[Fold]:
    """Return the stratified folds of one run; the run is the seed of who is where."""
    parts = stratified_folds(y, folds, run)
    return [
        Fold((parts != number).nonzero()[:, 0], (parts == number).nonzero()[:, 0])
        for number in range(folds)
    ]


def cross_validate(
    config: Mapping[str, Any],
    folder: Path,
    progress: Callable[[float], None],
    threads: int | None = None,
) -> Result:
    """Train every method on every fold of every run, and test it there.

    Args:
        config: ``data`` and features to leave out (``without``), seeds of the ``runs``, number of
            ``folds``, the ``methods``, and under ``training`` what all models share.
        folder: for checkpoints; the same call goes on where it stopped.
        progress: told the share that is done.
        threads: parts trained side by side, by default one per core.

    Returns:
        The names of the methods in the order of the arrays, and arrays (methods, runs, folds) of
        accuracy, NLL in nats and ECE; ``pooled_ece`` (methods, runs) takes the test rows of all
        folds of a run together. Where a method is not defined for the table they are NaN.
    """
    table = read_table(config["data"], config["without"])
    runs, folds = config["runs"], config["folds"]
    methods = [m for m in config["methods"] if is_defined(m, table.num_classes)]
    configs: list[TrainingConfig] = []
    rows: list[Fold] = []
    for run in runs:
        for number, fold in enumerate(folds_of(table.whole.y, folds, run)):
            seed = run * folds + number
            configs += [configured(table.name, config["training"], m, seed) for m in methods]
            rows += [fold] * len(methods)
    result = train_together(
        configs,
        folds=rows,
        dataset=table,
        out=folder / "models",
        evaluate_every=None,
        threads=threads,
        progress=lambda done, total: progress(done / total),
    )
    names = [method["name"] for method in config["methods"]]
    shape = (len(runs), folds, len(methods))
    there = [names.index(method["name"]) for method in methods]
    arrays = {name: _placed(result.final(name), shape, there, len(names)) for name in SCORES}
    pooled = _pooled_ece(result, shape)
    arrays["pooled_ece"] = _placed(pooled, (len(runs), 1, len(methods)), there, len(names))[..., 0]
    return Result(
        {"methods": names, "classes": table.num_classes, "rows": len(table.whole)}, arrays
    )


def configured(data: str, shared: Mapping[str, Any], method: Method, seed: int) -> TrainingConfig:
    """Return the configuration of one model."""
    own = {name: value for name, value in method.items() if name != "name"}
    return TrainingConfig(data=data, **shared, **own, seed=seed)


def seconds_of(rows: int, runs: int, folds: int, methods: int, shared: Mapping[str, Any]) -> float:
    """Return about how long a cell takes on two cores."""
    steps: int = math.ceil(rows * (1 - 1 / folds) / shared["batch"]) * shared["epochs"]
    layers: float = shared["model_options"]["depth"] / 3
    return 1 + SECONDS_PER_STEP * steps * runs * folds * methods * layers


def described(cell: Cell) -> dict[str, str]:
    """Return in words how the models of a cell were trained."""
    shared, runs, folds = (cell.config[name] for name in ("training", "runs", "folds"))
    options = shared["model_options"]
    return {
        "network": f"{options['depth']} layers with the head, {options['width']} units each, ReLU",
        "optimiser": f"Adam, learning rate {shared['lr']:g}, constant; no weight decay",
        "training": f"{shared['epochs']} epochs in batches of {shared['batch']}, inputs z-scored "
        "by the training rows of each fold",
        "cross-validation": f"{len(runs)} runs of {folds} stratified folds; the run is the seed of "
        "the folds, run and fold are that of weights and order",
    }


def _placed(values: Tensor, shape: Sequence[int], there: Sequence[int], methods: int) -> Array:
    """Return values in the order (run, fold, method) as (methods, runs, folds), NaN elsewhere."""
    runs, folds, _ = shape
    placed = np.full((methods, runs, folds), np.nan)
    placed[list(there)] = values.view(*shape).permute(2, 0, 1).double().numpy()
    return placed


def _pooled_ece(result: EnsembleResult, shape: Sequence[int]) -> Tensor:
    """Return the ECE of all test rows of a run by (run, method).

    A fold of 15 rows in ten bins has an ECE far from 0 even if the model is calibrated. A run with
    a model that diverged has none.
    """
    runs, _, methods = shape
    found = torch.full((runs, 1, methods), torch.nan, dtype=torch.float64)
    numbers = torch.arange(len(result)).view(*shape)
    for run in range(runs):
        for method in range(methods):
            tested = [result.predictions(int(n)) for n in numbers[run, :, method]]
            logits, y = (torch.cat(parts) for parts in zip(*tested, strict=True))
            if bool(logits.isfinite().all()):
                ece = expected_calibration_error(*top_label(logits, y, from_logits=True), bins=10)
                found[run, 0, method] = ece
    return found
