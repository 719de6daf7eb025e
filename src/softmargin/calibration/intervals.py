"""Confidence intervals from what an accumulator keeps, without the predictions themselves.

- **Shares** (accuracy, top-k): Wilson's score interval.
- **Means** (NLL, Brier score, mean confidence, over-confidence): mean ± z standard errors, from
  sums and sums of squares; that is where the bootstrap of a mean ends up.
- **Errors over bins of the top label**: a multinomial bootstrap over the cells of the confidence
  histogram, right and wrong apart.
- **Errors over bins of every class**: a multinomial bootstrap over each class's bins. Classes are
  resampled apart, but a row's residuals p - y add up to 0 over its classes: where all of its rest
  is on one competitor, as it must be for two classes, that doubles the variance of their sum.
  The spread is therefore widened by √2.

Bootstrap intervals are basic (pivotal) ones: how far resamples fall from the data, the data is
taken to fall from the truth. Absolute gaps only grow by noise, so that an ECE is biased upwards,
and a resample's still more; the basic interval takes that off on its lower side. Where it would
not reach the value it belongs to, it is extended to it.

With weights, a data set counts as many samples as say as much: (Σ w)² / Σ w².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin.calibration import errors
from softmargin.calibration.binning import ConfidenceCells

Floats = NDArray[np.float64]
Interval = tuple[float, float]

DRAWS_AT_A_TIME = 1 << 21
CLASS_DEPENDENCE = math.sqrt(2)
BRIER_LIMITS = (0.0, 2.0)


@dataclass(frozen=True)
class Resampling:
    """How to bootstrap: samples per resample, how many resamples, from which seed."""

    samples: int
    resamples: int
    seed: int
    confidence_level: float

    def __post_init__(self) -> None:
        """Refuse what cannot be done, in one sentence."""
        if not 0.0 < self.confidence_level < 1.0:
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

    def spread(self, values: Tensor) -> Interval:
        """Return the two quantiles that hold the level's share of the values between them."""
        tail = (1 - self.confidence_level) / 2
        low, high = np.quantile(values.numpy(), [tail, 1 - tail])
        return float(low), float(high)


def normal_quantile(confidence_level: float) -> float:
    """Return how many standard deviations a two-sided interval reaches.

    Example:
        >>> round(normal_quantile(0.95), 6)
        1.959964
    """
    return NormalDist().inv_cdf(0.5 + confidence_level / 2)


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
    return _reach([float(low[0]), float(high[0])], share)


def mean_interval(moments: Tensor, totals: Tensor, confidence_level: float) -> Interval:
    """Return the normal interval of a weighted mean; NaN where there is but one sample.

    Args:
        moments: Σ w·x, Σ w²·x, Σ w²·x².
        totals: number of samples, Σ w, Σ w².
        confidence_level: such as 0.95.
    """
    of_x, squared_of_x, squared_of_squares = moments.tolist()
    _, weight, squared, *_ = totals.tolist()
    effective = weight**2 / squared
    if effective < 1.5:
        return math.nan, math.nan
    mean = of_x / weight
    spread = squared_of_squares - 2 * mean * squared_of_x + mean**2 * squared
    error = math.sqrt(max(spread, 0.0) * effective / (effective - 1)) / weight
    half = normal_quantile(confidence_level) * error
    return mean - half, mean + half


