"""Post-hoc calibration: one temperature, or a scale and a bias per class, fitted by NLL."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin._settings import Setting
from softmargin.calibration._calibrator import CalibrationWarning, Calibrator
from softmargin.calibration._newton import fit_temperature
from softmargin.calibration._samples import Samples
from softmargin.calibration._vector import fit_vector
from softmargin.calibration.cross_validation import (
    CrossValidated,
    cross_validated,
    held_out_calibrators,
)

__all__ = [
    "CalibrationWarning",
    "Calibrator",
    "CrossValidated",
    "TemperatureScaling",
    "VectorScaling",
    "cross_validated",
    "held_out_calibrators",
]


class TemperatureScaling(Calibrator):
    r"""Divide all logits by one temperature T (Guo et al., 2017).

    .. math:: z \mapsto z / T, \quad
              T = \arg\min_{T > 0} \frac{1}{N} \sum_i
              \left[\log \sum_j e^{z_{ij} / T} - z_{i c_i} / T\right]

    T above 1 makes a model less sure, T below 1 surer. Which class is predicted never changes.
    The NLL is convex in 1/T, so that there is one optimum or none; it is found to about 1e-12
    relative by Newton's method in float64, whatever the precision of the logits. The search
    covers T from 1e-3 to 1e6 times the spread of the logits (the root of the mean variance over
    classes), and always T = 1. Where the NLL still falls at an end, T is that end and a
    :class:`CalibrationWarning` says so: labels that do not go with high logits push T up without
    limit, logits that are never wrong push it down.

    Attributes:
        temperature: T, a float64 buffer; may also be set by hand.

    Shape:
        - logits: (N, C), or (C,) in ``transform``.
        - target: (N,).

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import TemperatureScaling
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
        >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 1, 0, 1]))
        >>> scaler  # 3 of 4 are right, so the logits should differ by log 3
        TemperatureScaling(temperature=3.64096)
        >>> scaler.transform(logits)[0].softmax(0)
        tensor([0.7500, 0.2500])
    """

    kind = "temperature"
    numbers = ("temperature",)
    temperature = Setting(moves=True)

    def _fit(self, samples: Samples) -> list[str]:
        found = fit_temperature(samples)
        self.temperature = torch.tensor(found.temperature, dtype=torch.float64)
        return [] if found.note is None else [found.note]

    def _scaled(self, logits: Tensor) -> Tensor:
        return logits * self.temperature.reciprocal().to(logits.dtype)


class VectorScaling(Calibrator):
    r"""Scale and shift the logits of each class by numbers of its own (Guo et al., 2017).

    .. math:: z_j \mapsto w_j z_j + b_j, \quad \sum_j b_j = 0

    The NLL is convex in (w, b) and minimised by Newton's method in float64. A ridge pulls
    towards the best temperature, so that the minimum is unique and never worse on the fitted
    rows than temperature scaling's. It is too small to matter wherever the data have a minimum
    of their own. Where they have none, a :class:`CalibrationWarning` says so: the bias of a class
    that never occurs would go to minus infinity, the scale of one that is never mistaken to
    infinity.

    With 2C numbers to fit, it needs many more rows than temperature scaling, and it can change
    which class is predicted. It also depends on what is common to a row: logits and
    log-probabilities, the same for softmax, give different results here.

    Args:
        ridge: strength of the pull, per row and in units of standardised logits, at least 1e-12;
            raise it, to 0.01 or 0.1, when there are few rows per class.

    Attributes:
        scale: w, a float64 buffer of shape (C,).
        bias: b, a float64 buffer of shape (C,).

    Shape:
        - logits: (N, C), or (C,) in ``transform``.
        - target: (N,).

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import VectorScaling
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).repeat(4, 1)
        >>> target = torch.tensor([0, 1, 0, 1, 1, 1, 1, 0])  # more of class 1 than it thinks
        >>> scaler = VectorScaling().fit(logits, target)
        >>> scaler.transform(logits[:2]).softmax(1)
        tensor([[0.5000, 0.5000],
                [0.2500, 0.7500]])
    """

    kind = "vector"
    numbers = ("scale", "bias")
    scale = Setting(above=-math.inf, per_class=True, moves=True)
    bias = Setting(above=-math.inf, per_class=True, moves=True)
    ridge = Setting(above=1e-12, inclusive=True)

    def __init__(self, *, ridge: float = 1e-10) -> None:
        """Keep the argument; see the class."""
        super().__init__()
        self.ridge = ridge

    def _fit(self, samples: Samples) -> list[str]:
        found = fit_temperature(samples)
        if found.note is not None and found.separable:  # then scales have no optimum either
            scale = torch.tensor(1 / found.temperature, dtype=torch.float64)
            self.scale = scale.repeat(samples.num_classes)
            self.bias = torch.zeros_like(self.scale)
            return [found.note]
        self.scale, self.bias, notes = fit_vector(samples, found.temperature, float(self.ridge))
        return notes

    def _scaled(self, logits: Tensor) -> Tensor:
        return torch.addcmul(self.bias.to(logits.dtype), logits, self.scale.to(logits.dtype))
