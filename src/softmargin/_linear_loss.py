"""A linear layer and its loss as one module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softmargin import functional
from softmargin._docs import document_arguments
from softmargin._logit_loss import CRITERION_ARGUMENTS
from softmargin._settings import ModuleWithSettings, Setting, describe
from softmargin.functional import _checks as checks


@document_arguments(
    CRITERION_ARGUMENTS,
    in_features="size of a feature vector, D.",
    num_classes="number of classes, C.",
    beta="gradient decay factor as in :class:`GradientDecayLoss`.",
    lam="λ of at least 0, as in :class:`RegularizedSoftmaxLoss`; kept in ``state_dict``.",
    divergence="which one levels the non-target logits where λ is not 0.",
    bias="whether the linear layer has a bias.",
    floored="whether to subtract log β, so that the minimum is 0; not together with λ.",
    device="where the parameters are made.",
    dtype="of which type they are.",
)
class LinearGradientDecayLoss(ModuleWithSettings):
    """Linear layer and loss in one, for so many classes that the logits would fill the memory.

    See :func:`softmargin.functional.linear_gradient_decay_loss`; the layer is ``self.linear``,
    whose logits are those of inference.

    Example:
        >>> import torch
        >>> from softmargin.losses import LinearGradientDecayLoss
        >>> criterion = LinearGradientDecayLoss(16, 50_000, beta=0.1)
        >>> features, target = torch.randn(8, 16), torch.randint(0, 50_000, (8,))
        >>> criterion(features, target).backward()
    """

    weight: Tensor | None
    beta = Setting(per_class=True)
    tau = Setting(neutral=1.0)
    lam = Setting(inclusive=True, neutral=0.0)

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        beta: float | Tensor = 1.0,
        tau: float | Tensor = 1.0,
        lam: float | Tensor = 0.0,
        divergence: str = "symmetric",
        *,
        bias: bool = False,
        floored: bool = False,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        checks.check_choice("divergence", divergence, checks.DIVERGENCES)
        checks.check_choice("reduction", reduction, checks.REDUCTIONS)
        checks.check_count("in_features", in_features, 1)
        checks.check_count("num_classes", num_classes, 2)
        self.linear = nn.Linear(in_features, num_classes, bias=bias, device=device, dtype=dtype)
        self.beta, self.tau, self.lam = beta, tau, lam
        self.register_buffer("weight", weight)
        self.divergence, self.floored = divergence, floored
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing = label_smoothing

    def reset_parameters(self) -> None:
        """Draw the layer anew; settings get their first values back."""
        super().reset_parameters()
        self.linear.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of features against class indices or class probabilities."""
        beta, tau, lam = (self.current(name, number=True) for name in ("beta", "tau", "lam"))
        return functional.linear_gradient_decay_loss(
            input,
            self.linear.weight,
            target,
            beta,
            tau,
            lam,
            self.divergence,
            linear_bias=self.linear.bias,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            floored=self.floored,
        )

    def extra_repr(self) -> str:
        """Show the settings."""
        return ", ".join(f"{name}={describe(getattr(self, name))}" for name in self.settings)
