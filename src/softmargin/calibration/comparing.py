"""Several models on the same rows: differences with intervals, from row to row.

What a row makes easy or hard it does for all models, so that differences of rows vary less than
the rows themselves: the interval of a difference is narrower than those of both values suggest.

- **Accuracy, NLL, Brier score**: the mean of the rows' differences, with the interval of
  :func:`softmargin.calibration.intervals.mean_interval`.
- **ECE**: noise only adds to an ECE, to that of one model maybe more than to that of the other.
  The bounds on what it adds, see :mod:`softmargin.calibration._bin_intervals`, are combined: the
  most for one model with the least for the other, both from the same bootstrap of the rows, which
  are counted by the bins they fall into for both models. These intervals are wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration._batch import prediction_batch
from softmargin.calibration._bin_intervals import clear_from, sum_noise
from softmargin.calibration._files import parts_of
from softmargin.calibration._rows import measure
from softmargin.calibration.accumulator import CalibrationMetrics
from softmargin.calibration.binning import bin_edges, bin_index
from softmargin.calibration.intervals import Interval, Resampling, mean_interval, within
from softmargin.calibration.predictions import Predictions
from softmargin.calibration.result import CalibrationResult

LIMITS = {"accuracy": (-1.0, 1.0), "nll": (-math.inf, math.inf), "brier": (-2.0, 2.0)}
METRICS = (*LIMITS, "ece")
LARGER_IS_BETTER = ("accuracy",)


class Difference(NamedTuple):
    """A metric of one model minus that of the first, and its interval."""

    metric: str
    value: float
    low: float
    high: float

    @property
    def better(self) -> bool | None:
        """Return whether the model is better than the first; None if that may be chance."""
        if self.low <= 0 <= self.high:
            return None
        return (self.value > 0) == (self.metric in LARGER_IS_BETTER)


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Attributes:
        names: of the models, the first being the one that the others are compared with.
        results: all metrics of each model.
        differences: of each model but the first.
        confidence_level: level of the intervals.
    """

    names: tuple[str, ...]
    results: tuple[CalibrationResult, ...]
    differences: tuple[tuple[Difference, ...], ...]
    confidence_level: float


class _Rows(NamedTuple):
    """What is known of each row of one model, vectors of shape (N,)."""

    confidence: Tensor
    accuracy: Tensor
    nll: Tensor
    brier: Tensor


