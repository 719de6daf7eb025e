"""Heads of many models at once: stacked weights, stacked features, one call.

Each function is a head of :mod:`softmargin.heads` with one more dimension in front, the models:
features (K, B, D), parameters (K, ...), settings (K, 1, 1), an index (K, B, 1) of the targets or
None for the logits of inference. Batched products cost a tenth of ``torch.vmap`` over the modules
for networks this small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from softmargin.functional.angular import multiplicative_margin
from softmargin.functional.directions import angle_of_cosine
from softmargin.functional.lengths import unit
from softmargin.heads import (
    AdaCosHead,
    ArcFaceHead,
    ArcGradHead,
    ASoftmaxHead,
    CosFaceHead,
    CosineHead,
    GaussianHead,
    Head,
    LinearHead,
    LSoftmaxHead,
    SimplexHead,
)

Tensors = Mapping[str, Tensor]
StackedHead = Callable[[Head, Tensor, Tensors, dict[str, Tensor], Tensor | None], Tensor]
"""(one of the heads, features, parameters, settings, index) -> logits (K, B, C)."""


def _linear(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    if "bias" in p:
        return torch.baddbmm(p["bias"].unsqueeze(1), x, p["weight"].mT)
    return torch.bmm(x, p["weight"].mT)


def _cosine(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    return _cosines(x, p) * s["scale"]


def _cosface(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    cosine = _cosines(x, p)
    if index is not None:
        cosine = cosine.scatter(-1, index, cosine.gather(-1, index) - s["margin"])
    return cosine * s["scale"]


def _arcface(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    assert isinstance(head, ArcFaceHead)
    x, w = unit(x), unit(p["weight"])
    cosine = torch.bmm(x, w.mT)
    if index is not None:
        own = cosine.gather(-1, index)
        angle = _target_angle(x, w, index, own, angle_of_cosine(own))
        moved, _ = head.enlarge_angle(angle, s["margin"])
        cosine = cosine.scatter(-1, index, moved)
    return cosine * s["scale"]


def _adacos(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    assert isinstance(head, AdaCosHead)
    cosine = _cosines(x, p)
    if index is not None and head.dynamic:
        with torch.no_grad():  # AG eq. 10, each model by its own batch
            own = cosine.gather(-1, index).double().clamp(-1, 1).acos()
            others = (cosine * s["scale"]).scatter_(-1, index, -math.inf).double()
            log_mean = others.logsumexp((1, 2), keepdim=True) - math.log(index.shape[1])
            middle = own.median(1, keepdim=True).values
            scale = log_mean / middle.clamp(max=math.pi / 4).cos()
            s["scale"].copy_(torch.where(scale > 0, scale, s["scale"]))
    return cosine * s["scale"]


def _arcgrad(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    x, w = unit(x), unit(p["weight"])
    cosine = torch.bmm(x, w.mT)
    angle = angle_of_cosine(cosine)
    if index is not None:
        own = _target_angle(x, w, index, cosine.gather(-1, index), angle.gather(-1, index))
        angle = angle.scatter(-1, index, own)
    return angle * -s["scale"]


def _target_angle(x: Tensor, w: Tensor, index: Tensor, cosine: Tensor, angle: Tensor) -> Tensor:
    """Return targets' angles between unit vectors, precise where they are small.

    Half the chord is the sine of half the angle, without the cosine's cancellation; not for a
    feature of length 0, whose cosine is 0.
    """
    half = torch.linalg.vector_norm(x - own_rows(w, index), dim=-1, keepdim=True) / 2
    small = cosine.detach() > 0.5
    return torch.where(small, 2 * torch.where(small, half, 0.0).asin(), angle)


def _l_softmax(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    assert isinstance(head, LSoftmaxHead)
    weight = unit(p["weight"]) if isinstance(head, ASoftmaxHead) else p["weight"]
    logits = torch.bmm(x, weight.mT)
    if index is None:
        return logits
    own = own_rows(weight, index)
    lengths = torch.linalg.vector_norm(x, dim=-1) * torch.linalg.vector_norm(own, dim=-1)
    lengths = lengths.unsqueeze(-1)
    plain = (x * own).sum(-1, keepdim=True)
    cosine = plain / torch.where(lengths > 0, lengths, 1.0)
    with_margin = lengths * multiplicative_margin(cosine, head.k)
    mixed = (s["anneal"] * plain + with_margin) / (1 + s["anneal"])
    return logits.scatter(-1, index, mixed)


def _gaussian(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    log_variance = p["log_variance"]
    centre = p["weight"].detach().mean(1, keepdim=True)
    moved, mean = x - centre, p["weight"] - centre
    precision = (-log_variance).exp()
    weighted = mean * precision
    constant = ((mean * weighted).sum(-1) + log_variance.sum(-1)).unsqueeze(1)
    squares = torch.baddbmm(constant, moved.square(), precision.mT)
    logits = torch.bmm(moved, weighted.mT) - 0.5 * squares
    if index is None:
        return logits
    distance, half_log_det = _distance(x, p, index)
    return logits.scatter(-1, index, -(1 + s["margin"]) * distance - half_log_det)


def _distance(x: Tensor, p: Tensors, index: Tensor) -> tuple[Tensor, Tensor]:
    log_variance = own_rows(p["log_variance"], index)
    apart = x - own_rows(p["weight"], index)
    distance = 0.5 * (apart.square() * (-log_variance).exp()).sum(-1, keepdim=True)
    return distance, 0.5 * log_variance.sum(-1, keepdim=True)


def added_loss(x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor) -> Tensor | None:
    """Return what :meth:`Head.added_loss` gives, per sample (K, B)."""
    if "likelihood" not in s:
        return None
    distance, half_log_det = _distance(x, p, index)
    return (s["likelihood"] * (distance + half_log_det)).squeeze(-1)


def _simplex(
    head: Head, x: Tensor, p: Tensors, s: dict[str, Tensor], index: Tensor | None
) -> Tensor:
    assert isinstance(head, SimplexHead)
    q, r = torch.linalg.qr(p["basis"])
    q = q * torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)
    weight = (head.simplex.to(q.dtype) @ q.mT) * s["scale"]
    return torch.bmm(x, weight.mT)


def _cosines(x: Tensor, p: Tensors) -> Tensor:
    return torch.bmm(unit(x), unit(p["weight"]).mT)


def own_rows(weight: Tensor, index: Tensor) -> Tensor:
    """Return the row of each sample's own class, (K, B, D)."""
    return weight.gather(1, index.expand(-1, -1, weight.shape[-1]))


STACKED_HEADS: dict[type[Any], StackedHead] = {
    LinearHead: _linear,
    CosineHead: _cosine,
    CosFaceHead: _cosface,
    ArcFaceHead: _arcface,
    AdaCosHead: _adacos,
    ArcGradHead: _arcgrad,
    LSoftmaxHead: _l_softmax,
    ASoftmaxHead: _l_softmax,
    GaussianHead: _gaussian,
    SimplexHead: _simplex,
}
