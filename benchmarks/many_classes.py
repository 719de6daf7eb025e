"""Peak memory and time of linear + loss with many classes: ``python -m benchmarks.many_classes``.

Each contender runs in a process of its own, forward + backward once, with 8192 samples of 256
features and 100,000 classes. "Extra" is what the process holds at its peak beyond features and
weight, the gradients of both included. ``--peer`` adds ``nn.Linear`` and cross-entropy one after
the other, which takes about 10 GB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from softmargin import GradientDecayLoss, heads
from softmargin.functional import linear_gradient_decay_loss

Run = Callable[[Tensor, nn.Parameter, Tensor], Tensor]


def head(kind: type[heads.Head]) -> Run:
    """Return the loss of a head with the given weight."""

    def run(features: Tensor, weight: nn.Parameter, target: Tensor) -> Tensor:
        made = kind(*reversed(weight.shape), device="meta")
        made.weight = weight
        for name in made.settings:
            setattr(made, name, torch.tensor(float(made._given[name])))
        return made.loss(features, target, GradientDecayLoss(0.1))

    return run


CONTENDERS: dict[str, Run] = {
    "linear": lambda x, w, target: linear_gradient_decay_loss(x, w, target, 0.1),
    "cosine": head(heads.CosineHead),
    "ArcFace": head(heads.ArcFaceHead),
    "ArcGrad": head(heads.ArcGradHead),
    "peer": lambda x, w, target: nn.functional.cross_entropy(nn.functional.linear(x, w), target),
}


def measure(name: str, samples: int, size: int, classes: int) -> None:
    """Print the extra megabytes and the processor's seconds of one contender."""
    torch.manual_seed(0)
    features = torch.empty(samples, size).uniform_(-1, 1).requires_grad_()
    weight = nn.Parameter(torch.empty(classes, size).uniform_(-1, 1))
    target = torch.randint(0, classes, (samples,))
    # once with little, so that what is loaded at the first use is not counted
    CONTENDERS[name](features[:4], nn.Parameter(weight[:9].detach()), target[:4] % 9).backward()
    before, start = _peak(), time.process_time()
    CONTENDERS[name](features, weight, target).backward()
    print(f"{_peak() - before:.0f} {time.process_time() - start:.1f}")


def _peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main() -> None:
    """Print a table of all contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--size", type=int, default=256, help="of a feature vector")
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--only", choices=CONTENDERS, help="in this process")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    sizes = options.samples, options.size, options.classes
    if options.only:
        return measure(options.only, *sizes)
    print(f"{'':12}{'extra':>10}{'processor':>12}")
    flags = [f"--{n}={v}" for n, v in zip(("samples", "size", "classes"), sizes, strict=True)]
    for name in CONTENDERS:
        if name != "peer" or options.peer:
            command = [sys.executable, "-m", "benchmarks.many_classes", *flags, "--only", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            megabytes, seconds = done.stdout.split()
            print(f"{name:12}{megabytes:>7} MB{seconds:>10} s", flush=True)
    return None


if __name__ == "__main__":
    main()
