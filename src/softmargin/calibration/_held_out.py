"""How candidates do on held-out rows: scores by row, and temperatures fitted on other rows."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from softmargin.calibration._many_temperatures import temperatures_without
from softmargin.calibration.scaling import CalibrationWarning, TemperatureScaling

SCORES = ("nll", "brier", "accuracy")
LARGER_IS_BETTER = ("accuracy",)


def row_scores(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return NLL, Brier score and accuracy of every row.

    Args:
        logits: (..., N, C), in float64.
        y: classes (N,).

    Returns:
        By score, values of shape (..., N).
    """
    log_p = logits.log_softmax(-1)
    index = y.expand(logits.shape[:-1]).unsqueeze(-1)
    hot = torch.nn.functional.one_hot(y, logits.shape[-1])
    return {
        "nll": -log_p.gather(-1, index)[..., 0],
        "brier": (log_p.exp() - hot).square().sum(-1),
        "accuracy": (logits.argmax(-1) == y).double(),
    }


def one_temperature(logits: Tensor, y: Tensor) -> float:
    """Return the temperature of logits (seeds, N, C); 1 where there is none to find."""
    flat = logits.flatten(0, 1)
    if not bool(flat.isfinite().all()) or not bool((flat != flat[:, :1]).any()):
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return float(TemperatureScaling().fit(flat, y.repeat(len(logits))).temperature)


def fold_temperatures(logits: Tensor, y: Tensor, fold_of: Tensor) -> Tensor:
    """Return temperatures (K, F) of logits (K, seeds, N, C), each fitted without one fold."""
    seeds = logits.shape[1]
    flat, rows, fold_of = logits.flatten(1, 2), y.repeat(seeds), fold_of.repeat(seeds)
    found = flat.new_full((len(flat), int(fold_of.max()) + 1), math.nan)
    sound = flat.isfinite().all(-1).all(-1)
    if bool(sound.any()):
        found[sound] = temperatures_without(flat[sound], rows, fold_of)
    for model, fold in found.isnan().nonzero().tolist():
        kept = fold_of != fold
        found[model, fold] = one_temperature(flat[model : model + 1, kept], rows[kept])
    return found


def cross_fitted(logits: Tensor, y: Tensor, fold_of: Tensor) -> Tensor:
    """Return logits (seeds, N, C) divided by temperatures, each fold's fitted on the others."""
    return logits / fold_temperatures(logits.unsqueeze(0), y, fold_of)[0, fold_of, None]
