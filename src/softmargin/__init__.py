"""softmargin: softmax losses with a margin knob, for people who care how sure their models are.

>>> import torch
>>> from softmargin import GradientDecayLoss
>>> criterion = GradientDecayLoss(beta=5.0)  # where nn.CrossEntropyLoss() stood
"""

from __future__ import annotations

TYPE_CHECKING = False  # without an import: the command line answers ctrl-C only after this module
if TYPE_CHECKING:
    from typing import Any

    from softmargin import calibration as calibration  # with "as": attributes, not in __all__
    from softmargin import center as center
    from softmargin import data as data
    from softmargin import diagnostics as diagnostics
    from softmargin import functional, heads, schedules, theory
    from softmargin import losses as losses
    from softmargin import models as models
    from softmargin import training as training
    from softmargin.center import CenterLoss
    from softmargin.losses import (
        AdaFocalLoss,
        FocalLoss,
        GradientDecayLoss,
        HardBiasSoftmaxLoss,
        MaxHingeLoss,
        MeanHingeLoss,
        ModifiedSoftmaxLoss,
        RegularizedSoftmaxLoss,
        SoftMarginSoftmaxLoss,
    )
    from softmargin.tuning import tune, tune_last_layer

__version__ = "0.1.0"

__all__ = [
    "AdaFocalLoss",
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
    "tune",
    "tune_last_layer",
]

_MODULES = (
    "calibration",
    "center",
    "data",
    "diagnostics",
    "estimators",
    "functional",
    "heads",
    "losses",
    "models",
    "schedules",
    "theory",
    "training",
    "tuning",
)
_ELSEWHERE = {"CenterLoss": "center", "tune": "tuning", "tune_last_layer": "tuning"}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and PyTorch with it: the command line is there before that."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"softmargin.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'softmargin' has no attribute {name!r}")
    module = import_module(f"softmargin.{_ELSEWHERE.get(name, 'losses')}")
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
