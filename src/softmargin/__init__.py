"""softmargin: softmax losses with a margin knob, for people who care how sure their models are.

>>> import torch
>>> from softmargin import GradientDecayLoss
>>> criterion = GradientDecayLoss(beta=5.0)  # where nn.CrossEntropyLoss() stood
"""

from softmargin import functional, heads, schedules, theory
from softmargin.center import CenterLoss
from softmargin.losses import (
    FocalLoss,
    GradientDecayLoss,
    HardBiasSoftmaxLoss,
    MaxHingeLoss,
    MeanHingeLoss,
    ModifiedSoftmaxLoss,
    RegularizedSoftmaxLoss,
    SoftMarginSoftmaxLoss,
)

__version__ = "0.1.0"

__all__ = [
    "CenterLoss",
    "FocalLoss",
    "GradientDecayLoss",
    "HardBiasSoftmaxLoss",
    "MaxHingeLoss",
    "MeanHingeLoss",
    "ModifiedSoftmaxLoss",
    "RegularizedSoftmaxLoss",
    "SoftMarginSoftmaxLoss",
    "functional",
    "heads",
    "schedules",
    "theory",
]
