"""Scoring stored test logits again, and how near the stored scores must be.

Scores of the very logits that are stored must agree to 1e-6. Those of MNIST were taken of the
logits before these were rounded to half precision, which moves a logit z by at most δ, half of the
gap to the next number of that size (about |z|/2048). How much that can move each score is derived
here sample by sample, with d = max δ of the sample, and is what the stored score is allowed to
differ by, plus 1e-6:

- The NLL of a sample has the derivatives p_j with respect to other logits and p_y - 1 with respect
  to its own, and p moves by at most a factor exp(2d) on the way. Allowed: the mean of
  exp(2d)·(Σ_{j≠y} p_j·δ_j + (1 - p_y)·δ_y).
- Accuracy changes only for samples whose two largest logits are nearer than their δ together.
  Allowed: the share of these.
- ECE is the sum over bins of |Σ(r - c)|/N, r = 1 for right and 0 for wrong, c the confidence. The
  log odds of the largest class move by at most d + δ_top, and so c by some e. A sample that stays
  in its bin moves ECE by at most e/N; one that may change its bin is taken from one sum and added
  to another, (2·|r - c| + e)/N; one that may change its class 2/N. Allowed: the sum of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from softmargin.calibration import calibration_metrics
from softmargin.papers.core import Array, Cell, Result

EXACT = 1e-6
BINS = 10
SCORES = ("accuracy", "nll", "ece")
ROUNDED_AFTER = ("mnist",)  # kinds of work that score first and round then


@dataclass(frozen=True)
class Scored:
    """One score of one set of logits: as stored, as found again, and how far it may be off."""

    where: str
    stored: float
    found: float
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether the stored score is what the logits give; NaN agrees with NaN."""
        if np.isinf(self.allowed):
            return True
        if not (np.isfinite(self.stored) and np.isfinite(self.found)):
            return bool(np.isnan(self.stored) and np.isnan(self.found))
        return abs(self.stored - self.found) <= self.allowed


def scored_again(
    cell: Cell, result: Result, labels_of: Callable[[Cell], Array | None]
) -> Iterator[Scored]:
    """Score all test logits of a finished cell again.

    Args:
        cell: the cell.
        result: its result; arrays called ``logits`` or ``..._logits`` of shape (..., samples,
            classes) are scored against an array of labels of the same stem, or else against what
            ``labels_of`` gives.
        labels_of: returns the test labels of a cell that does not store them, or None.
    """
    for name, logits in result.arrays.items():
        if not name.endswith("logits") or logits.ndim < 2:
            continue
        scores = _stored_scores(result.numbers, name)
        if scores is None:
            continue
        labels = result.arrays.get(name.removesuffix("logits") + "labels")
        if labels is None:
            labels = labels_of(cell)
        if labels is None or labels.shape != (logits.shape[-2],):
            continue
        rounded = cell.work in ROUNDED_AFTER and logits.dtype == np.float16
        for place in np.ndindex(logits.shape[:-2]):
            again = scores_of(logits[place], labels)
            allowed = dict.fromkeys(SCORES, EXACT)
            if rounded:
                allowed = allowances(logits[place], labels)
            for score in SCORES:
                if score in scores:
                    stored = np.array(scores[score], dtype=np.float64)[place]
                    index = "".join(f"[{i}]" for i in place)
                    where = f"{score}{index} of {name}"
                    yield Scored(where, float(stored), again[score], allowed[score])


def scores_of(logits: Array, labels: Array) -> dict[str, float]:
    """Return the scores of logits (samples, classes); NaN where a network diverged.

    Logits of a network that diverged are not finite, or all 0 where that cannot be stored.
    """
    z = torch.from_numpy(np.asarray(logits, dtype=np.float32))
    y = torch.from_numpy(np.asarray(labels, dtype=np.int64))
    if not bool(z.isfinite().all() and z.any()):
        return dict.fromkeys(SCORES, np.nan)
    metrics = calibration_metrics(z, y, bins=BINS, from_logits=True, classwise=False)
    return {name: float(getattr(metrics, name)) for name in SCORES}


def allowances(logits: Array, labels: Array) -> dict[str, float]:
    """Return by how much rounding float16 logits may have moved each score."""
    if not np.isfinite(logits).all():  # too large for half precision: nothing can be said
        return dict.fromkeys(SCORES, np.inf)
    moved = np.abs(np.spacing(logits)).astype(np.float64) / 2
    z, rows = logits.astype(np.float64), np.arange(len(logits))
    top, second = np.argsort(-z, axis=1, kind="stable")[:, :2].T
    furthest = moved.max(1)
    odds = np.exp(z - z[rows, top][:, None])  # of each class against the largest
    slope = odds / odds.sum(1, keepdims=True)
    slope[rows, labels] = 1 - slope[rows, labels]
    nll = np.exp(2 * furthest) * (slope * moved).sum(1)
    close = z[rows, top] - z[rows, second] <= moved[rows, top] + moved[rows, second]
    # the confidence in the largest class, with its log odds moved down, as it is, and up
    odds[rows, top] = 0.0
    rest, reach = odds.sum(1), furthest + moved[rows, top]
    low, confidence, high = (1 / (1 + rest * np.exp(sign * reach)) for sign in (1, 0, -1))
    # bins are closed on the right, the last one ends at 1
    crossing = np.ceil(low * BINS - EXACT) != np.ceil(np.minimum(high * BINS + EXACT, BINS))
    by_itself = np.maximum(high - confidence, confidence - low)
    with_bin = 2 * np.abs((top == labels) - confidence) + by_itself
    ece = np.where(close, 2.0, np.where(crossing, with_bin, by_itself))
    means = {"accuracy": close.mean(), "nll": nll.mean(), "ece": ece.mean()}
    return {name: EXACT + float(mean) for name, mean in means.items()}


def _stored_scores(numbers: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the scores of an array: under its stem, under ``final``, or the numbers themselves."""
    stem = name.removesuffix("logits").removesuffix("_")
    for found in (numbers.get(stem), numbers.get("final"), numbers.get("scores"), numbers):
        if isinstance(found, Mapping) and "accuracy" in found:
            return found
    return None
