"""Made-up scores and curves: what two seeds share follows from names alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TEST_SAMPLES = 40  # few: conclusions do not depend on how many there are

# the level of a score, a trend along β or λ, effects of single methods, and spread over seeds
SIZES = {
    "accuracy": (0.6, 0.012, 0.012, 0.008),
    "top_k_accuracy": (0.85, 0.008, 0.008, 0.005),
    "train_accuracy": (0.9, 0.02, 0.02, 0.01),
    "mean_confidence": (0.75, 0.1, 0.002, 0.002),
    "nll": (1.2, 0.05, 0.05, 0.03),
    "ece": (0.1, 0.03, 0.03, 0.012),
    "mce": (0.25, 0.06, 0.06, 0.03),
    "brier": (0.4, 0.05, 0.05, 0.02),
    "debiased_error": (0.1, 0.03, 0.03, 0.01),
}


def shared(*names: object) -> np.random.Generator:
    """Return a generator that depends on names alone."""
    digest = hashlib.sha256("|".join(map(str, names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def score_of(
    name: str, of: Sequence[object], seed: int, strength: float, own: np.random.Generator
) -> float:
    """Return a score of one network: level, trend, effect of the method, seed, and noise.

    Args:
        name: of the score.
        of: where it was measured, such as a task, and the method last.
        seed: what networks with it share beyond the level.
        strength: how far the method goes in a direction, such as log β.
        own: noise.
    """
    level, trend, effect, noise = SIZES[name]
    value = (
        level * (0.8 + 0.4 * shared(name, *of[:-1]).random())
        + trend * shared(name, *of[:-1], "trend").normal() * strength
        + effect * shared(name, *of).normal()
        + noise * shared(name, *of[:-1], seed).normal()
        + noise * own.normal()
    )
    return float(np.clip(value, 0.005, 4.0 if name == "nll" else 0.995))


def curve_of(
    first: float, last: float, epochs: int, own: np.random.Generator, pace: float = 5.0
) -> Floats:
    """Return a curve that ends at its last value, with wiggles that become smaller."""
    done = np.arange(1, epochs + 1) / epochs
    left = np.exp(-pace * done) - math.exp(-pace)
    wiggles = own.normal(size=epochs) * 0.05 * (first - last) * (1 - done)
    curve: Floats = last + (first - last) * left + wiggles
    return curve


def labels_of(classes: int, seed: int) -> NDArray[np.int64]:
    return shared("labels", classes, seed).integers(0, classes, TEST_SAMPLES)


def logits_of(
    classes: int, seed: int, strength: float, own: np.random.Generator
) -> NDArray[np.float16]:
    logits = own.normal(size=(TEST_SAMPLES, classes))
    logits[np.arange(TEST_SAMPLES), labels_of(classes, seed)] += 2.5
    logits *= math.exp(0.5 - 0.5 * strength)
    return (logits - logits.max(1, keepdims=True)).astype(np.float16)
