"""SGD and Adam for many models at once, each with its own rate, decay and clipping.

The updates are those of ``torch.optim``, in the same order of operations. A factor that is the
same for all models is a number, one that differs is a tensor that broadcasts: multiplying by a
number is several times as fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Factor = float | Tensor
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Rule:
    """How parameters move: the optimiser's name and its momentum."""

    name: str
    momentum: float = 0.9

    @property
    def slots(self) -> int:
        """The number of tensors that the optimiser keeps for each parameter."""
        if self.name == "sgd":
            return 1 if self.momentum else 0
        return 2

    def fused(
        self,
        params: list[Tensor],
        grads: list[Tensor],
        slots: Sequence[Sequence[Tensor]],
        rate: float,
        decay: float,
        step: float,
    ) -> None:
        """Move all parameters in one pass over memory, where all models have the same factors."""
        columns = [list(column) for column in zip(*slots, strict=True)]
        if self.name == "sgd":
            torch._fused_sgd_(
                params,
                grads,
                columns[0] if columns else [],
                weight_decay=decay,
                momentum=self.momentum,
                lr=rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,  # buffers start at 0, which comes to the same
            )
            return
        move = torch._fused_adamw_ if self.name == "adamw" else torch._fused_adam_
        steps = [torch.tensor(float(step))] * len(params)
        move(
            params,
            grads,
            columns[0],
            columns[1],
            [],
            steps,
            lr=rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

    def update(
        self,
        p: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        rate: Factor,
        decay: Factor,
        step: Factor,
    ) -> None:
        """Move ``p`` in place; ``step`` counts from 1."""
        if self.name == "adamw":
            p.mul_(1 - rate * decay)
        elif isinstance(decay, Tensor):
            grad = torch.addcmul(grad, p, decay)
        elif decay:
            grad = grad.add(p, alpha=decay)
        if self.name == "sgd":
            if self.momentum:
                # the first step sets the buffer to the gradient, which 0·momentum + gradient is
                grad = slots[0].mul_(self.momentum).add_(grad)
            if isinstance(rate, Tensor):
                p.addcmul_(grad, rate, value=-1)
            else:
                p.add_(grad, alpha=-rate)
            return
        mean = slots[0].lerp_(grad, 1 - BETA1)
        square = slots[1].mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        size = rate / (1 - BETA1**step)
        root = square.sqrt().div_((1 - BETA2**step) ** 0.5).add_(EPS)
        if isinstance(size, Tensor):
            p.sub_(mean.div(root).mul_(size))
        else:
            p.addcdiv_(mean, root, value=-size)


def uniform(values: Tensor) -> Factor:
    """Return the one number that all values are, or the values as they are."""
    first = float(values.flatten()[0])
    return first if bool((values == first).all()) else values
