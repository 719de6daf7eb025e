"""Forward and backward of the losses against ``F.cross_entropy``: ``python -m benchmarks.losses``.

Every loss takes turns with cross-entropy, with label smoothing where it has it. The bounds are
those that the project holds itself to with the fused kernel; ``SOFTMARGIN_KERNEL=0`` shows what
PyTorch's operations take.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn

import softmargin
from benchmarks.timing import best_times, report
from softmargin.functional import _fused

SHAPES = [(128, 10), (256, 100), (256, 1000), (1024, 1000), (512, 32000)]
PLAIN = [1.0, 1.0, 0.6, 0.5, 0.35]
SMOOTH = [1.0, 1.0, 1.0, 1.0, 0.7]
REGULARIZED = [1.5, 1.5, 1.0, 1.0, 0.7]

Criterion = Callable[[Tensor, Tensor], Tensor]


def contenders(smoothing: float) -> dict[str, nn.Module]:
    """Return the losses that are functions of ξ alone."""
    return {
        "gradient decay": softmargin.GradientDecayLoss(0.1, label_smoothing=smoothing),
        "soft margin": softmargin.SoftMarginSoftmaxLoss(0.5, label_smoothing=smoothing),
        "focal": softmargin.FocalLoss(label_smoothing=smoothing),
    }


def step(criterion: Criterion, shape: tuple[int, int]) -> Callable[[], None]:
    """Return one forward and backward pass of a criterion on fixed logits."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator, requires_grad=True)
    target = torch.randint(0, shape[1], shape[:1], generator=generator)

    def run() -> None:
        logits.grad = None
        criterion(logits, target).backward()

    return run


def compare(
    losses: dict[str, nn.Module], peer: nn.Module, bounds: list[float], seconds: float
) -> list[tuple[str, float, float, float | None]]:
    """Return rows for :func:`report`: every loss at every shape."""
    rows: list[tuple[str, float, float, float | None]] = []
    for shape, bound in zip(SHAPES, bounds, strict=True):
        # each with a cross-entropy of its own before it, so that none finds a warmer cache
        best = {
            name: best_times({"peer": step(peer, shape), "ours": step(loss, shape)}, seconds)
            for name, loss in losses.items()
        }
        for name, times in best.items():
            label = f"{name}, {shape[0]} x {shape[1]}"
            rows.append((label, times["peer"], times["ours"], bound))
    return rows


def linear(seconds: float) -> list[tuple[str, float, float, float | None]]:
    """Return the row of a linear layer with 20,000 classes and its loss."""
    features = torch.randn(2048, 128, requires_grad=True)
    layer = nn.Linear(128, 20_000, bias=False)
    target = torch.randint(0, 20_000, (2048,))

    def peer() -> None:
        features.grad = layer.weight.grad = None
        nn.functional.cross_entropy(layer(features), target).backward()

    def ours() -> None:
        features.grad = layer.weight.grad = None
        softmargin.functional.linear_gradient_decay_loss(
            features, layer.weight, target, 0.1
        ).backward()

    best = best_times({"peer": peer, "ours": ours}, seconds, least=3)
    return [("2048 x 128 to 20000", best["peer"], best["ours"], 0.8)]


def main(threads: int = 1, seconds: float = 1.5) -> None:
    """Print the ratios, with the bounds the project holds itself to."""
    torch.set_num_threads(threads)
    print(
        f"\nThe losses are computed by {'the kernel' if _fused.kernel else 'PyTorch'}: "
        f"{_fused.reason}. Threads: {threads}."
    )
    rows = compare(contenders(0.0), nn.CrossEntropyLoss(), PLAIN, seconds)
    report("Losses against nn.CrossEntropyLoss, forward + backward", rows)
    peer = nn.CrossEntropyLoss(label_smoothing=0.1)
    rows = compare(contenders(0.1), peer, SMOOTH, seconds)
    report("With label smoothing, against cross-entropy with label smoothing", rows)
    losses: dict[str, nn.Module] = {"regularised": softmargin.RegularizedSoftmaxLoss()}
    rows = compare(losses, nn.CrossEntropyLoss(), REGULARIZED, seconds)
    report("Regularised, against nn.CrossEntropyLoss", rows)
    report("Linear layer and loss in one, against one after the other", linear(seconds))
    loss = softmargin.MeanHingeLoss()
    best = best_times(
        {"peer": step(nn.CrossEntropyLoss(), SHAPES[2]), "ours": step(loss, SHAPES[2])}, seconds
    )
    report("Without a kernel", [("mean hinge, 256 x 1000", best["peer"], best["ours"], None)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each ratio")
    options = parser.parse_args()
    main(options.threads, options.seconds)
