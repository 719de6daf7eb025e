"""What heads cost beside ``nn.Linear`` with cross-entropy, in processor time.

They stand with cross-entropy and with gradient decay by the kernel. What ArcGrad adds to a whole
training step is in ``softmargin bench``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

import softmargin
from benchmarks.timing import processor_times, report
from softmargin.bench.losses import CLASSES, FEATURES, HEADS

SAMPLES = 256


def beside_linear() -> None:
    """Print ratios of every head to ``nn.Linear`` with cross-entropy, in pairs."""
    x = torch.randn(SAMPLES, FEATURES, requires_grad=True)
    target = torch.arange(SAMPLES) % CLASSES

    def of(module: nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def run() -> None:
            x.grad = None
            module.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]

        return run

    layer = nn.Linear(FEATURES, CLASSES)
    peer = of(layer, lambda: nn.functional.cross_entropy(layer(x), target))
    criteria = {"CE": nn.CrossEntropyLoss(), "GD": softmargin.GradientDecayLoss(1.0)}
    for short, criterion in criteria.items():
        rows = []
        for name, (kind, bound) in HEADS.items():
            head = kind(FEATURES, CLASSES)
            ours = of(head, lambda head=head, c=criterion: c(head(x, target), target))
            found = processor_times({"peer": peer, "ours": ours})
            rows.append((name, found["peer"], found["ours"], bound))
        report(f"{SAMPLES} × {FEATURES} → {CLASSES} with {short}, to nn.Linear with CE", rows)


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    beside_linear()


if __name__ == "__main__":
    main()
