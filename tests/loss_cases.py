"""Every loss as one row of data: what it is, how it is called, and what it should be.

A new loss gets all tests of ``test_losses.py`` by adding one row. ``reference`` is the loss of
one sample for one target class, written with Python floats straight from the paper's formula and
sharing nothing with the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import softmargin
from softmargin import functional as F

# the losses do what the newest cross-entropy does; where that changed, older ones differ
OLDER = torch.torch_version.TorchVersion(torch.__version__) < (2, 13)


def _others(z: Sequence[float], c: int) -> list[float]:
    return [v for i, v in enumerate(z) if i != c]


def gradient_decay(z, c, beta=1.0, tau=1.0, floored=False):
    if isinstance(beta, Tensor):
        beta = beta[c].item() if beta.ndim else beta.item()
    ratio = sum(math.exp((v - z[c]) / tau) for v in _others(z, c))
    return math.log(beta + ratio) - (math.log(beta) if floored else 0.0)


def soft_margin(z, c, margin, tau=1.0):
    own = math.exp(z[c] / tau - margin)
    return -math.log(own / (own + sum(math.exp(v / tau) for v in _others(z, c))))


def modified(z, c, rho=1.0, tau=1.0):
    return soft_margin(z, c, rho, tau)


def mean_hinge(z, c, margin=1.0):
    return sum(max(0.0, v - z[c] + margin) for v in _others(z, c)) / (len(z) - 1)


def max_hinge(z, c, margin=1.0):
    return max(0.0, max(_others(z, c)) - z[c] + margin)


def hard_bias(z, c, rho=1.0, tau=1.0):
    return math.log1p(math.exp((max(_others(z, c)) - z[c]) / tau + rho))


def divergence(z, c, kind="symmetric", tau=1.0):
    weights = [math.exp(v / tau) for v in _others(z, c)]
    q = [w / sum(weights) for w in weights]
    u = 1 / len(q)
    q_to_u = sum(a * math.log(a / u) for a in q)
    u_to_q = sum(u * math.log(u / a) for a in q)
    kinds = {"logits_to_uniform": q_to_u, "uniform_to_logits": u_to_q}
    return kinds.get(kind, (q_to_u + u_to_q) / 2)


def regularized(z, c, lam=0.3, divergence_="symmetric", beta=1.0, tau=1.0):
    return gradient_decay(z, c, beta, tau) + lam * divergence(z, c, divergence_, tau)


def focal(z, c, gamma=2.0, tau=1.0):
    p = math.exp(z[c] / tau) / sum(math.exp(v / tau) for v in z)
    return (1 - p) ** gamma * -math.log(p)


@dataclass
class LossCase:
    """One loss: its function, its module, sets of its own arguments, its reference."""

    function: Callable[..., Tensor]
    module: type[softmargin.losses.LogitLoss]
    options: list[dict[str, Any]]
    reference: Callable[..., float]
    setting: str
    bad: list[tuple[dict[str, Any], type[Exception], str]] = field(default_factory=list)
    smooth: bool = True

    @property
    def name(self) -> str:
        return self.module.__name__


PER_CLASS = torch.tensor([0.1, 0.5, 1.0, 2.0, 10.0], dtype=torch.float64)
BETA_MESSAGE = "beta must be a finite number above 0, but got"
BAD_BETA = [
    ({"beta": 0}, ValueError, f"{BETA_MESSAGE} 0"),
    ({"beta": -1.5}, ValueError, f"{BETA_MESSAGE} -1.5"),
    ({"beta": math.nan}, ValueError, f"{BETA_MESSAGE} nan"),
    ({"beta": math.inf}, ValueError, f"{BETA_MESSAGE} inf"),
    ({"beta": "1"}, TypeError, "beta must be a number or a tensor, but got '1'"),
    ({"beta": torch.tensor(-1.0)}, ValueError, f"{BETA_MESSAGE} -1.0"),
    ({"beta": torch.tensor([1.0, 1.0, math.nan, 1.0, 1.0])}, ValueError, f"{BETA_MESSAGE} nan"),
    ({"beta": torch.ones(5, 1)}, ValueError, r"beta must have shape .*, but got \(5, 1\)"),
    ({"beta": torch.tensor(1)}, TypeError, "beta must be a floating-point tensor"),
]
BAD_TAU = [
    ({"tau": 0.0}, ValueError, "tau must be a finite number above 0, but got 0.0"),
    ({"tau": math.nan}, ValueError, "tau must be a finite number above 0, but got nan"),
    ({"tau": torch.ones(2)}, ValueError, r"tau must have shape \(\), but got \(2,\)"),
]
BAD_MARGIN = [({"margin": -1.0}, ValueError, "margin must be a finite number of at least 0")]

CASES = [
    LossCase(
        F.gradient_decay_loss,
        softmargin.GradientDecayLoss,
        [
            {},
            {"beta": 0.01},
            {"beta": 20.0, "tau": 2.5},
            {"beta": 0.3, "floored": True},
            {"beta": PER_CLASS},
            {"beta": torch.tensor(0.2, dtype=torch.float64), "tau": 0.7},
        ],
        gradient_decay,
        "beta",
        BAD_BETA + BAD_TAU,
    ),
    LossCase(
        F.soft_margin_softmax_loss,
        softmargin.SoftMarginSoftmaxLoss,
        [{"margin": 0.5}, {"margin": -1.0, "tau": 3.0}],
        soft_margin,
        "margin",
        [({"margin": math.inf}, ValueError, "margin must be a finite number, but got inf")],
    ),
    LossCase(
        F.modified_softmax_loss,
        softmargin.ModifiedSoftmaxLoss,
        [{}, {"rho": 2.0, "tau": 0.5}],
        modified,
        "rho",
        [({"rho": math.nan}, ValueError, "rho must be a finite number, but got nan")],
    ),
    LossCase(
        F.regularized_softmax_loss,
        softmargin.RegularizedSoftmaxLoss,
        [
            {},
            {"lam": 0.5, "divergence": "uniform_to_logits", "beta": 0.1},
            {"lam": 0.9, "divergence": "logits_to_uniform", "tau": 2.0},
            {"beta": PER_CLASS},
        ],
        lambda z, c, divergence="symmetric", **k: regularized(z, c, divergence_=divergence, **k),
        "lam",
        [
            ({"lam": -0.1}, ValueError, "lam must be a finite number of at least 0, but got -0.1"),
            (
                {"divergence": "kl"},
                ValueError,
                "divergence must be one of symmetric, uniform_to_logits, logits_to_uniform, "
                "but got 'kl'",
            ),
            *BAD_BETA,
        ],
    ),
    LossCase(
        F.mean_hinge_loss,
        softmargin.MeanHingeLoss,
        [{}, {"margin": 0.4}],
        mean_hinge,
        "margin",
        BAD_MARGIN,
        smooth=False,
    ),
    LossCase(
        F.max_hinge_loss,
        softmargin.MaxHingeLoss,
        [{}, {"margin": 0.4}],
        max_hinge,
        "margin",
        BAD_MARGIN,
        smooth=False,
    ),
    LossCase(
        F.hard_bias_softmax_loss,
        softmargin.HardBiasSoftmaxLoss,
        [{}, {"rho": 0.3, "tau": 2.0}],
        hard_bias,
        "rho",
        BAD_TAU,
    ),
    LossCase(
        F.focal_loss,
        softmargin.FocalLoss,
        [{}, {"gamma": 0.0}, {"gamma": 0.5, "tau": 2.0}],
        focal,
        "gamma",
        [({"gamma": -1.0}, ValueError, "gamma must be a finite number of at least 0")],
    ),
    LossCase(  # before its first update; tests/test_adaptive_focal.py has what comes then
        F.adaptive_focal_loss,
        softmargin.AdaFocalLoss,
        [{}, {"tau": 2.0}],
        lambda z, c, **k: focal(z, c, gamma=1.0, **k),
        "tau",
        BAD_TAU,
    ),
]

EVERY_LOSS = {case.name: case for case in CASES}
EVERY_OPTION = {
    f"{case.name}-{i}": (case, options) for case in CASES for i, options in enumerate(case.options)
}


def slow_criterion(case, options, logits, target, weight=None, ignore_index=-100, smoothing=0.0):
    """Return the losses of (N, C) logits and their mean, by loops over samples and classes."""
    rows, num_classes = logits.tolist(), logits.shape[1]
    weights = [1.0] * num_classes if weight is None else weight.tolist()
    losses, norm = [], 0.0
    for z, t in zip(rows, target.tolist(), strict=True):
        each = [weights[c] * case.reference(z, c, **options) for c in range(num_classes)]
        if isinstance(t, list):
            y = [(1 - smoothing) * v + smoothing / num_classes for v in t]
            losses.append(sum(a * b for a, b in zip(y, each, strict=True)))
            norm += 1
        elif t == ignore_index:
            losses.append(0.0)
        else:
            losses.append((1 - smoothing) * each[t] + smoothing * sum(each) / num_classes)
            norm += weights[t]
    result = torch.tensor(losses, dtype=torch.float64)
    return result, result.sum() / norm
