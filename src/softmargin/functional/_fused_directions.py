"""Cosines and angles with the compiled kernel: products of matrices, and one pass beside each.

Features and weights are multiplied as they are. Their lengths go into a pass over the products,
and on the way back into a pass over the gradient, so that no copy of the weight is made. With
lengths between 1e-9 and 1e9 nothing overflows on the way; other vectors are left to the callers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from softmargin.functional import _passes
from softmargin.functional._close_pairs import angle_at_target, close_pairs, through_cosine
from softmargin.functional._plain_directions import (
    Margin,
    full_precision,
    plain_angles,
    plain_backward,
    plain_cosines,
)
from softmargin.functional.margins import needs_plain_operations


class Inverses(NamedTuple):
    """Inverse lengths of features (N) and of class weights (C)."""

    x: Tensor
    w: Tensor


def inverses(features: Tensor, weight: Tensor, *settings: float | Tensor) -> Inverses | None:
    """Return the inverse lengths, or None where the kernel should not be used."""
    if not _passes.fit(features, weight):
        return None
    if any(isinstance(each, Tensor) and not each.is_cpu for each in settings):
        return None
    x, w = _passes.inverse_lengths(features), _passes.inverse_lengths(weight)
    return None if x is None or w is None else Inverses(x, w)


def cosines_of(
    features: Tensor,
    weight: Tensor,
    scale: float | Tensor,
    index: Tensor | None,
    margin: Margin | None,
    amount: float | Tensor,
    of_angle: bool,
) -> Tensor | None:
    """Return scaled cosines with a margin at the targets, or None where there is no kernel."""
    found = inverses(features, weight, scale, amount)
    if found is None:
        return None
    settings = float(scale), None if margin is None else index, margin, amount, of_angle
    return _Cosines.apply(features, weight, found, settings)  # type: ignore[no-any-return, no-untyped-call]


def angles_of(
    features: Tensor, weight: Tensor, index: Tensor | None, scale: float | Tensor
) -> Tensor | None:
    """Return scaled angles, or None where there is no kernel."""
    found = inverses(features, weight, scale)
    if found is None:
        return None
    return _Angles.apply(features, weight, found, (index, float(scale)))  # type: ignore[no-any-return, no-untyped-call]


class _Cosines(torch.autograd.Function):
    """Scaled cosines, with a margin at the targets."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, inverse: Inverses, settings: tuple[Any, ...]
    ) -> Tensor:
        scale, index, margin, amount, of_angle = settings
        logits = torch.mm(features, weight.t())
        rows = inverse.x * scale
        own, _ = _passes.spread(logits, rows, inverse.w, index)
        ctx.settings, ctx.close, slope = settings, None, None
        if own is not None and index is not None and margin is not None:
            variable = own = own.div_(scale)
            if of_angle:
                ctx.close = close_pairs(features, weight, index, own)
                variable = angle_at_target(own, ctx.close)
            value, slope = margin(variable, amount)
            logits.scatter_(-1, index, (value * scale).to(logits.dtype))
        ctx.save_for_backward(features, weight, index, *inverse, rows, logits, own, slope)
        return logits

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, index, x_inverse, w_inverse, rows, logits, own, slope = ctx.saved_tensors
        scale, *_, of_angle = ctx.settings
        grad = grad.contiguous()
        if torch.is_grad_enabled() or needs_plain_operations() or not _passes.fit(grad):
            inputs = features, weight, *ctx.settings
            return *plain_backward(plain_cosines, inputs, grad), None, None
        at_target = of_own = None
        if slope is not None:  # at the target the logit was another function of the cosine
            of_own = (grad.gather(-1, index) * slope).to(logits.dtype)
            left = through_cosine(of_own, own, ctx.close) if of_angle else of_own
            at_target = index, left, own * scale
        products, along = _passes.collect(grad, logits, rows, w_inverse, at_target)
        of_x, of_w = _gradients(ctx, products, along, features, weight, w_inverse)
        if of_x is not None:
            _passes.take_off_along(of_x, features, x_inverse)
        if ctx.close is not None and of_own is not None:
            ctx.close.add_backward(of_x, of_w, features, weight, of_own * scale)
        return of_x, of_w, None, None


class _Angles(torch.autograd.Function):
    """Scaled angles, the target's own precisely."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, inverse: Inverses, settings: tuple[Any, ...]
    ) -> Tensor:
        index, scale = settings
        cosine = torch.mm(features, weight.t())
        own, angles = _passes.spread(cosine, inverse.x, inverse.w, index, scale)
        assert angles is not None
        ctx.settings, ctx.close = settings, None
        if own is not None and index is not None:
            ctx.close = close_pairs(features, weight, index, own)
            if ctx.close is not None:
                angles.scatter_(-1, index, angle_at_target(own, ctx.close).mul_(scale))
        ctx.save_for_backward(features, weight, index, *inverse, cosine, own)
        return angles

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, index, x_inverse, w_inverse, cosine, own = ctx.saved_tensors
        scale = ctx.settings[1]
        grad = grad.contiguous()
        if torch.is_grad_enabled() or needs_plain_operations() or not _passes.fit(grad):
            inputs = features, weight, *ctx.settings
            return *plain_backward(plain_angles, inputs, grad), None, None
        at_target = of_angle = None
        if ctx.close is not None:
            of_angle = grad.gather(-1, index)
            left = of_angle.index_fill(0, ctx.close.samples, 0.0)
            at_target = index, left, own
        products, along = _passes.collect(grad, cosine, x_inverse, w_inverse, at_target, scale)
        of_x, of_w = _gradients(ctx, products, along, features, weight, w_inverse)
        if of_x is not None:
            _passes.take_off_along(of_x, features, x_inverse)
        if ctx.close is not None and of_angle is not None:
            ctx.close.add_backward(of_x, of_w, features, weight, of_angle * scale)
        return of_x, of_w, None, None


def _gradients(
    ctx: Any, products: Tensor, along: Tensor, features: Tensor, weight: Tensor, w_inverse: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return what a gradient of inner products gives features, and weights of length one.

    ``along`` is the sum over samples of the cosines' gradient times the cosines.
    """
    of_x = of_w = None
    with full_precision(features):
        if ctx.needs_input_grad[0]:
            of_x = products @ weight
        if ctx.needs_input_grad[1]:
            of_w = products.t() @ features
    if of_w is not None:
        _passes.add_along(of_w, weight, along.mul_(w_inverse).mul_(w_inverse).neg_())
    return of_x, of_w
