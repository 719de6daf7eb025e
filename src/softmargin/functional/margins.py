"""Margins: how far the other classes are ahead of the target, one number per sample.

Every loss of this library is a function of one of these numbers. The stable forms live here and
nowhere else.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from softmargin._docs import document_arguments
from softmargin.functional._checks import check_classes, check_fit, check_setting

HALF = (torch.float16, torch.bfloat16)
WITHOUT_FLOAT64 = {"mps"}
"""Types of devices that know no float64; what would be float64 is float32 there."""


LIMITS = {
    dtype: (finfo.min, finfo.tiny)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    if (finfo := torch.finfo(torch.promote_types(dtype, torch.float32)))
}
"""By dtype of logits, the lowest and the smallest positive number that is computed with."""


MARGIN_ARGUMENTS = {
    "logits": "scores of shape (C), (N, C) or (N, C, d1, ...).",
    "target": "class indices of shape (), (N) or (N, d1, ...).",
    "tau": "temperature above 0, a number or a 0-d tensor.",
}


@document_arguments(MARGIN_ARGUMENTS)
def log_odds(logits: Tensor, target: Tensor, tau: float | Tensor = 1.0) -> Tensor:
    r"""Return the log-odds against the target class, the ξ that all losses here are built on.

    .. math:: \xi = \log \sum_{i \ne c} e^{z_i / \tau} - z_c / \tau

    so that the target's probability is ``sigmoid(-ξ)`` and cross-entropy is ``softplus(ξ)``. It
    is computed without the cancellation that makes ``F.cross_entropy`` return exactly 0 once the
    target leads by about 17 in float32, and in at least float32 for half-precision logits.

    Returns:
        ξ, of the target's shape.

    Example:
        >>> import torch
        >>> from softmargin.functional import log_odds
        >>> log_odds(torch.tensor([[100.0, 0.0, 0.0]]), torch.tensor([0]))
        tensor([-99.3069])
    """
    logits, index, dim = prepare(logits, target, tau)
    return log_odds_of(logits, index, dim).view(target.shape)


@document_arguments(MARGIN_ARGUMENTS)
def hard_log_odds(logits: Tensor, target: Tensor, tau: float | Tensor = 1.0) -> Tensor:
    r"""Return by how much the best other class leads the target: ξ with max in place of LSE.

    .. math:: \left(\max_{i \ne c} z_i - z_c\right) / \tau

    It is positive exactly where the sample is misclassified.

    Example:
        >>> import torch
        >>> from softmargin.functional import hard_log_odds
        >>> hard_log_odds(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([0]))
        tensor([-2.])
    """
    logits, index, dim = prepare(logits, target, tau)
    return hard_log_odds_of(logits, index, dim).view(target.shape)


@document_arguments(MARGIN_ARGUMENTS)
def embedded_bias(logits: Tensor, target: Tensor, tau: float | Tensor = 1.0) -> Tensor:
    r"""Return ρ̂, the margin that softmax cross-entropy already contains (LM eq. 7).

    .. math:: \hat\rho = \log \sum_{i \ne c} e^{(z_i - \max_{j \ne c} z_j) / \tau}
              \in [0, \log(C - 1)]

    It is the difference between :func:`log_odds` and :func:`hard_log_odds`: 0 when one other
    class stands alone, ``log(C - 1)`` when the others are level.

    Example:
        >>> import torch
        >>> from softmargin.functional import embedded_bias
        >>> embedded_bias(torch.zeros(1, 4), torch.tensor([0])).exp()
        tensor([3.])
    """
    logits, index, dim = prepare(logits, target, tau)
    others = only_others(logits, index, dim)
    return (others - others.amax(dim, keepdim=True)).exp().sum(dim).log().view(target.shape)


def prepare(logits: Tensor, target: Tensor, tau: float | Tensor) -> tuple[Tensor, Tensor, int]:
    """Check the arguments of a per-sample function; return logits over τ, index and dimension."""
    dim = check_fit(logits, target, "logits")
    check_setting("tau", tau)
    if target.is_floating_point():
        raise RuntimeError("target must hold class indices here, but got class probabilities.")
    check_classes(target, logits.shape[dim])
    index = target.reshape(1) if dim == 0 else target.unsqueeze(dim)
    return apply_temperature(logits, tau, dim), index.long(), dim


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype to compute in: float32 for half precision, otherwise the tensor's own."""
    return torch.float32 if tensor.dtype in HALF else tensor.dtype


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return half-precision tensors as float32, others as they are."""
    return tensor.float() if tensor.dtype in HALF else tensor


def apply_temperature(logits: Tensor, tau: float | Tensor, dim: int) -> Tensor:
    """Return logits/τ up to a shift, which no loss here can see and which keeps the precision.

    It is by the runner-up: less the largest logit, which may dwarf all others, those would be one
    number. Where the two are so far apart that a quotient might overflow, it is by the largest.
    Halves are subtracted, so that a difference does not overflow to what a masked class has.
    """
    if not isinstance(tau, Tensor) and tau == 1:
        return logits
    logits = at_least_float32(logits)
    values = logits.detach()
    top = values.amax(dim, keepdim=True)
    runner_up = values.masked_fill(values == top, -math.inf).amax(dim, keepdim=True)
    shift = torch.where(top - runner_up < 1e30, runner_up, top)
    return (logits / 2 - shift / 2) / (tau / 2)


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + e^x), right in both tails.

    ``F.softplus`` turns linear at 20 by default, which costs 2e-9; at 80 nothing is lost.
    """
    return F.softplus(x, threshold=80.0)


