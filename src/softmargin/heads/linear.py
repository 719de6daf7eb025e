"""The plain linear head."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin._docs import document_arguments
from softmargin.functional._checks import check_flag
from softmargin.functional._products import Products
from softmargin.heads.base import HEAD_ARGUMENTS, Head


@document_arguments(HEAD_ARGUMENTS, bias="whether there is a bias per class.")
class LinearHead(Head):
    r"""Inner products with the class weights, :math:`w_j \cdot x + b_j`: ``nn.Linear``.

    Shape:
        features (..., D), target (...) or None, logits (..., C).

    Example:
        >>> import torch
        >>> from softmargin.heads import LinearHead
        >>> LinearHead(8, 3)(torch.randn(5, 8)).shape
        torch.Size([5, 3])
    """

    bias: nn.Parameter | None
    autocasts = True

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_flag("bias", bias)
        self._with_bias = bias
        super().__init__(in_features, num_classes, device, dtype)

    def make_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Make the weight and the bias, empty."""
        super().make_parameters(device, dtype)
        bias = None
        if self._with_bias:
            bias = nn.Parameter(torch.empty(self.num_classes, device=device, dtype=dtype))
        self.register_parameter("bias", bias)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, as ``nn.Linear`` does."""
        super().reset_parameters()
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            nn.init.uniform_(self.bias, -bound, bound)

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the inner products."""
        return F.linear(features, self.weight, self.bias)

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the inner products."""
        return Products(features, self.weight, self.bias)
