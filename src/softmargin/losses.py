"""Criteria: the losses of :mod:`softmargin.functional` as modules, drop-in for cross-entropy."""

from __future__ import annotations

import math

from torch import Tensor

from softmargin import functional
from softmargin._adaptive_focal import AdaFocalLoss as AdaFocalLoss
from softmargin._docs import document_arguments
from softmargin._linear_loss import LinearGradientDecayLoss as LinearGradientDecayLoss
from softmargin._logit_loss import CRITERION_ARGUMENTS
from softmargin._logit_loss import LogitLoss as LogitLoss
from softmargin._settings import Setting
from softmargin.functional import _checks as checks


@document_arguments(
    CRITERION_ARGUMENTS,
    beta=(
        "gradient decay factor above 0: a number, or one value per class as a tensor of "
        "shape (C,). Kept in ``state_dict``, may be set at any time."
    ),
    learn_beta="whether to learn β, by its logarithm: the parameter ``log_beta``.",
    floored="whether to subtract log β, so that the minimum is 0.",
    compensate=(
        "whether to scale the loss of every batch so that its mean gradient is that of β "
        "= 1: with a large β a model then does not under-train."
    ),
)
class GradientDecayLoss(LogitLoss):
    r"""Softmax loss whose gradient fades with confidence at a rate set by β.

    .. math:: J = \log(\beta + e^{\xi}), \quad
              -\frac{\partial J}{\partial z_c} = \frac{1 - p_c}{1 + (\beta - 1) p_c}

    β = 1 is ``nn.CrossEntropyLoss``. Small β is a large margin -log β: fast convergence, easy
    samples first, over-confidence. Large β keeps samples together and the model calibrated. For
    β < 1 the loss goes down to log β, below 0; ``floored=True`` moves the minimum to 0.

    Shape:
        - input: (C), (N, C) or (N, C, d1, ...).
        - target: (), (N) or (N, d1, ...) class indices, or probabilities of the input's shape.
        - output: a scalar, or one value per sample for ``reduction="none"``.

    Example:
        >>> import torch
        >>> from softmargin import GradientDecayLoss
        >>> criterion = GradientDecayLoss(beta=0.1)
        >>> criterion(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
        tensor(-1.1031)
        >>> criterion.beta = 1.0  # from here on it is cross-entropy
        >>> criterion
        GradientDecayLoss(beta=1, tau=1, floored=False)
    """

    function = staticmethod(functional.gradient_decay_loss)
    beta = Setting(per_class=True)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        beta: float | Tensor = 1.0,
        tau: float | Tensor = 1.0,
        *,
        learn_beta: bool = False,
        floored: bool = False,
        compensate: bool = False,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        own = {"beta": beta, "tau": tau, "floored": floored, "compensate": compensate}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing, learn_beta)


@document_arguments(
    CRITERION_ARGUMENTS,
    margin="m, a finite number; kept in ``state_dict``, may be set at any time.",
)
class SoftMarginSoftmaxLoss(LogitLoss):
    r"""Cross-entropy with the target's logit lowered by a margin, softplus(ξ + m) (M-Softmax).

    The same as ``GradientDecayLoss(beta=exp(-margin), floored=True)``.

    Example:
        >>> import torch
        >>> from softmargin import SoftMarginSoftmaxLoss
        >>> SoftMarginSoftmaxLoss(margin=0.5)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.9741)
    """

    function = staticmethod(functional.soft_margin_softmax_loss)
    margin = Setting(above=-math.inf)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        margin: float | Tensor,
        tau: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        own = {"margin": margin, "tau": tau}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing)


@document_arguments(
    CRITERION_ARGUMENTS, rho="ρ, a finite number; kept in ``state_dict``, may be set at any time."
)
class ModifiedSoftmaxLoss(LogitLoss):
    r"""Softmax loss with the hinge loss's bias, softplus(ξ + ρ) with ρ = 1 (LM eq. 15).

    The same as ``GradientDecayLoss(beta=exp(-rho), floored=True)``.

    Example:
        >>> import torch
        >>> from softmargin import ModifiedSoftmaxLoss
        >>> ModifiedSoftmaxLoss()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(1.3133)
    """

    function = staticmethod(functional.modified_softmax_loss)
    rho = Setting(above=-math.inf)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        rho: float | Tensor = 1.0,
        tau: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        own = {"rho": rho, "tau": tau}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing)


