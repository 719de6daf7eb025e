"""Made-up results of real cells: everything that a conclusion reads, and no training.

A result follows from the cell's configuration. What two seeds of a network share is drawn from the
names of its data and method, what differs from the cell's key. Effects are about as large as the
spread over seeds, so that some differences are clear, either way, and others are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from made_up_mnist import mnist
from made_up_numbers import Floats, curve_of, labels_of, logits_of, score_of, shared
from numpy.typing import NDArray

from softmargin.papers.core import Cell, Finished, Result
from softmargin.papers.measure import diagram

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

SCORES = ("accuracy", "top_k_accuracy", "mean_confidence", "nll", "ece", "mce")
DIVERGED = (("svhn", "A-Softmax"), ("svhn", "hinge (14)"))  # in the second seed
NOT_FOR_TWO_CLASSES, SAME_FOR_TWO_CLASSES = "AdaCos", "LM, λ = 0.3"


def finished(cells: Sequence[Cell]) -> Finished:
    """Return cells with made-up results."""
    return [(cell, made_up(cell)) for cell in cells]


def made_up(cell: Cell) -> Result:
    """Return a result such as the cell's work would give."""
    return MAKERS[cell.work](cell.config, np.random.default_rng(int(cell.key, 16)))


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
            score_of(score, [*how, *each], config["seed"], s, own)
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
        "test_logits": np.stack([logits_of(classes, config["seed"], s, own) for s in strength]),
        "test_labels": labels_of(classes, config["seed"]).astype(np.int16),
    }
    numbers["bins"] = _diagrams(arrays["test_logits"], arrays["test_labels"])
    for score, first in (("accuracy", 0.1), ("nll", 2.3), ("ece", 0.3)):
        ends = numbers["final"][score]
        arrays[score] = np.stack([curve_of(first, last, epochs, own) for last in ends])
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
        arrays["held_out_nll"] = np.stack([curve_of(2.3, last, epochs, own) for last in ends])
    return Result(numbers, arrays)


def _strength(method: Mapping[str, Any]) -> float:
    options = method.get("loss_options", {})
    return 0.5 * math.log10(options.get("beta", 1.0)) + float(options.get("lam", 0.0))


def _diagrams(logits: NDArray[Any], labels: NDArray[Any]) -> dict[str, list[list[float]]]:
    y = torch.from_numpy(labels).long()
    found = [diagram(torch.from_numpy(each), y) for each in logits]
    return {name: [each[name] for each in found] for name in found[0]}


def _bias(config: Mapping[str, Any], name: str, epochs: int, own: np.random.Generator) -> Floats:
    turn = 0.3 * abs(shared("bias", config["task"], name).normal())
    done = np.arange(1, epochs + 1) / epochs
    start = math.log(CLASSES[config["data"]] - 1)
    bias: Floats = start * (1 - 0.6 * done) + turn * done**2 + 0.02 * own.normal(size=epochs)
    return bias


def _angle_counts(of: Sequence[str], epochs: int, own: np.random.Generator) -> Floats:
    final = 0.5 + 0.1 * shared("angles", *of).normal()
    means = np.concatenate([[1.5], curve_of(1.5, final + 0.02 * own.normal(), epochs, own)])
    drawn = np.clip(own.normal(means[:, None], 0.2, size=(epochs + 1, 200)), 0, math.pi)
    counts = [np.histogram(row, bins=45, range=(0, math.pi))[0] for row in drawn]
    return np.stack(counts).astype(np.float64)


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
            mean = score_of(score, of, 0, 0.0, own)
            values[place] = mean + 0.05 * own.normal(size=size)
        accuracy = folds["accuracy"][place]
        accuracy += 0.3 - shared("depth", name).uniform(0.02, 0.06) * depth
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
    "mnist": mnist,
    "table": _table,
    "depths": _table,
    "angles": _angles,
    "nothing": _nothing,
}
