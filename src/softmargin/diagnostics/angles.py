"""Angles between features, class centres and class weights (AG eq. 20-22), exact near 0 and π."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from softmargin.calibration._batch import worker
from softmargin.diagnostics._tensor_checks import check_finite, check_floating
from softmargin.diagnostics.features import MOST_CLASSES, check_labelled, class_centres
from softmargin.functional._checks import check_classes, check_count
from softmargin.functional.angular import check_vectors
from softmargin.functional.lengths import unit


@dataclass(frozen=True)
class AngleStatistics:
    """Mean angles of a trained classifier in radians, after AG's Table VI.

    Attributes:
        wc_intra: mean angle between a class's feature centre and its weight (AG eq. 20).
        w_inter: mean angle between the weights of different classes (AG eq. 21).
        c_inter: mean angle between the feature centres of different classes (AG eq. 22, as
            described in its text); NaN if fewer than two classes occur.
        missing: classes that do not occur among the samples; they have no centre and are left
            out of ``wc_intra`` and ``c_inter``.
        unit: ``"radians"`` or ``"degrees"``.
    """

    wc_intra: float
    w_inter: float
    c_inter: float
    missing: tuple[int, ...] = ()
    unit: str = "radians"

    def degrees(self) -> AngleStatistics:
        """Return the same in degrees."""
        if self.unit == "degrees":
            return self
        return AngleStatistics(
            math.degrees(self.wc_intra),
            math.degrees(self.w_inter),
            math.degrees(self.c_inter),
            self.missing,
            "degrees",
        )


class AngleHistogram(NamedTuple):
    """Counts of angles, int64 of shape (bins,), and the edges between 0 and π, (bins + 1,)."""

    counts: Tensor
    edges: Tensor


def angle_statistics(features: Tensor, target: Tensor, weight: Tensor) -> AngleStatistics:
    r"""Return the mean angles between centres and weights, and between classes.

    A class's centre is the mean of its features. A vector of length 0 has no direction and counts
    as orthogonal to everything. All angles are computed in float64 from the vectors, not from a
    cosine, which cannot resolve small ones.

    Args:
        features: x, of shape (N, D).
        target: class indices of shape (N,).
        weight: one row per class, of shape (C, D).

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import angle_statistics
        >>> features = torch.tensor([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
        >>> angle_statistics(features, torch.tensor([0, 0, 1]), torch.eye(2)).degrees()
        AngleStatistics(wc_intra=0.0, w_inter=90.0, c_inter=90.0, missing=(), unit='degrees')
    """
    check_floating("weight", weight)
    _check(features, target, weight)
    centres, counts = class_centres(features, target, len(weight))
    there = counts > 0
    weight = weight.detach().to(centres)
    return AngleStatistics(
        wc_intra=float(angles_between(centres[there], weight[there]).mean()),
        w_inter=_mean_apart(weight),
        c_inter=_mean_apart(centres[there]),
        missing=tuple((~there).nonzero().flatten().tolist()),
    )


def intra_class_angles(features: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the angle between every feature and its class's weight, or its class's centre.

    Args:
        features: x, of shape (N, D).
        target: class indices of shape (N,).
        weight: one row per class, of shape (C, D); by default the mean feature of each class.

    Returns:
        angles in radians, float64 of shape (N,).

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import intra_class_angles
        >>> intra_class_angles(torch.tensor([[1.0, 1e-6]]), torch.tensor([0]), torch.eye(2))
        tensor([1.0000e-06], dtype=torch.float64)
    """
    _check(features, target, weight)
    num_classes = int(target.max()) + 1 if weight is None else len(weight)
    x = features.detach().to(worker(features.device), torch.float64)
    rows = class_centres(features, target, num_classes)[0] if weight is None else weight.detach()
    return angles_between(x, rows.to(x)[target.to(x.device, torch.int64)])


def angle_histogram(angles: Tensor, bins: int = 90) -> AngleHistogram:
    """Return how many angles lie in each of equal bins from 0 to π, closed on the right.

    The edges do not depend on the angles, so histograms of different epochs can be stacked (AG
    Fig. 4).

    Args:
        angles: in radians, of any shape.
        bins: number of bins; the default makes each two degrees wide.

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import angle_histogram
        >>> angle_histogram(torch.tensor([0.0, 0.1, 3.1]), bins=2).counts
        tensor([2, 1])
    """
    check_floating("angles", angles)
    check_count("bins", bins, 1)
    check_finite("angles", angles)
    values = angles.detach().to(worker(angles.device), torch.float64).flatten()
    outside = (values < 0) | (values > math.pi + 1e-6)  # π in float32 is above π
    if bool(outside.any()):
        raise ValueError(f"angles must be between 0 and π, but got {float(values[outside][0])}.")
    edges = torch.linspace(0.0, math.pi, bins + 1, dtype=torch.float64, device=values.device)
    counts = torch.searchsorted(edges[1:-1], values, right=False).bincount(minlength=bins)
    return AngleHistogram(counts, edges)


def angles_between(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle between pairs of float64 vectors, accurate for angles of any size."""
    a, b = unit(a), unit(b)
    apart, together = (torch.linalg.vector_norm(v, dim=-1) for v in (a - b, a + b))
    return 2 * torch.atan2(apart, together)


def _mean_apart(vectors: Tensor) -> float:
    """Return the mean angle over all pairs of different rows, NaN if there is none."""
    count = len(vectors)
    rows = unit(vectors)
    # differences, not products, so that nearly equal vectors lose no digits
    mode = "donot_use_mm_for_euclid_dist"
    apart = torch.cdist(rows, rows, compute_mode=mode)
    together = torch.cdist(rows, -rows, compute_mode=mode)
    pairs = torch.triu_indices(count, count, offset=1, device=rows.device)
    return float(2 * torch.atan2(apart, together)[pairs[0], pairs[1]].mean())


def _check(features: Tensor, target: Tensor, weight: Tensor | None) -> None:
    check_labelled(features, target)
    if weight is None:
        check_classes(target, MOST_CLASSES)
        return
    check_floating("weight", weight)
    if weight.ndim != 2:
        raise ValueError(f"weight must have shape (C, D), but got {tuple(weight.shape)}.")
    check_vectors(features, weight.shape[1])
    check_finite("weight", weight)
    check_classes(target, len(weight))
