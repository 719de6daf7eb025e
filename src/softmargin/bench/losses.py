"""Losses, linear layers with a loss, and heads, each beside what else there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import softmargin
from softmargin import heads, models
from softmargin.bench.peers import Case, found, missing

SHAPES = {
    (128, 10): (1.0, 1.0, 1.5),
    (256, 100): (1.0, 1.0, 1.5),
    (256, 1000): (0.6, 1.0, 1.0),
    (1024, 1000): (0.5, 1.0, 1.0),
    (512, 32000): (0.35, 0.7, 0.7),
}
"""By shape, the ratios that plain, smoothed and regularised losses are held to."""

BETA = 0.1
FEATURES, CLASSES = 512, 1000
HEADS: dict[str, tuple[type[Any], float]] = {
    "CosineHead": (heads.CosineHead, 1.05),
    "ArcFaceHead": (heads.ArcFaceHead, 1.08),
    "ArcGradHead": (heads.ArcGradHead, 1.10),
    "ASoftmaxHead": (heads.ASoftmaxHead, 1.15),
    "GaussianHead": (heads.GaussianHead, 2.1),
}

Criterion = Callable[[Tensor, Tensor], Tensor]


def one_hot_idiom(logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss as scripts have it: a margin on the one-hot entries, then cross-entropy."""
    shift = math.log(BETA) * F.one_hot(target, logits.shape[1])
    return F.cross_entropy(logits + shift, target)


def shifted_formula(logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss as the paper writes it, with the largest logit taken off."""
    z = logits - logits.amax(1, keepdim=True)
    own = z.gather(1, target.unsqueeze(1)).squeeze(1)
    e = z.exp()
    others = e.sum(1) - own.exp()
    return (torch.log(others + BETA * own.exp()) - own).mean()


def step(criterion: Criterion, shape: tuple[int, int]) -> Callable[[], None]:
    """Return one forward and backward pass of a criterion on fixed logits."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator, requires_grad=True)
    target = torch.randint(0, shape[1], shape[:1], generator=generator)

    def run() -> None:
        logits.grad = None
        criterion(logits, target).backward()  # type: ignore[no-untyped-call]

    return run


def of_losses(quick: bool) -> Iterator[Case]:
    """Give the losses beside cross-entropy at every shape."""
    shapes = list(SHAPES.items())[: 2 if quick else None]
    compiled = None if quick else _compiled()
    for shape, (plain, smooth, regularised) in shapes:
        work = f"{shape[0]} × {shape[1]}"
        criteria: dict[str, Criterion] = {"cross-entropy": nn.CrossEntropyLoss()}
        if compiled is not None:
            criteria["compiled cross-entropy"] = compiled
        criteria |= {"one-hot idiom": one_hot_idiom, "shifted formula": shifted_formula}
        ours = _ours(0.0)
        bounds = {**dict.fromkeys(ours, plain), "regularised": regularised}
        yield _case("losses", work, criteria | ours, shape, bounds)
        ours = _ours(0.1)
        criteria = {"cross-entropy": nn.CrossEntropyLoss(label_smoothing=0.1)}
        bounds = dict.fromkeys(ours, smooth)
        del bounds["regularised"]  # no bound is set for D of every class, which is more work
        yield _case("smoothed", work, criteria | ours, shape, bounds)


def _ours(smoothing: float) -> dict[str, Criterion]:
    return {
        "gradient decay": softmargin.GradientDecayLoss(BETA, label_smoothing=smoothing),
        "soft margin": softmargin.SoftMarginSoftmaxLoss(0.5, label_smoothing=smoothing),
        "focal": softmargin.FocalLoss(label_smoothing=smoothing),
        "regularised": softmargin.RegularizedSoftmaxLoss(label_smoothing=smoothing),
    }


def _case(
    group: str,
    work: str,
    criteria: dict[str, Criterion],
    shape: tuple[int, int],
    bounds: dict[str, float],
) -> Case:
    return Case(group, work, {name: step(each, shape) for name, each in criteria.items()}, bounds)


def _compiled() -> Criterion | None:
    """Return cross-entropy by ``torch.compile``, if it works here."""
    compiled = torch.compile(nn.CrossEntropyLoss(), dynamic=False)
    try:
        step(compiled, (4, 3))()
    except Exception as error:  # the compiler has many ways to fail, and they are not ours
        missing(f"compiled cross-entropy: torch.compile fails here ({type(error).__name__})")
        return None
    return compiled


def of_linear(quick: bool) -> Iterator[Case]:
    """Give a linear layer and its loss in one beside one after the other."""
    samples, classes = (256, 2000) if quick else (2048, 20_000)
    features = torch.randn(samples, 128, requires_grad=True)
    weight = nn.Linear(128, classes, bias=False).weight
    target = torch.randint(0, classes, (samples,))

    def of(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            features.grad = weight.grad = None
            loss().backward()  # type: ignore[no-untyped-call]

        return run

    one = softmargin.functional.linear_gradient_decay_loss
    contenders = {
        "linear, then cross-entropy": of(lambda: F.cross_entropy(features @ weight.T, target)),
        "gradient decay in one": of(lambda: one(features, weight, target, BETA)),
    }
    chunked: Any = getattr(F, "linear_cross_entropy", None)
    if chunked is None:
        missing("F.linear_cross_entropy: this PyTorch has none")
    else:
        contenders["F.linear_cross_entropy"] = of(lambda: chunked(features, weight, target))
    bounds = {} if quick else {"gradient decay in one": 0.8}
    yield Case("linear", f"{samples} × 128 → {classes}", contenders, bounds)


def of_heads(quick: bool) -> Iterator[Case]:
    """Give heads with cross-entropy beside a linear layer with cross-entropy."""
    samples = 32 if quick else 256
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(samples, FEATURES, generator=generator, requires_grad=True)
    target = torch.arange(samples) % CLASSES

    def of(module: Any, loss: Callable[[Any], Tensor]) -> Callable[[], None]:
        def run() -> None:
            features.grad = None
            module.zero_grad()
            loss(module).backward()  # type: ignore[no-untyped-call]

        return run

    contenders = {
        "nn.Linear": of(
            nn.Linear(FEATURES, CLASSES), lambda layer: F.cross_entropy(layer(features), target)
        )
    }
    for name, (kind, _) in HEADS.items():
        contenders[name] = of(
            kind(FEATURES, CLASSES),
            lambda head: F.cross_entropy(head(features, target), target),
        )
    if found("pytorch_metric_learning"):
        from pytorch_metric_learning import losses as peers

        for name in ("ArcFaceLoss", "CosFaceLoss"):
            peer = getattr(peers, name)(CLASSES, FEATURES)
            contenders[f"metric learning's {name}"] = of(peer, lambda peer: peer(features, target))
    bounds = {} if quick else {name: bound for name, (_, bound) in HEADS.items()}
    yield Case("heads", f"{samples} × {FEATURES} → {CLASSES}", contenders, bounds)
    if not quick:
        steps = {kind.__name__: _step_of(kind) for kind in (heads.LinearHead, heads.ArcGradHead)}
        yield Case("heads", "a step of ResNet18, batch 16", steps)


def _step_of(kind: type[heads.Head]) -> Callable[[], None]:
    """Return one training step of a ResNet18 with a head, on 16 small images."""
    images, target = torch.randn(16, 3, 32, 32), torch.arange(16) % 10
    network = models.build("resnet18", (3, 32, 32))
    head: Any = kind(network.out_features, 10)
    classifier = models.Classifier(network, head)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        F.cross_entropy(classifier(images, target), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return run
