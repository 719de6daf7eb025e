"""Measured gradients of samples by their confidence (GD Fig. 2)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from softmargin.calibration._batch import worker
from softmargin.calibration.binning import bin_edges, bin_index
from softmargin.diagnostics._tensor_checks import check_integers, check_same_shape
from softmargin.functional._checks import check_count
from softmargin.functional.margins import log_odds
from softmargin.losses import GradientDecayLoss, LogitLoss


@dataclass(frozen=True)
class GradientByConfidence:
    """Gradients of the target's logit by confidence; float64, NaN in empty bins.

    Attributes:
        edges: edges of the bins of confidence, of shape (bins + 1,); closed on the right.
        counts: samples per bin, int64 of shape (bins,).
        confidence: mean confidence per bin.
        magnitude: mean of ∣∂J/∂z_c∣ per bin, by automatic differentiation.
        theory: mean per bin of G(p; β) of GD eq. 10, if the loss is gradient decay or
            cross-entropy without class weights and label smoothing; otherwise None.
    """

    edges: Tensor
    counts: Tensor
    confidence: Tensor
    magnitude: Tensor
    theory: Tensor | None


def gradient_by_confidence(
    logits: Tensor, target: Tensor, loss: Callable[[Tensor, Tensor], Tensor], bins: int = 20
) -> GradientByConfidence:
    """Return the mean gradient of the target's logit, per sample, by confidence.

    The reduction of the loss over a batch has no effect. Everything is float64.

    Args:
        logits: of shape (N, C).
        target: class indices of shape (N,).
        loss: a criterion with an attribute ``reduction``, as all of this library and of
            ``torch.nn`` have, or a function that returns one value per sample.
        bins: number of equal bins of confidence.

    Example:
        >>> import torch
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.diagnostics import gradient_by_confidence
        >>> logits = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
        >>> result = gradient_by_confidence(
        ...     logits, torch.tensor([0, 1]), GradientDecayLoss(beta=0.25), bins=2
        ... )
        >>> result.magnitude, result.theory
        (tensor([0.8000,    nan], dtype=torch.float64),
         tensor([0.8000,    nan], dtype=torch.float64))
    """
    check_count("bins", bins, 1)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"logits must have shape (N, C), but got {shape}.")
    check_integers("target", target)
    check_same_shape("target", target, logits.shape[:1])
    device = worker(logits.device)
    logits, target = (
        x.detach().to(device, dtype)
        for x, dtype in ((logits, torch.float64), (target, torch.int64))
    )
    confidence = torch.sigmoid(-log_odds(logits, target))
    if wrong := int(confidence.isnan().sum()):
        raise ValueError(f"logits must not be NaN, but those of {wrong} samples are.")
    pull = _pulls(logits, target, loss)
    edges = bin_edges(bins, device)
    place = bin_index(confidence, edges, "right")
    counts = place.bincount(minlength=bins)

    def mean(values: Tensor) -> Tensor:
        return place.bincount(values, minlength=bins) / counts

    theory = _theory(logits, target, loss)
    return GradientByConfidence(
        edges, counts, mean(confidence), mean(pull), None if theory is None else mean(theory)
    )


def _pulls(logits: Tensor, target: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return ∣∂J/∂z_c∣ of every sample."""
    if not callable(loss):
        raise TypeError(f"loss must be a criterion or a function, but got {loss!r}.")
    if isinstance(loss, nn.Module):
        loss = copy.deepcopy(loss).to(logits.device, torch.float64)
    if hasattr(loss, "reduction"):
        loss = copy.copy(loss)
        loss.reduction = "none"
    with torch.enable_grad():
        leaf = logits.clone().requires_grad_()
        values = loss(leaf, target)
        if not isinstance(values, Tensor) or not values.requires_grad:
            raise ValueError("loss must return a tensor with a gradient, but it has none.")
        if values.shape != target.shape:
            raise ValueError(
                "loss must return one value per sample or have an attribute reduction, "
                f"but it returned shape {tuple(values.shape)} for {len(target)} samples."
            )
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return gradient.gather(1, target.unsqueeze(1)).squeeze(1).abs()


def _theory(logits: Tensor, target: Tensor, loss: object) -> Tensor | None:
    """Return G of every sample as sigmoid(ξ - log β)/τ, which is accurate near p = 1."""
    if not isinstance(loss, nn.CrossEntropyLoss):
        return None
    if loss.weight is not None or loss.label_smoothing:
        return None
    if not isinstance(loss, LogitLoss):
        return torch.sigmoid(log_odds(logits, target))
    if not isinstance(loss, GradientDecayLoss):
        return None
    beta, tau = (torch.as_tensor(each).detach().to(logits) for each in (loss.beta, loss.tau))
    beta = beta[target] if beta.ndim else beta
    return torch.sigmoid(log_odds(logits, target, tau) - beta.log()) / tau
