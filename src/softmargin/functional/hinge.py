"""The losses on a hard margin: hinges, and the softplus of one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import _checks as checks
from softmargin.functional._criterion import LOSS_ARGUMENTS, criterion
from softmargin.functional.margins import (
    at_least_float32,
    at_target,
    hard_log_odds_by_class,
    hard_log_odds_of,
    softplus,
    with_target,
)


@document_arguments(LOSS_ARGUMENTS, margin="m of at least 0, a number or a 0-d tensor.")
@checks.no_weight_in_its_place
def mean_hinge_loss(
    input: Tensor,
    target: Tensor,
    margin: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Hinge loss averaged over the other classes (LM eq. 14).

    .. math:: \frac{1}{C-1} \sum_{i \ne c} \max(0, z_i - z_c + m)

    ``F.multi_margin_loss`` is the same sum divided by C.

    Example:
        >>> import torch
        >>> from softmargin.functional import mean_hinge_loss
        >>> mean_hinge_loss(torch.tensor([[2.0, 1.5, 0.0]]), torch.tensor([0]))
        tensor(0.2500)
    """
    checks.check_setting("margin", margin, inclusive=True)

    def of_target(z: Tensor, index: Tensor, dim: int) -> Tensor:
        z = at_least_float32(z)
        own = at_target(z, index, dim)
        masked = None
        if not checks.known_within(own, -math.inf, math.inf):
            masked = own == -math.inf  # and other masked classes with it: ∞ - ∞ is NaN
            own = own.masked_fill(masked, 0.0)
        lead = with_target(z - own + margin, index, dim, 0.0)
        mean = lead.relu_().sum(dim) / (z.shape[dim] - 1)
        return mean if masked is None else mean.masked_fill(masked.squeeze(dim), math.inf)

    return criterion(
        input,
        target,
        of_target,
        lambda z, dim: _mean_hinge_by_class(z, dim, margin),
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@document_arguments(LOSS_ARGUMENTS, margin="m of at least 0, a number or a 0-d tensor.")
@checks.no_weight_in_its_place
def max_hinge_loss(
    input: Tensor,
    target: Tensor,
    margin: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Hinge loss against the best other class only (Crammer and Singer, 2001).

    .. math:: \max(0, \max_{i \ne c} z_i - z_c + m)

    Example:
        >>> import torch
        >>> from softmargin.functional import max_hinge_loss
        >>> max_hinge_loss(torch.tensor([[2.0, 1.5, 0.0]]), torch.tensor([0]))
        tensor(0.5000)
    """
    checks.check_setting("margin", margin, inclusive=True)
    return criterion(
        input,
        target,
        lambda z, index, dim: (hard_log_odds_of(z, index, dim) + margin).relu(),
        lambda z, dim: (hard_log_odds_by_class(z, dim) + margin).relu(),
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@document_arguments(LOSS_ARGUMENTS, rho="ρ, a finite number or a 0-d tensor.")
@checks.no_weight_in_its_place
def hard_bias_softmax_loss(
    input: Tensor,
    target: Tensor,
    rho: float | Tensor = 1.0,
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Softplus of the hard margin with a constant bias (LM section 3).

    .. math:: \log(1 + e^{h + \rho}), \quad h = (\max_{i \ne c} z_i - z_c) / \tau

    Kept for comparison: only two classes of each sample get a gradient.

    Example:
        >>> import torch
        >>> from softmargin.functional import hard_bias_softmax_loss
        >>> hard_bias_softmax_loss(torch.zeros(1, 5), torch.tensor([0]))
        tensor(1.3133)
    """
    checks.check_setting("rho", rho, above=-math.inf)
    return criterion(
        input,
        target,
        lambda z, index, dim: softplus(hard_log_odds_of(z, index, dim) + rho),
        lambda z, dim: softplus(hard_log_odds_by_class(z, dim) + rho),
        tau=tau,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _mean_hinge_by_class(logits: Tensor, dim: int, margin: float | Tensor) -> Tensor:
    """Return the mean hinge of every class in O(N·C) memory, by sorting instead of C × C pairs."""
    logits = at_least_float32(logits).movedim(dim, -1)
    num_classes = logits.shape[-1]
    logits = logits - logits.detach().amax(-1, keepdim=True)
    ascending = logits.sort(-1).values
    # sums of the largest k logits, k = 0 ... C, over C - 1 at once: so they cannot overflow
    sums = torch.cat([ascending.new_zeros((*ascending.shape[:-1], 1)), ascending.flip(-1)], -1)
    sums = (sums / (num_classes - 1)).cumsum(-1)
    threshold = (logits - margin).detach()
    count = num_classes - torch.searchsorted(ascending.detach(), threshold, right=True)
    # each sum holds the class itself, whose own margin does not count
    count_others = (count - 1).to(logits.dtype) / (num_classes - 1)
    own = count.to(logits.dtype) / (num_classes - 1) * logits
    return (sums.gather(-1, count) - own + count_others * margin).movedim(-1, dim)
