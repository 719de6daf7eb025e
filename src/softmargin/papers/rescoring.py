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

from collections.abc import Iterator

import numpy as np
import torch

from softmargin import data
from softmargin.calibration import calibration_metrics
from softmargin.data.errors import MissingDataError
from softmargin.papers.core import Array, Cell, Result

EXACT = 1e-6
BINS = 10
SCORES = ("accuracy", "nll", "ece")
ROUNDED_AFTER = ("mnist",)  # kinds of work that score first and round then


def score_again(cell: Cell, result: Result) -> Iterator[str]:
    """Score the test logits of a finished cell again; yield for each score what is wrong with it.

    Args:
        cell: the cell. Where its data set is needed and not on this machine, nothing is scored.
        result: its result: ``test_logits`` of shape (..., samples, classes), ``test_labels`` where
            they are not those of its data set, and the scores under ``final``.
    """
    logits, stored = result.arrays.get("test_logits"), result.numbers.get("final")
    labels = result.arrays.get("test_labels", None if logits is None else _test_labels(cell))
    if logits is None or labels is None or stored is None:
        return
    for place in np.ndindex(logits.shape[:-2]):
        again, allowed = scores_of(logits[place], labels), dict.fromkeys(SCORES, EXACT)
        if cell.work in ROUNDED_AFTER and logits.dtype == np.float16:
            allowed = allowances(logits[place], labels)
        for score in SCORES:
            written = float(np.array(stored[score], dtype=np.float64)[place])
            if is_within(written, again[score], allowed[score]):
                yield ""
                continue
            index = "".join(f"[{i}]" for i in place)
            yield (
                f"{score}{index} of test_logits is stored as {written:.8g}, but the logits give "
                f"{again[score]:.8g} (to {allowed[score]:.1g})"
            )


def is_within(stored: float, found: float, allowed: float) -> bool:
    """Whether two numbers are that close; NaN agrees with NaN, and all where nothing is known."""
    if np.isinf(allowed) or (np.isnan(stored) and np.isnan(found)):
        return True
    return bool(abs(stored - found) <= allowed)


def _test_labels(cell: Cell) -> Array | None:
    """Return the test labels of a cell's data set, where it is on this machine."""
    try:
        dataset = data.load(cell.config["data"], seed=cell.config["seed"], download=False)
    except (MissingDataError, KeyError):
        return None
    labels: Array = dataset.test.y.numpy()
    return labels


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
