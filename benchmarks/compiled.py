"""What compiling a loss alone costs beside the fused kernel, in processor time of one thread."""

from __future__ import annotations

import torch
from torch import nn

import softmargin
from benchmarks.timing import processor_times
from softmargin.bench.losses import BETA, step

SHAPES = ((128, 10), (256, 1000), (1024, 1000))


def main() -> None:
    """Print microseconds of forward and backward."""
    torch.set_num_threads(1)
    eager = {"cross-entropy": nn.CrossEntropyLoss(), "kernel": softmargin.GradientDecayLoss(BETA)}
    compiled = {
        f"{name}, compiled": torch.compile(each, dynamic=False, fullgraph=True)
        for name, each in zip(("cross-entropy", "gradient decay"), eager.values(), strict=True)
    }
    for shape in SHAPES:
        contenders = {name: step(each, shape) for name, each in (eager | compiled).items()}
        found = processor_times(contenders)
        times = ", ".join(f"{name} {1e6 * each:.0f} µs" for name, each in found.items())
        print(f"{shape[0]} × {shape[1]}: {times}")


if __name__ == "__main__":
    main()