def compare(
    models: Sequence[tuple[str, Predictions]],
    *,
    bins: int = 10,
    confidence_level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Compare models on the same rows, all with the first.

    Args:
        models: names and predictions, at least two; the labels must be the same.
        bins: number of bins of equal width.
        confidence_level: level of every single interval.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
        progress: called with a model's name, how many are done, and how many there are.

    Raises:
        ValueError: if they are not predictions of the same rows.
    """
    _check_same_rows(models)
    resampling = Resampling(len(models[0][1].labels), resamples, seed, confidence_level)
    results, rows = [], []
    for number, (name, each) in enumerate(models):
        if progress is not None:
            progress(name, number, len(models))
        metrics = CalibrationMetrics(
            each.values.shape[1], from_logits=each.from_logits, bins=bins, classwise=False
        )
        rows.append(_measured(each, metrics))
        results.append(metrics.compute(confidence_level, resamples=resamples, seed=seed))
    differences = tuple(
        (
            *_mean_differences(rows[0], other, confidence_level),
            _ece_difference(rows[0], other, bins, resampling),
        )
        for other in rows[1:]
    )
    names = tuple(name for name, _ in models)
    return Comparison(names, tuple(results), differences, confidence_level)


def _check_same_rows(models: Sequence[tuple[str, Predictions]]) -> None:
    if len(models) < 2:
        raise ValueError(f"models must be at least 2, but got {len(models)}.")
    first_name, first = models[0]
    for name, each in models:
        if each.confidence_only:
            raise ValueError(
                f"{name} must hold logits or probabilities of all classes, but holds confidences."
            )
        if each.values.shape != first.values.shape:
            shapes = " and ".join("{} × {}".format(*x.values.shape) for x in (first, each))
            raise ValueError(
                f"{first_name} and {name} must hold predictions of the same rows and classes, but "
                f"hold {shapes}."
            )
        wrong = np.flatnonzero(each.labels != first.labels)
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"{first_name} and {name} must hold the same rows in the same order, but the "
                f"labels of row {row} (counting from 0) are {first.labels[row]} and "
                f"{each.labels[row]}."
            )


def _measured(predictions: Predictions, metrics: CalibrationMetrics) -> _Rows:
    """Count the rows, and return what is needed of each."""
    target, done = torch.from_numpy(predictions.labels), 0
    found: list[tuple[Tensor, ...]] = []
    for part in parts_of(predictions.values):
        values = torch.from_numpy(np.ascontiguousarray(part))
        labels = target[done : done + len(part)]
        metrics.update(values, labels)
        batch = prediction_batch(values, labels, None, None)
        for rows in measure(batch, from_logits=predictions.from_logits, threshold=None):
            correct = (rows.rank == 0).double()
            found.append((rows.confidence.double(), correct, rows.nll, rows.brier))
        done += len(part)
    return _Rows(*(torch.cat(column).double() for column in zip(*found, strict=True)))


def _mean_differences(first: _Rows, other: _Rows, level: float) -> list[Difference]:
    found = []
    for name, limits in LIMITS.items():
        x = getattr(other, name) - getattr(first, name)
        count, moments = float(len(x)), [(x**power).sum() for power in (1, 2, 3)]
        one, two, three = moments
        low, high = mean_interval(
            torch.stack([one, one, two, one, two, three]),
            torch.tensor([count, count, count, 0.0, 0.0, count], dtype=torch.float64),
            level,
            limits,
        )
        value = float(one) / count
        if not bool((x != 0).any()):  # the same predictions
            low = high = 0.0
        found.append(Difference(name, value, low, high))
    return found


def _ece_difference(first: _Rows, other: _Rows, bins: int, resampling: Resampling) -> Difference:
    """Resample rows by their cell: the bins of both models, and which of them are right."""
    edges = bin_edges(bins)
    places = [bin_index(each.confidence, edges, "right") for each in (first, other)]
    cell = places[0] * bins + places[1]
    cell = (cell * 2 + first.accuracy.long()) * 2 + other.accuracy.long()
    used, cell = torch.unique(cell, return_inverse=True)
    counts = torch.bincount(cell, minlength=len(used)).double()
    gaps, into = [], []
    for each, place in zip((first, other), places, strict=True):
        residual = torch.zeros_like(counts).index_add_(0, cell, each.confidence - each.accuracy)
        gaps.append(residual / counts)
        of_cell = torch.zeros(len(used), dtype=torch.int64).scatter_(0, cell, place)
        into.append(torch.nn.functional.one_hot(of_cell, bins).double())

    def residuals(drawn: Tensor) -> dict[str, Tensor]:
        flat = drawn.flatten(-2) / resampling.samples
        pairs = zip(("first", "other"), gaps, into, strict=True)
        return {name: (flat * gap) @ to_bins for name, gap, to_bins in pairs}

    observed = residuals(counts.unsqueeze(-1))
    drawn = resampling.draw((counts / counts.sum()).unsqueeze(-1), residuals, stream=3)
    noise = {}
    for name, residual in observed.items():
        own = drawn[name] - residual
        noise[name] = sum_noise(residual, own, residual.abs() > clear_from(resampling) * own.std(0))
    value = float(observed["other"].abs().sum() - observed["first"].abs().sum())
    if all(torch.equal(a, b) for a, b in zip(first[:2], other[:2], strict=True)):
        return Difference("ece", value, value, value)
    highest = (noise["other"].excess - noise["first"].along).quantile(1 - resampling.tail)
    lowest = (noise["other"].along - noise["first"].excess).quantile(resampling.tail)
    bounds: Interval = value - float(highest), value - float(lowest)
    return Difference("ece", value, *within(bounds, value, (-1.0, 1.0)))
