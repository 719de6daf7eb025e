"""Linear layer and loss in one, a few rows of logits at a time.

From tens of thousands of classes on, the logits are the largest thing in memory by far. Here they
never exist as a whole: some rows are computed, turned into their gradient and multiplied on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import _checks as checks
from softmargin.functional._criterion import LOSS_ARGUMENTS
from softmargin.functional._fused import ROOM
from softmargin.functional.margins import HALF, compute_dtype, needs_plain_operations
from softmargin.functional.softmax import gradient_decay_loss, regularized_softmax_loss

LEAST_LOGITS = 2**18
"""Fewer logits at a time than these cost more by their number of steps than they save."""

OfLogits = Callable[[Tensor, Tensor, str], Tensor]
"""(logits, target, reduction) -> loss."""


@document_arguments(
    LOSS_ARGUMENTS,
    input="features of shape (D) or (N, D).",
    linear_weight="one row per class, of shape (C, D).",
    target="class indices of shape () or (N), or class probabilities of shape (C) or (N, C).",
    beta="gradient decay factor above 0: a number, a 0-d tensor or one value per class.",
    lam="λ of at least 0, the share of a divergence that levels the non-target logits.",
    divergence="which one, as in :func:`regularized_softmax_loss`.",
    linear_bias="one number per class, of shape (C,), or None.",
    floored="whether to subtract log β, so that the minimum is 0; not together with λ.",
)
def linear_gradient_decay_loss(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    tau: float | Tensor = 1.0,
    lam: float | Tensor = 0.0,
    divergence: str = "symmetric",
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    floored: bool = False,
) -> Tensor:
    r"""Return the loss of a linear layer's logits without ever holding all of them.

    It is ``gradient_decay_loss(F.linear(input, linear_weight, linear_bias), target, ...)``, or
    ``regularized_softmax_loss`` where λ is not 0, with the same value and gradients, in the manner
    of ``F.linear_cross_entropy``. A loss that is reduced to one number computes its gradients in
    the forward pass; ``reduction="none"`` computes the logits again in the backward pass. Under
    compilers, function transforms and autocast, and where a setting is learned, the logits are
    computed as a whole.

    Example:
        >>> import torch
        >>> from softmargin.functional import linear_gradient_decay_loss
        >>> features, classes = torch.ones(2, 3), torch.eye(4, 3)
        >>> linear_gradient_decay_loss(features, classes, torch.tensor([0, 3]), beta=0.1)
        tensor(1.5071)
    """
    _check(input, linear_weight, linear_bias, target)
    checks.check_flag("floored", floored)
    checks.check_choice("reduction", reduction, checks.REDUCTIONS)
    checks.check_setting("lam", lam, inclusive=True)
    levels = isinstance(lam, Tensor) or lam != 0
    if levels and floored:
        raise ValueError("floored must be False where lam is not 0, but got True.")

    def of_logits(logits: Tensor, target: Tensor, reduction: str) -> Tensor:
        shared: dict[str, Any] = {
            "beta": beta,
            "tau": tau,
            "weight": weight,
            "ignore_index": ignore_index,
            "reduction": reduction,
            "label_smoothing": label_smoothing,
        }
        if levels:
            return regularized_softmax_loss(logits, target, lam, divergence, **shared)
        return gradient_decay_loss(logits, target, **shared, floored=floored)

    settings = (beta, tau, lam, weight, target)
    learned = any(isinstance(x, Tensor) and x.requires_grad for x in settings)
    if learned or input.ndim == 1 or not len(input) or not _may_split(input):
        return of_logits(F.linear(input, linear_weight, linear_bias), target, reduction)
    job = _Job(of_logits, target, reduction, weight, ignore_index)
    return _Linear.apply(input, linear_weight, linear_bias, job)  # type: ignore[no-any-return, no-untyped-call]


def _check(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, target: Tensor
) -> None:
    for name, value in (("input", input), ("linear_weight", linear_weight)):
        checks.check_tensor(name, value)
        if not value.is_floating_point():
            raise NotImplementedError(f"{name} must be floating-point, but got {value.dtype}.")
    if linear_weight.ndim != 2:
        shape = tuple(linear_weight.shape)
        raise ValueError(f"linear_weight must have shape (C, D), but got {shape}.")
    classes, size = linear_weight.shape
    if input.ndim not in (1, 2) or input.shape[-1] != size:
        allowed = f"({size},) or (N, {size})"
        raise ValueError(f"input must have shape {allowed}, but got {tuple(input.shape)}.")
    if linear_bias is not None:
        checks.check_tensor("linear_bias", linear_bias)
        if linear_bias.shape != (classes,):
            shape = tuple(linear_bias.shape)
            raise ValueError(f"linear_bias must have shape ({classes},), but got {shape}.")
    for name, other in (("linear_weight", linear_weight), ("linear_bias", linear_bias)):
        if other is not None and (other.dtype, other.device) != (input.dtype, input.device):
            raise TypeError(
                f"{name} must be {input.dtype} on {input.device} like input, "
                f"but got {other.dtype} on {other.device}."
            )
    checks.check_tensor("target", target)
    checks.check_fit(input.new_empty((*input.shape[:-1], classes), device="meta"), target)


def _may_split(input: Tensor) -> bool:
    """Whether nobody follows the operations one by one or changes their precision."""
    if needs_plain_operations() or torch._C._len_torch_dispatch_stack():
        return False
    return not torch.is_autocast_enabled(input.device.type)


@dataclass
class _Job:
    """A loss of logits that is split over rows."""

    of_logits: OfLogits
    target: Tensor
    reduction: str
    weight: Tensor | None
    ignore_index: int

    def norm(self) -> Tensor | int:
        """Return what a mean divides the sum by."""
        if self.target.is_floating_point():
            return len(self.target)
        target = self.target.long()
        counted = target != self.ignore_index
        if self.weight is None:
            return counted.sum()
        return self.weight[target.masked_fill(~counted, 0)].masked_fill(~counted, 0.0).sum()

    def whole(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the loss by way of all logits."""
        return self.of_logits(F.linear(input, weight, bias), self.target, self.reduction)


