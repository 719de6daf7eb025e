"""Which samples: stratified parts, folds and label noise, all from a seed.

How many samples of each class are taken is fixed by ``shares``, not drawn: the whole is
``round(fraction · N)`` (halves up), and each class gets its share of that, rounded so that the
sum is exact (largest remainders first, then lower classes). Which ones is drawn.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from softmargin.functional._checks import check_classes, check_count, check_number


def label_noise(y: Tensor, rate: float, num_classes: int, seed: int = 0) -> Tensor:
    """Return a copy of the classes in which a share is wrong (LM Table 3).

    Exactly ``round(rate · N)`` labels change, every class loses its share of them to within one,
    and each changed label becomes one of the other classes, all equally likely.

    Args:
        y: int64 classes, of shape (N).
        rate: Share to change, at least 0 and below 1.
        num_classes: The number of classes, at least 2.
        seed: Which samples, and to which class.

    Example:
        >>> import torch
        >>> y = torch.arange(100) % 10
        >>> noisy = label_noise(y, 0.3, num_classes=10)
        >>> int((noisy != y).sum())
        30
        >>> torch.equal(noisy, label_noise(y, 0.3, num_classes=10, seed=0))
        True

    Reference:
        Kobayashi, "Large-Margin in Softmax Cross-Entropy Loss", BMVC 2019, Table 3.
    """
    check_number("rate", rate, inclusive=True, below=1.0)
    check_count("num_classes", num_classes, 2)
    _check_labels(y)
    check_classes(y, num_classes)
    generator = _generator(seed)
    chosen = _draw(y, rate, generator)
    steps = torch.randint(1, num_classes, (len(chosen),), generator=generator).to(y.device)
    noisy = y.clone()
    noisy[chosen] = (y[chosen] + steps) % num_classes
    return noisy


def pollute_labels(y: Tensor, rate: float, num_classes: int, seed: int = 0) -> Tensor:
    """Return the same as :func:`label_noise`, which is its name now."""
    warnings.warn("pollute_labels is called label_noise now.", DeprecationWarning, stacklevel=2)
    return label_noise(y, rate, num_classes, seed)


def stratified_indices(y: Tensor, fraction: float, seed: int = 0) -> Tensor:
    """Return sorted indices of a stratified part of the samples."""
    check_fraction(fraction)
    _check_labels(y)
    chosen = _draw(y, fraction, _generator(seed))
    if not len(chosen):
        raise ValueError(
            f"fraction must keep at least one of the {len(y)} samples, but got {fraction}."
        )
    return chosen


def stratified_folds(y: Tensor, k: int, seed: int = 0) -> Tensor:
    """Return the fold, 0 to k-1, of every sample.

    The shuffled samples of each class are dealt out in turn, and the next class goes on where the
    last one stopped: fold sizes differ by at most one, and so do the counts of each class.
    """
    check_count("k", k, 2)
    _check_labels(y)
    if k > len(y):
        raise ValueError(f"k must be at most the number of samples, {len(y)}, but got {k}.")
    shuffled = torch.randperm(len(y), generator=_generator(seed)).to(y.device)
    order = shuffled[y[shuffled].argsort(stable=True)]
    folds = torch.empty_like(order)
    folds[order] = torch.arange(len(y), device=y.device) % k
    return folds


def shares(counts: list[int], fraction: float) -> list[int]:
    """Return how many of each class to take, summing to ``round(fraction · sum(counts))``.

    >>> shares([5, 3, 2], 0.5)
    [3, 1, 1]
    """
    # 0.3 · 10 is 3 to the user: what binary fractions add beyond 1e-9 of a sample is not meant
    exact = [round(fraction * count, 9) for count in counts]
    whole = [int(value) for value in exact]
    missing = int(round(fraction * sum(counts), 9) + 0.5) - sum(whole)
    by_remainder = sorted(range(len(counts)), key=lambda i: (whole[i] - exact[i], i))
    for i in by_remainder[: max(missing, 0)]:
        whole[i] += 1
    return whole


def check_fraction(fraction: float) -> None:
    """Raise unless the fraction is above 0 and at most 1."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError(f"fraction must be a number, but got {fraction!r}.")
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, but got {fraction}.")


def _draw(y: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """Draw a share of each class; return sorted indices."""
    if not len(y):
        return torch.empty(0, dtype=torch.int64, device=y.device)
    counts = torch.bincount(y)
    taken = torch.tensor(shares(counts.tolist(), fraction), device=y.device)
    shuffled = torch.randperm(len(y), generator=generator).to(y.device)
    order = shuffled[y[shuffled].argsort(stable=True)]  # by class, shuffled within each
    classes = y[order]
    rank = torch.arange(len(y), device=y.device) - (counts.cumsum(0) - counts)[classes]
    return order[rank < taken[classes]].sort().values


@lru_cache(maxsize=1024)  # networks that are trained together ask for the same ones
def mixed_seed(*numbers: int) -> int:
    """Return one seed out of several whole numbers of at least 0, such as seed, epoch and step.

    Example:
        >>> mixed_seed(0, 1) == mixed_seed(0, 1), mixed_seed(0, 1) == mixed_seed(1, 0)
        (True, False)
    """
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _generator(seed: int) -> torch.Generator:
    check_count("seed", seed, 0)
    return torch.Generator().manual_seed(seed)


def _check_labels(y: Tensor) -> None:
    if not isinstance(y, Tensor):
        raise TypeError(f"y must be a Tensor, but got {type(y).__name__}.")
    if y.ndim != 1 or y.dtype != torch.int64:
        raise ValueError(
            f"y must be a vector of int64 classes, but got {y.dtype} of shape {tuple(y.shape)}."
        )