def at_target(values: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return each sample's entry for its target, keeping the class dimension at size 1.

    Compiled code takes a masked sum: it costs the same there, and inductor has been seen to lose
    the gradient of a ``gather`` that it fuses with reductions over 4 to 7 classes.
    """
    if torch.compiler.is_compiling():
        return torch.where(_is_target(values, index, dim), values, 0.0).sum(dim, keepdim=True)
    return values.gather(dim, index)


def with_target(values: Tensor, index: Tensor, dim: int, new: float | Tensor) -> Tensor:
    """Return the values with another entry for each sample's target.

    A tensor ``new`` keeps the class dimension at size 1.
    """
    if isinstance(new, Tensor):
        new = new.to(values.dtype)
    if torch.compiler.is_compiling():
        return torch.where(_is_target(values, index, dim), new, values)
    return values.scatter(dim, index, new)


def _is_target(values: Tensor, index: Tensor, dim: int) -> Tensor:
    classes = torch.arange(values.shape[dim], device=values.device)
    return broadcast_along(classes, values, dim) == index


def broadcast_along(per_class: Tensor, like: Tensor, dim: int) -> Tensor:
    """Return a (C,) tensor shaped to broadcast along the class dimension of ``like``."""
    return per_class.view([-1 if i == dim % like.ndim else 1 for i in range(like.ndim)])


def without_target(logits: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return the logits with the target's entry at the lowest finite number.

    Not at -inf: where every other class is at -inf too (masked classes) the maximum must stay
    finite, or the loss and its gradient become NaN where cross-entropy gives 0.
    """
    return with_target(logits, index, dim, torch.finfo(logits.dtype).min)


def unmasked(logits: Tensor) -> Tensor:
    """Return the logits with masked classes (-inf) at the lowest number, without a gradient."""
    return at_least_float32(logits).clamp_min(torch.finfo(compute_dtype(logits)).min)


def only_others(logits: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return the logits with the target left out (-inf) and masked classes at the lowest number.

    Where every other class is masked they are level, as those that stand at one number are.
    """
    return with_target(unmasked(logits), index, dim, -math.inf)


def hard_log_odds_of(logits: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return :func:`hard_log_odds` for an index that keeps the class dimension."""
    logits = at_least_float32(logits)
    rival = without_target(logits, index, dim).amax(dim)
    return rival - at_target(logits, index, dim).squeeze(dim)


def hard_log_odds_by_class(logits: Tensor, dim: int) -> Tensor:
    """Return :func:`hard_log_odds` of every class, shaped like the logits."""
    logits = at_least_float32(logits)
    best, places = logits.topk(2, dim)
    first, second = best.unbind(dim)
    rival = first.unsqueeze(dim).expand_as(logits)
    return with_target(rival, places.narrow(dim, 0, 1), dim, second.unsqueeze(dim)) - logits


def log_odds_of(logits: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return :func:`log_odds` for an index that keeps the class dimension."""
    if needs_plain_operations():
        _, rival, total = _exponentials(logits, index, dim)
        return _log_odds(logits, index, dim, rival, total)
    # not -inf: where ξ is -inf too, their difference would be NaN
    no_floor = torch.scalar_tensor(LIMITS[logits.dtype][0], dtype=compute_dtype(logits))
    return _SoftMaximum.apply(logits, index, dim, no_floor)  # type: ignore[no-any-return, no-untyped-call]


def soft_maximum_of(logits: Tensor, index: Tensor, dim: int, log_beta: Tensor) -> Tensor:
    """Return log(β + e^ξ), the smooth maximum of ξ and log β.

    ``log_beta`` is a 0-d tensor or has one value per sample.
    """
    if needs_plain_operations():
        return soft_maximum(log_odds_of(logits, index, dim), log_beta)
    return _SoftMaximum.apply(logits, index, dim, log_beta)  # type: ignore[no-any-return, no-untyped-call]


def soft_maximum(xi: Tensor, log_beta: Tensor) -> Tensor:
    """Return log(β + e^ξ) from ξ."""
    if not needs_plain_operations():
        return _LogAddBeta.apply(xi, log_beta)  # type: ignore[no-any-return, no-untyped-call]
    # twice the same, each where its derivatives do not cancel
    return torch.where(
        xi > log_beta, xi + softplus(log_beta - xi), log_beta + softplus(xi - log_beta)
    )


def log_odds_by_class(logits: Tensor, dim: int) -> Tensor:
    r"""Return :func:`log_odds` of every class as if it were the target, in O(N·C) memory.

    ξ_c = log(1 - p_c) - log p_c cancels only where p_c > 1/2. That can be one class, the
    largest, which therefore gets its own log-sum over the others.
    """
    top = logits.detach().argmax(dim, keepdim=True)
    of_top = log_odds_of(logits, top, dim).unsqueeze(dim)
    log_p = torch.log_softmax(at_least_float32(logits), dim)
    # -1 in the place of the largest keeps NaN out of a gradient that is not used
    log_p = with_target(log_p, top, dim, -1.0)
    return with_target(torch.log1p(-log_p.exp()) - log_p, top, dim, of_top)


def needs_plain_operations() -> bool:
    """Whether an ``autograd.Function`` must be avoided here.

    The compiler and ``torch.func`` do better with plain operations: PyTorch's forward mode gives
    silently wrong second derivatives for functions that define a ``jvp``, and the bookkeeping of
    one that supports ``vmap`` costs more than a small loss.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def may_look() -> bool:
    """Whether a number of the CPU may be looked at: nobody follows what is done with it."""
    return not (needs_plain_operations() or torch._C._len_torch_dispatch_stack())


def _exponentials(logits: Tensor, index: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return e^(z_i - rival) for the non-target classes, their maximum ``rival``, their sum.

    Where all of them are masked (-inf), the maximum is the lowest finite number and the sum is as
    good as 0, so that the loss is 0, as cross-entropy is.
    """
    lowest, tiny = LIMITS[logits.dtype]
    if needs_plain_operations():
        # not in place: a tensor may stand for several, a dual one or one of a batch
        others = at_least_float32(with_target(logits, index, dim, -math.inf))
        rival = others.detach().amax(dim, keepdim=True).clamp_min(lowest)
        others = (others - rival).exp()
        return others, rival, others.sum(dim, keepdim=True).clamp_min(tiny)
    others = at_least_float32(logits.scatter(dim, index, -math.inf))
    rival = others.amax(dim, keepdim=True).clamp_min_(lowest)
    others = others.sub_(rival).exp_()
    return others, rival, others.sum(dim, keepdim=True).clamp_min_(tiny)


def _log_odds(logits: Tensor, index: Tensor, dim: int, rival: Tensor, total: Tensor) -> Tensor:
    # the difference of maxima first: it is exact where z is large, and log(total) is small
    return (rival - at_target(logits, index, dim) + total.log()).squeeze(dim)


class _LogAddBeta(torch.autograd.Function):
    """log(β + e^ξ) with the derivatives sigmoid(ξ - log β) and sigmoid(log β - ξ)."""

    @staticmethod
    def forward(ctx: Any, xi: Tensor, log_beta: Tensor) -> Tensor:
        ctx.save_for_backward(xi, log_beta)
        return torch.logaddexp(xi, log_beta)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        xi, log_beta = ctx.saved_tensors
        of_beta = None
        if ctx.needs_input_grad[1]:
            of_beta = (grad * torch.sigmoid(log_beta - xi)).sum_to_size(log_beta.shape)
        return grad * torch.sigmoid(xi - log_beta), of_beta


class _SoftMaximum(torch.autograd.Function):
    """log(β + e^ξ) with one pass of exponentials and one saved N × C tensor.

    Its derivatives are those of GD eq. 10 in the form that does not cancel: with
    w = sigmoid(ξ - log β) and q the softmax over the non-target classes, w·q_i for the others,
    -w for the target, and 1 - w for log β.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor, dim: int, log_beta: Tensor) -> Tensor:
        others, rival, total = _exponentials(logits, index, dim)
        xi = _log_odds(logits, index, dim, rival, total)
        ctx.dim = dim
        if logits.dtype in HALF:  # float32 exponentials would be larger than what torch keeps
            ctx.save_for_backward(logits, index, log_beta, xi)
        else:
            ctx.save_for_backward(logits, index, log_beta, xi, others, total)
        return torch.logaddexp(xi, log_beta)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, Tensor | None]:
        dim = ctx.dim
        logits, index, log_beta, xi, *kept = ctx.saved_tensors
        # a gradient that is itself differentiated or vectorised: a function of the inputs alone
        transformed = torch.is_grad_enabled() or needs_plain_operations()
        if transformed:
            xi = log_odds_of(logits, index, dim)
        of_beta = None
        if ctx.needs_input_grad[3]:
            of_beta = (grad * torch.sigmoid(log_beta - xi)).sum_to_size(log_beta.shape)
        pull = (grad * torch.sigmoid(xi - log_beta)).unsqueeze(dim)
        if transformed:
            others = torch.softmax(only_others(logits, index, dim), dim)
            of_logits = (others * pull).scatter(dim, index, -pull).to(logits.dtype)
        elif kept:
            others, total = kept
            of_logits = (others * (pull / total)).scatter_(dim, index, -pull)
        else:
            others, _, total = _exponentials(logits, index, dim)
            of_logits = others.mul_(pull / total).scatter_(dim, index, -pull).to(logits.dtype)
        return of_logits, None, None, of_beta
