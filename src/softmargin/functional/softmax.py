"""The losses on the log-odds ξ, with the arguments of ``F.cross_entropy``.

They hand their arguments on one by one: a star would take half a microsecond of a small batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import _checks as checks
from softmargin.functional._criterion import LOSS_ARGUMENTS, criterion, result_dtype
from softmargin.functional._fused_loss import loss as fused
from softmargin.functional.divergences import divergence_by_class, divergence_of
from softmargin.functional.margins import (
    apply_temperature,
    at_least_float32,
    broadcast_along,
    compute_dtype,
    log_odds_by_class,
    log_odds_of,
    soft_maximum,
    soft_maximum_of,
    softplus,
)


@document_arguments(
    LOSS_ARGUMENTS,
    beta=(
        "gradient decay factor above 0: a number, a 0-d tensor (it may require a "
        "gradient) or one value per class, of shape (C,)."
    ),
    floored="whether to subtract log β, so that the minimum is 0.",
    compensate=(
        "whether to multiply the loss by the number, constant for the gradient, that "
        "gives the batch the mean gradient at the targets that β = 1 would have. With a "
        "large β gradients are small, and a model under-trains; this is the learning rate "
        "that makes up for it, batch by batch. With several processes each has its own."
    ),
)
@checks.no_weight_in_its_place
def gradient_decay_loss(
    input: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    floored: bool = False,
    compensate: bool = False,
) -> Tensor:
    r"""Softmax loss whose gradient fades with confidence at a rate set by β (GD eq. 5).

    .. math:: J = \log(\beta + e^{\xi}) = -\log \frac{e^{z_c/\tau}}
              {\sum_{i \ne c} e^{z_i/\tau} + \beta e^{z_c/\tau}}

    with ξ from :func:`log_odds`. β = 1 is cross-entropy. β < 1 is a margin of -log β: samples
    keep their gradient until they are very sure. β > 1 lets go of a sample early. The gradient
    is cross-entropy's times 1/(1 + (β - 1)p).

    The minimum is log β, below 0 for β < 1. ``floored=True`` takes it off,
    softplus(ξ - log β): the same gradient, and never below 0.

    Shape:
        a scalar, or the target's shape (without its classes) for ``reduction="none"``.

    Example:
        >>> import torch
        >>> from softmargin.functional import gradient_decay_loss
        >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> gradient_decay_loss(logits, target)  # β = 1 is cross-entropy
        tensor(0.2201)
        >>> gradient_decay_loss(logits, target, beta=0.1)
        tensor(-1.1031)
        >>> gradient_decay_loss(logits, target, beta=0.1, floored=True)
        tensor(1.1994)
    """
    if floored is not False or compensate is not False:
        checks.check_flag("floored", floored)
        checks.check_flag("compensate", compensate)
    shared = tau, weight, ignore_index, reduction, label_smoothing

    def plain(input: Tensor) -> Tensor:
        def of_target(z: Tensor, index: Tensor, dim: int) -> Tensor:
            log_beta = _log(beta, z, dim, index)
            if floored:
                return softplus(log_odds_of(z, index, dim) - log_beta)
            return soft_maximum_of(z, index, dim, log_beta)

        def by_class(z: Tensor, dim: int) -> Tensor:
            xi, log_beta = log_odds_by_class(z, dim), _log(beta, z, dim)
            return softplus(xi - log_beta) if floored else soft_maximum(xi, log_beta)

        if not compensate:
            return criterion(input, target, of_target, by_class, *shared)
        checks.check_fit(input, target)
        # the factor may be infinite in half precision
        loss = criterion(at_least_float32(input), target, of_target, by_class, *shared)
        factor = _compensation(input, target, beta, tau, weight, ignore_index)
        return (loss * factor).to(result_dtype(input, target))

    form = "floored" if floored else "decay"
    return fused(
        form,
        beta,
        input,
        target,
        tau,
        weight,
        ignore_index,
        reduction,
        label_smoothing,
        plain,
        compensate=compensate,
    )


@document_arguments(LOSS_ARGUMENTS, margin="m, a finite number or a 0-d tensor.")
@checks.no_weight_in_its_place
def soft_margin_softmax_loss(
    input: Tensor,
    target: Tensor,
    margin: float | Tensor,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Cross-entropy with the target's logit lowered by a margin: softplus(ξ + m), M-Softmax.

    It is :func:`gradient_decay_loss` with β = e^(-m), floored.

    Example:
        >>> import torch
        >>> from softmargin.functional import soft_margin_softmax_loss
        >>> soft_margin_softmax_loss(torch.zeros(1, 2), torch.tensor([0]), margin=1.0)
        tensor(1.3133)
    """
    checks.check_setting("margin", margin, above=-math.inf)
    shared = tau, weight, ignore_index, reduction, label_smoothing

    def plain(input: Tensor) -> Tensor:
        return criterion(
            input,
            target,
            lambda z, index, dim: softplus(log_odds_of(z, index, dim) + margin),
            lambda z, dim: softplus(log_odds_by_class(z, dim) + margin),
            *shared,
        )

    return fused(
        "margin",
        margin,
        input,
        target,
        tau,
        weight,
        ignore_index,
        reduction,
        label_smoothing,
        plain,
    )


