"""A training loop with the confidence recorder against the same loop without it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.timing import best_times, report
from softmargin.diagnostics import ConfidenceRecorder
from softmargin.functional import gradient_decay_loss

SIZES = (784, 50, 20, 10)
BATCH = 100
BOUND = 1.05
Step = Callable[[Tensor, Tensor], Tensor]


def one_model() -> Step:
    """Return a training step of MNIST's FCNN as anyone would write it; it returns the logits."""
    layers = [nn.Linear(a, b) for a, b in pairwise(SIZES)]
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        logits = network(x)
        gradient_decay_loss(logits, y).backward()
        optimizer.step()
        return logits

    return step


def many_models(models: int) -> Step:
    """Return a training step of K such networks as batched matrix products."""
    pairs = list(pairwise(SIZES))
    weights = [nn.Parameter(torch.randn(models, a, b) / a**0.5) for a, b in pairs]
    biases = [nn.Parameter(torch.zeros(models, 1, b)) for _, b in pairs]
    optimizer = torch.optim.SGD(weights + biases, lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        hidden = x
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = torch.baddbmm(bias, hidden, weight).relu()
        logits = torch.baddbmm(biases[-1], hidden, weights[-1])
        gradient_decay_loss(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        return logits

    return step


def loop(
    step: Step, recorder: ConfidenceRecorder | None, steps: int, models: int | None
) -> Callable[[], None]:
    """Return the steps of an epoch, shuffled; with a recorder, its end is part of them."""
    generator = torch.Generator().manual_seed(0)
    count = steps * BATCH
    x = torch.randint(0, 256, (count, SIZES[0]), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, SIZES[-1], (count,), generator=generator)

    def run() -> None:
        # every model has its own order
        orders = [torch.randperm(count, generator=generator) for _ in range(models or 1)]
        order = orders[0] if models is None else torch.stack(orders)
        for index in order.split(BATCH, -1):
            images, classes = x[index].float().div_(255), y[index]
            logits = step(images, classes)
            if recorder is not None:
                recorder.update(index, logits, classes)
        if recorder is not None:
            recorder.end_epoch()

    return run


def compare(
    make: Callable[[], Step], models: int | None, steps: int, seconds: float
) -> list[float]:
    """Return the best seconds per step without and with the recorder."""
    recorder = ConfidenceRecorder(steps * BATCH, models)
    step = make()
    best = best_times(
        {
            "without": loop(step, None, steps, models),
            "with": loop(step, recorder, steps, models),
        },
        seconds=seconds,
    )
    return [best["without"] / steps, best["with"] / steps]


def main() -> None:
    """Print the ratios, with the bound the project holds itself to."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[tuple[str, float, float, float | None]] = [
        ("FCNN 784-50-20-10, batch 100", *compare(one_model, None, 600, 30.0), BOUND),
        ("50 of them at once", *compare(lambda: many_models(50), 50, 60, 30.0), BOUND),
    ]
    report("A training step with the confidence recorder (ours) and without it (peer)", rows)


if __name__ == "__main__":
    main()
