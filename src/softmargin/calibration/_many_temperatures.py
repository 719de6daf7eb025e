"""Temperatures of many models at once, each with one fold of the rows left out.

The temperatures are those of :mod:`softmargin.calibration._temperature`, with the same bounds, but
all of them take their steps together: for many small sets of logits a call for each would cost
several times what the arithmetic does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin.calibration._temperature import LARGEST_TEMPERATURE, SMALLEST_TEMPERATURE

NUMBERS = 1 << 18  # logits that are worked on at a time: they stay in the cache
ROUNDS = 60
ACCURACY = 1e-4  # of third order: the next step would be about 1e-12
FLOOR = -700.0  # exp is slow where it underflows, and adds nothing there


def temperatures_without(logits: Tensor, y: Tensor, fold_of: Tensor) -> Tensor:
    """Return the temperature of every model on all rows but those of a fold.

    Args:
        logits: (K, N, C), finite and in float64.
        y: classes (N,).
        fold_of: the fold (N,) of every row, counted from 0; -1 for rows of none.

    Returns:
        Temperatures (K, F); NaN where one was not found.
    """
    folds = int(fold_of.max()) + 1
    kept = (fold_of != torch.arange(folds).unsqueeze(1)).double()
    weight = kept / kept.sum(1, keepdim=True)
    step = max(1, NUMBERS // max(1, folds * logits[0].numel()))
    found = [_roots(some, y, weight) for some in torch.split(logits, step)]
    return torch.cat(found)


def _roots(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return temperatures (K, F) of logits (K, N, C), with a weight (F, N) for every row."""
    by_class = logits.mT.contiguous()  # sums over few classes are slow where these lie together
    shifted = by_class - by_class.amax(1, keepdim=True)
    target = shifted.gather(1, y.expand(len(logits), 1, -1))[:, 0]
    variance = shifted.var(1, correction=0) @ weight.T
    slope = (shifted.mean(1) - target) @ weight.T
    separable = (target < 0).double() @ weight.T == 0
    spread = variance.sqrt()
    lowest = (SMALLEST_TEMPERATURE * spread).clamp(max=1.0)
    highest = (LARGEST_TEMPERATURE * spread).clamp(min=1.0)
    found = torch.where(separable, lowest, torch.where(slope < 0, math.nan, highest))
    found = torch.where(spread > 0, found, 1.0)
    models, places = found.isnan().nonzero(as_tuple=True)
    if len(models):
        ends = 1 / highest[models, places], 1 / lowest[models, places]
        guess = -slope[models, places] / variance[models, places]
        own = shifted[models], target[models], weight[places]
        found[models, places] = 1 / _halley_steps(*own, guess, ends)
    return found


def _halley_steps(
    shifted: Tensor, target: Tensor, weight: Tensor, inverse: Tensor, ends: tuple[Tensor, Tensor]
) -> Tensor:
    """Return the roots (P,) of f' between ends; bisect where a step leaves the bracket.

    An end is returned where there is no root between them, NaN where steps do not become small.
    """
    inverse = inverse.clamp(*ends)
    low, high = ends[0] / 2, ends[1] * 2  # so that the ends themselves are tried
    found = torch.full_like(inverse, math.nan)
    left = torch.arange(len(inverse))
    for round_ in range(ROUNDS):
        bounds = ends[0][left], ends[1][left]
        first, second, third = _derivatives(shifted, target, weight, inverse)
        rising = first < 0
        low, high = torch.where(rising, inverse, low), torch.where(rising, high, inverse)
        step = _halley(first, second, second + third)
        proposal = (inverse * step.exp()).clamp(*bounds)
        inside = (low < proposal) & (proposal < high)
        ended = (low == bounds[1]) | (high == bounds[0]) | (high <= low * (1 + 1e-15))
        close = (step.abs() < ACCURACY) & (low <= proposal) & (proposal <= high)
        found[left] = torch.where(ended, inverse, torch.where(close, proposal, math.nan))
        halved = (low.sqrt() * high.sqrt()).clamp(*bounds)
        if round_ > 20 and round_ % 2:
            inside = torch.zeros_like(inside)
        inverse = torch.where(inside, proposal, halved)
        again = ~(ended | close) & first.isfinite()
        if not bool(again.any()):
            break
        if not bool(again.all()):
            left, inverse, low, high = left[again], inverse[again], low[again], high[again]
            shifted, target, weight = shifted[again], target[again], weight[again]
    return found


def _halley(value: Tensor, slope: Tensor, curvature: Tensor) -> Tensor:
    """Return Halley's steps to the roots of rising functions, kept between -2 and 2."""
    newton = -value / slope
    step = newton / (1 + newton * curvature / (2 * slope)).clamp(0.5, 2.0)
    return torch.where(slope > 0, step, -2.0 * value.sign()).clamp(-2.0, 2.0)


def _derivatives(
    shifted: Tensor, target: Tensor, weight: Tensor, inverse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a f', a² f'' and a³ f''' at a = ``inverse`` (P,), as ``_temperature`` has them."""
    scaled = (shifted * inverse[:, None, None]).clamp_(min=FLOOR)
    terms = scaled.exp()
    total, m1, m2, m3 = (terms.sum(1), *(terms.mul_(scaled).sum(1) for _ in range(3)))
    m1, m2, m3 = m1 / total, m2 / total, m3 / total
    variance = m2 - m1 * m1
    third = m3 - m1 * (3 * variance + m1 * m1)
    gap = m1 - target * inverse[:, None]
    first, second, last = ((values * weight).sum(-1) for values in (gap, variance, third))
    return first, second, last
