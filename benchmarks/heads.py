"""What ArcGrad adds to a whole training step of a ResNet18 (AG says 3.4 %)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.timing import best_times, report
from softmargin import heads, models


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


def main() -> None:
    """Print the ratio."""
    torch.set_num_threads(1)
    best = best_times(
        {"peer": step_of(heads.LinearHead), "ours": step_of(heads.ArcGradHead)}, seconds=12.0
    )
    row = ("ArcGradHead in ResNet18, batch 16", best["peer"], best["ours"], None)
    report("A whole training step against the same with LinearHead", [row])


if __name__ == "__main__":
    main()
