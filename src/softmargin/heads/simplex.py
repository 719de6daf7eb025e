"""A head whose class weights form a regular simplex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin._docs import document_arguments
from softmargin._settings import ModuleWithSettings, Setting
from softmargin.functional._checks import value_range
from softmargin.functional._plain_directions import full_precision
from softmargin.functional._products import Products
from softmargin.functional.margins import at_least_float32
from softmargin.heads.base import HEAD_ARGUMENTS, Head


@document_arguments(
    HEAD_ARGUMENTS,
    in_features="size of a feature vector, D, at least C - 1.",
    scale="s above 0, the length of every class weight; an ``nn.Parameter`` is learned.",
)
class SimplexHead(Head):
    r"""Inner products with the corners of a regular simplex (super-symmetric, LM section 3).

    All class weights have the same length and the same angle to each other, whatever is learned:

    .. math:: w_c \cdot w_c = s^2, \quad w_c \cdot w_{c'} = -\frac{s^2}{C - 1}

    Learned is how the simplex lies in feature space: W = s·M·Rᵀ with the simplex M and an
    orthonormal R, which is the Q of the parameter ``basis``. Where a column of the basis is zero,
    or depends on those before it, any direction orthogonal to the others takes its place.

    ``eval()`` keeps the Q of the basis at that time. What is exported from there (``torch.export``,
    ONNX, which has no QR) has these numbers in it.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import SimplexHead
        >>> head = SimplexHead(8, 3, scale=2.0)
        >>> (head.weight @ head.weight.T).round(decimals=4).tolist()
        [[4.0, -2.0, -2.0], [-2.0, 4.0, -2.0], [-2.0, -2.0, 4.0]]
    """

    scale: Setting = Setting()
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
        self.register_buffer("simplex", self._make_simplex(), persistent=False)
        self._kept: tuple[Tensor, nn.Parameter, int] | None = None
        self.register_load_state_dict_post_hook(_keep_again)  # type: ignore[no-untyped-call]

    def __setattr__(self, name: str, value: Any) -> None:
        """Make the simplex anew whatever it is set to: loaders give buffers that are not stored."""
        if name == "simplex" and "simplex" in self._buffers:
            value = self._make_simplex()
        super().__setattr__(name, value)

    def _make_simplex(self) -> Tensor:
        """Return the simplex where the basis is, in full precision."""
        dtype = at_least_float32(self.basis).dtype
        return regular_simplex(self.num_classes).to(dtype).to(self.basis.device)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; for inference, keep the orthonormal basis for who exports the head."""
        super().train(mode)
        self._keep()
        return self

    def _keep(self) -> None:
        """Keep Q with the basis that it is of, and how often that has been changed."""
        self._kept = None
        if not self.training and type(self.basis) is nn.Parameter:  # and no shard of one
            with torch.no_grad():
                q = orthonormal(at_least_float32(self.basis))
            self._kept = q, self.basis, self.basis._version

    def _kept_q(self) -> Tensor | None:
        """Return the Q to export, None where nothing is exported or none was kept."""
        if self._kept is None or not exporting():
            return None
        q, basis, version = self._kept
        if basis._version != version:
            raise RuntimeError(
                "SimplexHead must be exported as eval() left it, but its basis has changed since: "
                "call eval() again."
            )
        return q

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> Self:
        """Move the head; make the simplex anew, which may have been rounded or lost on the way."""
        super()._apply(fn, recurse)
        self.simplex = self._make_simplex()
        self._keep()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a copied or stored head."""
        super().__setstate__(state)
        self._keep()

    def reset_parameters(self) -> None:
        """Draw the position of the simplex anew; the scale gets its first value back."""
        ModuleWithSettings.reset_parameters(self)
        with torch.no_grad():
            self.basis.copy_(nn.init.orthogonal_(at_least_float32(self.basis).clone()))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The class weights, of shape (C, D)."""
        if self.simplex.device != self.basis.device:  # a basis was assigned to a head on meta
            self.simplex = self._make_simplex()
        with full_precision(self.basis):
            q = self._kept_q()
            if q is None:
                q = orthonormal(at_least_float32(self.basis))
            weight: Tensor = F.linear(self.simplex.to(q.dtype), q) * self.current("scale")
            return weight

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the inner products."""
        with full_precision(features):
            return F.linear(at_least_float32(features), self.weight)

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the inner products."""
        return Products(at_least_float32(features), self.weight)


def _keep_again(head: nn.Module, _: object) -> None:
    """Let a head that has loaded a basis keep what follows from it."""
    cast(SimplexHead, head)._keep()


def exporting() -> bool:
    """Whether ``torch.export`` traces the head, which ``torch.onnx.export`` starts with, too."""
    asked: Callable[[], bool] | None = getattr(torch.compiler, "is_exporting", None)
    return asked is not None and asked()


def orthonormal(basis: Tensor) -> Tensor:
    """Return the Q of a QR decomposition, with finite derivatives whatever the rank."""
    q, r = torch.linalg.qr(basis)
    size = basis.detach().abs().amax(-2)
    pivots = r.detach().diagonal(dim1=-2, dim2=-1).abs()
    beyond = pivots - torch.finfo(basis.dtype).eps * size
    extremes = value_range(beyond)
    if extremes is None or not extremes[0] > 0:
        # derivatives divide by R's diagonal: where it is 0, fill it, which leaves Q as it is
        filling = torch.where(beyond > 0, 0.0, torch.where(size > 0, size, 1.0))
        q, r = torch.linalg.qr(basis + q.detach() * filling.unsqueeze(-2))
    # positive on R's diagonal makes Q unique, so that it moves smoothly
    signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    result: Tensor = q * signs.unsqueeze(-2)
    return result


def regular_simplex(num_classes: int) -> Tensor:
    """Return C unit vectors in C - 1 dimensions with inner products -1/(C - 1), in float64."""
    # the rows of Helmert's matrix: orthonormal, and orthogonal to (1, ..., 1)
    # on the CPU, whatever the default device: not all of them know float64
    size = torch.arange(1, num_classes, dtype=torch.float64, device="cpu")
    ones = torch.ones(num_classes - 1, num_classes, dtype=torch.float64, device="cpu")
    helmert = torch.tril(ones)
    helmert.diagonal(1).copy_(-size)
    helmert /= (size * (size + 1)).sqrt().unsqueeze(-1)
    return helmert.T.mul((num_classes / (num_classes - 1)) ** 0.5)
