"""Methods compared by repeated cross-validation, all models of a table trained together.

The models of one fold start from the same weights, see the same rows in the same order, and differ
in their method alone: differences between methods are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration import expected_calibration_error, top_label
from softmargin.data import Table, load_table
from softmargin.data.sampling import stratified_folds
from softmargin.papers.core import Array, Cell, Progress, Result
from softmargin.papers.findings import Floats
from softmargin.papers.outcome import Entry, rounded
from softmargin.papers.statistics import Comparison, corrected_resampled_t_test, holm
from softmargin.papers.tabular import Method
from softmargin.training import TrainingConfig
from softmargin.training.ensemble import EnsembleResult, Fold, train_together

SCORES = ("accuracy", "nll", "ece")
BASELINE = "Soft"


def cross_validate(
    config: Mapping[str, Any],
    folder: Path,
    progress: Progress,
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


def configured(data: str, shared: Mapping[str, Any], method: Method, seed: int) -> TrainingConfig:
    """Return the configuration of one model."""
    own = {name: value for name, value in method.items() if name != "name"}
    return TrainingConfig(data=data, **shared, **own, seed=seed)


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


def train_angles(
    config: Mapping[str, Any], folder: Path, progress: Progress, *, threads: int | None = None
) -> Result:
    """Train on all rows up to each phase, and note every angle there.

    The learning rate is constant, so that fewer epochs are the beginning of the same training.

    Returns:
        ``angles`` in radians between each sample and each class weight, of shape (phases, scales,
        seeds, samples, classes), and the samples' classes ``y``.
    """
    table = load_table(config["data"])
    rows = torch.arange(len(table.whole))
    fold = Fold(rows, rows)
    scales, seeds = config["scales"], config["seeds"]
    found, before, total = [], 0, sum(config["epochs"])
    for epochs in config["epochs"]:
        shared = {**config["training"], "epochs": epochs}
        configs = [
            configured(table.name, shared, {"head": "arcgrad", "head_options": {"scale": s}}, seed)
            for s in scales
            for seed in seeds
        ]
        result = train_together(
            configs,
            folds=[fold] * len(configs),
            dataset=table,
            out=folder / f"epochs-{epochs}",
            evaluate_every=None,
            threads=threads,
            progress=_share_of(progress, before / total, epochs / total),
        )
        before += epochs
        logits = torch.stack([result.predictions(number)[0] for number in range(len(configs))])
        logits = logits.view(len(scales), len(seeds), *logits.shape[1:])
        found.append((logits / -torch.tensor(scales).view(-1, 1, 1, 1)).numpy())
    return Result({}, {"angles": np.stack(found), "y": table.whole.y.numpy()})


def _share_of(progress: Progress, before: float, share: float) -> Callable[[int, int], None]:
    """Return what tells the progress of one training among several."""
    return lambda done, total: progress(before + share * done / total)


Comparisons = Mapping[tuple[int, int], Comparison]
"""By row and method."""


def compare_methods(accuracy: Floats, baseline: int) -> tuple[Comparisons, Floats]:
    """Compare every method with a baseline in every row, fold by fold, in points.

    Args:
        accuracy: in percent, (rows, methods, runs, folds).
        baseline: the place of the method to compare with.

    Returns:
        The comparisons, and their p-values after Holm's correction over all of them, NaN where
        there is none.
    """
    found = {}
    p = np.full(accuracy.shape[:2], np.nan)
    share = 1 / accuracy.shape[3]
    for row, method in np.ndindex(p.shape):
        differences = accuracy[row, method] - accuracy[row, baseline]
        if method != baseline and np.isfinite(differences).all():
            found[row, method] = corrected_resampled_t_test(differences, test_share=share)
            p[row, method] = found[row, method].p
    return found, holm(p)


def compared_entry(
    place: tuple[int, int],
    name: tuple[str, str],
    values: Floats,
    paper: float | None,
    compared: Comparisons,
    adjusted: Floats,
) -> Entry:
    """Return the entry of a row and a method, compared with the row's baseline."""
    found = compared.get(place)
    return Entry(
        *name,
        rounded(values),
        paper=paper,
        comparison=found,
        adjusted=None if found is None else float(adjusted[place]),
        baseline=None if found is None else (name[0], BASELINE),
    )


def tests_note(size: str, where: str, compared: Comparisons) -> str:
    """Return how the entries were compared, in words."""
    return (
        f"{size}. ± is the standard deviation of the runs' means. Tests: each method against "
        f"{BASELINE} {where}, corrected resampled t-test, p-values after Holm's correction over "
        f"all {len(compared)} comparisons."
    )


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
