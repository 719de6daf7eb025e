"""A head whose class weights form a regular simplex."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin._settings import POSITIVE
from softmargin.functional.directions import full_precision
from softmargin.functional.margins import at_least_float32
from softmargin.heads.base import Head


class SimplexHead(Head):
    r"""Inner products with the corners of a regular simplex (super-symmetric, LM section 3).

    All class weights have the same length and the same angle to each other, whatever is learned:

    .. math:: w_c \cdot w_c = s^2, \quad w_c \cdot w_{c'} = -\frac{s^2}{C - 1}

    Learned is how the simplex lies in feature space: W = s·M·Rᵀ with the simplex M and an
    orthonormal R, which is the Q of the parameter ``basis``.

    Args:
        in_features: size of a feature vector, D, at least C - 1.
        num_classes: number of classes, C.
        scale: s above 0, the length of every class weight; an ``nn.Parameter`` is learned.
        device: where the parameters are made.
        dtype: of which type they are.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import SimplexHead
        >>> head = SimplexHead(8, 3, scale=2.0)
        >>> (head.weight @ head.weight.T).round(decimals=4).tolist()
        [[4.0, -2.0, -2.0], [-2.0, 4.0, -2.0], [-2.0, -2.0, 4.0]]
    """

    settings: ClassVar = {"scale": POSITIVE}
    simplex: Tensor

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float | Tensor = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Make the parameters; see the class."""
        super().__init__(in_features, num_classes, device, dtype)
        self.scale = scale

    def make_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Make the basis, empty, and the simplex."""
        dimensions = self.num_classes - 1
        if self.in_features < dimensions:
            raise ValueError(
                f"in_features must be at least {dimensions} for a simplex of "
                f"{self.num_classes} classes, but got {self.in_features}."
            )
        shape = self.in_features, dimensions
        self.basis = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        # follows from the number of classes, so it is not stored
        simplex = regular_simplex(self.num_classes).to(device)
        self.register_buffer("simplex", simplex.to(at_least_float32(self.basis).dtype), False)

    def reset_parameters(self) -> None:
        """Draw the position of the simplex anew."""
        with torch.no_grad():
            self.basis.copy_(nn.init.orthogonal_(at_least_float32(self.basis).clone()))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The class weights, of shape (C, D)."""
        with full_precision(self.basis):
            q, r = torch.linalg.qr(at_least_float32(self.basis))
            # positive on R's diagonal makes Q unique, so that it moves smoothly
            q = q * torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)
            weight: Tensor = F.linear(self.simplex.to(q.dtype), q) * self.scale
            return weight

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the inner products."""
        with full_precision(features):
            return F.linear(at_least_float32(features), self.weight)


def regular_simplex(num_classes: int) -> Tensor:
    """Return C unit vectors in C - 1 dimensions with inner products -1/(C - 1), in float64."""
    # the rows of Helmert's matrix: orthonormal, and orthogonal to (1, ..., 1)
    size = torch.arange(1, num_classes, dtype=torch.float64)
    helmert = torch.tril(torch.ones(num_classes - 1, num_classes, dtype=torch.float64))
    helmert[torch.arange(num_classes - 1), torch.arange(1, num_classes)] = -size
    helmert /= (size * (size + 1)).sqrt().unsqueeze(-1)
    return helmert.T.mul((num_classes / (num_classes - 1)) ** 0.5)
