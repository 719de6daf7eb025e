"""Made-up results of networks on MNIST."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from made_up_numbers import curve_of, logits_of, score_of, shared
from numpy.typing import NDArray

from softmargin.papers.core import Result


def mnist(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    if "seeds" not in config:
        return _of_one_seed(config, own)
    results = [_of_one_seed({**config, "seed": seed}, own) for seed in config["seeds"]]
    first = results[0]
    numbers = {name: _joined([r.numbers[name] for r in results]) for name in first.numbers}
    numbers["variants"] = [
        f"{each}, seed {seed}" for seed in config["seeds"] for each in config["variants"]
    ]
    arrays = {
        name: array
        if name in ("traces", "traced")
        else np.concatenate([r.arrays[name] for r in results])
        for name, array in first.arrays.items()
    }
    return Result(numbers, arrays)


def _joined(values: Sequence[Any]) -> Any:
    """Return lists of several seeds as one, seed by seed; what all share as it is."""
    if isinstance(values[0], dict):
        return {name: _joined([each[name] for each in values]) for name in values[0]}
    return [*chain(*values)] if isinstance(values[0], list) else values[0]


def _of_one_seed(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    variants, epochs, seed = config["variants"], int(config["epochs"]), config["seed"]
    samples, classes = (1437 if config["data"] == "digits" else 60_000), 10
    strength = [0.5 * math.log10(float(each.rpartition("→")[2])) for each in variants]
    place = ["mnist", config["widths"], config["epochs"]]

    def scores(score: str, shift: float = 0.0, factor: float = 1.0) -> list[float]:
        return [
            min(0.999, shift + factor * score_of(score, [*place, each], seed, s, own))
            for each, s in zip(variants, strength, strict=True)
        ]

    final = {
        "accuracy": scores("accuracy", 0.9, 0.08),
        "nll": scores("nll", 0.0, 0.1),
        "ece": scores("ece", 0.0, 0.2),
        "mce": scores("mce"),
    }
    histograms = np.stack([_histograms(s, samples, epochs, own) for s in strength])
    numbers: dict[str, Any] = {
        "variants": list(variants),
        "samples": samples,
        "inputs": 64 if config["data"] == "digits" else 784,
        "final": final,
        "histogram": [_histograms(s, samples, epochs, own)[-1].tolist() for s in strength],
        "trained_histogram": histograms[:, -1].tolist(),
        "train_accuracy": scores("train_accuracy", 0.9, 0.1),
    }
    traced = np.sort(shared("traced", seed).choice(samples, 20, replace=False))
    arrays: dict[str, NDArray[Any]] = {
        name: np.stack(
            [
                curve_of(first, last, epochs, own, pace=12.0 - 8.0 * s)
                for last, s in zip(final[name], strength, strict=True)
            ]
        )
        for name, first in (("accuracy", 0.3), ("nll", 1.5), ("ece", 0.2))
    }
    arrays |= {
        "train_loss": arrays["nll"] * 0.5,
        "test_logits": np.stack([logits_of(classes, seed, s, own) for s in strength]),
        "groups": np.stack([_groups(s, epochs, own) for s in strength]),
        "mean_bias": np.stack([curve_of(2.2, 1.0 + 0.1 * s, epochs, own) for s in strength]),
        "traces": np.stack([_traces(s, epochs, own) for s in strength]),
        "histograms": histograms.astype(np.int32),
        "traced": traced,
    }
    if config["features"]:
        numbers["spread"] = _spread(place, variants, strength, seed, own)
        labels = np.repeat(np.arange(classes), 4)
        arrays |= {
            "features": own.normal(size=(len(variants), len(labels), 2)) + labels[:, None],
            "labels": labels,
            "weights": own.normal(size=(len(variants), classes, 2)),
        }
    arrays |= {
        "intervals": np.stack([_groups(-s, epochs, own) for s in strength]),
        "train_nll": arrays["nll"] * 0.7,
        "first_nll": np.stack([curve_of(2.3, 0.8, 24, own, pace=4.0 - s) for s in strength]),
    }
    return Result(numbers, arrays)


def _histograms(
    strength: float, samples: int, epochs: int, own: np.random.Generator
) -> NDArray[np.int64]:
    """Return counts of confidence in five intervals by epoch: more and more above 0.8."""
    done = np.arange(1, epochs + 1) / epochs
    high = 0.99 - 0.09 * np.exp(-6 * done) + 0.002 * strength
    low = np.clip(0.015 - 0.005 * strength + 0.001 * own.normal(), 0.002, 0.05)
    rest = np.clip(1 - high - low, 0.003, None)
    shares = np.stack([low + 0 * done, rest * 0.2, rest * 0.3, rest * 0.5], 1)
    counts = np.round(samples * shares * (1 + 0.1 * own.normal(size=shares.shape))).astype(int)
    counts = np.clip(counts, 0, None)
    whole: NDArray[np.int64] = np.column_stack([counts, samples - counts.sum(1)])
    return whole


def _groups(strength: float, epochs: int, own: np.random.Generator) -> NDArray[np.float32]:
    """Return mean confidences of five groups, of which the hardest is learned last."""
    epoch = np.arange(1, epochs + 1)[:, None]
    rate = 0.3 * np.exp(np.arange(-2, 3) * (0.6 - 0.3 * strength))
    curves = 0.1 + 0.88 * (1 - np.exp(-rate * epoch)) + 0.004 * own.normal(size=(epochs, 5))
    return np.clip(curves, 0, 1).astype(np.float32)


def _traces(strength: float, epochs: int, own: np.random.Generator) -> NDArray[np.float32]:
    epoch = np.arange(1, epochs + 1)[:, None]
    rate = own.uniform(0.02, 0.5, size=20) * math.exp(-0.5 * strength)
    curves = 1 - 0.9 * np.exp(-rate * epoch) + 0.02 * own.normal(size=(epochs, 20))
    return np.clip(curves, 0, 1).astype(np.float32)


def _spread(
    place: Sequence[object],
    variants: Sequence[str],
    strength: Sequence[float],
    seed: int,
    own: np.random.Generator,
) -> dict[str, list[float]]:
    levels = {"median": 2.0, "rms": 4.0, "between": 10.0}
    return {
        name: [
            level * (1 + score_of("ece", [name, *place, each], seed, s, own))
            for each, s in zip(variants, strength, strict=True)
        ]
        for name, level in levels.items()
    }
