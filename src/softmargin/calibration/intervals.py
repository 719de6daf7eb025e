"""Confidence intervals from the sums of an accumulator, without the predictions themselves.

- **Shares** (accuracy, top-k): Wilson's score interval.
- **Means** (NLL, Brier score, mean confidence, over-confidence): Student's t with Hall's (1992)
  correction for skewness, from sums of powers. A few wrong predictions, which may be missing,
  decide the skewness of over-confidence. Its interval is therefore at least as wide as the one
  that combines Wilson's interval of the accuracy with that of mean confidence (MOVER, Zou and
  Donner, 2008).
- **Errors over bins**: see :mod:`softmargin.calibration._bin_intervals`.

With weights, the number of samples is the effective one, (Σ w)² / Σ w².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin.calibration._batch import check_whole

Floats = NDArray[np.float64]
Interval = tuple[float, float]

DRAWS_AT_A_TIME = 1 << 21


@dataclass(frozen=True)
class Resampling:
    """How to bootstrap: samples per resample, number of resamples, seed and confidence level."""

    samples: int
    resamples: int
    seed: int
    confidence_level: float

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for impossible settings."""
        number = isinstance(self.confidence_level, Real)
        if not (number and 0.0 < self.confidence_level < 1.0):
            raise ValueError(
                "confidence_level must be between 0 and 1, such as 0.95, "
                f"but got {self.confidence_level}."
            )
        check_whole("resamples", self.resamples, 2)
        check_whole("seed", self.seed, 0)

    def draw(
        self, shares: Tensor, statistics: Callable[[Tensor], dict[str, Tensor]], stream: int
    ) -> dict[str, Tensor]:
        """Return statistics of every resample, drawn from the shares of the cells.

        The last two dimensions of ``shares`` are the cells of one multinomial distribution; a
        leading dimension holds several distributions. Streams of one seed are independent.
        """
        generator = np.random.default_rng([self.seed, stream])
        flat = shares.flatten(-2).numpy()
        at_a_time = max(1, DRAWS_AT_A_TIME // flat.size)
        parts = []
        for start in range(0, self.resamples, at_a_time):
            size = (min(at_a_time, self.resamples - start), *flat.shape[:-1])
            counts = torch.from_numpy(generator.multinomial(self.samples, flat, size=size))
            parts.append(statistics(counts.double().reshape(*size, *shares.shape[-2:])))
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    @property
    def tail(self) -> float:
        """Return the probability beyond each end of an interval."""
        return (1 - self.confidence_level) / 2


def normal_quantile(confidence_level: float) -> float:
    """Return the half-width of a two-sided normal interval in standard deviations.

    Example:
        >>> round(normal_quantile(0.95), 6)
        1.959964
    """
    return NormalDist().inv_cdf(0.5 + confidence_level / 2)


def student_quantile(confidence_level: float, freedom: float) -> float:
    """Return the half-width of a two-sided t interval in standard errors.

    It is the expansion of Cornish and Fisher in powers of 1 / degrees of freedom, accurate to 1 %
    from 3 degrees of freedom on.

    Example:
        >>> round(student_quantile(0.95, 10), 3), round(student_quantile(0.95, 1000), 4)
        (2.228, 1.9623)
    """
    z = normal_quantile(confidence_level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


def wilson_interval(share: Floats, counts: Floats, z: float = 1.959964) -> tuple[Floats, Floats]:
    """Return Wilson's score interval of a share, 95 % by default; it never leaves [0, 1].

    Args:
        share: observed shares, such as the accuracy per bin.
        counts: number of observations behind each share, above 0.
        z: quantile of the normal distribution.

    Example:
        >>> import numpy as np
        >>> low, high = wilson_interval(np.array([1.0]), np.array([10.0]))
        >>> [round(float(bound[0]), 4) for bound in (low, high)]
        [0.7225, 1.0]
    """
    scale = 1 + z**2 / counts
    centre = (share + z**2 / (2 * counts)) / scale
    half = z * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2)) / scale
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def share_interval(share: float, count: float, confidence_level: float) -> Interval:
    """Return Wilson's interval of one share."""
    share = min(max(share, 0.0), 1.0)
    z = normal_quantile(confidence_level)
    low, high = wilson_interval(np.array([share]), np.array([count]), z)
    return within((float(low[0]), float(high[0])), share, (0.0, 1.0))


