"""What is measured of trained networks, whichever way they were trained.

Scores are those of the stored test logits, so that anyone can compute them again: each row less its
largest value, which changes no probability and keeps the digits of close calls, in float16.

Besides scores a task may ask for ``scaling`` (temperature and vector scaling fitted on held-out
images), ``own held-out`` (the same on images that a method itself holds out of its training),
``angles`` (AG eq. 20-22), ``bias`` (mean ρ̂ of every epoch, LM eq. 7) and ``angles by
epoch`` (histograms of intra-class angles, for networks trained one by one).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softmargin.calibration import calibration_metrics
from softmargin.calibration.scaling import CalibrationWarning, TemperatureScaling, VectorScaling
from softmargin.data import Dataset, Normalize, Split
from softmargin.diagnostics import (
    ConfidenceRecorder,
    angle_histogram,
    angle_statistics,
    confidence_histogram,
    feature_spread,
    intra_class_angles,
)
from softmargin.diagnostics.confidence import EDGES
from softmargin.models import Classifier, parameter_count
from softmargin.papers.core import Result
from softmargin.papers.images import Images, as_trained, held_out_by
from softmargin.papers.regimes import FIRST, PARTS
from softmargin.training import TrainingConfig
from softmargin.training.batches import Batches, order_of_epoch, statistics
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
SMALLEST = 2.0**-24  # above 0 in half precision
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
    found = side_by_side(rows)
    if found.arrays["test_logits"].size > MOST_STORED:
        return Result({**numbers, **found.numbers})
    arrays = {**found.arrays, "test_labels": y.to(torch.int16).numpy()}
    return Result({**numbers, **found.numbers}, arrays)


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
    if "own held-out" in wanted:
        own = held_out_by(images.dataset, trained.config)
        some = test.select(torch.arange(0)) if own is None else own
        held_out = outputs(trained.model, some, dataset) if own is not None else logits * math.nan
        numbers |= scaled(held_out, some.y, logits, test.y)
    if "angles" in wanted:
        features = outputs(trained.model.features, train, dataset)
        found = angle_statistics(features, train.y, weights(trained.model))
        numbers["angles"] = {name: getattr(found, name) for name in ANGLES}
    return Result(numbers, {"test_logits": stored.numpy()})


@torch.no_grad()
def outputs(
    module: nn.Module, split: Split, dataset: Dataset, normalize: Normalize | None = None
) -> Tensor:
    """Return what a module gives for a split in its order, on the CPU.

    Inputs are z-scored as in training, or as ``normalize`` says.
    """
    device = next(module.parameters()).device
    batches = Batches(split, normalize or statistics(dataset.train), 1, device=device)
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
    by_temperature = TemperatureScaling()
    makers = {"temperature": by_temperature, "vector": VectorScaling(ridge=RIDGE)}
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
    temperature = float(by_temperature.temperature)
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


def side_by_side(rows: Sequence[Result]) -> Result:
    """Return the results of single networks as one: lists for numbers, and stacked arrays."""
    numbers = _transposed([row.numbers for row in rows])
    arrays = {name: np.stack([row.arrays[name] for row in rows]) for name in rows[0].arrays}
    return Result(numbers, arrays)


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


def recorded(
    together: EnsembleResult,
    dataset: Dataset,
    first: Sequence[int],
    baseline: int,
    *,
    features: bool,
    normalize: Normalize | None = None,
) -> Result:
    """Measure networks and how their confidence grew; lists and arrays are in their order.

    Numbers: ``final`` (lists by score), ``histogram`` and ``trained_histogram`` (GD Table 1's
    counts with the final weights, and as met in the last epoch), ``train_accuracy``. Arrays:
    ``test_logits``; those of :func:`grown`; ``traces`` (networks, epochs, samples) of the training
    samples numbered ``traced``, for the networks ``first``; the samples are chosen by the one in
    the place of the baseline.

    For features also those of :func:`spread`.
    """
    models = [together.classifier(number) for number in range(len(together))]
    y = dataset.train.y
    given = [outputs(model, dataset.train, dataset, normalize) for model in models]
    sure = [logits.double().softmax(1).gather(1, y[:, None])[:, 0] for logits in given]
    traced = evenly_ranked(sure[baseline], TRACES)
    groups = cache(lambda recorder: recorder.groups().curves)  # of several networks
    rows = []
    for number, model in enumerate(models):
        logits, test_y = together.predictions(number)
        recorder, place = together.recorder(number)
        found = scores(logits, test_y)
        numbers = {
            "final": {name: found[name] for name in ("accuracy", "nll", "ece", "mce")},
            "histogram": confidence_histogram(sure[number]).tolist(),
            "trained_histogram": recorder.histogram()[place].tolist(),
            "train_accuracy": float((given[number].argmax(1) == y).double().mean()),
        }
        arrays = {
            "test_logits": logits.half(),
            "groups": groups(recorder)[place].float(),
            **grown(recorder, place, together.configs[number].seed, len(y)),
        }
        if features:
            numbers["spread"], own = spread(model, dataset)
            arrays |= own
        rows.append(Result(numbers, {name: each.numpy() for name, each in arrays.items()}))
    result = side_by_side(rows)
    of_first = [together.recorder(number) for number in first]
    traces = [recorder.traces(traced)[place].float().numpy() for recorder, place in of_first]
    result.arrays.update(traced=traced.numpy(), traces=np.stack(traces))
    if features:
        result.arrays["labels"] = result.arrays["labels"][0]  # the same for all
    return result


def grown(recorder: ConfidenceRecorder, place: int, seed: int, samples: int) -> dict[str, Tensor]:
    """Return how the confidence of one recorded network grew, as met while it trained.

    Returns:
        ``mean_bias`` (epochs,), the mean ρ̂; ``histograms`` (epochs, 5), Table 1's counts;
        ``intervals`` (epochs, 5), the mean confidence of the samples that end in each of its
        intervals, NaN where none does; ``train_nll`` (epochs,), the plain cross-entropy of the
        training samples; and ``first_nll`` (parts,), the same in equal parts of the first tenth of
        all steps. Both are from confidences in half precision.
    """
    every = [recorder.histogram(epoch)[place] for epoch in range(recorder.epochs)]
    confidence = recorder.confidence[place, :, :samples].float()
    ends = torch.bucketize(
        recorder.final_confidence[place, :samples], torch.tensor(EDGES, dtype=torch.float64)
    )
    intervals = [confidence[:, ends == k].mean(1) for k in range(len(EDGES) + 1)]
    nll = -confidence.clamp_min(SMALLEST).log()
    orders = [order_of_epoch(seed, e, samples) for e in range(math.ceil(FIRST * recorder.epochs))]
    met = torch.cat([nll[epoch, order] for epoch, order in enumerate(orders)])
    first = met[: round(FIRST * recorder.epochs * samples)].tensor_split(PARTS)
    return {
        "mean_bias": recorder.mean_bias[place].float(),
        "histograms": torch.stack(every).int(),
        "intervals": torch.stack(intervals, 1),
        "train_nll": nll.mean(1),
        "first_nll": torch.stack([part.mean() for part in first]),
    }


def spread(model: Classifier, dataset: Dataset) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return how test features are spread, and those of the first images of every class.

    The numbers are the ``median`` and ``rms`` distance to the own class's centre, and the one
    ``between`` centres; the tensors ``features`` (samples, 2) with their ``labels``, and
    ``weights`` (classes, 2).
    """
    x, y = outputs(model.features, dataset.test, dataset), dataset.test.y
    found = feature_spread(x, y)
    median = float((x.double() - found.centres[y]).norm(dim=1).median())
    shown = torch.cat([(y == k).nonzero()[:SHOWN_PER_CLASS, 0] for k in range(dataset.num_classes)])
    numbers = {"median": median, "rms": found.within, "between": found.between}
    return numbers, {"features": x[shown], "labels": y[shown], "weights": weights(model)}


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
