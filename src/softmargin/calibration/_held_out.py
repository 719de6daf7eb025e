"""How candidates do on held-out rows: scores by row, and temperatures fitted on other rows."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

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


def cross_fitted(logits: Tensor, y: Tensor, fold_of: Tensor) -> Tensor:
    """Return logits (seeds, N, C) divided by temperatures, each fold's fitted on the others."""
    found = [
        one_temperature(logits[:, fold_of != fold], y[fold_of != fold])
        for fold in range(int(fold_of.max()) + 1)
    ]
    return logits / torch.tensor(found, dtype=torch.float64)[fold_of, None]