def mean_interval(
    moments: Tensor, totals: Tensor, confidence_level: float, limits: Interval
) -> Interval:
    """Return the interval of a weighted mean; NaN if there is only one sample.

    With T = (mean - μ) / error and k the mean's skewness, g(T) = T + k T²/3 + k² T³/27 + k/6 is
    closer to normal than T (Hall, 1992), and g can be inverted.

    Args:
        moments: Σ w·x, Σ w²·x, Σ w²·x², Σ w³·x, Σ w³·x², Σ w³·x³.
        totals: see :class:`softmargin.calibration._sums.Sums`.
        confidence_level: such as 0.95.
        limits: lower and upper bound of every x.
    """
    weight = float(totals[1])
    mean = float(moments[0]) / weight
    effective = weight**2 / float(totals[2])
    spread, third = central_moments(moments, totals)
    if effective < 1.5 or not math.isfinite(spread):
        return math.nan, math.nan
    error = math.sqrt(spread * effective / (effective - 1)) / weight
    if not error > 0:
        return _unseen(mean, effective, confidence_level, limits)
    third /= weight**3
    # the skewness of a mean is never more than 1, whatever the weights
    skewness = min(max(third / error**3, -1.0), 1.0) if math.isfinite(third) else 0.0
    t = student_quantile(confidence_level, effective - 1)
    low, high = (mean - error * _unskew(x, skewness) for x in (t, -t))
    return within((low, high), mean, limits)


def central_moments(moments: Tensor, totals: Tensor) -> tuple[float, float]:
    """Return Σ w² (x - mean)² and Σ w³ (x - mean)³; arguments as in :func:`mean_interval`."""
    of_x, a1, a2, b1, b2, b3 = moments.tolist()
    _, weight, squared, _, _, cubed = totals.tolist()
    mean = of_x / weight
    second = a2 - 2 * mean * a1 + mean**2 * squared
    if second <= 1e-14 * (a2 + mean**2 * squared):  # equal but for rounding
        return 0.0, 0.0
    return second, b3 - 3 * mean * b2 + 3 * mean**2 * b1 - mean**3 * cubed


def _unskew(x: float, skewness: float) -> float:
    """Return the T with g(T) = ``x``, see :func:`mean_interval`."""
    if abs(skewness) < 1e-6:
        return x
    return 3 / skewness * (float(np.cbrt(1 + skewness * (x - skewness / 6))) - 1)


def _unseen(mean: float, count: float, confidence_level: float, limits: Interval) -> Interval:
    """Return the interval if all values are equal: others may exist but not have been observed.

    Their share is the largest that Wilson's interval allows if none was observed. Their values are
    at the limits, or at twice the mean if there is no upper limit.
    """
    z = normal_quantile(confidence_level)
    share = z**2 / (count + z**2)
    low, high = limits[0], limits[1] if math.isfinite(limits[1]) else 2 * mean
    return within((mean + share * (low - mean), mean + share * (high - mean)), mean, limits)


def difference_interval(
    confidence: tuple[float, Interval], accuracy: tuple[float, Interval], correlation: float
) -> Interval:
    """Return the interval of mean confidence minus accuracy, from those of both (MOVER)."""
    (c, (c_low, c_high)), (a, (a_low, a_high)) = confidence, accuracy

    def reach(of_c: float, of_a: float) -> float:
        return math.sqrt(max(of_c**2 - 2 * correlation * of_c * of_a + of_a**2, 0.0))

    return c - a - reach(c - c_low, a_high - a), c - a + reach(c_high - c, a - a_low)


def within(bounds: Interval, value: float, limits: Interval) -> Interval:
    """Return an interval within the limits with the value inside, not at an end.

    The value is at an end only if it is itself at a limit.
    """
    low, high = bounds
    # the least distance from the value to an end
    least = 0.05 * max(value - low, high - value, 0.0)
    low, high = min(low, value - least), max(high, value + least)
    return min(max(low, limits[0]), value), max(min(high, limits[1]), value)
