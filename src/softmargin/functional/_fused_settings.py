"""Settings and options of a loss as the fused kernel takes them, or why it does not."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softmargin._kernel import library
from softmargin.functional._checks import LARGE
from softmargin.functional.divergences import SHARES

TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
PLAIN = (Tensor, nn.Parameter)
FORMS = {"decay": 0, "floored": 1, "margin": 1, "focal": 2}
"""By loss, its form in ``call.h``."""

Settled = tuple[Tensor | None, Tensor | None, tuple[Any, ...]]
"""Weights and log β per class in float64, or None, and the settings in the order of the layout."""


class Given(NamedTuple):
    """The arguments of a loss, as those of ``_fused_loss.loss``."""

    form: str
    setting: float | Tensor
    input: Tensor
    target: Tensor
    tau: float | Tensor
    weight: Tensor | None
    ignore_index: int
    reduction: str
    label_smoothing: float
    lam: float | Tensor | None
    divergence: str
    compensate: bool


def settle(given: Given) -> Settled | None:
    """Return the settings as the kernel takes them, or None where it does not."""
    form, tau, weight, input = given.form, given.tau, given.weight, given.input
    parameter = _parameter(form, given.setting)
    temperature = tau if type(tau) is float else _number(tau)
    if parameter is None or temperature is None or not 1e-30 < temperature < 1e30:
        return None
    if not _plain_options(given.ignore_index, given.reduction, given.label_smoothing):
        return None
    if not knows(given):
        return None
    to_uniform = from_uniform = 0.0
    if given.lam is not None:
        lam = _number(given.lam)
        if lam is None:
            return None
        to_uniform, from_uniform = (lam * share for share in SHARES[given.divergence])
    per_class = None
    if isinstance(parameter, Tensor):
        per_class, parameter = parameter, 0.0
    if weight is not None or per_class is not None:
        classes = input.shape[0 if input.ndim == 1 else 1]
        weight, good = _weight(weight, classes)
        if not good or (per_class is not None and per_class.shape[0] != classes):
            return None
    settings = (
        *(given.ignore_index, parameter, temperature, given.label_smoothing),
        *(to_uniform, from_uniform, FORMS[form], library.REDUCTIONS[given.reduction]),
        given.compensate,
    )
    return weight, per_class, settings


def knows(given: Given) -> bool:
    """Whether the kernel has this kind of loss for this kind of tensors."""
    return given.target.dtype not in TYPES or given.ignore_index < 0


def _plain_options(ignore_index: int, reduction: str, label_smoothing: float) -> bool:
    if type(ignore_index) is not int or not -LARGE < ignore_index < LARGE:
        return False
    if type(label_smoothing) not in (float, int) or not 0 <= label_smoothing <= 1:
        return False
    return type(reduction) is str and reduction in library.REDUCTIONS


def _number(setting: float | Tensor) -> float | None:
    """Return a setting as a finite number, or None where it is not one or is to be learned."""
    if isinstance(setting, Tensor):
        if type(setting) not in PLAIN or setting.ndim or not setting.is_cpu:
            return None
        if setting.requires_grad or setting.dtype not in TYPES:
            return None
        setting = setting.item()
    elif type(setting) is not float and type(setting) is not int:
        return None
    return float(setting) if -LARGE < setting < LARGE else None


def _parameter(form: str, setting: float | Tensor) -> float | Tensor | None:
    """Return log β, one per class in float64, or γ; None where there is none to be had."""
    if type(setting) is float and form == "decay":
        return math.log(setting) if 1e-26 < setting < 1e26 else None
    if isinstance(setting, Tensor) and setting.ndim == 1:
        if type(setting) not in PLAIN or setting.dtype not in TYPES or not setting.is_cpu:
            return None
        return None if setting.requires_grad else setting.double().log().contiguous()
    value = _number(setting)
    if value is None or form == "focal":
        return value if value is not None and 0 <= value <= 1e3 else None
    if form == "margin":
        return -value if -60 < value < 60 else None
    return math.log(value) if 1e-26 < value < 1e26 else None


def _weight(weight: Tensor | None, classes: int) -> tuple[Tensor | None, bool]:
    """Return the weights in float64, and whether they are such that the kernel can take them."""
    if weight is None:
        return None, True
    if type(weight) not in PLAIN or weight.shape != (classes,) or not weight.is_cpu:
        return None, False
    if weight.requires_grad or not weight.is_floating_point():
        return None, False
    return weight.double().contiguous(), True
