"""Confidence over samples and epochs: GD's Table 1 and Figure 3."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.diagnostics._tensor_checks import check_confidence, check_same_shape
from softmargin.functional._checks import check_count

EDGES = (0.2, 0.4, 0.6, 0.8)


def confidence_histogram(confidence: Tensor) -> Tensor:
    """Return how many samples have p ≤ .2, .2 < p ≤ .4, ..., .8 < p: GD's Table 1.

    A value is compared with an edge in the value's own precision, as ``p <= 0.2`` would.

    Args:
        confidence: probability of each sample's class, of shape (..., N); NaN does not count.

    Returns:
        int64 counts of shape (..., 5).

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import confidence_histogram
        >>> confidence_histogram(torch.tensor([0.1, 0.2, 0.3, 0.9, 1.0]))
        tensor([2, 1, 0, 0, 2])
    """
    check_confidence(confidence, 1)
    below = [(confidence <= edge).sum(-1) for edge in EDGES]
    below.append((~confidence.isnan()).sum(-1))
    counts = torch.stack(below, -1)
    return counts.diff(dim=-1, prepend=torch.zeros_like(counts[..., :1]))


@dataclass(frozen=True)
class ConfidenceGroups:
    """Equal groups of samples from hard to easy.

    Attributes:
        curves: each group's mean confidence by epoch, float64 of shape (E, count) or
            (K, E, count); the hardest group comes first.
        members: the group of each sample, of shape (N,) or (K, N); -1 if it was not seen in the
            final epoch and is in no group.
    """

    curves: Tensor
    members: Tensor


def confidence_groups(
    confidence: Tensor, count: int = 5, final: Tensor | None = None
) -> ConfidenceGroups:
    """Return equal groups from hard to easy by final confidence: GD's Figure 3 e-h.

    Group sizes differ by at most one. Of equal samples the first is in the harder group.

    Args:
        confidence: probability of each sample's class by epoch, of shape (E, N) or (K, E, N);
            NaN, a sample not seen in an epoch, is left out of that epoch's mean.
        count: number of groups.
        final: what to sort the samples by, of shape (N,) or (K, N), if it is known more precisely
            than the last epoch of ``confidence``.

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import confidence_groups
        >>> confidence = torch.tensor([[0.1, 0.5, 0.1, 0.5], [0.9, 0.4, 0.8, 0.2]])
        >>> groups = confidence_groups(confidence, count=2)
        >>> groups.members
        tensor([1, 0, 1, 0])
        >>> groups.curves
        tensor([[0.5000, 0.1000],
                [0.3000, 0.8500]], dtype=torch.float64)
    """
    check_confidence(confidence, 2)
    check_count("count", count, 1)
    last = confidence[..., -1, :]
    final = last if final is None else final
    check_same_shape("final", final, last.shape)
    members = _members(final, count)
    slots = torch.where(members < 0, count, members)
    curves = []
    for each in confidence.unbind(-2):  # one epoch at a time, since float64 takes memory
        seen = (~each.isnan()).double()
        zeros = seen.new_zeros((*seen.shape[:-1], count + 1))
        total = zeros.scatter_add(-1, slots, each.double().nan_to_num(0.0))
        curves.append((total / zeros.scatter_add(-1, slots, seen))[..., :count])
    return ConfidenceGroups(torch.stack(curves, -2), members)


def _members(final: Tensor, count: int) -> Tensor:
    """Return the group of each sample by its rank, -1 for NaN, which is sorted last."""
    order = final.argsort(dim=-1, stable=True)
    seen = (~final.isnan()).sum(-1, keepdim=True)
    ranks = torch.arange(final.shape[-1], device=final.device).expand(final.shape)
    groups = torch.where(ranks < seen, ranks * count // seen.clamp_min(1), -1)
    return torch.empty_like(groups).scatter_(-1, order, groups)
