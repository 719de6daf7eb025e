"""Losses of logits that never exist as a whole: products, their loss and gradients in pieces.

Some rows of logits are computed, turned into their gradient and multiplied on; with very many
classes it is some classes of many rows, see :mod:`softmargin.functional._class_chunks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softmargin.functional import _checks as checks
from softmargin.functional._class_chunks import Decay, step_through_classes
from softmargin.functional._fused import ROOM, Overwritten
from softmargin.functional._plain_directions import full_precision
from softmargin.functional._products import Gradients, Products, Samples
from softmargin.functional.margins import needs_plain_operations

LEAST_LOGITS = 2**18
"""Fewer logits at a time than these cost more by their number of steps than they save."""

MOST_LOGITS = 2**25
"""More logits at a time than these are never held."""

LEAST_ROWS = 32
"""Where fewer rows than these would fit at a time, classes are split instead."""

OfLogits = Callable[[Tensor, Tensor, str], Tensor]
"""(logits, target, reduction) -> loss."""


@dataclass(frozen=True)
class Job:
    """A loss of logits that is a sum over the samples.

    ``decay`` says which loss it is where it can be split over the classes, too.
    """

    of_logits: OfLogits
    samples: Samples
    reduction: str
    decay: Decay | None = None

    def whole(self, products: Products) -> Tensor:
        """Return the loss by way of all logits."""
        logits = products.whole(self.samples.index())
        return self.of_logits(logits, self.samples.target, self.reduction)

    def by_classes(self, weight: Tensor) -> Decay | None:
        """Return the loss to split over classes, None where rows are split."""
        if self.samples.target.is_floating_point() or MOST_LOGITS // len(weight) >= LEAST_ROWS:
            return None
        return self.decay if self.decay is not None and self.decay.splits() else None


def loss_of_products(products: Products, job: Job, *settings: float | Tensor | None) -> Tensor:
    """Return a loss in pieces, or by way of all logits where that is not possible.

    It is not where a setting is learned, for a single sample or none, and under compilers and
    function transforms.
    """
    given = (*settings, products.angle, job.samples.weight, job.samples.target)
    learned = any(isinstance(x, Tensor) and x.requires_grad for x in given)
    if learned or products.input.ndim != 2 or not len(products.input) or not may_split():
        return job.whole(products)
    decay = job.by_classes(products.weight)
    if decay is not None:
        _check(decay, job.samples, len(products.weight))
    return _Pieces.apply(*products, job)  # type: ignore[no-any-return, no-untyped-call]


def may_split() -> bool:
    """Whether nobody follows the operations one by one."""
    return not (needs_plain_operations() or torch._C._len_torch_dispatch_stack())


def _check(decay: Decay, samples: Samples, num_classes: int) -> None:
    """Check what a loss of logits would check."""
    checks.check_label_smoothing(decay.label_smoothing)
    checks.check_ignore_index(samples.ignore_index)
    checks.check_setting("tau", decay.tau)
    checks.check_setting("beta", decay.beta, num_classes)
    checks.check_choice("divergence", decay.divergence, checks.DIVERGENCES)
    if samples.weight is not None:
        checks.check_weight(samples.weight, num_classes)
    checks.check_classes(samples.target, num_classes, samples.ignore_index)


class _Pieces(torch.autograd.Function):
    """A loss of products; one that is a single number has its gradients from the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        own: Tensor | None,
        angle: float | Tensor | None,
        job: Job,
    ) -> Tensor:
        ctx.save_for_backward(input, weight, bias, own)
        ctx.job, ctx.angle, ctx.gradients = job, angle, None
        products = Products(input, weight, bias, own, angle)
        needed = [job.reduction != "none" and need for need in ctx.needs_input_grad[:4]]
        loss, gradients = _step_through(job, products, needed)
        if any(needed):
            ctx.gradients = gradients
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        job, needed = ctx.job, ctx.needs_input_grad[:4]
        input, weight, bias, own = ctx.saved_tensors
        products = Products(input, weight, bias, own, ctx.angle)
        with full_precision(upstream):
            if torch.is_grad_enabled() or needs_plain_operations():
                given = zip(ctx.saved_tensors, needed, strict=True)
                leaves = [x for x, want in given if want]
                with torch.enable_grad():
                    loss = job.whole(products)
                found = iter(torch.autograd.grad(loss, leaves, upstream, create_graph=True))
                return (*(next(found) if want else None for want in needed), None, None)
            gradients, ctx.gradients = ctx.gradients, None
            if gradients is None:
                each = upstream if job.reduction == "none" else None
                _, gradients = _step_through(job, products, needed, each)
        if job.reduction != "none":
            gradients = [None if g is None else g.mul_(upstream) for g in gradients]
        return (*gradients, None, None)


