"""Cosines and angles in plain operations, for compilers, ``torch.func`` and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softmargin.functional.lengths import precise, unit
from softmargin.functional.margins import (
    at_least_float32,
    at_target,
    needs_plain_operations,
    with_target,
)

Margin = Callable[[Tensor, Any], tuple[Tensor, Tensor]]
"""(target's cosine or angle, amount) -> the cosine it becomes in training, and its derivative."""


def angle_of_cosine(cosine: Tensor) -> Tensor:
    """Return arccos with the value of arccos and a derivative that stays finite.

    Where arccos becomes steeper than its argument is precise, its tangent goes on.
    """
    if needs_plain_operations():
        return _plain_arccos(cosine)
    return _Arccos.apply(cosine)  # type: ignore[no-any-return, no-untyped-call]


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """Switch autocast off: an angle in bfloat16 is wrong by 0.09 rad."""
    return torch.autocast(tensor.device.type, enabled=False) if autocasts(tensor) else OFF


def autocasts(tensor: Tensor) -> bool:
    """Whether autocast is on where a tensor is."""
    device = tensor.device.type
    return device != "meta" and torch.is_autocast_enabled(device)  # which does not know meta


OFF = nullcontext()


def smallest_sine(dtype: torch.dtype) -> float:
    """Return the sine of the smallest angle that a cosine of this precision resolves."""
    return float((2 * torch.finfo(dtype).eps) ** 0.5)


def plain_cosines(
    features: Tensor,
    weight: Tensor,
    scale: float | Tensor,
    index: Tensor | None = None,
    margin: Margin | None = None,
    amount: float | Tensor = 0.0,
    of_angle: bool = False,
) -> Tensor:
    # at once: gradients that meet in half precision would be rounded before they add
    features, weight = at_least_float32(features), at_least_float32(weight)
    cosine = F.linear(unit(features), unit(weight))
    if index is not None and margin is not None:
        if of_angle:
            own = target_angle(features, weight, index).to(cosine.dtype)
        else:
            own = at_target(cosine, index, -1)
        cosine = with_target(cosine, index, -1, margin(own, amount)[0])
    return cosine * scale


def _plain_arccos(cosine: Tensor) -> Tensor:
    sine = smallest_sine(cosine.dtype)
    edge = (1 - sine**2) ** 0.5
    inner = cosine.clamp(-edge, edge)
    tangent = inner.detach().acos() - (cosine - inner.detach()) / sine
    smooth = torch.where(cosine.abs() < edge, inner.acos(), tangent)
    return smooth + (cosine.detach().clamp(-1, 1).acos() - smooth.detach())


def plain_angles(
    features: Tensor, weight: Tensor, index: Tensor | None, scale: float | Tensor
) -> Tensor:
    features, weight = at_least_float32(features), at_least_float32(weight)
    angle = _plain_arccos(plain_cosines(features, weight, 1.0))
    if index is not None:
        angle = with_target(angle, index, -1, target_angle(features, weight, index))
    return (angle * scale).to(angle.dtype)


def target_angle(features: Tensor, weight: Tensor, index: Tensor) -> Tensor:
    """Return the angle between each feature and its class weight, from the vectors in float64."""
    x, w = unit(precise(features)), unit(precise(weight[index.squeeze(-1)]))
    apart = torch.linalg.vector_norm(x - w, dim=-1, keepdim=True)
    together = torch.linalg.vector_norm(x + w, dim=-1, keepdim=True)
    return 2 * torch.atan2(apart, together)


class _Arccos(torch.autograd.Function):
    """arccos with a bounded derivative, in few operations."""

    @staticmethod
    def forward(ctx: Any, cosine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine)
        return cosine.clamp(-1, 1).acos_()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        cosine: Tensor = ctx.saved_tensors[0]
        if torch.is_grad_enabled() or needs_plain_operations():
            with torch.enable_grad():
                angle = _plain_arccos(cosine)
            return torch.autograd.grad(angle, cosine, grad, create_graph=True)[0]
        return over_sine(grad, cosine).neg_()


def over_sine(grad: Tensor, cosine: Tensor) -> Tensor:
    """Return grad/sin θ, with the sine held above what the cosine resolves."""
    squared = torch.addcmul(cosine.new_ones(()), cosine, cosine, value=-1)
    return grad * squared.clamp_min_(smallest_sine(cosine.dtype) ** 2).rsqrt_()


def plain_backward(
    function: Callable[..., Tensor], inputs: tuple[Any, ...], grad: Tensor, vectors: int = 2
) -> list[Tensor | None]:
    """Return gradients of the first inputs that can be differentiated again."""
    with torch.enable_grad(), full_precision(grad):
        output = function(*inputs)
    needed = [vector for vector in inputs[:vectors] if vector.requires_grad]
    results = iter(torch.autograd.grad(output, needed, grad, create_graph=True))
    return [next(results) if vector.requires_grad else None for vector in inputs[:vectors]]
