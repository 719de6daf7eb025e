"""Predictions measured as they are, and after scaling on held-out folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin.calibration._files import CHUNK, parts_of, spooled
from softmargin.calibration._sums import summarize_confidence
from softmargin.calibration.accumulator import CalibrationMetrics
from softmargin.calibration.predictions import Predictions
from softmargin.calibration.result import CalibrationResult
from softmargin.calibration.scaling import (
    Calibrator,
    TemperatureScaling,
    VectorScaling,
    held_out_calibrators,
)

METHODS: dict[str, type[Calibrator]] = {
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
}
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Audit:
    """What :func:`audit` found.

    Attributes:
        source: where the predictions came from.
        num_classes: number of classes, 0 if only confidences are known.
        given: the metrics of the predictions as they are.
        scaled: the metrics after scaling, by method; each row is scaled by a calibrator that was
            fitted without it.
        calibrators: the calibrator fitted on all rows, by method.
        notes: the warnings of each fit, by method; those about the predictions as they are have
            the key ``"given"``.
        folds: number of folds.
    """

    source: str
    num_classes: int
    given: CalibrationResult
    scaled: dict[str, CalibrationResult]
    calibrators: dict[str, Calibrator]
    notes: dict[str, list[str]]
    folds: int


def audit(
    predictions: Predictions,
    *,
    bins: int = 10,
    methods: Sequence[str] = ("temperature", "vector"),
    folds: int = 5,
    seed: int = 0,
    confidence_level: float = 0.95,
    progress: Progress | None = None,
) -> Audit:
    """Measure predictions in bounded memory, before and after scaling on held-out folds.

    Args:
        predictions: what to measure.
        bins: number of bins.
        methods: which of ``"temperature"`` and ``"vector"`` to fit.
        folds: number of folds; each is scaled by a calibrator fitted on the others.
        seed: seed of the folds and of the bootstrap.
        confidence_level: level of the intervals.
        progress: called with the current step, the rows done and the rows in total.
    """
    tell = progress or (lambda *_: None)
    if predictions.confidence_only:
        return _audit_confidence(predictions, bins, seed, confidence_level)
    rows, num_classes = predictions.values.shape
    target = torch.from_numpy(predictions.labels)

    def count(what: str, from_logits: bool, batches: Iterator[tuple[Tensor, Tensor]]) -> Any:
        metrics = CalibrationMetrics(num_classes, from_logits=from_logits, bins=bins)
        done = 0
        for values, numbers in batches:
            metrics.update(values, target[numbers])
            tell(what, done := done + len(numbers), rows)
        return metrics.compute(confidence_level, seed=seed)

    notes: dict[str, list[str]] = {}
    with _warnings_as_notes(notes, "given"):
        given = count("measuring", predictions.from_logits, _in_order(predictions.values))
    logits = _as_logits(predictions)
    scaled, calibrators = {}, {}
    for method in methods:
        what = f"{method} scaling"
        tell(what, 0, rows)
        with _warnings_as_notes(notes, method):
            calibrators[method] = METHODS[method]().fit(logits, target)
            calibrators[method].class_names = predictions.class_names
            calibrators[method].fitted_on = "logits" if predictions.from_logits else "probabilities"
            parts = held_out_calibrators(METHODS[method], logits, target, folds=folds, seed=seed)
            scaled[method] = count(what, True, _held_out(logits, parts))
    return Audit(predictions.source, num_classes, given, scaled, calibrators, notes, folds)


def _audit_confidence(
    predictions: Predictions, bins: int, seed: int, confidence_level: float
) -> Audit:
    """Measure confidences; without the other classes there is nothing to scale."""
    correct = torch.from_numpy(predictions.labels)
    parts = ((values[:, 0], correct[rows]) for values, rows in _in_order(predictions.values))
    given = summarize_confidence(parts, bins, confidence_level, seed)
    note = (
        "Confidence and correctness alone give no NLL, no Brier score and nothing to scale: "
        "for these, store the logits or probabilities of all classes."
    )
    return Audit(predictions.source, 0, given, {}, {}, {"given": [note]}, 0)


@contextmanager
def _warnings_as_notes(notes: dict[str, list[str]], key: str) -> Iterator[None]:
    """Collect each warning once, unless the predictions as given already caused it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = dict.fromkeys(str(warning.message) for warning in caught)
    notes[key] = [message for message in messages if message not in notes.get("given", ())]


def _as_logits(predictions: Predictions) -> Tensor:
    """Return the predictions as logits: themselves, or the logarithm of probabilities."""
    if predictions.from_logits:
        return torch.from_numpy(predictions.values)

    def log(part: NDArray[Any]) -> NDArray[Any]:
        values = torch.from_numpy(part)
        values = values.float() if values.dtype == torch.float16 else values
        return values.clamp_min(torch.finfo(values.dtype).tiny).log().numpy()

    return torch.from_numpy(spooled(map(log, parts_of(predictions.values))))


def _in_order(values: NDArray[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    done = 0
    for part in parts_of(values):
        yield torch.from_numpy(np.ascontiguousarray(part)), torch.arange(done, done + len(part))
        done += len(part)


def _held_out(
    logits: Tensor, parts: Iterator[tuple[Tensor, Calibrator]]
) -> Iterator[tuple[Tensor, Tensor]]:
    step = max(1, CHUNK // logits.shape[1])
    for held_out, calibrator in parts:
        for numbers in torch.split(held_out, step):
            yield calibrator.transform(logits[numbers]), numbers