class _Linear(torch.autograd.Function):
    """The loss of a linear layer; see :func:`linear_gradient_decay_loss`."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, job: _Job) -> Tensor:
        ctx.save_for_backward(input, weight, bias)
        ctx.job, ctx.gradients = job, None
        if any(ctx.needs_input_grad) and job.reduction != "none":
            loss, ctx.gradients = _step_through(job, input, weight, bias, ctx.needs_input_grad)
            return loss
        parts = []
        kind = "none" if job.reduction == "none" else "sum"
        for rows in _slices(input, weight):
            logits = F.linear(input[rows], weight, bias)
            parts.append(job.of_logits(logits, job.target[rows], kind))
        if job.reduction == "none":
            return torch.cat(parts)
        total = torch.stack(parts).sum()
        return total / job.norm() if job.reduction == "mean" else total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, bias = ctx.saved_tensors
        job, needed = ctx.job, ctx.needs_input_grad
        if torch.is_grad_enabled() or needs_plain_operations():
            leaves = [x for x, want in zip((input, weight, bias), needed, strict=False) if want]
            with torch.enable_grad():
                loss = job.whole(input, weight, bias)
            found = iter(torch.autograd.grad(loss, leaves, upstream, create_graph=True))
            return (*(next(found) if want else None for want in needed[:3]), None)
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            each = upstream if job.reduction == "none" else None
            _, gradients = _step_through(job, input, weight, bias, needed, each)
        if job.reduction != "none":
            gradients = [None if g is None else g.mul_(upstream) for g in gradients]
        return (*gradients, None)


def _slices(input: Tensor, weight: Tensor) -> list[slice]:
    """Return the rows to do at a time: their logits are half as large as the weight."""
    classes, size = weight.shape
    rows = max(size // 2, LEAST_LOGITS // classes, 32)
    return [slice(start, start + rows) for start in range(0, len(input), rows)]


def _step_through(
    job: _Job,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    needed: tuple[bool, ...],
    upstream: Tensor | None = None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the loss and the gradients of input, weight and bias, in steps over the rows.

    With ``upstream``, it is the gradient of every sample's loss; without, the loss is reduced.
    """
    of_input = torch.empty_like(input) if needed[0] else None
    wide = compute_dtype(weight)  # sums of many steps
    of_weight = torch.zeros_like(weight, dtype=wide) if needed[1] else None
    of_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and needed[2] else None
    parts = []
    steps = _slices(input, weight)
    # made once: of blocks that come and go, an allocator may keep more than it gives
    room = input.new_empty((2, min(len(input), steps[0].stop), len(weight)))
    for rows in steps:
        features = input[rows]
        logits, gradient = room[:, : len(features)]
        if bias is None:
            torch.mm(features, weight.T, out=logits)
        else:
            torch.addmm(bias, features, weight.T, out=logits)
        logits = logits.detach().requires_grad_()
        setattr(logits, ROOM, gradient)
        with torch.enable_grad():
            loss = job.of_logits(logits, job.target[rows], "sum" if upstream is None else "none")
        above = None if upstream is None else upstream[rows]
        (of_logits,) = torch.autograd.grad(loss, logits, above)
        parts.append(loss.detach())
        del loss, logits, gradient
        if of_input is not None:
            torch.mm(of_logits, weight, out=of_input[rows])
        if of_weight is not None and weight.dtype in HALF:
            of_weight += of_logits.T @ features
        elif of_weight is not None:
            of_weight.addmm_(of_logits.T, features)
        if of_bias is not None:
            of_bias += of_logits.sum(0, dtype=wide)
    found = [of_input, of_weight, of_bias]
    if upstream is not None:
        return upstream, [None if g is None else g.to(input.dtype) for g in found]
    total = torch.stack(parts).sum()
    if job.reduction == "mean":
        norm = job.norm()
        total = total / norm
        for gradient in found:
            if gradient is not None:
                gradient /= norm
    return total, [None if g is None else g.to(input.dtype) for g in found]
