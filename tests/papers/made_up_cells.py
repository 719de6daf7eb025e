"""Made-up results of real cells: everything that a conclusion reads, and no training.

A result follows from the cell's configuration. What two seeds of a network share is drawn from the
names of its data and method, what differs from the cell's key. Effects are about as large as the
spread over seeds, so that some differences are clear, either way, and others are not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin.papers.core import Cell, Finished, Result
from softmargin.papers.measure import diagram

Floats = NDArray[np.float64]
TEST_SAMPLES = 40  # few: conclusions do not depend on how many there are
CLASSES = {
    "mnist": 10,
    "digits": 10,
    "svhn": 10,
    "cifar10": 10,
    "cifar100": 100,
    "tiny_imagenet": 200,
    "imagenet": 1000,
    "places365": 365,
    "iris": 3,
    "uci/iris": 3,
    "uci/balance_scale": 3,
    "uci/breast_tissue": 6,
    "uci/forest_type_mapping": 4,
    "uci/hayes_roth": 3,
    "uci/teaching_assistant_evaluation": 3,
    "uci/user_knowledge_modeling": 4,
    "uci/vertebral_column": 3,
    "uci/website_phishing": 3,
}
"""Tables that are not listed have two classes."""

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
SCORES = ("accuracy", "top_k_accuracy", "mean_confidence", "nll", "ece", "mce")
DIVERGED = (("svhn", "A-Softmax"), ("svhn", "hinge (14)"))  # in the second seed
NOT_FOR_TWO_CLASSES, SAME_FOR_TWO_CLASSES = "AdaCos", "LM, λ = 0.3"


def finished(cells: Sequence[Cell]) -> Finished:
    """Return cells with made-up results."""
    return [(cell, made_up(cell)) for cell in cells]


def made_up(cell: Cell) -> Result:
    """Return a result such as the cell's work would give."""
    return MAKERS[cell.work](cell.config, np.random.default_rng(int(cell.key, 16)))


