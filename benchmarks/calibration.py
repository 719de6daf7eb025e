"""Calibration metrics against torchmetrics and torch, and scikit-learn and netcal, one thread."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import best_times, report
from softmargin.calibration import calibration_metrics, classwise_calibration_error

BINS = 15
# how many times faster than each peer, by the size of the logits
FASTER = {(10_000, 100): 1.5, (1_000_000, 10): 4.0, (200_000, 1000): 5.0}
# a batch as small as the first fits in the cache even one class after the other
CLASSWISE_FASTER = {10_000: None, 50_000: 10.0, 200_000: 10.0}
STREAMED = (100_000, 1_000_000)


def simulate(samples: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return logits, and targets drawn from a flatter softmax: an over-confident model."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(samples, classes, generator=generator)
    target = torch.empty(samples, dtype=torch.int64)
    for part in torch.arange(samples).split(10_000):
        chances = (0.7 * logits[part]).softmax(1)
        target[part] = torch.multinomial(chances, 1, generator=generator).squeeze(1)
    return logits, target


def torchmetrics_and_torch(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """Return ECE, MCE, Brier score and NLL, each from the logits."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    classes = logits.shape[1]
    ece = multiclass_calibration_error(logits, target, classes, BINS, "l1")
    mce = multiclass_calibration_error(logits, target, classes, BINS, "max")
    probabilities = logits.softmax(1)
    own = probabilities.gather(1, target.unsqueeze(1)).squeeze(1)
    brier = (probabilities.square().sum(1) - 2 * own + 1).mean()  # no one-hot matrix
    nll = torch.nn.functional.cross_entropy(logits, target)
    return ece.item(), mce.item(), brier.item(), nll.item()


def scikit_learn_and_netcal(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """Return ECE, MCE, Brier score and NLL."""
    from netcal.metrics import ECE, MCE
    from scipy.special import softmax
    from sklearn.metrics import brier_score_loss, log_loss

    labels, classes = target.numpy(), np.arange(logits.shape[1])
    probabilities = softmax(logits.numpy(), axis=1)
    brier = brier_score_loss(labels, probabilities, labels=classes, scale_by_half=False)
    nll = log_loss(labels, probabilities, labels=classes)
    ece = ECE(BINS).measure(probabilities, labels)
    return ece, MCE(BINS).measure(probabilities, labels), brier, nll


def ours(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """Return ECE, MCE, Brier score and NLL."""
    result = calibration_metrics(logits, target, from_logits=True, bins=BINS, classwise=False)
    return result.ece, result.mce, result.brier, result.nll


def ours_all(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """Return the same, with every other metric on the way."""
    result = calibration_metrics(logits, target, from_logits=True, bins=BINS)
    return result.ece, result.mce, result.brier, result.nll


def class_by_class(probabilities: Tensor, target: Tensor) -> float:
    """Return the class-wise ECE by torchmetrics, one class after the other."""
    from torchmetrics.functional.classification import binary_calibration_error

    columns = probabilities.t().contiguous()
    errors = [
        binary_calibration_error(column, (target == label).long(), BINS)
        for label, column in enumerate(columns)
    ]
    return torch.stack(errors).mean().item()


def bin_by_bin(probabilities: Tensor, target: Tensor) -> float:
    """Return the class-wise ECE as scripts usually have it: a loop over classes and bins."""
    total = 0.0
    for label in range(probabilities.shape[1]):
        confidence, right = probabilities[:, label], (target == label).float()
        for low in range(BINS):
            inside = (confidence > low / BINS) & (confidence <= (low + 1) / BINS)
            share = inside.float().mean()
            if share > 0:
                gap = confidence[inside].mean() - right[inside].mean()
                total += (gap.abs() * share).item()
    return total / probabilities.shape[1]


def compare_all() -> None:
    """Print the ratios for ECE + MCE + Brier + NLL from logits."""
    peers = {
        "torchmetrics + torch": torchmetrics_and_torch,
        "scikit-learn + netcal": scikit_learn_and_netcal,
    }
    contenders = {**peers, "ours": ours, "ours, all metrics": ours_all}
    rows: list[tuple[str, float, float, float | None]] = []
    for (samples, classes), faster in FASTER.items():
        data = simulate(samples, classes)
        values = {name: function(*data) for name, function in contenders.items()}
        best = best_times(
            {name: partial(function, *data) for name, function in contenders.items()},
            seconds=6.0,
            least=4,
        )
        for name in peers:
            if not np.allclose(values["ours"], values[name], atol=2e-3):
                print(f"{name} has other values: {values[name]}, ours: {values['ours']}")
            what = f"{samples} x {classes}: {name}"
            rows.append((what, best[name], best["ours"], 1 / faster))
            rows.append(("  with all our metrics", best[name], best["ours, all metrics"], None))
    report("ECE + MCE + Brier + NLL from logits against peers", rows)


def compare_classwise() -> None:
    """Print the ratios for the class-wise ECE of 100 classes from probabilities."""
    rows: list[tuple[str, float, float, float | None]] = []
    for samples, faster in CLASSWISE_FASTER.items():
        logits, target = simulate(samples, 100)
        data = logits.softmax(1), target
        best = best_times(
            {
                "peer": partial(class_by_class, *data),
                "ours": partial(classwise_calibration_error, *data, from_logits=False, bins=BINS),
            },
            seconds=3.0,
        )
        bound = None if faster is None else 1 / faster
        rows.append((f"{samples} x 100: torchmetrics by class", best["peer"], best["ours"], bound))
    logits, target = simulate(10_000, 100)
    data = logits.softmax(1), target
    best = best_times(
        {
            "peer": partial(bin_by_bin, *data),
            "ours": partial(classwise_calibration_error, *data, from_logits=False, bins=BINS),
        }
    )
    rows.append(("10000 x 100: classes and bins in a loop", best["peer"], best["ours"], 1 / 10))
    report("Class-wise ECE against per-class loops", rows)


def stream(samples: int) -> None:
    """Count this many rows of 10 classes in batches, and print the memory it took."""
    from softmargin.calibration import CalibrationMetrics

    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096 / 1e6

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    metrics = CalibrationMetrics(10, from_logits=True)
    before = peak = resident()
    for _ in range(samples // 10_000):
        logits = 3 * torch.randn(10_000, 10, generator=generator)
        metrics.update(logits, logits.argmax(1))
        peak = max(peak, resident())
    metrics.compute()
    print(f"{samples:>9} x 10 in batches of 10000: {peak - before:.1f} MB on top of an empty start")


def main() -> None:
    """Print the ratios, with the bounds the project holds itself to, and the memory it takes."""
    torch.set_num_threads(1)
    compare_all()
    compare_classwise()
    print("\nPeak memory of streaming")
    for samples in STREAMED:
        code = f"from benchmarks.calibration import stream; stream({samples})"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
