"""What is measured of trained networks, whichever way they were trained.

Scores are those of the stored test logits, so that anyone can compute them again: each row less its
largest value, which changes no probability and keeps the digits of close calls, in float16.

Besides scores a task may ask for ``scaling`` (temperature and vector scaling fitted on held-out
images), ``angles`` (AG eq. 20-22), ``bias`` (mean ρ̂ of every epoch, LM eq. 7) and ``angles by
epoch`` (histograms of intra-class angles, for networks trained one by one).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softmargin.calibration import calibration_metrics
from softmargin.calibration.scaling import CalibrationWarning, TemperatureScaling, VectorScaling
from softmargin.data import Dataset, Split
from softmargin.diagnostics import (
    angle_histogram,
    angle_statistics,
    confidence_histogram,
    feature_spread,
    intra_class_angles,
)
from softmargin.models import Classifier, parameter_count
from softmargin.papers.core import Result
from softmargin.papers.images import Images, as_trained
from softmargin.training import TrainingConfig
from softmargin.training.batches import Batches, statistics
from softmargin.training.ensemble import EnsembleResult

SCORES = (
    "accuracy",
    "top_k_accuracy",
    "mean_confidence",
    "nll",
    "brier",
    "ece",
    "mce",
    "debiased_error",
)
ANGLES = ("wc_intra", "w_inter", "c_inter")
BINS = 45  # of four degrees
MOST_STORED = 20_000_000  # values; ImageNet's logits are scored and not kept
MOST_MEASURED = 200_000  # training images to pass once more
MOST_ANGLES = 2000
TRACES = 20  # of MNIST
SHOWN_PER_CLASS = 100
RIDGE = 0.01  # vector scaling has two numbers per class and few images to fit them on


@dataclass(frozen=True)
class Trained:
    """A network after training."""

    name: str
    config: TrainingConfig
    model: Classifier


def measured(trained: Sequence[Trained], images: Images, wanted: Sequence[str]) -> Result:
    """Measure networks; lists and arrays have one entry per network, in their order.

    Numbers: ``variants`` (names), ``samples``, ``classes``, ``parameters``, ``final`` (lists by
    score), ``bins`` (lists of the reliability diagram's counts, confidences and accuracies),
    ``train_accuracy``, and where asked for ``scaled`` (by kind of scaling, lists by score),
    ``held_out`` (the same of the held-out images, and ``raw``), ``temperature``, and ``angles``
    (lists by statistic, of training images). Arrays: ``test_logits`` (networks,
    images, classes) and ``test_labels``.
    """
    rows = [_measured(each, images, wanted) for each in trained]
    y = images.dataset.test.y
    numbers: dict[str, Any] = {
        "variants": [each.name for each in trained],
        "samples": len(images.dataset.train),
        "classes": images.dataset.num_classes,
        "parameters": [parameter_count(each.model) for each in trained],
    }
    for name in rows[0].numbers:
        numbers[name] = _transposed([row.numbers[name] for row in rows])
    kept = [row.arrays["test_logits"] for row in rows]
    if sum(each.size for each in kept) > MOST_STORED:
        return Result(numbers)
    logits = torch.stack([torch.from_numpy(each) for each in kept]).numpy()
    return Result(numbers, {"test_logits": logits, "test_labels": y.to(torch.int16).numpy()})


def _measured(trained: Trained, images: Images, wanted: Sequence[str]) -> Result:
    dataset = as_trained(images.dataset, trained.config)
    test, train = dataset.test, dataset.train
    logits = outputs(trained.model, test, dataset)
    stored = shifted(logits)
    numbers: dict[str, Any] = {"final": scores(stored, test.y), "bins": diagram(stored, test.y)}
    numbers["train_accuracy"] = math.nan
    if len(train) <= MOST_MEASURED:
        right = outputs(trained.model, train, dataset).argmax(1) == train.y
        numbers["train_accuracy"] = float(right.double().mean())
    if "scaling" in wanted and images.held_out is not None:
        held_out = outputs(trained.model, images.held_out, dataset)
        numbers |= scaled(held_out, images.held_out.y, logits, test.y)
    if "angles" in wanted:
        features = outputs(trained.model.features, train, dataset)
        found = angle_statistics(features, train.y, weights(trained.model))
        numbers["angles"] = {name: getattr(found, name) for name in ANGLES}
    return Result(numbers, {"test_logits": stored.numpy()})


@torch.no_grad()
def outputs(module: nn.Module, split: Split, dataset: Dataset) -> Tensor:
    """Return what a module gives for a split in its order, z-scored as in training, on the CPU."""
    device = next(module.parameters()).device
    batches = Batches(split, statistics(dataset.train), 1, device=device)
    return torch.cat([module(x).float().cpu() for x, _ in batches.in_order()])


def shifted(logits: Tensor) -> Tensor:
    """Return logits less the largest of their row, in float16; 0 where a network diverged.

    Example:
        >>> shifted(torch.tensor([[1000.0, 1000.001, 0.0]]))
        tensor([[-9.7656e-04,  0.0000e+00, -1.0000e+03]], dtype=torch.float16)
    """
    if not bool(logits.isfinite().all()):
        return torch.zeros_like(logits, dtype=torch.float16)
    return (logits - logits.amax(1, keepdim=True)).clamp(min=-6e4).half()


def scores(logits: Tensor, y: Tensor) -> dict[str, float]:
    """Return the scores of logits, NaN where a network diverged."""
    if not bool(logits.any()):
        return dict.fromkeys(SCORES, math.nan)
    found = calibration_metrics(logits.float(), y, from_logits=True, classwise=False)
    return {name: float(getattr(found, name)) for name in SCORES}


def diagram(logits: Tensor, y: Tensor) -> dict[str, list[float]]:
    """Return what a reliability diagram shows of logits: 10 bins of equal width."""
    bins = calibration_metrics(logits.float(), y, from_logits=True, classwise=False).bins
    parts = {"counts": bins.counts, "confidence": bins.confidence, "accuracy": bins.accuracy}
    return {name: part.nan_to_num(0.0).tolist() for name, part in parts.items()}


def scaled(held_out: Tensor, held_out_y: Tensor, logits: Tensor, y: Tensor) -> dict[str, Any]:
    """Return scores after temperature and vector scaling fitted on held-out images.

    They are ``scaled`` of the test images, ``held_out`` of those that scaling was fitted on, and
    the ``temperature``; all NaN where a network diverged.
    """
    makers = {"temperature": TemperatureScaling(), "vector": VectorScaling(ridge=RIDGE)}
    missing = dict.fromkeys(SCORES, math.nan)
    if not bool(held_out.isfinite().all() and logits.isfinite().all()):
        nothing = dict.fromkeys(makers, missing)
        return {
            "scaled": nothing,
            "held_out": {"raw": missing, **nothing},
            "temperature": math.nan,
        }
    of_test, of_held_out = {}, {"raw": scores(held_out, held_out_y)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for name, scaler in makers.items():
            fitted = scaler.fit(held_out, held_out_y)
            of_test[name] = scores(fitted.transform(logits), y)
            of_held_out[name] = scores(fitted.transform(held_out), held_out_y)
    temperature = float(makers["temperature"].temperature)
    return {"scaled": of_test, "held_out": of_held_out, "temperature": temperature}


def weights(model: Classifier) -> Tensor:
    """Return the class weights of a network, (C, D)."""
    return model.head.weight.detach().float().cpu()


def angle_counts(model: Classifier, dataset: Dataset) -> Tensor:
    """Return the histogram of angles between training features and their class's weight."""
    split = dataset.train
    if len(split) > MOST_ANGLES:
        split = split.select(torch.arange(MOST_ANGLES))
    features = outputs(model.features, split, dataset)
    return angle_histogram(intra_class_angles(features, split.y, weights(model)), BINS).counts


def _transposed(rows: Sequence[Any]) -> Any:
    """Return nested mappings of numbers, one per network, as mappings of lists.

    Example:
        >>> _transposed([{"a": {"b": 1}}, {"a": {"b": 2}}])
        {'a': {'b': [1, 2]}}
    """
    if isinstance(rows[0], Mapping):
        return {name: _transposed([row[name] for row in rows]) for name in rows[0]}
    return list(rows)


# --- of MNIST, whose training is recorded


def final_scores(trained: EnsembleResult) -> Result:
    """Return scores of the test set after the last epoch, and the logits behind them.

    Arrays: ``test_logits`` (variants, samples, classes) in float16.
    """
    found: dict[str, list[float]] = {"accuracy": [], "nll": [], "ece": [], "mce": []}
    kept = []
    for number in range(len(trained)):
        logits, y = trained.predictions(number)
        metrics = calibration_metrics(logits, y, from_logits=True, classwise=False)
        for name, values in found.items():
            values.append(float(getattr(metrics, name)))
        kept.append(logits.half())
    return Result({"final": found}, {"test_logits": torch.stack(kept).numpy()})


def confidences(trained: EnsembleResult, dataset: Dataset, baseline: int) -> Result:
    """Return how confidence is spread over training samples, and how it grew.

    Arrays: ``groups`` (variants, epochs, 5), mean confidence from hard to easy; ``mean_bias``
    (variants, epochs), the mean ρ̂; ``histograms`` (variants, epochs, 5), GD Table 1's counts as
    met in every epoch; ``traces`` (variants, epochs, samples) of the training samples numbered
    ``traced``, which are chosen by the variant in the place of the baseline.
    """
    right, final = final_confidence(trained, dataset)
    traced = evenly_ranked(final[baseline], TRACES)
    groups: dict[int, Tensor] = {}  # of a recorder, which has several variants
    arrays: dict[str, list[Tensor]] = {"groups": [], "mean_bias": [], "traces": []}
    met, histograms = [], []
    for number in range(len(trained)):
        recorder, place = trained.recorder(number)
        if id(recorder) not in groups:
            groups[id(recorder)] = recorder.groups().curves
        arrays["groups"].append(groups[id(recorder)][place])
        arrays["mean_bias"].append(recorder.mean_bias[place])
        arrays["traces"].append(recorder.traces(traced)[place])
        met.append(recorder.histogram()[place].tolist())
        every = [recorder.histogram(epoch)[place] for epoch in range(recorder.epochs)]
        histograms.append(torch.stack(every))
    numbers = {
        "histogram": confidence_histogram(final).tolist(),
        "trained_histogram": met,
        "train_accuracy": right.tolist(),
    }
    stacked = {name: torch.stack(each).float().numpy() for name, each in arrays.items()}
    counts = torch.stack(histograms).int().numpy()
    return Result(numbers, {**stacked, "histograms": counts, "traced": traced.numpy()})


def features(trained: EnsembleResult, dataset: Dataset) -> Result:
    """Return how the test set's features lie, and those of a sample of every class.

    Numbers: ``spread``, lists with one value per variant: ``median`` and ``rms`` distance to the
    own class's centre, ``between`` the centres. Arrays: ``features`` (variants, samples, 2) and
    ``labels`` of the first samples of every class; ``weights`` (variants, classes, 2).
    """
    y = dataset.test.y
    shown = torch.cat([(y == k).nonzero()[:SHOWN_PER_CLASS, 0] for k in range(dataset.num_classes)])
    found: dict[str, list[float]] = {"median": [], "rms": [], "between": []}
    kept, weights = [], []
    classifiers = [trained.classifier(number) for number in range(len(trained))]
    given = [outputs(each.features, dataset.test, dataset) for each in classifiers]
    for classifier, x in zip(classifiers, given, strict=True):
        spread = feature_spread(x, y)
        found["median"].append(float((x.double() - spread.centres[y]).norm(dim=1).median()))
        found["rms"].append(spread.within)
        found["between"].append(spread.between)
        kept.append(x[shown])
        weights.append(classifier.head.weight.detach())
    arrays = {"features": torch.stack(kept), "labels": y[shown], "weights": torch.stack(weights)}
    return Result({"spread": found}, {name: each.numpy() for name, each in arrays.items()})


def final_confidence(trained: EnsembleResult, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Return accuracy (V,) and float64 confidences (V, N) on the training set, final weights."""
    y = dataset.train.y
    right, sure = [], []
    for number in range(len(trained)):
        logits = outputs(trained.classifier(number), dataset.train, dataset)
        right.append((logits.argmax(1) == y).double().mean())
        sure.append(logits.double().softmax(1).gather(1, y[:, None])[:, 0])
    return torch.stack(right), torch.stack(sure)


def evenly_ranked(values: Tensor, count: int) -> Tensor:
    """Return ``count`` sample numbers: half of them from the lowest fifth, half from the rest.

    They have evenly spaced ranks in either part, which is a rule that knows nothing of how their
    curves look. The hard ones are few and the ones that differ, so they get half of the places.

    Example:
        >>> evenly_ranked(torch.arange(100.0), 4)
        tensor([ 5, 15, 40, 80])
    """
    fifth = len(values) // 5
    middles = (torch.arange(count // 2) + 0.5) / (count // 2)
    ranks = torch.cat([middles * fifth, fifth + middles * (len(values) - fifth)])
    return values.argsort(stable=True)[ranks.long()]
