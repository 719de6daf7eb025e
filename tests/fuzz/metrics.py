"""Calibration metrics of random predictions, against plain NumPy in float64."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import torch

from fuzz import draw
from fuzz.draw import chance, pick
from softmargin import calibration
from softmargin.calibration import CalibrationMetrics


def run(rng):
    """Make one call and return what is wrong with it, or None."""
    from_logits = chance(rng, 0.5)
    rows = int(pick(rng, [1, 2, 3, 10, 100, 500, 2000]))
    classes = int(pick(rng, [2, 2, 3, 10, 50]))
    dtype = pick(rng, (torch.float64, torch.float32, torch.bfloat16, torch.float16))
    predictions = random_predictions(rng, rows, classes, dtype, from_logits)
    target = torch.from_numpy(rng.integers(classes, size=rows))
    if chance(rng, 0.2):
        target = predictions.argmax(1) if chance(rng, 0.5) else torch.full((rows,), classes - 1)
    weight = None
    if chance(rng, 0.3):
        weight = torch.from_numpy(rng.random(rows)).masked_fill(torch.arange(rows) % 3 == 1, 0.0)
    settings = {
        "bins": int(pick(rng, [1, 2, 5, 10, 15, 20, 100])),
        "closed": pick(rng, ["right", "right", "left"]),
        "ignore_index": None,
        "top_k": int(pick(rng, [1, 2, 5])),
        "classwise": chance(rng, 0.5),
    }
    if chance(rng, 0.2):
        settings["ignore_index"] = int(pick(rng, [-100, classes - 1, 0]))
        target = target.masked_fill(torch.arange(rows) % 4 == 2, settings["ignore_index"])
    given = draw.laid_out(rng, predictions)
    description = (
        f"predictions {draw.layout_of(given)}, from_logits={from_logits}, {settings}, "
        f"{'weighted' if weight is not None else 'not weighted'}"
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = check(rng, given, target, weight, from_logits, settings)
    except Exception as error:
        raise RuntimeError(f"{description}: {type(error).__name__}: {error}") from error
    return None if wrong is None else f"{description}: {wrong}"


def random_predictions(rng, rows, classes, dtype, from_logits):
    """Return logits, or probabilities of which many are 0, 1, tied or on the edges of bins."""
    if from_logits:
        values = rng.standard_normal((rows, classes)) * pick(rng, [0.1, 1.0, 5.0, 100.0, 1e4])
        if chance(rng, 0.3):
            values = np.round(values)
        likely = (values.min(1) >= -1) & (values.max(1) <= 2)
        return torch.from_numpy(values + 3 * likely.any()).to(dtype)  # not like probabilities
    kind = pick(rng, ["soft", "edges", "sure", "one-hot"])
    if kind == "soft":
        values = rng.dirichlet(np.full(classes, pick(rng, [0.1, 1.0, 10.0])), rows)
    elif kind == "edges":
        parts = int(pick(rng, [5, 10, 20]))
        values = rng.multinomial(parts, np.full(classes, 1 / classes), rows) / parts
    else:
        values = np.zeros((rows, classes))
        values[np.arange(rows), rng.integers(classes, size=rows)] = 1.0
        if kind == "sure":
            values = values * (1 - 1e-9) + 1e-9 / classes
    return torch.from_numpy(values).to(dtype)


def check(rng, predictions, target, weight, from_logits, settings):
    if chance(rng, 0.1):
        return refuses_nan(rng, predictions, target.clamp_min(0), from_logits)
    counted = np.ones(len(target)) if weight is None else weight.numpy().copy()
    if settings["ignore_index"] is not None:
        counted[target.numpy() == settings["ignore_index"]] = 0
    metrics = CalibrationMetrics(predictions.shape[1], from_logits=from_logits, **settings)
    if not (counted > 0).any():
        return refuses_nothing(metrics, predictions, target, weight)
    metrics.update(predictions, target, weight)
    result = metrics.compute()
    expected = reference(predictions, target.numpy(), counted, from_logits, settings)
    for name, value in expected.items():
        if wrong := differ(name, getattr(result, name), value):
            return wrong
    return by_function(predictions, target, weight, from_logits, settings, expected) or in_parts(
        rng, metrics, predictions, target, weight
    )


def refuses_nan(rng, predictions, target, from_logits):
    broken = predictions.clone()
    value = pick(rng, [math.nan, math.inf, -math.inf])
    broken[int(rng.integers(len(broken))), int(rng.integers(broken.shape[1]))] = value
    for call in (
        lambda: calibration.calibration_metrics(broken, target, from_logits=from_logits),
        lambda: calibration.accuracy(broken, target),
        lambda: calibration.brier_score(broken, target, from_logits=from_logits),
    ):
        try:
            call()
        except ValueError as error:
            if "predictions" not in str(error):
                return f"{value} raises {error}"
        else:
            return f"{value} is accepted"
    return None


def refuses_nothing(metrics, predictions, target, weight):
    metrics.update(predictions, target, weight)
    try:
        metrics.compute()
    except ValueError:
        return None
    return "nothing counted, and yet there is a result"


def probabilities(predictions, from_logits):
    values = draw.numbers(predictions)
    if not from_logits:
        return values, np.log(np.clip(values, 0, 1))
    shifted = values - values.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return np.exp(log_p), log_p


def reference(predictions, target, counted, from_logits, settings):
    """Return the metrics' expected values."""
    with np.errstate(divide="ignore"):
        p, log_p = probabilities(predictions, from_logits)
    used = counted > 0
    p, log_p, target, weight = p[used], log_p[used], target[used], counted[used]
    given = draw.numbers(predictions)[used]
    share = weight / weight.sum()
    rows = np.arange(len(target))
    # of tied classes the first is predicted; what is tied is tied as given
    correct = given.argmax(1) == target
    confidence = np.clip(p.max(1), 0, 1)
    one_hot = np.zeros_like(p)
    one_hot[rows, target] = 1
    order = np.argsort(-given, 1, kind="stable")[:, : settings["top_k"]]
    result = {
        "accuracy": (share * correct).sum(),
        "top_k_accuracy": (share * (order == target[:, None]).any(1)).sum(),
        "mean_confidence": (share * confidence).sum(),
        "nll": -(share * log_p[rows, target]).sum(),
        "brier": (share * np.square(p - one_hot).sum(1)).sum(),
    }
    near_edge = (
        np.abs(confidence * settings["bins"] - np.round(confidence * settings["bins"])) < 1e-9
    )
    if not (from_logits and near_edge.any()):  # on which side such a confidence is, is rounding
        gaps, masses = gaps_by_bin(confidence, correct, weight, settings)
        result["ece"] = (np.abs(gaps) * masses).sum() / weight.sum()
        result["mce"] = np.abs(gaps).max()
        result["rms_error"] = math.sqrt((gaps**2 * masses).sum() / weight.sum())
    return result


