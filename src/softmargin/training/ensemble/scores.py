"""Scores of many models at once."""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin.calibration.binning import bin_edges
from softmargin.functional.margins import log_odds_of, softplus

BINS = 10


def scores(logits: Tensor, y: Tensor, there: Tensor) -> dict[str, Tensor]:
    """Return accuracy, NLL in nats and ECE (10 right-closed bins) of every model.

    Args:
        logits: of inference, (M, S, T, C).
        y: classes, (S, T).
        there: which of the T samples count, (S, T).
    """
    m, s, t = logits.shape[:3]
    index = y.expand(m, s, t).unsqueeze(-1)
    counted = there.expand(m, s, t)
    count = there.sum(1).double()
    right = (logits.argmax(-1) == y) & counted
    losses = softplus(log_odds_of(logits, index, 3)).double().masked_fill(~counted, 0.0)
    confidence = logits.softmax(-1).amax(-1).double()
    edges = bin_edges(BINS)[1:-1]
    bins = torch.searchsorted(edges, confidence, right=False)
    gap = (right.double() - confidence).masked_fill(~counted, 0.0)
    sums = torch.zeros(m, s, BINS, dtype=torch.float64).scatter_add_(2, bins, gap)
    return {
        "accuracy": right.sum(2) / count,
        "nll": losses.sum(2) / count,
        "ece": sums.abs().sum(2) / count,
    }
