"""How far the non-target logits are from level (LM eq. 8-10)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softmargin.functional._checks import DIVERGENCES, check_choice, known_within
from softmargin.functional.margins import (
    LIMITS,
    needs_plain_operations,
    only_others,
    prepare,
    unmasked,
    with_target,
)


def logit_divergence(
    logits: Tensor,
    target: Tensor,
    divergence: str = "symmetric",
    tau: float | Tensor = 1.0,
) -> Tensor:
    r"""Return a KL divergence between the non-target softmax q and the uniform distribution u.

    With :math:`q_i = e^{z_i/\tau} / \sum_{j \ne c} e^{z_j/\tau}` for :math:`i \ne c` and
    :math:`u = 1/(C-1)`:

    - ``"logits_to_uniform"``: :math:`D(q \| u) = \sum q_i \log((C-1) q_i)`
    - ``"uniform_to_logits"``: :math:`D(u \| q) = -\frac{1}{C-1} \sum \log((C-1) q_i)`
    - ``"symmetric"``: their mean, :math:`\frac12 \sum (q_i - \frac{1}{C-1}) \log q_i`

    All are 0 when the non-target logits are level, which is where the margin that softmax
    contains (:func:`embedded_bias`) is largest, and always 0 for two classes.

    Args:
        logits: scores of shape (C), (N, C) or (N, C, d1, ...).
        target: class indices of shape (), (N) or (N, d1, ...).
        divergence: one of the three names above.
        tau: temperature, a number or a 0-d tensor above 0.

    Returns:
        one value per sample, of the target's shape.

    Example:
        >>> import torch
        >>> from softmargin.functional import logit_divergence
        >>> logit_divergence(torch.tensor([[9.0, 1.0, 1.0]]), torch.tensor([0]))
        tensor([0.])
    """
    check_choice("divergence", divergence, DIVERGENCES)
    logits, index, dim = prepare(logits, target, tau)
    return divergence_of(logits, index, dim, divergence).view(target.shape)


def divergence_of(logits: Tensor, index: Tensor, dim: int, divergence: str) -> Tensor:
    """Return :func:`logit_divergence` for an index that keeps the class dimension."""
    if needs_plain_operations():
        return _divergence_of(logits, index, dim, divergence)
    return _Divergence.apply(logits, index, dim, divergence)  # type: ignore[no-any-return, no-untyped-call]


def _divergence_of(logits: Tensor, index: Tensor, dim: int, divergence: str) -> Tensor:
    others = logits.shape[dim] - 1
    log_q = _log_softmax(only_others(logits, index, dim), dim)
    # log((C-1)q), with 0 in the target's place so that it adds nothing to either sum
    relative = with_target(log_q + math.log(others), index, dim, 0.0)
    weighted = _weighted(log_q.exp(), relative).sum(dim)
    mean = _finite((relative / others).sum(dim))
    return _combine(weighted, -mean, divergence)


class _Divergence(torch.autograd.Function):
    """The same in fewer passes, most of them in place.

    With r_i = log((C-1)q_i), the derivatives by z_i are q_i (r_i - Σ q r) for D(q‖u) and
    q_i - 1/(C-1) for D(u‖q).
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor, dim: int, divergence: str) -> Tensor:
        others = logits.shape[dim] - 1
        relative = only_others(logits, index, dim)
        relative -= relative.amax(dim, keepdim=True)
        q = relative.exp()
        total = q.sum(dim, keepdim=True)
        q /= total
        relative -= (total / others).log()
        # a class without any probability adds 0, and the target adds 0 to either sum
        relative.clamp_min_(LIMITS[relative.dtype][0]).scatter_(dim, index, 0.0)
        q_relative = q * relative
        weighted = q_relative.sum(dim)
        mean = _finite(relative.div_(others).sum(dim))
        ctx.dim, ctx.divergence = dim, divergence
        ctx.masked = not known_within(mean, -1e30, math.inf)
        ctx.save_for_backward(logits, index, q, q_relative, weighted)
        return _combine(weighted, -mean, divergence)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        dim = ctx.dim
        logits, index, q, q_relative, weighted = ctx.saved_tensors
        if torch.is_grad_enabled() or needs_plain_operations():
            # a gradient that is itself differentiated or vectorised
            with torch.enable_grad():
                value = _divergence_of(logits, index, dim, ctx.divergence)
            (of_logits,) = torch.autograd.grad(value, logits, grad, create_graph=True)
            return of_logits, None, None, None
        grad, weighted = grad.unsqueeze(dim), weighted.unsqueeze(dim)
        to_uniform, from_uniform = SHARES[ctx.divergence]
        of_logits = q * (grad * (from_uniform - to_uniform * weighted))
        if to_uniform:
            of_logits.addcmul_(q_relative, grad, value=to_uniform)
        if from_uniform:
            of_logits -= grad * (from_uniform / (logits.shape[dim] - 1))
            if ctx.masked:
                of_logits.masked_fill_(logits == -math.inf, 0.0)
        of_logits.scatter_(dim, index, 0.0)
        return of_logits.to(logits.dtype), None, None, None


def divergence_by_class(logits: Tensor, dim: int, divergence: str) -> Tensor:
    """Return :func:`logit_divergence` of every class as if it were the target, in O(N·C) memory.

    q_i = p_i/(1 - p_c) turns both sums into sums over all classes less one term. That cancels
    only where p_c > 1/2: one class at most, the largest, which is computed directly.
    """
    logits = unmasked(logits)
    others = logits.shape[dim] - 1
    top = logits.detach().argmax(dim, keepdim=True)
    of_top = divergence_of(logits, top, dim, divergence).unsqueeze(dim)
    log_p = _log_softmax(logits, dim)
    p_log_p = _weighted(log_p.exp(), log_p)
    own = with_target(log_p, top, dim, -1.0)  # keeps NaN out of a gradient that is not used
    rest = torch.log1p(-own.exp())
    mean_log_q = (p_log_p.sum(dim, keepdim=True) - _weighted(own.exp(), own)) / rest.exp() - rest
    share = log_p / others
    sum_log_q = _finite(share.sum(dim, keepdim=True)) - own / others - rest
    result = _combine(mean_log_q + math.log(others), -sum_log_q - math.log(others), divergence)
    return with_target(result, top, dim, of_top)


def _log_softmax(logits: Tensor, dim: int) -> Tensor:
    """Return the log-softmax, a class at -inf (masked) with the lowest finite number.

    Its probability is 0 either way, but 0·log 0 is then 0, and sums over the classes stay finite.
    """
    return _finite(torch.log_softmax(logits, dim))


def _finite(values: Tensor) -> Tensor:
    return values.clamp_min(torch.finfo(values.dtype).min)


def _weighted(share: Tensor, log_share: Tensor) -> Tensor:
    """Return the product, without a gradient where the share has long been 0.

    There a larger gradient from above (λ, a loss scale) would overflow: ∞·0 is NaN.
    """
    return share * log_share.clamp_min(-1000.0)


def _combine(logits_to_uniform: Tensor, uniform_to_logits: Tensor, divergence: str) -> Tensor:
    if divergence == "symmetric":
        return (logits_to_uniform + uniform_to_logits) / 2
    return logits_to_uniform if divergence == "logits_to_uniform" else uniform_to_logits


SHARES = {"symmetric": (0.5, 0.5), "logits_to_uniform": (1.0, 0.0), "uniform_to_logits": (0.0, 1.0)}
"""The shares of D(q‖u) and D(u‖q) in each divergence."""
