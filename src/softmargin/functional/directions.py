"""All cosines and angles between features and class weights, in few passes over memory.

Each exists three times. The fused forms are ``autograd.Function`` objects for eager training, here
in PyTorch's operations and in ``_fused_directions`` with the compiled kernel, where that is loaded
and the vectors are float32 and of usual length; the plain ones serve the compiler, ``torch.func``
and second derivatives. They give the same numbers.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin.functional._checks import known_within
from softmargin.functional._close_pairs import angle_at_target, close_pairs, through_cosine
from softmargin.functional._fused_directions import Kind, logits_of
from softmargin.functional._plain_directions import (
    Margin,
    full_precision,
    over_sine,
    plain_angles,
    plain_backward,
    plain_cosines,
)
from softmargin.functional.lengths import inverse_length
from softmargin.functional.margins import at_least_float32, needs_plain_operations


def cosines_of(
    features: Tensor,
    weight: Tensor,
    scale: float | Tensor = 1.0,
    index: Tensor | None = None,
    margin: Margin | None = None,
    amount: float | Tensor = 0.0,
    of_angle: bool = False,
) -> Tensor:
    """Return scaled cosines, the target's own cosine passed through ``margin`` first.

    With ``of_angle`` the margin is a function of the target's angle, which is then precise.
    """
    arguments = features, weight, scale, index, margin, amount, of_angle
    with full_precision(features):
        if not _may_fuse(features, scale, amount):
            return plain_cosines(*arguments)
        done = _cosines_by_kernel(features, weight, scale) if margin is None else None
        return _Cosines.apply(*arguments) if done is None else done  # type: ignore[no-untyped-call]


def angles_of(
    features: Tensor, weight: Tensor, index: Tensor | None = None, scale: float | Tensor = 1.0
) -> Tensor:
    """Return scaled angles, the target's own precisely where an index is given."""
    arguments = features, weight, index, scale
    with full_precision(features):
        if not _may_fuse(features, scale):
            return plain_angles(*arguments)
        done = _angles_by_kernel(*arguments)
        return _Angles.apply(*arguments) if done is None else done  # type: ignore[no-untyped-call]


def _cosines_by_kernel(features: Tensor, weight: Tensor, scale: float | Tensor) -> Tensor | None:
    if not _may_see(scale):
        return None
    kind = Kind(float(scale))
    return logits_of(features, weight, None, kind, lambda x, w: plain_cosines(x, w, scale))


def _angles_by_kernel(
    features: Tensor, weight: Tensor, index: Tensor | None, scale: float | Tensor
) -> Tensor | None:
    if not _may_see(scale):
        return None
    kind = Kind(float(scale), angles=True)
    return logits_of(features, weight, index, kind, lambda x, w: plain_angles(x, w, index, scale))


def _may_see(setting: float | Tensor) -> bool:
    return not isinstance(setting, Tensor) or setting.is_cpu


def _may_fuse(features: Tensor, *settings: float | Tensor) -> bool:
    if features.ndim != 2 or needs_plain_operations():
        return False
    # fake tensors, and others that stand for tensors, cannot be looked into
    if type(features) not in (Tensor, nn.Parameter) or torch._C._len_torch_dispatch_stack():
        return False
    return not any(isinstance(value, Tensor) and value.requires_grad for value in settings)


