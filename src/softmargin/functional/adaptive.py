"""Focal loss with a γ for every range of confidence, negative ones included."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import _checks as checks
from softmargin.functional._criterion import LOSS_ARGUMENTS, criterion
from softmargin.functional.margins import log_odds_by_class, log_odds_of, softplus


@document_arguments(
    LOSS_ARGUMENTS,
    gammas="γ of every range, one more than there are ``edges``; below 0 it is inverse focal loss.",
    edges="the ends of the ranges of p_c but the last, ascending; each belongs to the range below.",
)
@checks.no_weight_in_its_place
def adaptive_focal_loss(
    input: Tensor,
    target: Tensor,
    gammas: Tensor | Sequence[float] = (1.0,),
    edges: Tensor | Sequence[float] = (),
    tau: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Focal loss whose γ goes by the confidence in the target (Ghosh et al., 2022).

    .. math:: -(1 - p_c)^{\gamma} \log p_c \;\text{ for } \gamma \ge 0, \qquad
              -(1 + p_c)^{|\gamma|} \log p_c \;\text{ for } \gamma < 0

    with the γ of the range that p_c falls into. It is a constant for derivatives. A γ above 0 lets
    go of confident samples, one below 0 pulls harder at them.

    Example:
        >>> import torch
        >>> from softmargin.functional import adaptive_focal_loss
        >>> logits, target = torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.tensor([0, 0])
        >>> adaptive_focal_loss(logits, target, [2.0, -1.0], [0.7], reduction="none")
        tensor([0.1733, 0.0949])
    """
    _check_numbers("gammas", gammas)
    _check_numbers("edges", edges)
    if len(gammas) != len(edges) + 1:
        raise ValueError(
            f"gammas must hold one value more than edges, {len(edges) + 1}, but got {len(gammas)}."
        )

    def of_log_odds(xi: Tensor) -> Tensor:
        ends, values = (
            torch.as_tensor(x, dtype=xi.dtype, device=xi.device) for x in (edges, gammas)
        )
        held = xi
        if not checks.known_within(xi, -math.inf, 100.0):
            # past 100 the weight is 1 to the last digit; held finite, an infinite ξ adds no 0·∞
            held = xi.clamp(torch.finfo(xi.dtype).min, 100.0)
        p = torch.sigmoid(-held)
        gamma = values[(p.detach().unsqueeze(-1) > ends).sum(-1)]
        power = torch.where(gamma >= 0, softplus(-held), torch.log1p(p))
        return (-gamma * power).exp() * softplus(xi)

    return criterion(
        input,
        target,
        lambda z, index, dim: of_log_odds(log_odds_of(z, index, dim)),
        lambda z, dim: of_log_odds(log_odds_by_class(z, dim)),
        tau,
        weight,
        ignore_index,
        reduction,
        label_smoothing,
    )


def _check_numbers(name: str, values: object) -> None:
    """Raise unless values are numbers in one dimension."""
    try:
        shape = torch.as_tensor(values).shape
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{name} must be a tensor or list of numbers, but got {values!r}."
        ) from None
    if len(shape) != 1:
        raise ValueError(f"{name} must have one dimension, but got shape {tuple(shape)}.")
