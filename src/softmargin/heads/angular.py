"""Heads on angles: multiplied at the target, or in the place of the cosines."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin._settings import Setting
from softmargin.functional._checks import check_count, known_within
from softmargin.functional._fused_directions import Kind, logits_of
from softmargin.functional._plain_directions import full_precision, plain_angles, target_angle
from softmargin.functional._products import Products
from softmargin.functional.angular import multiplicative_margin, target_index
from softmargin.functional.directions import angles_of
from softmargin.functional.lengths import length_of, moderate_size, unit
from softmargin.functional.margins import at_least_float32, with_target
from softmargin.heads.base import HEAD_ARGUMENTS, Head


@document_arguments(
    HEAD_ARGUMENTS,
    k="how often the angle is taken, at least 1; 1 is no margin.",
    anneal="λ of at least 0; 0 is the full margin.",
)
class LSoftmaxHead(Head):
    r"""Inner products with the target's angle multiplied by k (L-Softmax).

    The target's logit in training is, with λ = ``anneal`` and j = floor(kθ/π),

    .. math:: \|w_c\| \|x\| \frac{\lambda \cos\theta + \psi(\theta)}{1 + \lambda}, \quad
              \psi(\theta) = (-1)^j \cos(k\theta) - 2j

    The authors start with a large λ and lower it, see
    :func:`softmargin.schedules.l_softmax_annealing`.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import LSoftmaxHead
        >>> head = LSoftmaxHead(8, 3, k=2, anneal=5.0)
        >>> head(torch.randn(5, 8), torch.tensor([0, 1, 2, 0, 1])).shape
        torch.Size([5, 3])
    """

    anneal: Setting = Setting(inclusive=True)
    needs_target = True

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        k: int = 4,
        anneal: float | Tensor = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_count("k", k, 1)
        super().__init__(in_features, num_classes, device, dtype)
        self.k = k
        self.anneal = anneal

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the inner products."""
        with full_precision(features):
            return F.linear(at_least_float32(features), self.directions())

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the inner products, the target's with the margin."""
        with full_precision(features):
            x, weight = at_least_float32(features), self.directions()
            return with_multiple(x, weight, index, self.k, self.current("anneal"))

    def logits_as_target(self, features: Tensor) -> Tensor:
        """Return the inner products, all with the margin."""
        with full_precision(features):
            x, weight = at_least_float32(features), self.directions()
            lengths = length_of(x) * length_of(weight).squeeze(-1)
            with_margin = lengths * multiplicative_margin(F.linear(unit(x), unit(weight)), self.k)
            anneal = self.current("anneal")
            return (anneal * F.linear(x, weight) + with_margin) / (1 + anneal)

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the inner products, with those of the targets and their margin."""
        with full_precision(features):
            x, weight = at_least_float32(features), self.directions()
            if index is None:
                return Products(x, weight)
            target = weight[index.squeeze(-1)]
            cosine = (unit(x) * unit(target)).sum(-1, keepdim=True)
            anneal = self.current("anneal", number=True)
            mixed = (anneal * cosine + multiplicative_margin(cosine, self.k)) / (1 + anneal)
            return Products(x, weight, own=length_of(x) * (length_of(target) * mixed))

    def directions(self) -> Tensor:
        """Return the class weights that the logits are taken with."""
        return at_least_float32(self.weight)

    def extra_repr(self) -> str:
        """Show the sizes, k and the settings."""
        return f"{super().extra_repr()}, k={self.k}"


@document_arguments(
    HEAD_ARGUMENTS,
    k="how often the angle is taken, at least 1; 1 is no margin.",
    anneal="λ of at least 0; 0 is the full margin.",
)
class ASoftmaxHead(LSoftmaxHead):
    r"""L-Softmax on class weights of length one: A-Softmax, the head of SphereFace.

    Logits are :math:`\|x\| \cos\theta_j`, the target's in training
    :math:`\|x\| (\lambda \cos\theta + \psi(\theta)) / (1 + \lambda)`. The authors' annealing of λ
    is :func:`softmargin.schedules.a_softmax_annealing`.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> from softmargin.heads import ASoftmaxHead
        >>> ASoftmaxHead(8, 3)
        ASoftmaxHead(in_features=8, num_classes=3, anneal=0, k=4)
    """

    def directions(self) -> Tensor:
        """Return the class weights at length one."""
        return unit(at_least_float32(self.weight))

    def fused_logits(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return the logits of training by the compiled kernel, or None where it declines."""
        anneal = self.current("anneal", number=True)
        if type(anneal) is not float:  # learned, or not to be seen
            return None
        ignored = self.ignore_index
        kind = Kind(0.0, margin="multiple", multiple=self.k, anneal=anneal, ignore_index=ignored)

        def plain(x: Tensor, weight: Tensor) -> Tensor:
            index = target_index(x, self.num_classes, target, self.ignore_index)
            return with_multiple(x, unit(weight), index, self.k, anneal)

        return logits_of(features, self.weight, target, kind, plain)


