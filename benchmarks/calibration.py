"""Class-wise ECE against loops over classes, and the memory of streaming, one thread."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import best_times, report
from softmargin.bench.metrics import BINS, simulate
from softmargin.calibration import classwise_calibration_error

# a batch as small as the first fits in the cache even one class after the other
CLASSWISE_FASTER = {10_000: None, 50_000: 10.0, 200_000: 10.0}
STREAMED = (100_000, 1_000_000)


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
    compare_classwise()
    print("\nPeak memory of streaming")
    for samples in STREAMED:
        code = f"from benchmarks.calibration import stream; stream({samples})"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
