"""How features lie: class by class, in the two dimensions of GD's Figure 1 or any other number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.diagnostics._checks import MOST_CLASSES, check_labelled
from softmargin.diagnostics.angles import class_centres
from softmargin.functional._checks import check_classes


@dataclass(frozen=True)
class FeatureSpread:
    """How tight classes are, and how far apart.

    Attributes:
        centres: mean feature of each class, float64 of shape (C, D); NaN for a class that does
            not occur.
        spread: root mean square distance of a class's features to its centre, (C,).
        counts: samples per class, (C,).
        within: root mean square distance to the own centre over all samples.
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
        features: of shape (N, D); D = 2 is what GD's Figure 1 shows.
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
