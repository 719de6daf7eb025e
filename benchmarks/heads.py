"""Heads with cross-entropy against ``nn.Linear`` with cross-entropy, and against peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pytorch_metric_learning import losses as pml
from torch import Tensor, nn

from benchmarks.timing import best_times, report
from softmargin import heads, models

SAMPLES, FEATURES, CLASSES = 256, 512, 1000
COSINE, ARCGRAD = 1.25, 1.35
HEADS: dict[str, tuple[Callable[[], nn.Module], float | None]] = {
    "CosineHead": (lambda: heads.CosineHead(FEATURES, CLASSES), COSINE),
    "CosFaceHead": (lambda: heads.CosFaceHead(FEATURES, CLASSES), COSINE),
    "ArcFaceHead": (lambda: heads.ArcFaceHead(FEATURES, CLASSES), COSINE),
    "AdaCosHead, fixed": (lambda: heads.AdaCosHead(FEATURES, CLASSES, dynamic=False), COSINE),
    "AdaCosHead, dynamic": (lambda: heads.AdaCosHead(FEATURES, CLASSES), None),
    "LSoftmaxHead": (lambda: heads.LSoftmaxHead(FEATURES, CLASSES), None),
    "ASoftmaxHead": (lambda: heads.ASoftmaxHead(FEATURES, CLASSES), None),
    "ArcGradHead": (lambda: heads.ArcGradHead(FEATURES, CLASSES), ARCGRAD),
    "GaussianHead": (lambda: heads.GaussianHead(FEATURES, CLASSES), None),
}


def step(
    loss: Callable[[Tensor, Tensor], Tensor], modules: list[nn.Module], features: Tensor
) -> Callable[[], None]:
    """Return one forward and backward pass on fixed features."""
    features = features.clone().requires_grad_()
    target = torch.arange(SAMPLES) % CLASSES

    def run() -> None:
        features.grad = None
        for module in modules:
            module.zero_grad()
        loss(features, target).backward()

    return run


def of_head(head: nn.Module, features: Tensor) -> Callable[[], None]:
    """Return a pass through a head and cross-entropy."""
    plain = isinstance(head, nn.Linear)

    def loss(x: Tensor, target: Tensor) -> Tensor:
        logits = head(x) if plain else head(x, target)
        return nn.functional.cross_entropy(logits, target)

    return step(loss, [head], features)


def of_peer(peer: Any, features: Tensor) -> Callable[[], None]:
    """Return a pass through a loss of pytorch-metric-learning."""
    return step(peer, [peer], features)


def main() -> None:
    """Print the ratios, with the bounds the project holds itself to."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    features = torch.randn(SAMPLES, FEATURES)
    rows = []
    for name, (make, bound) in HEADS.items():
        linear = of_head(nn.Linear(FEATURES, CLASSES), features)
        best = best_times({"peer": linear, "ours": of_head(make(), features)}, seconds=3.0)
        rows.append((name, best["peer"], best["ours"], bound))
    head = heads.ArcGradHead(FEATURES, CLASSES)  # as late in training: all near their weights
    near = head.weight.detach()[torch.arange(SAMPLES)] * 20 + 0.1 * features
    linear = of_head(nn.Linear(FEATURES, CLASSES), near)
    best = best_times({"peer": linear, "ours": of_head(head, near)}, seconds=3.0)
    rows.append(("ArcGradHead, features on their classes", best["peer"], best["ours"], None))
    size = f"{SAMPLES} x {FEATURES} to {CLASSES}, forward + backward"
    report(f"Heads + cross-entropy against nn.Linear + cross-entropy, {size}", rows)

    rows = []
    for name, head, peer in (
        ("ArcFaceHead", heads.ArcFaceHead(FEATURES, CLASSES), pml.ArcFaceLoss(CLASSES, FEATURES)),
        ("CosFaceHead", heads.CosFaceHead(FEATURES, CLASSES), pml.CosFaceLoss(CLASSES, FEATURES)),
    ):
        contenders = {"peer": of_peer(peer, features), "ours": of_head(head, features)}
        best = best_times(contenders, seconds=3.0)
        rows.append((name, best["peer"], best["ours"], 1 / 1.3))
    report(f"Heads + cross-entropy against pytorch-metric-learning, {size}", rows)
    whole_step()


def whole_step() -> None:
    """Print what ArcGrad adds to a whole training step of a ResNet18 (AG says 3.4 %)."""
    images, target = torch.randn(16, 3, 32, 32), torch.arange(16) % 10

    def step_of(make: Callable[[int, int], heads.Head]) -> Callable[[], None]:
        network = models.build("resnet18", (3, 32, 32))
        classifier = models.Classifier(network, make(network.out_features, 10))
        optimizer = torch.optim.SGD(classifier.parameters(), lr=1e-3, momentum=0.9)

        def run() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(classifier(images, target), target).backward()
            optimizer.step()

        return run

    best = best_times(
        {"peer": step_of(heads.LinearHead), "ours": step_of(heads.ArcGradHead)}, seconds=12.0
    )
    row = ("ArcGradHead in ResNet18, batch 16", best["peer"], best["ours"], None)
    report("A whole training step against the same with LinearHead", [row])


if __name__ == "__main__":
    main()
