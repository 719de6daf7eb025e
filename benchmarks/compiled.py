"""What compiling a loss alone costs beside the fused kernel, in processor time of one thread.

Gradient decay is compiled twice, with the kernel's operators and with plain operations: which is
quicker with how many classes is why ``FEWEST_CLASSES`` is what it is.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import softmargin
from benchmarks.timing import processor_times
from softmargin.bench.losses import BETA, step
from softmargin.functional import _operators

SHAPES = ((128, 10), (256, 100), (256, 256), (256, 1000), (1024, 1000))
WAYS = {"operators": 2, "plain operations": sys.maxsize}
"""By the way of a compiled loss, from how many classes on it has operators."""


def main() -> None:
    """Print microseconds of forward and backward."""
    torch.set_num_threads(1)
    kernel, plain = softmargin.GradientDecayLoss(BETA), nn.CrossEntropyLoss()
    for way, fewest in WAYS.items():
        _operators.FEWEST_CLASSES = fewest
        print(f"gradient decay compiled with {way}")
        for shape in SHAPES:
            torch.compiler.reset()
            criteria = {
                "cross-entropy": plain,
                "compiled": torch.compile(plain, dynamic=False, fullgraph=True),
                "gradient decay, kernel": kernel,
                f"compiled with {way}": torch.compile(kernel, dynamic=False, fullgraph=True),
            }
            contenders = {name: step(each, shape) for name, each in criteria.items()}
            found = processor_times(contenders)
            times = ", ".join(f"{name} {1e6 * each:.0f} µs" for name, each in found.items())
            print(f"{shape[0]} × {shape[1]}: {times}", flush=True)


if __name__ == "__main__":
    main()
