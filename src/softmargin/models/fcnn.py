"""Fully connected networks, for vectors, tables and images that are read as vectors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from torch import Tensor, nn

from softmargin.functional._checks import check_count
from softmargin.models._base import FeatureNetwork, check_counts


class FCNN(FeatureNetwork):
    r"""Fully connected layers with ReLU, of any widths and depth.

    The network 784-50-20-10 of the gradient-decay paper is ``FCNN(784, (50, 20))`` with a head
    from 20 features to 10 classes: 40,270 + 210 parameters. Features that can be plotted come
    from a last layer of two units without ReLU, ``FCNN(784, (50, 20, 2), last_activation=False)``.
    Weights are drawn as ``nn.Linear`` draws them.

    Args:
        in_features: size of an input, all its dimensions after the first together.
        widths: units of each layer; the last one is the size of the features. Without any, the
            features are the input.
        last_activation: whether the last layer too is followed by ReLU.

    Shape:
        x (N, ...) with ``in_features`` values per sample, features (N, ``widths[-1]``).

    Example:
        >>> import torch
        >>> from softmargin.models import FCNN
        >>> model = FCNN(784, (50, 20))
        >>> model(torch.randn(5, 1, 28, 28)).shape
        torch.Size([5, 20])

    Reference:
        "Probability-Dependent Gradient Decay in Large Margin Softmax", the experiments on MNIST.
    """

    def __init__(
        self,
        in_features: int,
        widths: Sequence[int] = (50, 20),
        *,
        last_activation: bool = True,
    ) -> None:
        """Make the layers."""
        check_count("in_features", in_features, 1)
        check_counts("widths", widths)
        layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
        for index, (before, after) in enumerate(itertools.pairwise([in_features, *widths]), 1):
            layers[f"linear{index}"] = nn.Linear(before, after)
            if index < len(widths) or last_activation:
                layers[f"relu{index}"] = nn.ReLU()
        super().__init__(layers, widths[-1] if widths else in_features)
        self.in_features = in_features

    def check_input(self, x: Tensor) -> None:
        """Raise unless every sample has ``in_features`` values."""
        super().check_input(x)
        if x.ndim < 2 or math.prod(x.shape[1:]) != self.in_features:
            raise ValueError(
                f"x must have shape (N, ...) with {self.in_features} values per sample for this "
                f"{type(self).__name__}, but got {tuple(x.shape)}."
            )


class MLP(FCNN):
    r"""The network for tables: layers of one width with ReLU, counted with the head.

    A feed-forward network of three layers, as ArcGrad trains on the UCI tables, is two hidden
    layers here and the head: with 4 inputs, width 64 and 3 classes it has 4,480 + 195 parameters.
    The paper leaves the width open, and how layers are counted; the count with the head is that of
    the gradient-decay paper, and lets the depth start at 1, where the head sees the table itself.

    Args:
        in_features: columns of the table.
        width: units of every hidden layer.
        depth: number of layers with weights, the head among them.
        last_activation: whether the last hidden layer too is followed by ReLU.

    Shape:
        x (N, ``in_features``), features (N, ``width``).

    Example:
        >>> import torch
        >>> from softmargin.models import MLP
        >>> MLP(4, width=64, depth=3)(torch.randn(5, 4)).shape
        torch.Size([5, 64])

    Reference:
        "ArcGrad: Angular Gradient Margin Loss for Classification", the experiments on UCI tables.
    """

    def __init__(
        self,
        in_features: int,
        width: int = 64,
        depth: int = 3,
        *,
        last_activation: bool = True,
    ) -> None:
        """Make the layers."""
        check_count("width", width, 1)
        check_count("depth", depth, 1)
        super().__init__(in_features, (width,) * (depth - 1), last_activation=last_activation)
