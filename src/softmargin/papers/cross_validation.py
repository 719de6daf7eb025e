"""Methods compared by repeated cross-validation, all models of a table trained together.

The models of one fold start from the same weights, see the same rows in the same order, and differ
in their method alone: differences between methods are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration import expected_calibration_error, top_label
from softmargin.data import Table, load_table
from softmargin.data.sampling import stratified_folds
from softmargin.papers.core import Progress, Result
from softmargin.training import TrainingConfig
from softmargin.training.ensemble import EnsembleResult, Fold, train_together

SCORES = ("accuracy", "nll", "ece")


def cross_validate(
    config: Mapping[str, Any], folder: Path, progress: Progress, threads: int | None = None
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
    runs, folds, methods = config["runs"], config["folds"], config["methods"]
    defined = [m for m, method in enumerate(methods) if is_defined(method, table.num_classes)]
    configs: list[TrainingConfig] = []
    rows: list[Fold] = []
    for run in runs:
        for number, fold in enumerate(folds_of(table.whole.y, folds, run)):
            seed = run * folds + number
            own = [configured(table.name, config["training"], methods[m], seed) for m in defined]
            configs += own
            rows += [fold] * len(own)
    result = train_together(
        configs,
        folds=rows,
        dataset=table,
        out=folder / "models",
        evaluate_every=None,
        threads=threads,
        progress=lambda done, total: progress(done / total),
    )
    models = torch.arange(len(configs)).view(len(runs), folds, len(defined)).permute(2, 0, 1)
    arrays = {name: np.full((len(methods), len(runs), folds), np.nan) for name in SCORES}
    for name, values in arrays.items():
        values[defined] = result.final(name)[models].double().numpy()
    arrays["pooled_ece"] = np.full((len(methods), len(runs)), np.nan)
    arrays["pooled_ece"][defined] = [[pooled_ece(result, run) for run in own] for own in models]
    names = [method["name"] for method in methods]
    return Result(
        {"methods": names, "classes": table.num_classes, "rows": len(table.whole)}, arrays
    )


def is_defined(method: Mapping[str, Any], classes: int) -> bool:
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


def configured(
    data: str, shared: Mapping[str, Any], method: Mapping[str, Any], seed: int
) -> TrainingConfig:
    """Return the configuration of one model, from options of its method and its ``name``."""
    own = {name: value for name, value in method.items() if name != "name"}
    return TrainingConfig(data=data, **shared, **own, seed=seed)


def pooled_ece(result: EnsembleResult, models: Tensor) -> float:
    """Return the ECE of the test rows of some models together, NaN if one of them diverged.

    A fold of 15 rows in ten bins has an ECE far from 0 even if the model is calibrated.
    """
    tested = [result.predictions(int(number)) for number in models]
    logits, y = (torch.cat(parts) for parts in zip(*tested, strict=True))
    if not bool(logits.isfinite().all()):
        return float("nan")
    return float(expected_calibration_error(*top_label(logits, y, from_logits=True), bins=10))


def train_angles(
    config: Mapping[str, Any], folder: Path, progress: Progress, threads: int | None = None
) -> Result:
    """Train on all rows up to each phase, and note every angle there.

    The learning rate is constant, so that fewer epochs are the beginning of the same training.

    Returns:
        ``angles`` in radians between each sample and each class weight, of shape (phases, scales,
        seeds, samples, classes), and the samples' classes ``y``.
    """
    table = load_table(config["data"])
    rows = torch.arange(len(table.whole))
    scales, seeds = config["scales"], config["seeds"]
    found, total = [], sum(config["epochs"])
    for phase, epochs in enumerate(config["epochs"]):
        before = sum(config["epochs"][:phase])
        shared = {**config["training"], "epochs": epochs, "head": "arcgrad"}
        configs = [
            configured(table.name, shared, {"head_options": {"scale": scale}}, seed)
            for scale in scales
            for seed in seeds
        ]

        def tell(done: int, steps: int, before: int = before, epochs: int = epochs) -> None:
            progress((before + epochs * done / steps) / total)

        result = train_together(
            configs,
            folds=[Fold(rows, rows)] * len(configs),
            dataset=table,
            out=folder / f"epochs-{epochs}",
            evaluate_every=None,
            threads=threads,
            progress=tell,
        )
        logits = torch.stack([result.predictions(number)[0] for number in range(len(configs))])
        logits = logits.view(len(scales), len(seeds), *logits.shape[1:])
        found.append((logits / -torch.tensor(scales).view(-1, 1, 1, 1)).numpy())
    return Result({}, {"angles": np.stack(found), "y": table.whole.y.numpy()})
