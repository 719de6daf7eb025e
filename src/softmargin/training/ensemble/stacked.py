"""Heads, losses and center loss of many models, written out where that pays.

Any head or loss can be trained together, by :mod:`softmargin.training.ensemble.stack`. Those
here are at least 1.5 times as fast for 100 models, by ``python -m benchmarks.stacked``, and a test
compares each with the public module; center loss cannot move its centers under vmap. There is one
more dimension in front, the models: features (K, B, D), logits (K, B, C), parameters (K, ...),
settings (K,), an index (K, B, 1) of the targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softmargin import heads, losses
from softmargin._settings import ModuleWithSettings
from softmargin.center import CenterLoss
from softmargin.functional._plain_directions import angle_of_cosine
from softmargin.functional.angular import multiplicative_margin
from softmargin.functional.divergences import divergence_of
from softmargin.functional.lengths import unit
from softmargin.functional.margins import apply_temperature, log_odds_of, soft_maximum_of, softplus
from softmargin.heads.simplex import orthonormal

Tensors = dict[str, Tensor]
CLASSES = 2  # the dimension of the classes


def has_stacked(module: Any) -> bool:
    """Whether there is a stacked version of a head, loss or center loss with these options."""
    if type(module) in LOSSES:
        shared = module.weight, module.reduction, module.label_smoothing, module.ignore_index < 0
        if shared != (None, "mean", 0.0, True) or getattr(module, "compensate", False):
            return False
    elif type(module) not in (*HEADS, CenterLoss):
        return False
    return all(_is_one_number(module, name) for name in module.settings)


def _is_one_number(module: ModuleWithSettings, name: str) -> bool:
    return not module.learns(name) and getattr(module, name).ndim == 0


# --- heads: (one of them, features, parameters and settings, index or None) -> logits


def stacked_logits(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    """Return the logits of K heads, of inference where there is no index.

    A scale that adapts is replaced in ``own``.
    """
    given = {
        name: value.to(x.dtype).view(-1, 1, 1) if name in head.settings else value
        for name, value in own.items()
    }
    if type(head) is heads.AdaCosHead and head.dynamic and index is not None:
        own["scale"], logits = _adapted(x, given, index)
        return logits
    return HEADS[type(head)](head, x, given, index)


def _linear(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    if "bias" in own:
        return torch.baddbmm(own["bias"].unsqueeze(1), x, own["weight"].mT)
    return torch.bmm(x, own["weight"].mT)


def _cosine(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    cosine = torch.bmm(unit(x), unit(own["weight"]).mT)
    if index is not None and "margin" in own:  # CosFace
        cosine = cosine.scatter(-1, index, cosine.gather(-1, index) - own["margin"])
    return cosine * own["scale"]


def _adapted(x: Tensor, own: Tensors, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return AdaCos's new scales, each by the model's own batch (AG eq. 10), and its logits."""
    cosine, before = torch.bmm(unit(x), unit(own["weight"]).mT), own["scale"]
    with torch.no_grad():
        angle = cosine.gather(-1, index).double().clamp(-1, 1).acos()
        others = (cosine * before).scatter_(-1, index, -math.inf).double()
        log_mean = others.logsumexp((1, 2), keepdim=True) - math.log(index.shape[1])
        scale = log_mean / angle.median(1, keepdim=True).values.clamp(max=math.pi / 4).cos()
        scale = torch.where(scale > 0, scale, before)
    return scale.flatten(), cosine * scale.to(cosine.dtype)