def with_multiple(
    x: Tensor, weight: Tensor, index: Tensor, k: int, anneal: float | Tensor
) -> Tensor:
    """Return inner products, the target's at k times the angle."""
    logits = F.linear(x, weight)
    own = weight[index.squeeze(-1)]
    of_x, of_own = length_of(x), length_of(own)
    size: float | Tensor = 1.0
    if known_within(of_x, 1e-9, 1e9) and known_within(of_own, 1e-9, 1e9):
        lengths, plain = of_x * of_own, (x * own).sum(-1, keepdim=True)
        cosine = plain / lengths
    else:  # the product of two short vectors' lengths would underflow
        size = moderate_size(x)
        x = x / size
        lengths, plain = length_of(x) * of_own, (x * own).sum(-1, keepdim=True)
        cosine = (unit(x) * unit(own)).sum(-1, keepdim=True)
    with_margin = lengths * multiplicative_margin(cosine, k)
    mixed = size * (anneal * plain + with_margin) / (1 + anneal)
    return with_target(logits, index, -1, mixed)


@document_arguments(HEAD_ARGUMENTS, scale="s above 0.")
class ArcGradHead(Head):
    r"""Logits :math:`-s \theta_j`, an angular margin without a margin parameter (AG eq. 11).

    The scale alone fixes the gap between the target's angle and the others that gets the largest
    gradient, see :func:`softmargin.theory.gap` and :func:`softmargin.theory.scale`. With a target,
    its angle and gradient are right to 1e-6 however small the angle becomes.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import ArcGradHead
        >>> head = ArcGradHead(8, 3, scale=5.0)
        >>> bool((head(torch.randn(5, 8)) <= 0).all())
        True
    """

    scale: Setting = Setting()

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float | Tensor = 10.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, num_classes, device, dtype)
        self.scale = scale

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the negative scaled angles."""
        return angles_of(features, self.weight, None, -self.current("scale"))

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the negative scaled angles, the target's own precisely."""
        return angles_of(features, self.weight, index, -self.current("scale"))

    def fused_logits(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return the logits of training by the compiled kernel, or None where it declines."""
        scale = self.current("scale", number=True)
        if type(scale) is not float:  # learned, or not to be seen
            return None
        kind = Kind(-scale, angles=True, ignore_index=self.ignore_index)

        def plain(x: Tensor, weight: Tensor) -> Tensor:
            index = target_index(x, self.num_classes, target, self.ignore_index)
            return plain_angles(x, weight, index, -scale)

        return logits_of(features, self.weight, target, kind, plain)

    def logits_as_target(self, features: Tensor) -> Tensor:
        """Return the negative scaled angles, for there is no margin."""
        return self.inference_logits(features)

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the negative scaled angles, the targets' own precisely."""
        with full_precision(features):
            x, weight = at_least_float32(features), at_least_float32(self.weight)
            scale, own = self.current("scale", number=True), None
            if index is not None:
                own = (target_angle(features, self.weight, index) * -scale).to(x.dtype)
            return Products(unit(x), unit(weight), own=own, angle=-scale)
