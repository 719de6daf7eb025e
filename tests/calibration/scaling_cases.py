"""Logits and targets for the tests of calibrators, and slow references."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import softmax

from softmargin.calibration.scaling import CalibrationWarning, TemperatureScaling, VectorScaling

# but what another test left open may be collected, and complain, at any time
WITHOUT_WARNINGS = pytest.mark.filterwarnings(
    "error", "default::ResourceWarning", "default::pytest.PytestUnraisableExceptionWarning"
)


def calibration_warnings(record):
    """Return the warnings of calibrators: others may come from what other tests left open."""
    return [each for each in record if issubclass(each.category, CalibrationWarning)]


def synthetic(rows=2000, classes=10, temperature=1.7, seed=0, bias=None):
    """Return logits and targets for which the best temperature is near the given one."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    truth = logits / temperature + (0 if bias is None else bias)
    target = torch.multinomial(truth.softmax(1), 1, generator=generator).squeeze(1)
    return logits, target


def random_labels(seed=36):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2000, 10, generator=generator)
    return logits, torch.randint(0, 10, (2000,), generator=generator)


def never_occurring():
    logits, target = synthetic()
    return logits, torch.where(target == 3, 4, target)


def bisect_temperature(logits, target, weight=None):
    """Return T by bisection on log(1/T) to 1e-13, all rows at once in float64."""
    logits = logits.double().numpy()
    target = target.numpy()
    ahead = logits - logits[np.arange(len(logits)), target][:, None]
    low, high = -40.0, 40.0
    while high - low > 1e-13:
        middle = (low + high) / 2
        p = softmax(math.exp(middle) * ahead, axis=1)
        slope = np.average((p * ahead).sum(1), weights=weight)
        low, high = (low, middle) if slope > 0 else (middle, high)
        if middle in (low, high) and np.nextafter(low, high) >= high:
            break
    return math.exp(-(low + high) / 2)


def nll(logits, target):
    return F.cross_entropy(logits.double(), target).item()


BOTH = pytest.mark.parametrize("scaler_class", [TemperatureScaling, VectorScaling])


def numbers(scaler):
    return torch.cat([value.flatten() for value in scaler.buffers()])


GOOD = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [2.0, 1.0, 1.5]])


LABELS = torch.tensor([0, 2, 1])


NAN, INFINITE = GOOD.clone(), GOOD.double()
NAN[1, 2], INFINITE[2, 0] = torch.nan, -torch.inf
