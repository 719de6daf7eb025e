"""Heads and losses of 100 models: ``torch.vmap`` over the public module against stacked ones.

One call with its backward pass, one thread. Where a stacked version is at least 1.5 times as fast
for both shapes it may stay in ``softmargin.training.ensemble.stacked``. Center loss, which cannot
move its centers under vmap, is called once per model instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import best_times
from softmargin import heads, losses
from softmargin.center import CenterLoss
from softmargin.training.ensemble import stacked
from softmargin.training.ensemble.allocator import keep_freed_memory
from softmargin.training.ensemble.stack import Stack
from softmargin.training.ensemble.stacked import Tensors

MODELS, BOUND = 100, 1.5
SHAPES = {"MNIST 784-50-20-10, batch 100": (100, 20, 10), "Iris 4-32-32-3, batch 32": (32, 32, 3)}
OPTIONS: dict[type[Any], dict[str, Any]] = {
    heads.AdaCosHead: {"dynamic": False},  # which vmap can run; the other computes more
    losses.GradientDecayLoss: {"beta": 0.1},
    losses.SoftMarginSoftmaxLoss: {"margin": 0.5},
}


def tensors_of(module: Any) -> Tensors:
    """Return parameters and settings of equal models, stacked."""
    own = {
        name: p.detach().repeat(MODELS, *(1,) * p.ndim).requires_grad_()
        for name, p in module.named_parameters()
    }
    for name, setting in module.settings.items():
        if float(value := getattr(module, name)) != setting.neutral:
            own[name] = value.repeat(MODELS)
    return own


def backward(output: Tensor, *inputs: Tensor) -> None:
    """Compute the gradients of one output per model, or of logits."""
    learned = [each for each in inputs if each.requires_grad]
    torch.autograd.grad(output, learned, torch.ones(output.shape))


def contenders(kind: type[Any], batch: int, width: int, classes: int) -> dict[str, Any]:
    """Return a call with its backward pass, under vmap and stacked."""
    y = torch.randint(0, classes, (MODELS, batch))
    of_logits = issubclass(kind, losses.LogitLoss)
    x = torch.randn(MODELS, batch, classes if of_logits else width).relu_().requires_grad_()
    sizes = () if of_logits else (width, classes)
    options = {"update": "running"} if kind is CenterLoss else OPTIONS.get(kind, {})
    module = kind(*sizes, **options)
    own, index = tensors_of(module), y.unsqueeze(-1)
    call: Callable[[], Tensor]
    if kind is CenterLoss:
        own["centers"] = torch.zeros(MODELS, classes, width)
        call = lambda: stacked.stacked_center(x, own, index)  # noqa: E731
    elif of_logits:
        call = lambda: stacked.stacked_loss(module, x, own, index)  # noqa: E731
    else:
        call = lambda: stacked.stacked_logits(module, x, own, index)  # noqa: E731
    stack = Stack([module])
    stack.one_by_one, stack.state = kind is CenterLoss, []
    return {
        "vmap": lambda: backward(stack.run(module, own, x, y)[0], x, *own.values()),
        "stacked": lambda: backward(call(), x, *own.values()),
    }


def main() -> None:
    """Print the ratio of every stacked version, with the bound."""
    torch.set_num_threads(1)
    keep_freed_memory()
    for shape, sizes in SHAPES.items():
        print(f"\n{MODELS} models, {shape}\n{'':28}{'vmap':>10}{'stacked':>10}{'ratio':>8}")
        for kind in (*stacked.HEADS, *stacked.LOSSES, CenterLoss):
            best = best_times(contenders(kind, *sizes), seconds=1.0)
            ratio = best["vmap"] / best["stacked"]
            micro = "".join(f"{1e6 * seconds:7.0f} µs" for seconds in best.values())
            verdict = "ok" if ratio >= BOUND else "BELOW"
            print(f"{kind.__name__:28}{micro}{ratio:8.2f} of {BOUND}  {verdict}")


if __name__ == "__main__":
    main()
