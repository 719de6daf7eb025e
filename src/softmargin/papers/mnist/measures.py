"""What is measured of the variants of a seed once they are trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softmargin.calibration import calibration_metrics
from softmargin.data import Dataset, Split
from softmargin.diagnostics import confidence_histogram, feature_spread
from softmargin.papers.core import Result
from softmargin.papers.mnist.cells import BASELINE
from softmargin.training.batches import Batches, statistics
from softmargin.training.ensemble import EnsembleResult

TRACES = 20
SHOWN_PER_CLASS = 100


def scores(trained: EnsembleResult) -> Result:
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


def confidences(trained: EnsembleResult, dataset: Dataset, variants: Sequence[str]) -> Result:
    """Return how confidence is spread over training samples, and how it grew.

    Arrays: ``groups`` (variants, epochs, 5), mean confidence from hard to easy; ``mean_bias``
    (variants, epochs), the mean ρ̂; ``histograms`` (variants, epochs, 5), GD Table 1's counts as
    met in every epoch; ``traces`` (variants, epochs, samples) of the training samples numbered
    ``traced``.
    """
    right, final = final_confidence(trained, dataset)
    traced = evenly_ranked(final[list(variants).index(BASELINE)], TRACES)
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
    outputs = _over([each.features for each in classifiers], dataset.test, dataset)
    for classifier, x in zip(classifiers, outputs, strict=True):
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
    classifiers = [trained.classifier(number) for number in range(len(trained))]
    for logits in _over(classifiers, dataset.train, dataset):
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


@torch.no_grad()
def _over(modules: Sequence[nn.Module], split: Split, dataset: Dataset) -> list[Tensor]:
    """Return what modules give for a whole split in its order, z-scored as in training."""
    batches = Batches(split, statistics(dataset.train), 1, device=torch.device("cpu"))
    given = [[module(x) for module in modules] for x, _ in batches.in_order()]
    return [torch.cat(own) for own in zip(*given, strict=True)]