@document_arguments(LOSS_ARGUMENTS, rho="ρ, a finite number or a 0-d tensor.")
@checks.no_weight_in_its_place
def modified_softmax_loss(
    input: Tensor,
    target: Tensor,
    rho: float | Tensor = 1.0,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Softmax loss with the hinge loss's bias: softplus(ξ + ρ), ρ = 1 (LM eq. 15).

    It is :func:`soft_margin_softmax_loss` under another name and with its default: β = e^(-1),
    floored.

    Example:
        >>> import torch
        >>> from softmargin.functional import modified_softmax_loss
        >>> modified_softmax_loss(torch.zeros(1, 2), torch.tensor([0]))
        tensor(1.3133)
    """
    checks.check_setting("rho", rho, above=-math.inf)
    return soft_margin_softmax_loss(
        input, target, rho, tau, weight, ignore_index, reduction, label_smoothing
    )


@document_arguments(
    LOSS_ARGUMENTS,
    lam="λ of at least 0, a number or a 0-d tensor.",
    divergence='``"symmetric"``, ``"uniform_to_logits"`` or ``"logits_to_uniform"``.',
    beta="gradient decay factor above 0: a number, a 0-d tensor or one value per class.",
)
@checks.no_weight_in_its_place
def regularized_softmax_loss(
    input: Tensor,
    target: Tensor,
    lam: float | Tensor = 0.3,
    divergence: str = "symmetric",
    beta: float | Tensor = 1.0,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Softmax loss plus a pull of the non-target logits towards level (LM eq. 11).

    .. math:: \log(\beta + e^{\xi}) + \lambda D

    with D from :func:`logit_divergence`. Level non-target logits are where the margin that
    softmax contains is largest; the pull leaves the target's own logit alone. β = 1 is the
    paper's loss. Samples are weighted and ignored in D as they are in the loss.

    Example:
        >>> import torch
        >>> from softmargin.functional import regularized_softmax_loss
        >>> logits, target = torch.tensor([[2.0, 1.0, -1.0]]), torch.tensor([0])
        >>> regularized_softmax_loss(logits, target, lam=0.0)  # cross-entropy
        tensor(0.3490)
        >>> regularized_softmax_loss(logits, target)
        tensor(0.4633)
    """
    checks.check_setting("lam", lam, inclusive=True)
    checks.check_choice("divergence", divergence, checks.DIVERGENCES)

    def of_target(z: Tensor, index: Tensor, dim: int) -> Tensor:
        z = at_least_float32(z)
        loss = soft_maximum_of(z, index, dim, _log(beta, z, dim, index))
        return loss + lam * divergence_of(z, index, dim, divergence)

    def by_class(z: Tensor, dim: int) -> Tensor:
        losses = soft_maximum(log_odds_by_class(z, dim), _log(beta, z, dim))
        return losses + lam * divergence_by_class(z, dim, divergence)

    shared = tau, weight, ignore_index, reduction, label_smoothing

    def plain(input: Tensor) -> Tensor:
        return criterion(input, target, of_target, by_class, *shared)

    return fused(
        "decay",
        beta,
        input,
        target,
        tau,
        weight,
        ignore_index,
        reduction,
        label_smoothing,
        plain,
        lam=lam,
        divergence=divergence,
    )


@document_arguments(LOSS_ARGUMENTS, gamma="γ of at least 0, a number or a 0-d tensor.")
@checks.no_weight_in_its_place
def focal_loss(
    input: Tensor,
    target: Tensor,
    gamma: float | Tensor = 2.0,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Cross-entropy weighted by how wrong the model still is (Lin et al., 2017).

    .. math:: (1 - p_c)^{\gamma} \cdot (-\log p_c)
              = \operatorname{sigmoid}(\xi)^{\gamma} \operatorname{softplus}(\xi)

    The peer that users know: like β > 1 it lets go of confident samples. γ = 0 is cross-entropy,
    and the usual per-class α is ``weight``. The ξ form keeps the gradient finite for γ < 1 at
    p = 1, where the textbook form gives NaN.

    Example:
        >>> import torch
        >>> from softmargin.functional import focal_loss
        >>> focal_loss(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
    """
    checks.check_setting("gamma", gamma, inclusive=True)

    def of_log_odds(xi: Tensor) -> Tensor:
        held = xi
        if not checks.known_within(xi, -math.inf, 100.0):
            # past 100 the weight is 1 to the last digit; held finite, an infinite ξ adds no 0·∞
            held = xi.clamp(torch.finfo(xi.dtype).min, 100.0)
        return (-gamma * softplus(-held)).exp() * softplus(xi)

    shared = tau, weight, ignore_index, reduction, label_smoothing

    def plain(input: Tensor) -> Tensor:
        return criterion(
            input,
            target,
            lambda z, index, dim: of_log_odds(log_odds_of(z, index, dim)),
            lambda z, dim: of_log_odds(log_odds_by_class(z, dim)),
            *shared,
        )

    return fused(
        "focal",
        gamma,
        input,
        target,
        tau,
        weight,
        ignore_index,
        reduction,
        label_smoothing,
        plain,
    )


def _compensation(
    input: Tensor,
    target: Tensor,
    beta: float | Tensor,
    tau: float | Tensor,
    weight: Tensor | None,
    ignore_index: int,
) -> Tensor:
    """Return the mean of 1 - p over the mean of the gradient's magnitude with β (GD eq. 10).

    It is a constant for every kind of derivative: forward mode goes past ``no_grad``, so what
    comes in is detached.
    """
    dim = checks.check_fit(input, target)
    beta, tau = (x.detach() if isinstance(x, Tensor) else x for x in (beta, tau))
    logits = apply_temperature(input.detach(), tau, dim)
    if target.is_floating_point():
        xi, log_beta = log_odds_by_class(logits, dim), _log(beta, logits, dim)
        share = target.detach().to(xi.dtype)
        if weight is not None:
            share = share * broadcast_along(weight.detach().to(xi.dtype), xi, dim)
    else:
        # int64 first: in uint8 an ignore_index of -100 would be class 156
        index = target.reshape(1) if dim == 0 else target.unsqueeze(dim)
        ignored = (index := index.long()) == ignore_index
        index = index.masked_fill(ignored, 0)
        xi, log_beta = log_odds_of(logits, index, dim), _log(beta, logits, dim, index)
        share = (~ignored).squeeze(dim).to(xi.dtype)
        if weight is not None:
            share = share * weight.detach().to(xi.dtype)[index].squeeze(dim)
    return mean_gradient_ratio(xi, log_beta, share)


def mean_gradient_ratio(xi: Tensor, log_beta: Tensor, share: Tensor | None = None) -> Tensor:
    """Return Σ sigmoid(ξ) / Σ sigmoid(ξ - log β) over the last dimension, or over all with shares.

    It is 1 where nothing pulls any more.
    """
    plain, own = torch.sigmoid(xi), torch.sigmoid(xi - log_beta)
    if share is None:
        plain, own = plain.sum(-1, keepdim=True), own.sum(-1, keepdim=True)
    else:
        plain, own = (plain * share).sum(), (own * share).sum()
    return torch.where(own > 0, plain / torch.where(own > 0, own, 1.0), 1.0)


def _log(beta: float | Tensor, logits: Tensor, dim: int, index: Tensor | None = None) -> Tensor:
    """Return log β for the given targets, or for every class, ready to meet ξ.

    The logarithm is taken in at least the precision that ξ has, whatever β is stored in.
    """
    checks.check_setting("beta", beta, logits.shape[dim])
    dtype = compute_dtype(logits)
    if not isinstance(beta, Tensor):
        return torch.scalar_tensor(math.log(beta), dtype=dtype)
    if beta.dtype != torch.float64:
        beta = beta.to(torch.promote_types(beta.dtype, dtype))
    log_beta = beta.log()
    if beta.ndim == 0 and logits.ndim > 1:  # a 0-d tensor takes the dtype of what it meets
        return log_beta
    log_beta = log_beta.to(dtype)
    if beta.ndim == 0:
        return log_beta
    return broadcast_along(log_beta, logits, dim) if index is None else log_beta[index].squeeze(dim)