def _step_through(
    job: Job, products: Products, needed: list[bool], upstream: Tensor | None = None
) -> tuple[Tensor, Gradients]:
    """Return the loss and its gradients; ``upstream`` is that of every sample's loss."""
    decay = job.by_classes(products.weight)
    sums = products.empty_gradients(needed)
    if decay is None:
        loss = _step_through_rows(job, products, sums, upstream)
    else:
        loss = step_through_classes(decay, products, job.samples, sums, upstream, MOST_LOGITS)
        loss = loss if job.reduction == "none" else loss.sum()
    if job.reduction == "mean":
        norm = job.samples.norm()
        loss = loss / norm
        for total in sums:
            if total is not None:
                total /= norm
    dtypes = [None if x is None else x.dtype for x in products[:4]]
    return loss, [None if x is None else x.to(dtype) for x, dtype in zip(sums, dtypes, strict=True)]


def _rows_at_a_time(weight: Tensor, copies: int) -> int:
    """Return how many rows to do at a time: all copies together are as large as the weight.

    Every step adds to the gradient of the whole weight, so that few steps are faster.
    """
    classes, size = weight.shape
    rows = max(size // copies, LEAST_LOGITS // classes, LEAST_ROWS)
    return max(1, min(rows, MOST_LOGITS // classes))


def _step_through_rows(
    job: Job, products: Products, sums: Gradients, upstream: Tensor | None
) -> Tensor:
    """Return the losses or their sum, and add up the gradients of that sum."""
    input, index = products.input, job.samples.index()
    learning = any(x is not None for x in sums)
    kind = "none" if job.reduction == "none" else "sum"
    # a gradient takes the place of its logits, unless those are needed once more: for angles, for
    # another gradient, or by a loss that is not known to read them only once
    in_place = job.decay is not None and products.angle is None and upstream is None
    copies = 1 if in_place else 1 + learning
    step = min(_rows_at_a_time(products.weight, copies), len(input))
    # made once: of blocks that come and go, an allocator may keep more than it gives
    room = input.new_empty((copies, step * len(products.weight)))
    parts = []
    for start in range(0, len(input), step):
        rows = slice(start, start + step)
        some, target = products.part(rows), job.samples.target[rows]
        logits = _write(some, room[0], index, rows)
        if not learning:
            parts.append(job.of_logits(logits, target, kind))
            continue
        given = job.of_logits, target, kind, None if upstream is None else upstream[rows]
        try:
            loss, gradient = _differentiate(logits, *given, room[-1])
        except Overwritten:
            logits = _write(some, room[0], index, rows)
            loss, gradient = _differentiate(logits, *given)
        parts.append(loss)
        if some.own is not None and index is not None:
            gradient = gradient.contiguous()
            if sums[3] is not None:
                sums[3][rows] = gradient.gather(1, index[rows])
            gradient.scatter_(1, index[rows], 0.0)
        own_rows = [None if x is None else x[rows] for x in sums[:1]] + sums[1:]
        some.add_gradients(some.through_angle(gradient, logits), own_rows)
    return torch.cat(parts) if kind == "none" else torch.stack(parts).sum()


def _write(some: Products, room: Tensor, index: Tensor | None, rows: slice) -> Tensor:
    """Write the logits of some rows, with the targets' own, to a part of some room."""
    logits = some.write(room)
    if some.own is not None and index is not None:
        logits.scatter_(1, index[rows], some.own)
    return logits


def _differentiate(
    logits: Tensor,
    of_logits: OfLogits,
    target: Tensor,
    reduction: str,
    upstream: Tensor | None,
    room: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a loss and its gradient, in some room if there is any, where the kernel computes it.

    Raises:
        Overwritten: if that room is the logits' own, and the kernel may have gone half the way.
    """
    leaf = logits.detach().requires_grad_()
    if room is not None:
        setattr(leaf, ROOM, room[: logits.numel()].view_as(logits))
    with torch.enable_grad():
        loss = of_logits(leaf, target, reduction)
    (gradient,) = torch.autograd.grad(loss, leaf, upstream)
    return loss.detach(), gradient
