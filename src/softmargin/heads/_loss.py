"""The loss of a head without its logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn

from softmargin import functional
from softmargin._logit_loss import LogitLoss
from softmargin.functional._chunks import Job, loss_of_products, may_split
from softmargin.functional._class_chunks import Decay
from softmargin.functional._plain_directions import autocasts, full_precision
from softmargin.functional._products import Samples
from softmargin.functional.angular import target_index

if TYPE_CHECKING:
    from softmargin.heads.base import Head

Function = Callable[..., Tensor]


def loss_of_head(head: Head, features: Tensor, target: Tensor, criterion: nn.Module) -> Tensor:
    """Return ``criterion(head(features, target), target)``; see :meth:`Head.loss`."""
    function, options = _call_of(criterion)
    soft = head.is_soft(features, target)
    as_a_whole = (soft and head.needs_target) or (head.autocasts and autocasts(features))
    if as_a_whole or features.ndim != 2 or not may_split():
        return criterion(head(features, target), target)  # type: ignore[no-any-return]
    index = None
    if not soft:
        index = target_index(features, head.num_classes, target, head.ignore_index)
    products = head.products(features, index)

    def of_logits(logits: Tensor, target: Tensor, reduction: str) -> Tensor:
        return function(logits, target, **{**options, "reduction": reduction})

    samples = Samples(target, options["weight"], options["ignore_index"])
    job = Job(of_logits, samples, options["reduction"], _decay_of(function, options))
    settings = [x for x in options.values() if isinstance(x, Tensor)]
    with full_precision(features):
        return loss_of_products(products, job, *settings)


def _call_of(criterion: nn.Module) -> tuple[Function, dict[str, Any]]:
    """Return the function of a criterion and its arguments as they are now."""
    if type(criterion) is nn.CrossEntropyLoss:
        names = ("weight", "ignore_index", "reduction", "label_smoothing")
        return F.cross_entropy, {name: getattr(criterion, name) for name in names}
    if not isinstance(criterion, LogitLoss) or type(criterion).forward is not LogitLoss.forward:
        raise TypeError(
            "criterion must be an nn.CrossEntropyLoss or a loss of softmargin.losses on logits, "
            f"but got {type(criterion).__name__}."
        )
    options = criterion.arguments()
    if options.get("compensate"):
        raise ValueError(
            "criterion must have compensate=False without logits, for its factor needs those of "
            "the whole batch, but got True."
        )
    return type(criterion).function, options


def _decay_of(function: Function, options: dict[str, Any]) -> Decay | None:
    """Return the loss as one that can be split over the classes, or None."""
    own = {name: options[name] for name in ("tau", "label_smoothing") if name in options}
    if function is F.cross_entropy:
        return Decay(**own)
    if function is functional.gradient_decay_loss:
        return Decay(options["beta"], floored=options["floored"], **own)
    if function is functional.regularized_softmax_loss:
        pull = {name: options[name] for name in ("lam", "divergence")}
        return Decay(options["beta"], **pull, **own)
    for known, name in MARGINS.items():
        if function is known:
            margin = options[name]
            beta = (-margin).exp() if isinstance(margin, Tensor) else math.exp(-margin)
            return Decay(beta, floored=True, **own)
    return None


MARGINS: dict[Function, str] = {
    functional.soft_margin_softmax_loss: "margin",
    functional.modified_softmax_loss: "rho",
}
"""Losses that are gradient decay with β = e^(-m), floored, and what they call m."""
