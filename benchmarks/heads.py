"""What heads cost beside ``nn.Linear`` with cross-entropy, alone and in a whole training step.

Alone it is processor time, with cross-entropy and with gradient decay by the kernel. The step is
that of a ResNet18 with ArcGrad (AG says 3.4 %).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

import softmargin
from benchmarks.timing import best_times, processor_times, report
from softmargin import heads, models
from softmargin.bench.losses import CLASSES, FEATURES, HEADS

SAMPLES = 256


def step_of(make: Callable[[int, int], heads.Head]) -> Callable[[], None]:
    """Return one training step of a ResNet18 with a head, on 16 small images."""
    images, target = torch.randn(16, 3, 32, 32), torch.arange(16) % 10
    network = models.build("resnet18", (3, 32, 32))
    classifier = models.Classifier(network, make(network.out_features, 10))
    optimizer = torch.optim.SGD(classifier.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(classifier(images, target), target).backward()
        optimizer.step()

    return run


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
    best = best_times(
        {"peer": step_of(heads.LinearHead), "ours": step_of(heads.ArcGradHead)}, seconds=12.0
    )
    row = ("ArcGradHead in ResNet18, batch 16", best["peer"], best["ours"], None)
    report("A whole training step against the same with LinearHead", [row])


if __name__ == "__main__":
    main()
