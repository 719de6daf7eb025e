"""Heads on scaled cosines: plain, with an additive margin, or with a scale that adapts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin._settings import Setting
from softmargin.functional._checks import check_choice, check_count, check_probabilities
from softmargin.functional._fused_directions import Kind, logits_of
from softmargin.functional._plain_directions import (
    Margin,
    full_precision,
    plain_cosines,
    target_angle,
)
from softmargin.functional._products import Products
from softmargin.functional.angular import check_vectors, target_index
from softmargin.functional.directions import angles_of, cosines_of
from softmargin.functional.lengths import precise, unit
from softmargin.functional.margins import (
    at_least_float32,
    at_target,
    needs_plain_operations,
    with_target,
)
from softmargin.heads._distributed import gathered
from softmargin.heads.base import HEAD_ARGUMENTS, Head

BEYOND = ("monotone", "easy", "none")


@document_arguments(
    HEAD_ARGUMENTS, scale="s above 0, kept in ``state_dict``; an ``nn.Parameter`` is learned."
)
class CosineHead(Head):
    r"""Scaled cosines, :math:`s \cos\theta_j` (NormFace): direction counts, length does not.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import CosineHead
        >>> head = CosineHead(8, 3, scale=16.0)
        >>> bool((head(torch.randn(5, 8)).abs() <= 16).all())
        True
    """

    scale: Setting = Setting()

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float | Tensor = 30.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, num_classes, device, dtype)
        self.scale = scale

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the scaled cosines."""
        return cosines_of(features, self.weight, self.current("scale"))

    def fused_logits(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return the logits of training by the compiled kernel, or None where it declines."""
        values = self.current_values(self.settings)
        scale, amount = values["scale"], values.get("margin", 0.0)
        if type(scale) is not float or type(amount) is not float:  # learned, or not to be seen
            return None
        name, function = self.margin_function()
        of_angle = name in BEYOND
        angle = function if of_angle else None
        kind = Kind(scale, False, name, amount, angle, ignore_index=self.ignore_index)

        def plain(x: Tensor, weight: Tensor) -> Tensor:
            index = target_index(x, self.num_classes, target, self.ignore_index)
            m = torch.tensor(amount)
            return plain_cosines(x, weight, scale, index, function, m, of_angle)

        return logits_of(features, self.weight, target, kind, plain)

    def margin_function(self) -> tuple[str | None, Margin | None]:
        """Return what the kernel calls the margin, and the margin in PyTorch's operations."""
        return None, None

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the scaled cosines as inner products, with the logits of the targets."""
        with full_precision(features):
            x, weight = at_least_float32(features), at_least_float32(self.weight)
            scale = self.current("scale", number=True)
            own = None if index is None else self.own_cosine(features, index)
            if own is not None:
                own = (own * scale).to(x.dtype)
            return Products(unit(x) * scale, unit(weight), own=own)

    def own_cosine(self, features: Tensor, index: Tensor) -> Tensor | None:
        """Return the targets' cosines, of shape (N, 1), as the margin leaves them.

        None is for no margin: they are among the others then.
        """
        return None


@document_arguments(
    HEAD_ARGUMENTS,
    scale="s above 0.",
    margin="m of at least 0, a difference of cosines.",
)
class CosFaceHead(CosineHead):
    r"""Scaled cosines with an additive cosine margin (CosFace, AM-Softmax).

    In training the target's logit is :math:`s (\cos\theta_c - m)`. With cross-entropy this is
    gradient decay with β = e^(-s·m) on the plain cosines.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import CosFaceHead
        >>> head = CosFaceHead(8, 3, scale=10.0, margin=0.2)
        >>> x, target = torch.randn(1, 8), torch.tensor([0])
        >>> (head(x, target) - head.eval()(x)).round(decimals=4)
        tensor([[-2.,  0.,  0.]], grad_fn=<RoundBackward1>)
    """

    margin: Setting = Setting(inclusive=True)
    needs_target = True

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float | Tensor = 64.0,
        margin: float | Tensor = 0.35,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, num_classes, scale=scale, device=device, dtype=dtype)
        self.margin = margin

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the scaled cosines, the target's lowered."""
        scale, margin = self.current("scale"), self.current("margin")
        return cosines_of(features, self.weight, scale, index, lower_cosine, margin)

    fused_logits = CosineHead.fused_logits

    def margin_function(self) -> tuple[str | None, Margin | None]:
        """Return the margin."""
        return "cosine", lower_cosine

    def own_cosine(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the targets' cosines less the margin."""
        x, own = at_least_float32(features), at_least_float32(self.weight[index.squeeze(-1)])
        cosine = (unit(x) * unit(own)).sum(-1, keepdim=True)
        return lower_cosine(cosine, self.current("margin", number=True))[0]

    def logits_as_target(self, features: Tensor) -> Tensor:
        """Return the scaled cosines, all lowered."""
        return self.inference_logits(features) - self.current("scale") * self.current("margin")


@document_arguments(
    HEAD_ARGUMENTS,
    scale="s above 0.",
    margin="m in radians, from 0 to below π.",
    beyond="one of the three names above.",
)
class ArcFaceHead(CosineHead):
    r"""Scaled cosines with an additive angular margin (ArcFace, AG eq. 8).

    In training the target's logit is :math:`s \cos(\theta_c + m)`. Past :math:`\pi - m` that
    would rise again and reward the worst samples; ``beyond`` says what happens there:

    - ``"monotone"``: :math:`s (\cos\theta_c - m \sin m)`, which keeps falling (the default),
    - ``"easy"``: the margin is applied only where :math:`\theta_c < \pi/2`,
    - ``"none"``: the formula as it stands.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import ArcFaceHead
        >>> head = ArcFaceHead(8, 3, scale=20.0, margin=0.1)
        >>> head
        ArcFaceHead(in_features=8, num_classes=3, scale=20, margin=0.1, beyond='monotone')
    """

    margin: Setting = Setting(inclusive=True, below=math.pi)
    needs_target = True

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float | Tensor = 64.0,
        margin: float | Tensor = 0.5,
        beyond: str = "monotone",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_choice("beyond", beyond, BEYOND)
        super().__init__(in_features, num_classes, scale=scale, device=device, dtype=dtype)
        self.margin = margin
        self.beyond = beyond

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the scaled cosines, the target's at a larger angle."""
        scale, margin = self.current("scale"), self.current("margin")
        return cosines_of(
            features, self.weight, scale, index, self.enlarge_angle, margin, of_angle=True
        )

    fused_logits = CosineHead.fused_logits

    def margin_function(self) -> tuple[str | None, Margin | None]:
        """Return the margin."""
        return self.beyond, self.enlarge_angle

    def own_cosine(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the targets' cosines at a larger angle."""
        angle = target_angle(features, self.weight, index)
        return self.enlarge_angle(angle, torch.as_tensor(self.current("margin")))[0]

    def logits_as_target(self, features: Tensor) -> Tensor:
        """Return the scaled cosines, all at a larger angle."""
        margin = torch.as_tensor(self.current("margin"))
        angle = angles_of(features, self.weight)
        return self.enlarge_angle(angle, margin)[0] * self.current("scale")

    def enlarge_angle(self, angle: Tensor, margin: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos(θ + m) with the chosen continuation, and its derivative."""
        larger = angle + margin
        value, slope = larger.cos(), -larger.sin()
        if self.beyond == "none":
            return value, slope
        within, rest = angle < math.pi / 2, angle.cos()
        if self.beyond == "monotone":
            within, rest = angle <= math.pi - margin, rest - margin * margin.sin()
        return torch.where(within, value, rest), torch.where(within, slope, -angle.sin())

    def extra_repr(self) -> str:
        """Show the sizes, the settings and what happens past π."""
        return f"{super().extra_repr()}, beyond={self.beyond!r}"


def lower_cosine(cosine: Tensor, margin: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return cos θ - m and its derivative."""
    return cosine - margin, torch.ones_like(cosine)


@document_arguments(
    HEAD_ARGUMENTS,
    num_classes="number of classes, C, at least 3: two classes would make the scale 0.",
    dynamic="whether the scale adapts in training.",
)
class AdaCosHead(CosineHead):
    r"""Scaled cosines whose scale follows from the data (AdaCos, AG eq. 9-10).

    It starts at :math:`s = \sqrt 2 \log(C - 1)`. If ``dynamic``, every call in training mode with
    a target first sets

    .. math:: s \leftarrow \frac{\log B}{\cos(\min(\pi/4, \theta_{med}))}, \quad
              B = \frac1N \sum_i \sum_{j \ne c_i} e^{s \cos\theta_{ij}}

    where θ_med is the (lower) median of the batch's target angles. When ``torch.distributed``
    runs, the batch is that of all processes. The scale is kept in ``state_dict``.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> from softmargin.heads import AdaCosHead
        >>> AdaCosHead(8, 11, dynamic=False)
        AdaCosHead(in_features=8, num_classes=11, scale=3.25635, dynamic=False)
    """

    scale: Setting = Setting(moves=True)
    least_classes = 3

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        dynamic: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_count("num_classes", num_classes, self.least_classes)  # the scale needs it
        scale = math.sqrt(2) * math.log(num_classes - 1)
        super().__init__(in_features, num_classes, scale=scale, device=device, dtype=dtype)
        self.dynamic = dynamic

    @property
    def needs_target(self) -> bool:  # type: ignore[override]
        """Whether training without a target would leave the scale as it is."""
        return self.dynamic

    def forward(self, features: Tensor, target: Tensor | None = None) -> Tensor:
        """Return scaled cosines; in training, if dynamic, after adapting the scale."""
        if target is None or not (self.dynamic and self.training):
            return super().forward(features, target)
        if needs_plain_operations() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "AdaCosHead(dynamic=True) changes its scale in training and cannot run inside "
                "torch.func; use dynamic=False, or eval()."
            )
        check_vectors(features, self.in_features)
        cosine = cosines_of(features, self.weight)
        if self.is_soft(features, target):  # the most probable class has the angle that counts
            check_probabilities(target)
            index = target.argmax(-1, keepdim=True)
            ignored = torch.zeros_like(index, dtype=torch.bool)
        else:
            index = target_index(features, self.num_classes, target, self.ignore_index)
            # int64 first: in uint8 an ignore_index of -100 would be class 156
            ignored = target.long().unsqueeze(-1) == self.ignore_index
        self.adapt_scale(cosine.detach(), index, ignored)
        return cosine * self.current("scale")

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the scaled cosines, unless the scale must follow from all of them first."""
        if self.dynamic and self.training:
            raise RuntimeError(
                "AdaCosHead(dynamic=True) sets its scale from all cosines of a batch and has no "
                "loss without logits in training: use criterion(head(features, target), target)."
            )
        return super().products(features, index)

    @torch.no_grad()
    def adapt_scale(self, cosine: Tensor, index: Tensor, ignored: Tensor) -> None:
        """Set the scale from the cosines of a batch (AG eq. 10).

        It stays where the batch says nothing (no samples), or nothing that a scale can be: with
        few classes, all far from a sample, the formula's logarithm is not positive.
        """
        own = at_target(cosine, index, -1)
        angle = precise(own).clamp(-1, 1).acos().masked_fill(ignored, math.nan)
        others = with_target(cosine * self.scale, index, -1, -math.inf)
        total = precise(others.masked_fill(ignored, -math.inf).reshape(-1).logsumexp(0))
        angle, totals = gathered(angle.reshape(-1)), gathered(total.reshape(1))
        count = angle.isfinite().sum()
        log_mean = totals.logsumexp(0) - precise(count).log()
        scale = log_mean / angle.nanmedian().clamp(max=math.pi / 4).cos()
        self.scale = torch.where(scale.isfinite() & (scale > 0), scale, self.scale)

    def extra_repr(self) -> str:
        """Show the sizes, the scale and whether it adapts."""
        return f"{super().extra_repr()}, dynamic={self.dynamic}"
