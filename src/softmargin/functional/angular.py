"""Cosines and angles between features and class weights, stable where training aims: at 0.

arccos has an infinite derivative at ±1, but the gradient of an angle with respect to a feature is
a unit tangent over the feature's length. Everything here keeps that gradient finite and right. A
float32 cosine cannot resolve an angle under 3.5e-4 rad, so the angle to the target, one per
sample, is computed from the two vectors themselves in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin.functional._checks import check_classes, check_setting, check_tensor
from softmargin.functional.directions import angles_of, cosines_of


def cosine_logits(features: Tensor, weight: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    r"""Return the scaled cosine of the angle between every feature and every class weight.

    .. math:: s \cos\theta_j = s \, \frac{x \cdot w_j}{\|x\| \|w_j\|}

    A zero vector has cosine 0 with everything. Half precision is computed in float32, also under
    autocast.

    Args:
        features: x, of shape (..., D).
        weight: one row per class, of shape (C, D).
        scale: s above 0, a number or a 0-d tensor.

    Returns:
        logits of shape (..., C), float32 for half-precision input.

    Example:
        >>> import torch
        >>> from softmargin.functional import cosine_logits
        >>> cosine_logits(torch.tensor([3.0, 0.0]), torch.eye(2), scale=10.0)
        tensor([10.,  0.])
    """
    check_vectors(features, _size_of(weight))
    check_setting("scale", scale)
    return cosines_of(features, weight, scale)


def angles(features: Tensor, weight: Tensor, target: Tensor | None = None) -> Tensor:
    r"""Return the angle in radians between every feature and every class weight.

    .. math:: \theta_j = \arccos \frac{x \cdot w_j}{\|x\| \|w_j\|}

    Values and gradients are finite everywhere. With ``target``, the angle to each sample's own
    class is right to 1e-6 however small it is; the others have the precision of their cosine.

    Args:
        features: x, of shape (..., D).
        weight: one row per class, of shape (C, D).
        target: class indices of shape (...), where the precision is wanted.

    Returns:
        angles of shape (..., C), float32 for half-precision input.

    Example:
        >>> import torch
        >>> from softmargin.functional import angles
        >>> angles(torch.tensor([2.0, 0.0]), torch.eye(2), torch.tensor(0))
        tensor([0.0000, 1.5708])
    """
    check_vectors(features, _size_of(weight))
    index = None if target is None else target_index(features, len(weight), target)
    return angles_of(features, weight, index)


def _size_of(weight: Tensor) -> int:
    """Return D, or raise unless there is one row of D numbers per class."""
    check_tensor("weight", weight)
    if not weight.is_floating_point() or weight.ndim != 2:
        raise ValueError(
            "weight must hold floating-point numbers of shape (C, D), "
            f"but got {weight.dtype} of shape {tuple(weight.shape)}."
        )
    return weight.shape[-1]


def check_vectors(features: Tensor, size: int) -> None:
    """Raise unless the features have the size of the class weights."""
    check_tensor("features", features)
    if not features.is_floating_point():
        raise NotImplementedError(f"features must be floating-point, but got {features.dtype}.")
    if features.ndim == 0 or features.shape[-1] != size:
        raise ValueError(
            f"features must have shape (..., {size}), but got {tuple(features.shape)}."
        )


def target_index(
    features: Tensor, num_classes: int, target: Tensor, ignore_index: int | None = None
) -> Tensor:
    """Return a checked target as an index that keeps the class dimension; ignored ones are 0."""
    check_tensor("target", target)
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(
            f"target must hold class indices as torch.int64 or torch.uint8, got {target.dtype}."
        )
    if target.shape != features.shape[:-1]:
        raise ValueError(
            f"target must have shape {tuple(features.shape[:-1])} for these features, "
            f"but got {tuple(target.shape)}."
        )
    index = target.long().unsqueeze(-1)
    if check_classes(target, num_classes, ignore_index) or ignore_index is None:
        return index
    return index.masked_fill(index.eq(ignore_index), 0)


def multiplicative_margin(cosine: Tensor, k: int) -> Tensor:
    r"""Return ψ(θ) = (-1)^j cos(kθ) - 2j with j = floor(kθ/π), from cos θ.

    cos(kθ) comes from the Chebyshev recurrence, which needs no angle and loses no digits.
    """
    previous, current = torch.ones_like(cosine), cosine
    for _ in range(k - 1):
        previous, current = current, 2 * cosine * current - previous
    bounds = torch.arange(1, k, dtype=torch.float64) * (torch.pi / k)
    steps = (cosine.detach().unsqueeze(-1) <= bounds.cos().to(cosine)).sum(-1)
    return torch.where(steps % 2 == 0, current, -current) - 2 * steps