def _arcface(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    x, w = unit(x), unit(own["weight"])
    cosine = torch.bmm(x, w.mT)
    if index is not None:
        of_target = cosine.gather(-1, index)
        angle = _target_angle(x, w, index, of_target, angle_of_cosine(of_target))
        cosine = cosine.scatter(-1, index, head.enlarge_angle(angle, own["margin"])[0])
    return cosine * own["scale"]


def _arcgrad(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    x, w = unit(x), unit(own["weight"])
    cosine = torch.bmm(x, w.mT)
    angle = angle_of_cosine(cosine)
    if index is not None:
        of_target = cosine.gather(-1, index), angle.gather(-1, index)
        angle = angle.scatter(-1, index, _target_angle(x, w, index, *of_target))
    return angle * -own["scale"]


def _target_angle(x: Tensor, w: Tensor, index: Tensor, cosine: Tensor, angle: Tensor) -> Tensor:
    """Return targets' angles between unit vectors, precise where they are small.

    Half the chord is the sine of half the angle, without the cosine's cancellation; not for a
    feature of length 0, whose cosine is 0.
    """
    half = torch.linalg.vector_norm(x - _own_rows(w, index), dim=-1, keepdim=True) / 2
    small = cosine.detach() > 0.5
    return torch.where(small, 2 * torch.where(small, half, 0.0).asin(), angle)


def _l_softmax(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    weight = unit(own["weight"]) if isinstance(head, heads.ASoftmaxHead) else own["weight"]
    logits = torch.bmm(x, weight.mT)
    if index is None:
        return logits
    rows = _own_rows(weight, index)
    lengths = torch.linalg.vector_norm(x, dim=-1) * torch.linalg.vector_norm(rows, dim=-1)
    lengths = lengths.unsqueeze(-1)
    plain = (x * rows).sum(-1, keepdim=True)
    cosine = plain / torch.where(lengths > 0, lengths, 1.0)
    with_margin = lengths * multiplicative_margin(cosine, head.k)
    mixed = (own["anneal"] * plain + with_margin) / (1 + own["anneal"])
    return logits.scatter(-1, index, mixed)


def _simplex(head: Any, x: Tensor, own: Tensors, index: Tensor | None) -> Tensor:
    q = orthonormal(own["basis"])
    return torch.bmm(x, ((head.simplex.to(q.dtype) @ q.mT) * own["scale"]).mT)


def _own_rows(weight: Tensor, index: Tensor) -> Tensor:
    """Return the row of each sample's own class, (K, B, D)."""
    return weight.gather(1, index.expand(-1, -1, weight.shape[-1]))


HEADS: dict[type[Any], Callable[[Any, Tensor, Tensors, Tensor | None], Tensor]] = {
    heads.LinearHead: _linear,
    heads.CosineHead: _cosine,
    heads.CosFaceHead: _cosine,
    heads.AdaCosHead: _cosine,
    heads.ArcFaceHead: _arcface,
    heads.ArcGradHead: _arcgrad,
    heads.LSoftmaxHead: _l_softmax,
    heads.ASoftmaxHead: _l_softmax,
    heads.SimplexHead: _simplex,
}


# --- losses: (one of them, logits over τ, index, settings) -> one value per sample


def stacked_loss(loss: Any, z: Tensor, own: Tensors, index: Tensor) -> Tensor:
    """Return the losses (K, B) of logits."""
    given = {}
    for name, value in own.items():
        name, value = ("log_beta", value.log()) if name == "beta" else (name, value)
        given[name] = value.to(z.dtype).unsqueeze(-1)
    if "tau" in given:
        z = apply_temperature(z, given["tau"].unsqueeze(-1), CLASSES)
    return LOSSES[type(loss)](loss, z, index, given)


def _gradient_decay(loss: Any, z: Tensor, index: Tensor, own: Tensors) -> Tensor:
    if loss.floored:
        return softplus(log_odds_of(z, index, CLASSES) - own["log_beta"])
    return soft_maximum_of(z, index, CLASSES, own["log_beta"])


def _regularized(loss: Any, z: Tensor, index: Tensor, own: Tensors) -> Tensor:
    plain = soft_maximum_of(z, index, CLASSES, own["log_beta"])
    return plain + own["lam"] * divergence_of(z, index, CLASSES, loss.divergence)


def _focal(loss: Any, z: Tensor, index: Tensor, own: Tensors) -> Tensor:
    xi = log_odds_of(z, index, CLASSES)
    return (-own["gamma"] * softplus(-xi)).exp() * softplus(xi)


def _with_bias(loss: Any, z: Tensor, index: Tensor, own: Tensors) -> Tensor:
    bias = own["margin" if "margin" in own else "rho"]
    return softplus(log_odds_of(z, index, CLASSES) + bias)


LOSSES: dict[type[Any], Callable[[Any, Tensor, Tensor, Tensors], Tensor]] = {
    losses.GradientDecayLoss: _gradient_decay,
    losses.RegularizedSoftmaxLoss: _regularized,
    losses.FocalLoss: _focal,
    losses.SoftMarginSoftmaxLoss: _with_bias,
    losses.ModifiedSoftmaxLoss: _with_bias,
}


# --- center loss, whose running centers move with every batch


def stacked_center(x: Tensor, own: Tensors, index: Tensor) -> Tensor:
    """Return the center losses (K,) of features, and put the moved centers into ``own``."""
    centers = own["centers"]
    gaps = x - _own_rows(centers, index)
    with torch.no_grad():
        ones = torch.ones_like(gaps[..., :1])
        sums = gaps.new_zeros(*centers.shape[:2], centers.shape[2] + 1)
        sums.scatter_add_(1, index.expand(-1, -1, sums.shape[2]), torch.cat([gaps, ones], 2))
        rate = own["rate"].to(x.dtype).view(-1, 1, 1)
        own["centers"] = centers + rate * sums[..., :-1] / (1 + sums[..., -1:])
    return (gaps.square().sum(-1) * (own["lam"].to(x.dtype).unsqueeze(-1) / 2)).mean(1)
