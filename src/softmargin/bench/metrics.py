"""ECE, MCE, Brier score and NLL from logits, beside the usual mixes of packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from softmargin.bench.peers import Case, found
from softmargin.calibration import calibration_metrics

BINS = 15
FASTER = {(10_000, 100): 2.5, (1_000_000, 10): 8.0, (200_000, 1000): 8.0}
"""By the size of the logits, how many times faster than the fastest mix."""

Metrics = Callable[[Tensor, Tensor], tuple[float, ...]]


def simulate(samples: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return logits, and targets drawn from a flatter softmax: an over-confident model."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(samples, classes, generator=generator)
    target = torch.empty(samples, dtype=torch.int64)
    for part in torch.split(torch.arange(samples), 10_000):
        chances = (0.7 * logits[part]).softmax(1)
        target[part] = torch.multinomial(chances, 1, generator=generator).squeeze(1)
    return logits, target


def torchmetrics_and_torch(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """Return ECE, MCE, Brier score and NLL, each from the logits."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    classes = logits.shape[1]
    ece = multiclass_calibration_error(logits, target, classes, BINS, "l1")
    mce = multiclass_calibration_error(logits, target, classes, BINS, "max")
    probabilities = logits.softmax(1)
    own = probabilities.gather(1, target.unsqueeze(1)).squeeze(1)
    brier = (probabilities.square().sum(1) - 2 * own + 1).mean()  # no one-hot matrix
    nll = torch.nn.functional.cross_entropy(logits, target)
    return ece.item(), mce.item(), brier.item(), nll.item()


def scikit_learn_and_netcal(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """Return ECE, MCE, Brier score and NLL."""
    from netcal.metrics import ECE, MCE
    from scipy.special import softmax
    from sklearn.metrics import brier_score_loss, log_loss

    labels, classes = target.numpy(), np.arange(logits.shape[1])
    probabilities = softmax(logits.numpy(), axis=1)
    brier = brier_score_loss(labels, probabilities, labels=classes, scale_by_half=False)
    nll = log_loss(labels, probabilities, labels=classes)
    ece = ECE(BINS).measure(probabilities, labels)
    return ece, MCE(BINS).measure(probabilities, labels), brier, nll


def ours(logits: Tensor, target: Tensor, classwise: bool = False) -> tuple[float, ...]:
    """Return ECE, MCE, Brier score and NLL."""
    result = calibration_metrics(logits, target, from_logits=True, bins=BINS, classwise=classwise)
    return result.ece, result.mce, result.brier, result.nll


def of_metrics(quick: bool) -> Iterator[Case]:
    """Give our metrics beside the mixes of packages that are installed."""
    mixes: dict[str, Metrics] = {}
    if found("torchmetrics"):
        mixes["torchmetrics + torch"] = torchmetrics_and_torch
    if found("netcal") and found("sklearn"):
        mixes["scikit-learn + netcal"] = scikit_learn_and_netcal
    if not mixes:
        return
    for shape, faster in {(2_000, 10): 0.0}.items() if quick else FASTER.items():
        logits, target = simulate(*shape)
        functions: dict[str, Metrics] = {
            **mixes,
            "softmargin": ours,
            "softmargin, all metrics": partial(ours, classwise=True),
        }
        contenders = {name: partial(each, logits, target) for name, each in functions.items()}
        bounds = {"softmargin": 1 / faster} if faster else {}
        work = f"{shape[0]} × {shape[1]}"
        yield Case("metrics", work, contenders, bounds, long=not quick, peers=tuple(mixes))