class _Cosines(torch.autograd.Function):
    """Scaled cosines, with a margin at the targets, in few passes over memory."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        scale: float | Tensor,
        index: Tensor | None,
        margin: Margin | None,
        amount: float | Tensor,
        of_angle: bool,
    ) -> Tensor:
        x, x_inverse, w_inverse = _directions(features, weight)
        logits = F.linear(x * scale, at_least_float32(weight)).mul_(w_inverse)
        ctx.settings = scale, index, margin, amount, of_angle
        ctx.close = own = slope = None
        if index is not None and margin is not None:
            own = logits.gather(-1, index).div_(scale)
            variable = own
            if of_angle:
                ctx.close = close_pairs(features, weight, index, own)
                variable = angle_at_target(own, ctx.close)
            value, slope = margin(variable, amount)
            logits.scatter_(-1, index, (value * scale).to(logits.dtype))
        ctx.save_for_backward(features, weight, index, x, x_inverse, w_inverse, logits, own, slope)
        return logits

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, index, x, x_inverse, w_inverse, logits, own, slope = ctx.saved_tensors
        scale, *_, of_angle = ctx.settings
        nothing = (None,) * 5
        if torch.is_grad_enabled() or needs_plain_operations():
            inputs = features, weight, *ctx.settings
            return *plain_backward(plain_cosines, inputs, grad), *nothing
        with full_precision(features):
            of_own = at_target = None
            if slope is not None:  # at the target the logit was another function of the cosine
                of_own = grad.gather(-1, index) * slope * scale
                at_target = through_cosine(of_own, own, ctx.close) if of_angle else of_own
            # one after the other: the second takes the memory that the first has left
            along = grad * logits
            if at_target is not None:
                along.scatter_(-1, index, at_target * own)
            along = along.sum(0)
            of_cosine = grad * (w_inverse * scale)
            if at_target is not None:
                of_cosine.scatter_(-1, index, at_target * w_inverse[index])
            of_x, of_w = _backward_of_cosines(x, weight, of_cosine, along, x_inverse, w_inverse)
            if ctx.close is not None:
                ctx.close.add_backward(of_x, of_w, features, weight, of_own)
        return of_x.to(features.dtype), of_w.to(weight.dtype), *nothing


class _Angles(torch.autograd.Function):
    """Scaled angles, the target's own precisely, in few passes over memory."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, index: Tensor | None, scale: float | Tensor
    ) -> Tensor:
        x, x_inverse, w_inverse = _directions(features, weight)
        cosine = F.linear(x, at_least_float32(weight)).mul_(w_inverse)
        angle = cosine.clamp(-1, 1).acos_()
        close = None
        if index is not None:
            own = cosine.gather(-1, index)
            close = close_pairs(features, weight, index, own)
            if close is not None:
                angle.scatter_(-1, index, angle_at_target(own, close))
        ctx.scale, ctx.close = scale, close
        ctx.save_for_backward(features, weight, index, x, x_inverse, w_inverse, cosine)
        return angle.mul_(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, index, x, x_inverse, w_inverse, cosine = ctx.saved_tensors
        scale, close = ctx.scale, ctx.close
        if torch.is_grad_enabled() or needs_plain_operations():
            inputs = features, weight, index, scale
            return *plain_backward(plain_angles, inputs, grad), None, None
        with full_precision(features):
            of_cosine = over_sine(grad, cosine)
            if close is not None:
                of_cosine[close.samples, close.classes] = 0.0
            along = (of_cosine * cosine).sum(0).mul_(-scale)
            of_cosine.mul_(w_inverse * -scale)
            of_x, of_w = _backward_of_cosines(x, weight, of_cosine, along, x_inverse, w_inverse)
            if close is not None:
                of_angle = grad.gather(-1, index) * scale
                close.add_backward(of_x, of_w, features, weight, of_angle)
        return of_x.to(features.dtype), of_w.to(weight.dtype), None, None


def _directions(features: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit features and the inverse lengths of features (N, 1) and weights (C)."""
    x = at_least_float32(features)
    x_inverse = inverse_length(x)
    return x * x_inverse, x_inverse, inverse_length(at_least_float32(weight)).squeeze(-1)


def _backward_of_cosines(
    x: Tensor, weight: Tensor, grad: Tensor, along: Tensor, x_inverse: Tensor, w_inverse: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of features and weights: products less the parts along the vectors.

    ``grad`` is the cosines' gradient over the weights' lengths, ``along`` the sum over samples of
    the cosines' gradient times the cosines.
    """
    w = at_least_float32(weight)
    of_x = grad @ w
    of_x.addcmul_(x, (of_x * x).sum(-1, keepdim=True), value=-1).mul_(x_inverse)
    of_w = grad.t() @ x
    along = along * w_inverse
    if known_within(w_inverse, 1e-9, 1e9):
        along *= w_inverse
    else:  # for a length of 1e-20 the square of its inverse overflows
        w = w * w_inverse.unsqueeze(-1)
    of_w.addcmul_(w, along.unsqueeze(-1), value=-1)
    return of_x, of_w
