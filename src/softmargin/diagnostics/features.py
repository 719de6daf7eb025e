"""Centres, spreads and distances of features by class, in any number of dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.calibration._batch import worker
from softmargin.diagnostics._tensor_checks import check_finite, check_floating, check_integers
from softmargin.functional._checks import check_classes

MOST_CLASSES = 10**7  # more would fill the memory, and are a mistake


@dataclass(frozen=True)
class FeatureSpread:
    """How compact classes are, and how far apart.

    Attributes:
        centres: mean feature of each class, float64 of shape (C, D); NaN for a class that does
            not occur.
        spread: root mean square distance of a class's features to its centre, (C,).
        counts: samples per class, (C,).
        within: root mean square distance of all samples to their own centre.
        between: mean distance between the centres of different classes; NaN with one class.
    """

    centres: Tensor
    spread: Tensor
    counts: Tensor
    within: float
    between: float


def feature_spread(features: Tensor, target: Tensor) -> FeatureSpread:
    """Return centres, spreads and distances of the classes' features.

    Args:
        features: of shape (N, D); GD's Figure 1 has D = 2.
        target: class indices of shape (N,).

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import feature_spread
        >>> features = torch.tensor([[0.0, 1.0], [0.0, 3.0], [4.0, 2.0]])
        >>> result = feature_spread(features, torch.tensor([0, 0, 1]))
        >>> result.spread, result.between
        (tensor([1., 0.], dtype=torch.float64), 4.0)
    """
    check_labelled(features, target)
    check_classes(target, MOST_CLASSES)
    num_classes = int(target.max()) + 1
    centres, counts = class_centres(features, target, num_classes)
    index = target.to(centres.device, torch.int64)
    squares = (features.detach().to(centres) - centres[index]).square().sum(1)
    spread = centres.new_zeros(num_classes).index_add_(0, index, squares).div_(counts).sqrt_()
    there = centres[counts > 0]
    return FeatureSpread(
        centres, spread, counts, float(squares.mean().sqrt()), float(torch.pdist(there).mean())
    )


def class_centres(features: Tensor, target: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Return the mean feature of each class in float64, NaN if it does not occur, and counts."""
    x = features.detach().to(worker(features.device), torch.float64)
    index = target.to(x.device, torch.int64)
    counts = index.bincount(minlength=num_classes)
    sums = x.new_zeros(num_classes, x.shape[1]).index_add_(0, index, x)
    return sums / counts.unsqueeze(1), counts


def check_labelled(features: Tensor, target: Tensor) -> None:
    """Raise unless features are finite, of shape (N, D), and each has a class."""
    check_floating("features", features)
    check_integers("target", target)
    if features.ndim != 2 or not features.numel():
        raise ValueError(
            "features must have shape (N, D) and must not be empty, "
            f"but got {tuple(features.shape)}."
        )
    if target.shape != features.shape[:1]:
        raise ValueError(
            f"target must have shape {tuple(features.shape[:1])} for these features, "
            f"but got {tuple(target.shape)}."
        )
    check_finite("features", features)
