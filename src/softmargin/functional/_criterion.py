"""From the loss of one sample to what ``nn.CrossEntropyLoss`` returns.

A loss is two functions of the logits: its value for one target class per sample, and its value
for every class as if it were the target. Everything else that cross-entropy's users rely on
(class weights, ignored targets, label smoothing, class probabilities, reductions, dtypes) is the
same for all losses and happens here, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softmargin.functional import _checks as checks
from softmargin.functional.margins import HALF, apply_temperature, at_least_float32, broadcast_along

# the arguments that all losses have
LOSS_ARGUMENTS = {
    "input": "logits of shape (C), (N, C) or (N, C, d1, ...).",
    "target": (
        "class indices of shape (), (N) or (N, d1, ...), or class probabilities of the "
        r"input's shape, for which the loss is :math:`\sum_c y_c J_c`."
    ),
    "tau": "temperature above 0, a number or a 0-d tensor.",
    "weight": "one weight per class, of shape (C,).",
    "ignore_index": "a target value that contributes nothing.",
    "reduction": '``"none"``, ``"mean"`` or ``"sum"``.',
    "label_smoothing": "share of the target spread over all classes, from 0 to 1.",
}

OfTarget = Callable[[Tensor, Tensor, int], Tensor]
"""(logits, index that keeps the class dimension, class dimension) -> one value per sample."""

ByClass = Callable[[Tensor, int], Tensor]
"""(logits, class dimension) -> one value per class, shaped like the logits."""


def criterion(
    input: Tensor,
    target: Tensor,
    of_target: OfTarget,
    by_class: ByClass,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Apply a loss to class indices or class probabilities, as ``F.cross_entropy`` would."""
    checks.check_choice("reduction", reduction, checks.REDUCTIONS)
    checks.check_label_smoothing(label_smoothing)
    checks.check_ignore_index(ignore_index)
    dim = checks.check_fit(input, target)
    checks.check_setting("tau", tau)
    if weight is not None:
        checks.check_weight(weight, input.shape[dim])
    logits = apply_temperature(input, tau, dim)
    if target.is_floating_point() or label_smoothing > 0:
        logits = at_least_float32(logits)  # used several times: round the sum of the gradients
    if target.is_floating_point():
        if ignore_index >= 0:
            raise RuntimeError(
                "ignore_index must be negative when target holds class probabilities, "
                f"but got {ignore_index}."
            )
        checks.check_probabilities(target)
        losses = _of_probabilities(logits, target, by_class, dim, weight, label_smoothing)
        loss = _reduce(losses, reduction, None)
    else:
        losses, norm = _of_indices(
            logits, target, of_target, by_class, dim, weight, ignore_index, label_smoothing
        )
        if reduction == "none":
            losses = losses.view(target.shape)
        loss = _reduce(losses, reduction, norm)
    dtype = result_dtype(input, target)
    return loss if loss.dtype == dtype else loss.to(dtype)


def _of_indices(
    logits: Tensor,
    target: Tensor,
    of_target: OfTarget,
    by_class: ByClass,
    dim: int,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, Tensor | None]:
    """Return the losses and, where it is not their number, what their mean divides by."""
    num_classes = logits.shape[dim]
    index = target.reshape(1) if dim == 0 else target.unsqueeze(dim)
    index, ignored = _split_ignored(index.long(), num_classes, ignore_index)
    losses = of_target(logits, index, dim)
    weights = None
    if weight is not None:
        weights = weight.to(losses.dtype)[index].squeeze(dim)
        losses = _weighted(losses, weights)
    if label_smoothing > 0:
        everywhere = by_class(logits, dim)
        if weight is not None:
            along = broadcast_along(weight.to(everywhere.dtype), everywhere, dim)
            everywhere = _weighted(everywhere, along)
        smooth = label_smoothing * everywhere.mean(dim)
        losses = smooth if label_smoothing == 1 else (1 - label_smoothing) * losses + smooth
    if ignored is None:
        return losses, None if weights is None else weights.sum()
    ignored = ignored.squeeze(dim)
    losses = losses.masked_fill(ignored, 0.0)
    if weights is None:
        return losses, (~ignored).sum()
    return losses, weights.masked_fill(ignored, 0.0).sum()


def _split_ignored(
    index: Tensor, num_classes: int, ignore_index: int
) -> tuple[Tensor, Tensor | None]:
    """Return targets that are safe to index with, and which of them are to be ignored, if any."""
    if checks.check_classes(index, num_classes, ignore_index):
        return index, None
    ignored = index == ignore_index
    return index.masked_fill(ignored, 0), ignored


def _of_probabilities(
    logits: Tensor,
    target: Tensor,
    by_class: ByClass,
    dim: int,
    weight: Tensor | None,
    label_smoothing: float,
) -> Tensor:
    """Return Σ_c y_c·loss_c, each class's own loss weighted by its probability."""
    losses = by_class(logits, dim)
    target = target.to(torch.promote_types(losses.dtype, target.dtype))
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / logits.shape[dim]
    if weight is not None:
        target = target * broadcast_along(weight.to(target.dtype), target, dim)
    return _weighted(losses, target).sum(dim)


def _weighted(losses: Tensor, shares: Tensor) -> Tensor:
    """Return the product; a masked class is infinitely unlikely, but without a share adds 0."""
    return (losses * shares).masked_fill((shares == 0) & (losses == math.inf), 0.0)


def _reduce(losses: Tensor, reduction: str, norm: Tensor | None) -> Tensor:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if norm is None else losses.sum() / norm


def result_dtype(input: Tensor, target: Tensor) -> torch.dtype:
    """Return what ``F.cross_entropy`` returns.

    That is float32 for half precision under autocast, and what probabilities widen the logits to.
    """
    dtype = input.dtype
    if dtype in HALF and not input.is_meta and torch.is_autocast_enabled(input.device.type):
        dtype = torch.float32
    return torch.promote_types(dtype, target.dtype) if target.is_floating_point() else dtype