def _shared(*names: object) -> np.random.Generator:
    """Return a generator that depends on names alone."""
    digest = hashlib.sha256("|".join(map(str, names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _score(
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
        level * (0.8 + 0.4 * _shared(name, *of[:-1]).random())
        + trend * _shared(name, *of[:-1], "trend").normal() * strength
        + effect * _shared(name, *of).normal()
        + noise * _shared(name, *of[:-1], seed).normal()
        + noise * own.normal()
    )
    return float(np.clip(value, 0.005, 4.0 if name == "nll" else 0.995))


def _curve(
    first: float, last: float, epochs: int, own: np.random.Generator, pace: float = 5.0
) -> Floats:
    """Return a curve that ends at its last value, with wiggles that become smaller."""
    done = np.arange(1, epochs + 1) / epochs
    left = np.exp(-pace * done) - math.exp(-pace)
    wiggles = own.normal(size=epochs) * 0.05 * (first - last) * (1 - done)
    curve: Floats = last + (first - last) * left + wiggles
    return curve


# --- images


def _one(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    return _images(config, [{"name": config["method"], **config["training"]}], own)


def _together(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    return _images(config, config["methods"], own)


def _images(
    config: Mapping[str, Any], methods: Sequence[Mapping[str, Any]], own: np.random.Generator
) -> Result:
    names = [method["name"] for method in methods]
    classes, epochs = CLASSES[config["data"]], int(config["training"]["epochs"])
    of = [[config["task"], name] for name in names]
    strength = [_strength(method) for method in methods]
    diverged = [config["seed"] == 1 and (config["data"], name) in DIVERGED for name in names]

    def scores(score: str, *how: str) -> list[float]:
        found = [
            _score(score, [*how, *each], config["seed"], s, own)
            for each, s in zip(of, strength, strict=True)
        ]
        pairs = zip(found, diverged, strict=True)
        return [math.nan if is_diverged else value for value, is_diverged in pairs]

    numbers: dict[str, Any] = {
        "variants": names,
        "samples": config["part"].get("train", 50_000),
        "classes": classes,
        "parameters": [1000 + len(name) for name in names],
        "final": {score: scores(score) for score in SCORES},
        "train_accuracy": scores("train_accuracy"),
    }
    arrays = {
        "test_logits": np.stack([_logits(classes, config["seed"], s, own) for s in strength]),
        "test_labels": _labels(classes, config["seed"]).astype(np.int16),
    }
    numbers["bins"] = _diagrams(arrays["test_logits"], arrays["test_labels"])
    for score, first in (("accuracy", 0.1), ("nll", 2.3), ("ece", 0.3)):
        ends = numbers["final"][score]
        arrays[score] = np.stack([_curve(first, last, epochs, own) for last in ends])
    measures = config["measures"]
    if {"scaling", "own held-out"} & {*measures}:
        numbers["scaled"] = {
            kind: {score: scores(score, kind) for score in SCORES}
            for kind in ("temperature", "vector")
        }
    if "angles" in measures:
        angles = ("wc_intra", "w_inter", "c_inter")
        numbers["angles"] = {angle: [1.5 * v for v in scores("ece", angle)] for angle in angles}
    if "bias" in measures:
        arrays["mean_bias"] = np.stack([_bias(config, each, epochs, own) for each in names])
    if "angles by epoch" in measures:
        arrays["angle_counts"] = np.stack([_angle_counts(each, epochs, own) for each in of])
    if "scaling" in measures:
        numbers["held_out"] = {"raw": {"nll": scores("nll", "held out")}}
        numbers["held_out"]["temperature"] = {"nll": scores("nll", "held out", "temperature")}
        for score in ("brier", "debiased_error"):
            numbers["final"][score] = scores(score)
            for kind, own_scores in numbers["scaled"].items():
                own_scores[score] = scores(score, kind)
    if "own held-out" in measures:
        ends = scores("nll", "own held-out")
        arrays["held_out_nll"] = np.stack([_curve(2.3, last, epochs, own) for last in ends])
    return Result(numbers, arrays)


def _strength(method: Mapping[str, Any]) -> float:
    options = method.get("loss_options", {})
    return 0.5 * math.log10(options.get("beta", 1.0)) + float(options.get("lam", 0.0))


def _labels(classes: int, seed: int) -> NDArray[np.int64]:
    return _shared("labels", classes, seed).integers(0, classes, TEST_SAMPLES)


def _logits(
    classes: int, seed: int, strength: float, own: np.random.Generator
) -> NDArray[np.float16]:
    logits = own.normal(size=(TEST_SAMPLES, classes))
    logits[np.arange(TEST_SAMPLES), _labels(classes, seed)] += 2.5
    logits *= math.exp(0.5 - 0.5 * strength)
    return (logits - logits.max(1, keepdims=True)).astype(np.float16)


def _diagrams(logits: NDArray[Any], labels: NDArray[Any]) -> dict[str, list[list[float]]]:
    y = torch.from_numpy(labels).long()
    found = [diagram(torch.from_numpy(each), y) for each in logits]
    return {name: [each[name] for each in found] for name in found[0]}


def _bias(config: Mapping[str, Any], name: str, epochs: int, own: np.random.Generator) -> Floats:
    turn = 0.3 * abs(_shared("bias", config["task"], name).normal())
    done = np.arange(1, epochs + 1) / epochs
    start = math.log(CLASSES[config["data"]] - 1)
    bias: Floats = start * (1 - 0.6 * done) + turn * done**2 + 0.02 * own.normal(size=epochs)
    return bias


def _angle_counts(of: Sequence[str], epochs: int, own: np.random.Generator) -> Floats:
    final = 0.5 + 0.1 * _shared("angles", *of).normal()
    means = np.concatenate([[1.5], _curve(1.5, final + 0.02 * own.normal(), epochs, own)])
    drawn = np.clip(own.normal(means[:, None], 0.2, size=(epochs + 1, 200)), 0, math.pi)
    counts = [np.histogram(row, bins=45, range=(0, math.pi))[0] for row in drawn]
    return np.stack(counts).astype(np.float64)


# --- MNIST


def _mnist(config: Mapping[str, Any], own: np.random.Generator) -> Result:
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
            min(0.999, shift + factor * _score(score, [*place, each], seed, s, own))
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
    traced = np.sort(_shared("traced", seed).choice(samples, 20, replace=False))
    arrays: dict[str, NDArray[Any]] = {
        name: np.stack(
            [
                _curve(first, last, epochs, own, pace=12.0 - 8.0 * s)
                for last, s in zip(final[name], strength, strict=True)
            ]
        )
        for name, first in (("accuracy", 0.3), ("nll", 1.5), ("ece", 0.2))
    }
    arrays |= {
        "train_loss": arrays["nll"] * 0.5,
        "test_logits": np.stack([_logits(classes, seed, s, own) for s in strength]),
        "groups": np.stack([_groups(s, epochs, own) for s in strength]),
        "mean_bias": np.stack([_curve(2.2, 1.0 + 0.1 * s, epochs, own) for s in strength]),
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
        "first_nll": np.stack([_curve(2.3, 0.8, 24, own, pace=4.0 - s) for s in strength]),
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
            level * (1 + _score("ece", [name, *place, each], seed, s, own))
            for each, s in zip(variants, strength, strict=True)
        ]
        for name, level in levels.items()
    }


# --- tables


def _table(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    names = [method["name"] for method in config["methods"]]
    classes = CLASSES.get(config["data"], 2)
    depth = config["training"]["model_options"]["depth"]
    size = (len(config["runs"]), config["folds"])
    folds = {name: np.empty((len(names), *size)) for name in ("accuracy", "nll", "ece")}
    pooled = np.empty((len(names), size[0]))
    for place, name in enumerate(names):
        of = [config["data"], name]
        for score, values in folds.items():
            mean = _score(score, of, 0, 0.0, own)
            values[place] = mean + 0.05 * own.normal(size=size)
        accuracy = folds["accuracy"][place]
        accuracy += 0.3 - _shared("depth", name).uniform(0.02, 0.06) * depth
        accuracy[:] = np.clip(accuracy * 40, 0, 40).round() / 40  # of 40 test rows
        pooled[place] = np.abs(folds["ece"][place]).mean(1)
    if classes == 2:
        for values in (*folds.values(), pooled):
            if SAME_FOR_TWO_CLASSES in names:
                values[names.index(SAME_FOR_TWO_CLASSES)] = values[names.index("Soft")]
            if NOT_FOR_TWO_CLASSES in names:
                values[names.index(NOT_FOR_TWO_CLASSES)] = np.nan
    numbers = {"methods": names, "classes": classes, "rows": 40 * config["folds"]}
    return Result(numbers, {**folds, "pooled_ece": pooled})


def _angles(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    samples, classes = 30, CLASSES[config["data"]]
    y = np.repeat(np.arange(classes), samples // classes)
    sizes = (len(config["epochs"]), len(config["scales"]), len(config["seeds"]), samples, classes)
    nearer = np.linspace(0.1, 0.9, sizes[0]).reshape(-1, 1, 1, 1)
    angles = 1.2 + 0.2 * own.normal(size=sizes)
    scales = np.array(config["scales"]).reshape(1, -1, 1, 1)
    own_class = y[:, None] == np.arange(classes)
    angles -= own_class * (nearer * (1 + 0.5 / scales))[..., None]
    return Result({}, {"angles": np.clip(angles, 0.01, math.pi), "y": y})


def _nothing(config: Mapping[str, Any], own: np.random.Generator) -> Result:
    return Result()


MAKERS: Mapping[str, Callable[[Mapping[str, Any], np.random.Generator], Result]] = {
    "train": _one,
    "together": _together,
    "mnist": _mnist,
    "table": _table,
    "depths": _table,
    "angles": _angles,
    "nothing": _nothing,
}
