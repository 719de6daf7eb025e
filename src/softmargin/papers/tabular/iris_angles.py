"""ag-fig1: the angles between features and class weights, and how hard the loss pulls on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin import theory
from softmargin.data import load_table
from softmargin.papers.core import Cell, Finished, Progress, Result, Scope
from softmargin.papers.findings import verdict
from softmargin.papers.outcome import Finding, Outcome
from softmargin.papers.statistics import paired_bootstrap
from softmargin.papers.tabular.cross_validation import (
    SECONDS_PER_STEP,
    TRAINING,
    configured,
    training,
)
from softmargin.papers.tabular.iris_gaps import (
    angle_chart,
    gap_chart,
    gap_table,
    gaps,
    inside,
    pull_table,
)
from softmargin.training.ensemble import Fold, train_together

Floats = NDArray[np.float64]
SCALES = (1.0, 40.0)
PHASES = ("start", "middle", "end")
EPOCHS = {"smoke": (1, 2, 4), "desk": (1, 10, 100), "paper": (1, 10, 100)}
FEW = 10.0  # percent of the samples that may be left within the gap at the end


def cells(setting: Scope) -> Sequence[Cell]:
    """Return the one cell: a few dozen models."""
    smoke = setting.scale == "smoke"
    epochs = list(EPOCHS[setting.scale])
    shared = training(width=16, lr=0.01, epochs=1) if smoke else dict(TRAINING)
    shared["precision"] = "64"
    config = {
        "data": "iris" if smoke else "uci/iris",
        "scales": list(SCALES),
        "seeds": list(setting.seeds),
        "epochs": epochs,
        "training": shared,
    }
    models = len(SCALES) * len(setting.seeds)
    seconds = 1 + 10 * SECONDS_PER_STEP * 5 * sum(epochs) * models  # few models share a step
    needs = () if smoke else ("uci/iris",)
    return [Cell("angles", config, f"Iris, {models} models", seconds, needs)]


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


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Compare the gaps that training makes with the theoretical ones."""
    ((cell, result),) = finished
    epochs, scales, seeds = (cell.config[name] for name in ("epochs", "scales", "seeds"))
    angles, y = result.arrays["angles"], result.arrays["y"]
    size = f"{setting.scale} scale, {len(seeds)} seeds"
    phases = [f"{phase} (epoch {count})" for phase, count in zip(PHASES, epochs, strict=True)]
    charts = [
        angle_chart(angles[k, i, 0], y, scale, phases[k], f"{setting.scale} scale")
        for i, scale in enumerate(scales)
        for k in range(len(phases))
    ]
    charts += [gap_chart(angles[:, i, 0], y, s, phases, size) for i, s in enumerate(scales)]
    tables = [
        gap_table(angles, y, scales, phases, size),
        pull_table(angles, y, scales, phases, size),
    ]
    found = verdict(setting.scale, findings(angles, y, scales), remark(angles, y, scales))
    return Outcome(found, tables, charts, NOTES, setup_of(cell))


NOTES = (
    "The paper draws angles in polar form with arrows for gradients; here the same two numbers are "
    "the axes, so that they can be read.",
    "The gap of a sample is the angle to the nearest other class weight less that to its own; it "
    "is negative for a sample that is classified wrongly.",
    "The theoretical gap is (W((C - 1)/e) + 1)/s, W Lambert's function: the one for which s is the "
    "scale with the largest gradient.",
    "Features come out of a ReLU, so that no two of them are more than 90° apart.",
)


def findings(angles: Floats, y: NDArray[np.int64], scales: Sequence[float]) -> list[Finding]:
    """Find whether a smaller scale makes a larger gap, and whether each gap empties."""
    end = _final_gaps(angles, y, scales)
    larger = paired_bootstrap(end[0], end[-1], seed=0)
    found = [
        Finding(
            f"the median gap at the end is {end[0].mean():.1f}° for s = {scales[0]:g} and "
            f"{end[-1].mean():.1f}° for s = {scales[-1]:g} ({larger.difference:.1f}° apart, 95 %: "
            f"{larger.low:.1f} to {larger.high:.1f})",
            larger.low > 0,
        )
    ]
    for i, scale in enumerate(scales):
        share = float(100 * inside(angles[-1, i], y, scale).mean())
        expected = np.degrees(theory.gap(angles.shape[-1], scale))
        text = (
            f"for s = {scale:g}, {share:.1f} % of the samples are still within the theoretical gap "
            f"of {expected:.1f}°"
        )
        found.append(Finding(text, share <= FEW))
    return found


def remark(angles: Floats, y: NDArray[np.int64], scales: Sequence[float]) -> str:
    """Return how the gaps relate to the theoretical ones."""
    ends = " and ".join(
        f"{found.mean() / np.degrees(theory.gap(angles.shape[-1], scale)):.1f}"
        for scale, found in zip(scales, _final_gaps(angles, y, scales), strict=True)
    )
    return (
        "The theoretical gap is one that samples leave, not where they stop: they end at "
        f"{ends} times it."
    )


def _final_gaps(angles: Floats, y: NDArray[np.int64], scales: Sequence[float]) -> list[Floats]:
    return [np.median(np.degrees(gaps(angles[-1, i], y)), -1) for i in range(len(scales))]


def setup_of(cell: Cell) -> dict[str, str]:
    """Return in words how the models were trained."""
    shared = cell.config["training"]
    options = shared["model_options"]
    return {
        "network": f"{options['depth']} layers with the head, {options['width']} units each, ReLU",
        "optimiser": f"Adam, learning rate {shared['lr']:g}, constant; no weight decay",
        "training": f"all 150 rows, z-scored, batches of {shared['batch']}, float64",
        "phases": f"after {', '.join(map(str, cell.config['epochs']))} epochs",
    }


def _share_of(progress: Progress, before: float, share: float) -> Callable[[int, int], None]:
    """Return what tells the progress of one training among several."""
    return lambda done, total: progress(before + share * done / total)
