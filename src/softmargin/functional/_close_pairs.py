"""Pairs of a sample and its class weight that are closer than a float32 cosine can tell."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.functional._plain_directions import over_sine
from softmargin.functional.lengths import inverse_length, precise


@dataclass(frozen=True)
class ClosePairs:
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
        self,
        of_x: Tensor | None,
        of_w: Tensor | None,
        features: Tensor,
        weight: Tensor,
        grad: Tensor,
    ) -> None:
        """Add the gradient of angles (N, 1): unit tangents over the lengths, 0 where undefined."""
        dtype = self.short.dtype
        grad = grad.index_select(0, self.samples)
        squared = self.half.square()
        sine = 2 * self.half * (1 - squared).sqrt()
        pull = torch.where(sine > 0, grad / sine, 0.0).to(dtype)
        rest = (-2 * self.sign * squared).to(dtype)  # -(σ + cos θ), as cos θ = -σ(1 - 2·half²)
        x_inverse, w_inverse = self.x_inverse.to(dtype), self.w_inverse.to(dtype)
        if of_x is not None:
            x = features.index_select(0, self.samples).to(dtype)
            tangent = torch.addcmul(self.short, x, rest * x_inverse)
            of_x.index_add_(0, self.samples, tangent * (pull * x_inverse), alpha=-1)
        if of_w is not None:
            w = weight.index_select(0, self.classes).to(dtype)
            tangent = (self.short * self.sign.to(dtype)).addcmul_(w, rest * w_inverse)
            of_w.index_add_(0, self.classes, tangent * (pull * w_inverse), alpha=-1)


def close_pairs(
    features: Tensor, weight: Tensor, index: Tensor, cosine: Tensor
) -> ClosePairs | None:
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
    return ClosePairs(samples, classes, angle, short, sign, half, x_inverse, w_inverse)


def _may_look(tensor: Tensor) -> bool:
    """Whether choosing by value is free."""
    return tensor.device.type == "cpu"


def angle_at_target(cosine: Tensor, close: ClosePairs | None) -> Tensor:
    """Return the angles of targets (N, 1) from their cosines, or precisely where they are known."""
    angle = cosine.clamp(-1, 1).acos_()
    return angle if close is None else angle.index_copy_(0, close.samples, close.angle)


def through_cosine(of_angle: Tensor, cosine: Tensor, close: ClosePairs | None) -> Tensor:
    """Return the gradient of targets' cosines, 0 where the angle's goes past them."""
    result = over_sine(of_angle, cosine).neg_()
    return result if close is None else result.index_fill_(0, close.samples, 0.0)
