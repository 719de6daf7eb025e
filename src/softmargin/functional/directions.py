"""All cosines and angles between features and class weights, in few passes over memory.

Each exists twice. The fused forms are ``autograd.Function`` objects for eager training; the plain
ones serve the compiler, ``torch.func`` and second derivatives. They give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin.functional._checks import known_within
from softmargin.functional.lengths import inverse_length, precise, unit
from softmargin.functional.margins import (
    at_least_float32,
    at_target,
    needs_plain_operations,
    with_target,
)

Margin = Callable[[Tensor, Any], tuple[Tensor, Tensor]]
"""(target's cosine or angle, amount) -> the cosine it becomes in training, and its derivative."""


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
        if _may_fuse(features, scale, amount):
            return _Cosines.apply(*arguments)  # type: ignore[no-any-return, no-untyped-call]
        return _plain_cosines(*arguments)


def angles_of(
    features: Tensor, weight: Tensor, index: Tensor | None = None, scale: float | Tensor = 1.0
) -> Tensor:
    """Return scaled angles, the target's own precisely where an index is given."""
    with full_precision(features):
        if _may_fuse(features, scale):
            return _Angles.apply(features, weight, index, scale)  # type: ignore[no-any-return, no-untyped-call]
        return _plain_angles(features, weight, index, scale)


def angle_of_cosine(cosine: Tensor) -> Tensor:
    """Return arccos with the value of arccos and a derivative that stays finite.

    Where arccos becomes steeper than its argument is precise, its tangent goes on.
    """
    if needs_plain_operations():
        return _plain_arccos(cosine)
    return _Arccos.apply(cosine)  # type: ignore[no-any-return, no-untyped-call]


def _may_fuse(features: Tensor, *settings: float | Tensor) -> bool:
    if features.ndim != 2 or needs_plain_operations():
        return False
    # fake tensors, and others that stand for tensors, cannot be looked into
    if type(features) not in (Tensor, nn.Parameter) or torch._C._len_torch_dispatch_stack():
        return False
    return not any(isinstance(value, Tensor) and value.requires_grad for value in settings)


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


def _plain_cosines(
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


def _plain_angles(
    features: Tensor, weight: Tensor, index: Tensor | None, scale: float | Tensor
) -> Tensor:
    features, weight = at_least_float32(features), at_least_float32(weight)
    angle = _plain_arccos(_plain_cosines(features, weight, 1.0))
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
        return _over_sine(grad, cosine).neg_()


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
                ctx.close = _close_pairs(features, weight, index, own)
                variable = _angle(own, ctx.close)
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
            return *_plain_backward(_plain_cosines, inputs, grad), *nothing
        with full_precision(features):
            of_own = through_cosine = None
            if slope is not None:  # at the target the logit was another function of the cosine
                of_own = grad.gather(-1, index) * slope * scale
                through_cosine = _through_cosine(of_own, own, ctx.close) if of_angle else of_own
            # one after the other: the second takes the memory that the first has left
            along = grad * logits
            if through_cosine is not None:
                along.scatter_(-1, index, through_cosine * own)
            along = along.sum(0)
            of_cosine = grad * (w_inverse * scale)
            if through_cosine is not None:
                of_cosine.scatter_(-1, index, through_cosine * w_inverse[index])
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
            close = _close_pairs(features, weight, index, own)
            if close is not None:
                angle.scatter_(-1, index, _angle(own, close))
        ctx.scale, ctx.close = scale, close
        ctx.save_for_backward(features, weight, index, x, x_inverse, w_inverse, cosine)
        return angle.mul_(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, index, x, x_inverse, w_inverse, cosine = ctx.saved_tensors
        scale, close = ctx.scale, ctx.close
        if torch.is_grad_enabled() or needs_plain_operations():
            inputs = features, weight, index, scale
            return *_plain_backward(_plain_angles, inputs, grad), None, None
        with full_precision(features):
            of_cosine = _over_sine(grad, cosine)
            if close is not None:
                of_cosine[close.samples, close.classes] = 0.0
            along = (of_cosine * cosine).sum(0).mul_(-scale)
            of_cosine.mul_(w_inverse * -scale)
            of_x, of_w = _backward_of_cosines(x, weight, of_cosine, along, x_inverse, w_inverse)
            if close is not None:
                of_angle = grad.gather(-1, index) * scale
                close.add_backward(of_x, of_w, features, weight, of_angle)
        return of_x.to(features.dtype), of_w.to(weight.dtype), None, None


def _angle(cosine: Tensor, close: _ClosePairs | None) -> Tensor:
    """Return the angles of targets (N, 1) from their cosines, or precisely where they are known."""
    angle = cosine.clamp(-1, 1).acos_()
    return angle if close is None else angle.index_copy_(0, close.samples, close.angle)


def _through_cosine(of_angle: Tensor, cosine: Tensor, close: _ClosePairs | None) -> Tensor:
    """Return the gradient of targets' cosines, 0 where the angle's goes past them."""
    result = _over_sine(of_angle, cosine).neg_()
    return result if close is None else result.index_fill_(0, close.samples, 0.0)


def _over_sine(grad: Tensor, cosine: Tensor) -> Tensor:
    """Return grad/sin θ, with the sine held above what the cosine resolves."""
    squared = torch.addcmul(cosine.new_ones(()), cosine, cosine, value=-1)
    return grad * squared.clamp_min_(smallest_sine(cosine.dtype) ** 2).rsqrt_()


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


@dataclass(frozen=True)
class _ClosePairs:
    """Pairs of a sample x and its class weight w whose angle is known precisely.

    With unit vectors and σ = -sign(cos θ), the vector w + σx is short where θ is close to 0 or π,
    so that in float64 it keeps its digits; its length gives the angle. Subtracting (σ + cos θ)x
    from it gives the tangent at x, without cancellation and therefore in float32.
    """

    samples: Tensor
    classes: Tensor
    angle: Tensor
    short: Tensor
    sign: Tensor
    half: Tensor
    x_inverse: Tensor
    w_inverse: Tensor

    def add_backward(
        self, of_x: Tensor, of_w: Tensor, features: Tensor, weight: Tensor, grad: Tensor
    ) -> None:
        """Add the gradient of angles (N, 1): unit tangents over the lengths, 0 where undefined."""
        dtype = of_x.dtype
        grad = grad.index_select(0, self.samples)
        squared = self.half.square()
        sine = 2 * self.half * (1 - squared).sqrt()
        pull = torch.where(sine > 0, grad / sine, 0.0).to(dtype)
        rest = (-2 * self.sign * squared).to(dtype)  # -(σ + cos θ), as cos θ = -σ(1 - 2·half²)
        x_inverse, w_inverse = self.x_inverse.to(dtype), self.w_inverse.to(dtype)
        x = features.index_select(0, self.samples).to(dtype)
        tangent = torch.addcmul(self.short, x, rest * x_inverse)
        of_x.index_add_(0, self.samples, tangent * (pull * x_inverse), alpha=-1)
        w = weight.index_select(0, self.classes).to(dtype)
        tangent = (self.short * self.sign.to(dtype)).addcmul_(w, rest * w_inverse)
        of_w.index_add_(0, self.classes, tangent * (pull * w_inverse), alpha=-1)


def _close_pairs(
    features: Tensor, weight: Tensor, index: Tensor, cosine: Tensor
) -> _ClosePairs | None:
    """Return the pairs of sample and target whose cosine (N, 1) is too coarse for the angle.

    Below a cosine of 0.9 the angle from a float32 cosine is right to 1e-6 already. On an
    accelerator all pairs are taken: choosing would stall the queue.
    """
    if _may_look(cosine):
        samples = (cosine.abs() > 0.9).squeeze(-1).nonzero().squeeze(-1)
        if not len(samples):
            return None
    else:
        samples = torch.arange(len(cosine), device=cosine.device)
    classes = index.squeeze(-1).index_select(0, samples)
    sign = torch.where(cosine.index_select(0, samples) < 0, 1.0, -1.0)
    x = precise(features.index_select(0, samples))
    w = precise(weight.index_select(0, classes))
    x_inverse, w_inverse = inverse_length(x), inverse_length(w)
    undirected = ~(x.any(-1, keepdim=True) & w.any(-1, keepdim=True))
    short = w.mul_(w_inverse).addcmul_(x, x_inverse * sign)
    half = torch.linalg.vector_norm(short, dim=-1, keepdim=True).mul_(0.5).clamp_max_(1.0)
    half = half.masked_fill_(undirected, 0.5**0.5)  # a zero vector is at a right angle to all
    from_axis = 2 * half.asin()
    angle = torch.where(sign < 0, from_axis, torch.pi - from_axis).to(cosine.dtype)
    short = short.to(cosine.dtype)
    return _ClosePairs(samples, classes, angle, short, sign, half, x_inverse, w_inverse)


def _may_look(tensor: Tensor) -> bool:
    """Whether choosing by value is free."""
    return tensor.device.type == "cpu"


def _plain_backward(
    function: Callable[..., Tensor], inputs: tuple[Any, ...], grad: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return gradients that can be differentiated again, through plain operations."""
    vectors = inputs[:2]
    with torch.enable_grad(), full_precision(grad):
        output = function(*inputs)
    needed = [vector for vector in vectors if vector.requires_grad]
    results = iter(torch.autograd.grad(output, needed, grad, create_graph=True))
    of_x, of_w = (next(results) if vector.requires_grad else None for vector in vectors)
    return of_x, of_w
