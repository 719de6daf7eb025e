"""Forward and backward of the losses against ``F.cross_entropy``, one thread."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import softmargin
from benchmarks.timing import best_times, report

BOUNDS = {(128, 10): 3.0, (256, 100): 3.0, (256, 1000): 2.0, (1024, 1000): 2.0, (512, 32000): 1.8}
OTHERS = [
    softmargin.GradientDecayLoss(0.1, floored=True),
    softmargin.GradientDecayLoss(0.1, label_smoothing=0.1),
    softmargin.RegularizedSoftmaxLoss(),
    softmargin.FocalLoss(),
    softmargin.MeanHingeLoss(),
]


def step(
    criterion: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, int]
) -> Callable[[], None]:
    """Return one forward and backward pass of a criterion on fixed logits."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator, requires_grad=True)
    target = torch.randint(0, shape[1], shape[:1], generator=generator)

    def run() -> None:
        logits.grad = None
        criterion(logits, target).backward()

    return run


def main() -> None:
    """Print the ratios, with the bounds the project holds itself to."""
    torch.set_num_threads(1)
    rows = []
    for shape, bound in BOUNDS.items():
        best = best_times(
            {
                "peer": step(torch.nn.CrossEntropyLoss(), shape),
                "ours": step(softmargin.GradientDecayLoss(0.1), shape),
            },
            seconds=4.0,
        )
        rows.append((f"{shape[0]} x {shape[1]}", best["peer"], best["ours"], bound))
    report("GradientDecayLoss(0.1) against nn.CrossEntropyLoss, forward + backward", rows)
    rows = []
    shape = (256, 1000)
    for loss in OTHERS:
        peer = torch.nn.CrossEntropyLoss(label_smoothing=loss.label_smoothing)
        best = best_times({"peer": step(peer, shape), "ours": step(loss, shape)}, seconds=1.0)
        name = type(loss).__name__ + (" floored" if getattr(loss, "floored", False) else "")
        name += " smoothed" if loss.label_smoothing else ""
        rows.append((name, best["peer"], best["ours"], None))
    report("Other losses against nn.CrossEntropyLoss at 256 x 1000, forward + backward", rows)


if __name__ == "__main__":
    main()
