"""Confidence intervals from what an accumulator keeps, without the predictions themselves.

- **Shares** (accuracy, top-k): Wilson's score interval.
- **Means** (NLL, Brier score, mean confidence, over-confidence): Student's t, with Hall's (1992)
  correction for skewness, from sums of powers. A few wrong predictions decide the skewness of
  over-confidence, and may be missing: its interval also reaches as far as Wilson's interval of the
  accuracy and that of mean confidence say together (Zou and Donner's MOVER, 2008).
- **Errors over bins**: see :mod:`softmargin.calibration._bin_intervals`.

With weights, a data set counts as many samples as say as much: (Σ w)² / Σ w².
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

Floats = NDArray[np.float64]
Interval = tuple[float, float]

DRAWS_AT_A_TIME = 1 << 21


@dataclass(frozen=True)
class Resampling:
    """How to bootstrap: samples per resample, how many resamples, from which seed."""

    samples: int
    resamples: int
    seed: int
    confidence_level: float

    def __post_init__(self) -> None:
        """Refuse what cannot be done, in one sentence."""
        number = isinstance(self.confidence_level, Real)
        if not (number and 0.0 < self.confidence_level < 1.0):
            raise ValueError(
                "confidence_level must be between 0 and 1, such as 0.95, "
                f"but got {self.confidence_level}."
            )
        for name, value, least in (("resamples", self.resamples, 2), ("seed", self.seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name} must be an integer of at least {least}, but got {value!r}."
                )

    def draw(
        self, shares: Tensor, statistics: Callable[[Tensor], dict[str, Tensor]], stream: int
    ) -> dict[str, Tensor]:
        """Return statistics of every resample, drawn from the cells' shares.

        The last two dimensions of ``shares`` are the cells of one multinomial distribution; a
        dimension before them, if any, are several. Streams of one seed are independent.
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
        """Return the share that may lie beyond either end."""
        return (1 - self.confidence_level) / 2


def normal_quantile(confidence_level: float) -> float:
    """Return how many standard deviations a two-sided interval reaches.

    Example:
        >>> round(normal_quantile(0.95), 6)
        1.959964
    """
    return NormalDist().inv_cdf(0.5 + confidence_level / 2)


def student_quantile(confidence_level: float, freedom: float) -> float:
    """Return how many standard errors a two-sided t interval reaches, to 1 % from 3 degrees on.

    The expansion of Cornish and Fisher in powers of 1 / degrees of freedom.

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
    """Return Wilson's score interval of a share, 95 % by default, which never leaves [0, 1].

    Args:
        share: observed shares, such as the accuracy per bin.
        counts: how many observations each share comes from, above 0.
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
    """Return the interval of a weighted mean; NaN where there is but one sample.

    With T = (mean - μ) / error and k the mean's skewness, g(T) = T + k T²/3 + k² T³/27 + k/6 is
    nearer to normal than T (Hall, 1992), and g can be inverted.

    Args:
        moments: Σ w·x, Σ w²·x, Σ w²·x², Σ w³·x, Σ w³·x², Σ w³·x³.
        totals: as of :class:`Sums`.
        confidence_level: such as 0.95.
        limits: between which every x is.
    """
    weight = float(totals[1])
    mean = float(moments[0]) / weight
    effective = weight**2 / float(totals[2])
    spread = central_moments(moments, totals)[0]
    if effective < 1.5 or not math.isfinite(spread):
        return math.nan, math.nan
    error = math.sqrt(spread * effective / (effective - 1)) / weight
    if not error > 0:
        return _unseen(mean, effective, confidence_level, limits)
    third = central_moments(moments, totals)[1] / weight**3
    # no data set of any weights is more skewed than 1
    skewness = min(max(third / error**3, -1.0), 1.0) if math.isfinite(third) else 0.0
    t = student_quantile(confidence_level, effective - 1)
    low, high = (mean - error * _unskew(x, skewness) for x in (t, -t))
    return within((low, high), mean, limits)


def central_moments(moments: Tensor, totals: Tensor) -> tuple[float, float]:
    """Return Σ w² (x - mean)² and Σ w³ (x - mean)³; arguments as of :func:`mean_interval`."""
    of_x, a1, a2, b1, b2, b3 = moments.tolist()
    _, weight, squared, _, _, cubed = totals.tolist()
    mean = of_x / weight
    second = a2 - 2 * mean * a1 + mean**2 * squared
    if second <= 1e-14 * (a2 + mean**2 * squared):  # equal but for rounding
        return 0.0, 0.0
    return second, b3 - 3 * mean * b2 + 3 * mean**2 * b1 - mean**3 * cubed


def _unskew(x: float, skewness: float) -> float:
    """Return the T of which g(T), see :func:`mean_interval`, is ``x``."""
    if abs(skewness) < 1e-6:
        return x
    return 3 / skewness * (float(np.cbrt(1 + skewness * (x - skewness / 6))) - 1)


def _unseen(mean: float, count: float, confidence_level: float, limits: Interval) -> Interval:
    """Return the interval where all values are equal: some others may not have been seen.

    As large a share of them as Wilson's interval allows where none was seen, at the limits; where
    there is no upper one, at twice the value.
    """
    z = normal_quantile(confidence_level)
    share = z**2 / (count + z**2)
    low, high = limits[0], limits[1] if math.isfinite(limits[1]) else 2 * mean
    return within((mean + share * (low - mean), mean + share * (high - mean)), mean, limits)


def difference_interval(
    confidence: tuple[float, Interval], accuracy: tuple[float, Interval], correlation: float
) -> Interval:
    """Return the interval of mean confidence minus accuracy from the intervals of both.

    Args:
        confidence: the mean and its interval.
        accuracy: the share and its interval.
        correlation: of confidence and correctness.
    """
    (c, (c_low, c_high)), (a, (a_low, a_high)) = confidence, accuracy

    def reach(of_c: float, of_a: float) -> float:
        return math.sqrt(max(of_c**2 - 2 * correlation * of_c * of_a + of_a**2, 0.0))

    return c - a - reach(c - c_low, a_high - a), c - a + reach(c_high - c, a - a_low)


def within(bounds: Interval, value: float, limits: Interval) -> Interval:
    """Return an interval between the limits that holds its value, and not as an end.

    Only a value at a limit of what is possible is an end.
    """
    low, high = bounds
    # how far an interval reaches past its value, where it would not
    least = 0.05 * max(value - low, high - value, 0.0)
    low, high = min(low, value - least), max(high, value + least)
    return min(max(low, limits[0]), value), max(min(high, limits[1]), value)