@document_arguments(
    CRITERION_ARGUMENTS,
    lam="λ of at least 0; kept in ``state_dict``, may be set at any time.",
    divergence=(
        '``"symmetric"``, ``"uniform_to_logits"`` or ``"logits_to_uniform"``, see '
        ":func:`softmargin.functional.logit_divergence`."
    ),
    beta="gradient decay factor as in :class:`GradientDecayLoss`; 1 is the paper's loss.",
    learn_beta="whether to learn β, by its logarithm: the parameter ``log_beta``.",
)
class RegularizedSoftmaxLoss(LogitLoss):
    r"""Softmax loss plus λ times a divergence that levels the non-target logits (LM eq. 11).

    .. math:: \log(\beta + e^{\xi}) + \lambda D

    Example:
        >>> import torch
        >>> from softmargin import RegularizedSoftmaxLoss
        >>> RegularizedSoftmaxLoss()(torch.tensor([[2.0, 1.0, -1.0]]), torch.tensor([0]))
        tensor(0.4633)
    """

    function = staticmethod(functional.regularized_softmax_loss)
    lam = Setting(inclusive=True)
    beta = Setting(per_class=True)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        lam: float | Tensor = 0.3,
        divergence: str = "symmetric",
        *,
        beta: float | Tensor = 1.0,
        tau: float | Tensor = 1.0,
        learn_beta: bool = False,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        checks.check_choice("divergence", divergence, checks.DIVERGENCES)
        own = {"lam": lam, "divergence": divergence, "beta": beta, "tau": tau}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing, learn_beta)


@document_arguments(
    CRITERION_ARGUMENTS, margin="m of at least 0; kept in ``state_dict``, may be set at any time."
)
class MeanHingeLoss(LogitLoss):
    r"""Hinge loss averaged over the other classes (LM eq. 14).

    .. math:: \frac{1}{C-1} \sum_{i \ne c} \max(0, z_i - z_c + m)

    Example:
        >>> import torch
        >>> from softmargin import MeanHingeLoss
        >>> MeanHingeLoss()(torch.tensor([[2.0, 1.5, 0.0]]), torch.tensor([0]))
        tensor(0.2500)
    """

    function = staticmethod(functional.mean_hinge_loss)
    margin = Setting(inclusive=True)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        margin: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"margin": margin}, weight, ignore_index, reduction, label_smoothing)


@document_arguments(
    CRITERION_ARGUMENTS, margin="m of at least 0; kept in ``state_dict``, may be set at any time."
)
class MaxHingeLoss(LogitLoss):
    r"""Hinge loss against the best other class only (Crammer and Singer, 2001).

    .. math:: \max(0, \max_{i \ne c} z_i - z_c + m)

    Example:
        >>> import torch
        >>> from softmargin import MaxHingeLoss
        >>> MaxHingeLoss()(torch.tensor([[2.0, 1.5, 0.0]]), torch.tensor([0]))
        tensor(0.5000)
    """

    function = staticmethod(functional.max_hinge_loss)
    margin = Setting(inclusive=True)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        margin: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"margin": margin}, weight, ignore_index, reduction, label_smoothing)


@document_arguments(
    CRITERION_ARGUMENTS, rho="ρ, a finite number; kept in ``state_dict``, may be set at any time."
)
class HardBiasSoftmaxLoss(LogitLoss):
    r"""Softplus of the hard margin with a constant bias (LM section 3), kept for comparison.

    .. math:: \log(1 + e^{h + \rho}), \quad h = (\max_{i \ne c} z_i - z_c) / \tau

    Example:
        >>> import torch
        >>> from softmargin import HardBiasSoftmaxLoss
        >>> HardBiasSoftmaxLoss()(torch.zeros(1, 5), torch.tensor([0]))
        tensor(1.3133)
    """

    function = staticmethod(functional.hard_bias_softmax_loss)
    rho = Setting(above=-math.inf)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        rho: float | Tensor = 1.0,
        tau: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        own = {"rho": rho, "tau": tau}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing)


@document_arguments(
    CRITERION_ARGUMENTS,
    gamma="γ of at least 0; kept in ``state_dict``, may be set at any time.",
    weight="one weight per class, of shape (C,); the usual α.",
)
class FocalLoss(LogitLoss):
    r"""Cross-entropy weighted by (1 - p)^γ (Lin et al., 2017), the peer that users know.

    Example:
        >>> import torch
        >>> from softmargin import FocalLoss
        >>> FocalLoss()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
    """

    function = staticmethod(functional.focal_loss)
    gamma = Setting(inclusive=True)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        gamma: float | Tensor = 2.0,
        tau: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        own = {"gamma": gamma, "tau": tau}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing)