def top_label_intervals(
    cells: Tensor,
    layout: ConfidenceCells,
    values: Mapping[str, float],
    resampling: Resampling,
) -> dict[str, Interval]:
    """Return the intervals of the errors over bins of the top label.

    Args:
        cells: the histogram, of shape (4, cells, 2), see :class:`Sums`.
        layout: which bin each cell belongs to.
        values: the metrics by name.
        resampling: how to bootstrap.
    """
    occupied = cells[1].sum(-1) > 0
    weight, confidence = cells[1][occupied], cells[3][occupied]
    gap = (confidence / weight).nan_to_num(0.0) - torch.tensor([0.0, 1.0]).double()
    bin_of_cell = layout.bin_of_cell[occupied]
    to_bins = torch.nn.functional.one_hot(bin_of_cell, layout.bins).double()

    def statistics(counts: Tensor) -> dict[str, Tensor]:
        mass, residual = counts.sum(-1), (counts * gap).sum(-1)
        in_bin, residual_in_bin = mass @ to_bins, residual @ to_bins
        accuracy = ((counts[..., 1] @ to_bins) / in_bin).nan_to_num(0.0)
        return {
            "ece": errors.expected_error(in_bin, residual_in_bin),
            "mce": errors.largest_error(in_bin, residual_in_bin),
            "rms_error": errors.squared_error(in_bin, residual_in_bin),
            "debiased_error": errors.debiased_squared_error(
                in_bin, residual_in_bin, accuracy, in_bin
            ),
            "equal_mass_ece": errors.equal_mass_error(mass, residual, layout.bins),
            "ks_error": errors.kolmogorov_smirnov_error(mass, residual),
        }

    shares = weight / weight.sum()
    observed = statistics(resampling.samples * shares)
    result = {}
    for name, each in resampling.draw(shares, statistics, stream=0).items():
        squared = name in ("rms_error", "debiased_error")
        # over resamples the truth is the error of the data itself, with nothing to take off
        truth = observed["rms_error" if squared else name]
        low, high = resampling.spread(each - truth)
        bounds = [float(observed[name]) - high, float(observed[name]) - low]
        if squared:
            bounds = [math.sqrt(max(bound, 0.0)) for bound in bounds]
        result[name] = _reach(bounds, values[name])
    return result


def class_intervals(
    mass: Tensor,
    probability: Tensor,
    occurred: Tensor,
    values: Mapping[str, float],
    resampling: Resampling,
) -> dict[str, Interval]:
    """Return the intervals of the errors over bins of every class.

    Args:
        mass: Σ w in each class's bins, of shape (C, M).
        probability: Σ w·p there.
        occurred: Σ w·y there.
        values: the metrics by name.
        resampling: how to bootstrap.
    """
    mean = (probability / mass).nan_to_num(0.0)

    def statistics(counts: Tensor) -> dict[str, Tensor]:
        total, came_true = counts.sum(-1), counts[..., 1]
        reliability, _ = errors.brier_parts(total, total * mean, came_true)
        return {
            "classwise_ece": errors.classwise_errors(total, total * mean, came_true).mean(-1),
            "brier_reliability": reliability,
            "brier_resolution": errors.between_bins_resolution(total, came_true),
        }

    shares = torch.stack([(mass - occurred).clamp_min(0.0), occurred], -1)
    shares = shares / shares.sum((-2, -1), keepdim=True)
    observed = statistics(resampling.samples * shares)
    result = {}
    for name, each in resampling.draw(shares, statistics, stream=1).items():
        centre = each.mean()
        low, high = (CLASS_DEPENDENCE * x for x in resampling.spread(each - centre))
        unbiased = values[name] - float(centre - observed[name])
        limits = (0.0, 1.0) if name == "classwise_ece" else BRIER_LIMITS
        result[name] = _reach([unbiased - high, unbiased - low], values[name], limits)
    result["brier_uncertainty"] = _uncertainty_interval(
        occurred.sum(-1), values["brier_uncertainty"], resampling
    )
    return result


def _uncertainty_interval(class_mass: Tensor, value: float, resampling: Resampling) -> Interval:
    """Resample the classes' frequencies ō_k, and with them Σ_k ō_k (1 - ō_k) = 1 - Σ_k ō_k²."""

    def statistics(counts: Tensor) -> dict[str, Tensor]:
        shares = counts / resampling.samples
        return {"uncertainty": 1 - shares.square().sum((-2, -1))}

    shares = (class_mass / class_mass.sum()).unsqueeze(-1)
    drawn = resampling.draw(shares, statistics, stream=2)["uncertainty"]
    low, high = resampling.spread(drawn - value)
    return _reach([value - high, value - low], value)


def _reach(bounds: list[float], value: float, limits: tuple[float, float] = (0.0, 1.0)) -> Interval:
    """Return an interval within the limits that holds the value it belongs to."""
    low, high = bounds
    return min(max(low, limits[0]), value), max(min(high, limits[1]), value)
