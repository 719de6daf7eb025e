"""Losses of many models at once: logits (K, B, C), settings (K, 1), one value per sample (K, B)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from softmargin import losses
from softmargin.functional.divergences import divergence_of
from softmargin.functional.margins import (
    apply_temperature,
    hard_log_odds_of,
    log_odds_by_class,
    log_odds_of,
    soft_maximum_of,
    softplus,
    without_target,
)
from softmargin.functional.softmax import mean_gradient_ratio

CLASSES = 2  # the dimension of the classes
StackedLoss = Callable[[Any, Tensor, Tensor, Mapping[str, Tensor]], Tensor]
"""(one of the losses, logits over τ, index, settings) -> one value per sample."""


def stacked_loss(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    """Return the losses of K models as (K, B); ``loss`` says which kind they are."""
    if "tau" in s:
        z = apply_temperature(z, s["tau"].unsqueeze(-1), CLASSES)
    values = STACKED_LOSSES[type(loss)](loss, z, index, s)
    if loss.label_smoothing > 0:
        everywhere = (softplus(log_odds_by_class(z, CLASSES) - s["log_beta"].unsqueeze(-1))).mean(2)
        everywhere = everywhere if loss.floored else everywhere + s["log_beta"]
        values = (1 - loss.label_smoothing) * values + loss.label_smoothing * everywhere
    if getattr(loss, "compensate", False):
        xi = log_odds_of(z.detach(), index, CLASSES)
        values = values * mean_gradient_ratio(xi, s["log_beta"])
    return values


def _gradient_decay(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    if loss.floored:
        return softplus(log_odds_of(z, index, CLASSES) - s["log_beta"])
    return soft_maximum_of(z, index, CLASSES, s["log_beta"])


def _with_bias(name: str) -> StackedLoss:
    def of(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
        return softplus(log_odds_of(z, index, CLASSES) + s[name])

    return of


def _regularized(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    plain = soft_maximum_of(z, index, CLASSES, s["log_beta"])
    return plain + s["lam"] * divergence_of(z, index, CLASSES, loss.divergence)


def _focal(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    xi = log_odds_of(z, index, CLASSES)
    return (-s["gamma"] * softplus(-xi)).exp() * softplus(xi)


def _mean_hinge(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    lead = without_target(z, index, CLASSES) - z.gather(CLASSES, index) + s["margin"].unsqueeze(-1)
    return lead.relu().sum(CLASSES) / (z.shape[CLASSES] - 1)


def _max_hinge(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    return (hard_log_odds_of(z, index, CLASSES) + s["margin"]).relu()


def _hard_bias(loss: Any, z: Tensor, index: Tensor, s: Mapping[str, Tensor]) -> Tensor:
    return softplus(hard_log_odds_of(z, index, CLASSES) + s["rho"])


STACKED_LOSSES: dict[type[Any], StackedLoss] = {
    losses.GradientDecayLoss: _gradient_decay,
    losses.SoftMarginSoftmaxLoss: _with_bias("margin"),
    losses.ModifiedSoftmaxLoss: _with_bias("rho"),
    losses.RegularizedSoftmaxLoss: _regularized,
    losses.FocalLoss: _focal,
    losses.MeanHingeLoss: _mean_hinge,
    losses.MaxHingeLoss: _max_hinge,
    losses.HardBiasSoftmaxLoss: _hard_bias,
}