def gaps_by_bin(confidence, correct, weight, settings):
    """Return accuracy less confidence in every bin that is not empty, and its mass."""
    bins = settings["bins"]
    edges = np.arange(bins + 1) / bins
    gaps, masses = [], []
    for m in range(bins):
        if settings["closed"] == "right":
            inside = (confidence > edges[m]) & (confidence <= edges[m + 1])
            inside |= (m == 0) & (confidence == 0)
        else:
            inside = (confidence >= edges[m]) & (confidence < edges[m + 1])
            inside |= (m == bins - 1) & (confidence == 1)
        if inside.any():
            mass = weight[inside].sum()
            gaps.append((weight * (correct - confidence))[inside].sum() / mass)
            masses.append(mass)
    return np.array(gaps), np.array(masses)


def by_function(predictions, target, weight, from_logits, settings, expected):
    """Compare the plain functions with the same numbers."""
    kept = {"sample_weight": weight, "ignore_index": settings["ignore_index"]}
    values = {
        "accuracy": calibration.accuracy(predictions, target, **kept),
        "nll": calibration.negative_log_likelihood(
            predictions, target, from_logits=from_logits, **kept
        ),
        "brier": calibration.brier_score(predictions, target, from_logits=from_logits, **kept),
    }
    if settings["ignore_index"] is None and "ece" in expected:
        confidence, correct = calibration.top_label(predictions, target, from_logits=from_logits)
        binned = {n: settings[n] for n in ("bins", "closed")} | {"sample_weight": weight}
        values["ece"] = calibration.expected_calibration_error(confidence, correct, **binned)
        values["mce"] = calibration.maximum_calibration_error(confidence, correct, **binned)
    for name, value in values.items():
        if wrong := differ(f"{name} by function", value, expected[name]):
            return wrong
    return None


def in_parts(rng, metrics, predictions, target, weight):
    """Compare with the same predictions counted in parts by two accumulators that are merged."""
    settings = metrics.state_dict()["settings"]
    parts = [CalibrationMetrics(**settings) for _ in range(2)]
    cuts = sorted(rng.integers(len(target) + 1, size=3).tolist())
    bounds = [0, *cuts, len(target)]
    for i, (first, last) in enumerate(itertools.pairwise(bounds)):
        part = slice(first, last)
        some = None if weight is None else weight[part]
        parts[i % 2].update(predictions[part], target[part], some)
    merged = parts[0].merge(parts[1])
    again = CalibrationMetrics(**settings)
    again.load_state_dict(merged.state_dict())
    whole, result = metrics.compute(), again.compute()
    for name in ("accuracy", "nll", "brier", "ece", "mce", "ks_error", "equal_mass_ece"):
        if wrong := differ(f"{name} in parts", getattr(result, name), getattr(whole, name)):
            return wrong
    return None


def differ(name, got, expected):
    if got == expected or (math.isnan(got) and math.isnan(expected)):
        return None
    if abs(got - expected) <= 1e-11 + 1e-11 * abs(expected):
        return None
    return f"{name} is {got!r}, not {expected!r}"
