"""Intervals of errors over bins, which cover the error in the limit of infinite data.

Such an error is a norm of the residuals r of the bins (the sum of absolute values, the root of the
sum of squares, the largest partial sum), measured on r + ε with noise ε. Noise only adds to it: an
ECE is biased upwards, and a plain bootstrap would be biased even more. Two properties of a norm
still give an interval:

- |r| - |r + ε| is at most -⟨s, ε⟩, with s the direction of r (its signs, for the ECE). So the
  **upper** end is the error plus a quantile of ⟨s, ε⟩, which is unbiased.
- |r + ε| - |r| is at most |ε|, and ⟨s, ε⟩ if r is so large that s is certain. So the **lower** end
  is the error minus a quantile of a sum over bins: of ⟨s, ε⟩ if the residual exceeds √(2 log n)
  standard deviations, and of |ε| otherwise (moment selection, Andrews and Soares, 2010).

The noise comes from a multinomial bootstrap of the histogram. A bin of few predictions shows too
little of its own noise (a single prediction shows none), so one more prediction is added to every
bin, which is right with the probability that its confidence states.

The MCE is a maximum over bins of very different noise. It uses Wilson's intervals of the bins,
corrected for continuity, at Bonferroni's level for the lower end.

Classes are resampled independently, but the residuals p - y of a row add up to 0 over its classes.
If all the remaining probability is on one other class, as with two classes, that doubles the
variance of their sum. The spread over classes is therefore widened by √2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration.binning import (
    ClassBins,
    ConfidenceCells,
    equal_mass_residuals,
    squared_error,
)
from softmargin.calibration.intervals import Interval, Resampling, wilson_interval, within

CLASS_DEPENDENCE = math.sqrt(2)
UNIT = (0.0, 1.0)
BRIER_LIMITS = (0.0, 2.0)
RIGHT = torch.tensor([0.0, 1.0], dtype=torch.float64)  # of wrong and right predictions
SMALLEST = 1e-300  # against division by 0


class _Noise(NamedTuple):
    """What noise adds to a norm at most, for the lower end, and along the residuals, for the upper.

    Both hold one number per resample.
    """

    excess: Tensor
    along: Tensor

    def interval(self, value: float, tail: float, spread: float = 1.0) -> Interval:
        """Return the interval of a norm that was measured to be ``value``."""
        highest, lowest = (
            _quantile(self.excess, 1 - tail, spread),
            _quantile(self.along, tail, spread),
        )
        return value - highest, value - lowest

    def square_interval(self, length: float, tail: float, spread: float = 1.0) -> Interval:
        """Return the interval of a squared length, if ``excess`` is that of the square."""
        highest, lowest = (
            _quantile(self.excess, 1 - tail, spread),
            _quantile(self.along, tail, spread),
        )
        return length**2 - highest, (length - lowest) ** 2


def sum_noise(residual: Tensor, noise: Tensor, clear: Tensor) -> _Noise:
    """Return the noise of Σ |r|, where ``clear`` tells which residuals are more than noise."""
    signed = residual.sign() * noise
    each = torch.where(clear, signed, noise.abs()), signed
    return _Noise(*(values.flatten(1).sum(1) for values in each))


def _root_noise(root: Tensor, noise: Tensor) -> _Noise:
    """Return the noise of √(Σ r²), with r a bin's residual over the root of its mass."""
    along = (root * noise).flatten(1).sum(1)
    excess = 2 * along + noise.square().flatten(1).sum(1)
    return _Noise(excess, along / max(_length(root), SMALLEST))


def _length(root: Tensor) -> float:
    return float(root.square().sum().sqrt())


def _root(residual: Tensor, mass: Tensor, total: Tensor) -> Tensor:
    return residual / (mass * total).sqrt().clamp_min(SMALLEST)


def _smoothed(shares: Tensor, mean: Tensor, bin_mass: Tensor, samples: int) -> Tensor:
    """Return the shares of wrong and right predictions with one more prediction in every bin."""
    mass = shares.sum(-1, keepdim=True)
    expected = mass * torch.stack([1 - mean, mean], -1)
    return shares + (expected - shares) / (1 + samples * bin_mass).unsqueeze(-1)


def clear_from(resampling: Resampling) -> float:
    """Return the number of standard deviations above which a residual is not noise."""
    return math.sqrt(max(1.0, 2 * math.log(resampling.samples)))


def _quantile(values: Tensor, share: float, spread: float = 1.0) -> float:
    """Return a quantile after spreading the values by a factor around their mean."""
    quantile, mean = float(np.quantile(values.numpy(), share)), float(values.mean())
    return mean + spread * (quantile - mean)


def top_label_intervals(
    cells: Tensor, layout: ConfidenceCells, values: Mapping[str, float], resampling: Resampling
) -> dict[str, Interval]:
    """Return the intervals of the top label's errors over bins, from the histogram of cells."""
    occupied = cells[1].sum(-1) > 0
    weight, confidence = cells[1][occupied], cells[3][occupied]
    own = confidence.sum(-1) / weight.sum(-1)
    mean = torch.where(weight > 0, confidence / weight, own.unsqueeze(-1))
    to_bins = torch.nn.functional.one_hot(layout.bin_of_cell[occupied], layout.bins).double()
    shares = weight / weight.sum()
    in_bins = shares.sum(-1) @ to_bins
    smooth = _smoothed(shares, own, to_bins @ in_bins, resampling.samples)

    def parts(counts: Tensor) -> dict[str, Tensor]:
        mass, residual = counts.sum(-1), (counts * (mean - RIGHT)).sum(-1)
        total = mass.sum(-1, keepdim=True)
        in_bin = residual @ to_bins
        return {
            "ece": in_bin / total,
            "equal_mass_ece": equal_mass_residuals(mass, residual, layout.bins),
            "rms_error": _root(in_bin, mass @ to_bins, total),
            "ks_error": residual.cumsum(-1) / total,
        }

    observed, centre, tail = parts(shares), parts(smooth), resampling.tail
    drawn = resampling.draw(smooth, parts, stream=0)
    noise = {name: drawn[name] - centre[name] for name in drawn}
    bounds = {}
    for name in ("ece", "equal_mass_ece"):
        clear = observed[name].abs() > clear_from(resampling) * noise[name].std(0)
        found = sum_noise(observed[name], noise[name], clear)
        bounds[name] = found.interval(float(observed[name].abs().sum()), tail)
    root = observed["rms_error"]
    low, high = _root_noise(root, noise["rms_error"]).square_interval(_length(root), tail)
    bounds["rms_error"] = bounds["debiased_error"] = math.sqrt(max(low, 0.0)), math.sqrt(high)
    bounds["ks_error"] = _largest_interval(observed["ks_error"], noise["ks_error"], tail)
    bounds["mce"] = _mce_interval(shares, mean, to_bins, resampling)
    return {name: within(each, values[name], UNIT) for name, each in bounds.items()}


def _largest_interval(partial: Tensor, noise: Tensor, tail: float) -> Interval:
    """Return the interval of max |S| over partial sums S, from those that may be largest."""
    value = float(partial.abs().max())
    deviation, noise_alone = noise.std(0), _quantile(noise.abs().amax(1), 1 - tail)
    above, below = partial >= value - noise_alone, -partial >= value - noise_alone
    lowest = 0.0
    if value > noise_alone:
        signed = torch.cat([noise[:, above], -noise[:, below]], 1)
        lowest = value - _quantile(signed.amax(1), 1 - tail)
    z = NormalDist().inv_cdf(1 - tail)
    return lowest, value + z * float(deviation[above | below].max())


def _mce_interval(
    shares: Tensor, mean: Tensor, to_bins: Tensor, resampling: Resampling
) -> Interval:
    """Return the interval of the largest gap over the bins that hold a prediction."""
    in_bins = shares.sum(-1) @ to_bins
    filled = in_bins > 0
    count = resampling.samples * in_bins[filled]

    def average(values: Tensor) -> Tensor:
        return ((shares * values).sum(-1) @ to_bins / in_bins)[filled]

    accuracy, confidence = average(RIGHT), average(mean)
    # The mean confidence of a bin is noisy too; for one prediction, by its position in the bin.
    width = 1 / len(in_bins)
    variance = count * (average(mean.square()) - confidence.square()).clamp_min(0.0)
    noise = ((variance + width**2 / 12) / (count + 1) / count).sqrt()
    gap = confidence - accuracy

    def ends(tail: float) -> tuple[Tensor, Tensor]:
        z = NormalDist().inv_cdf(1 - tail)
        half = 0.5 / count  # continuity correction: few predictions allow few accuracies
        lower, higher = (accuracy - half).clamp_min(0.0), (accuracy + half).clamp_max(1.0)
        low, _ = wilson_interval(lower.numpy(), count.numpy(), z)
        _, high = wilson_interval(higher.numpy(), count.numpy(), z)
        down = torch.hypot(torch.from_numpy(high) - accuracy, z * noise)
        up = torch.hypot(accuracy - torch.from_numpy(low), z * noise)
        return gap - down, gap + up

    below, above = ends(resampling.tail)
    highest = float(torch.maximum(-below, above).max())
    below, above = ends(resampling.tail / len(count))
    return float(torch.maximum(below, -above).max()), highest


def class_intervals(
    bins: ClassBins, values: Mapping[str, float], resampling: Resampling
) -> dict[str, Interval]:
    """Return the intervals of the errors over the bins of every class."""
    mass, probability, occurred = bins
    classes, samples, tail = len(mass), resampling.samples, resampling.tail
    mean = (probability / mass).nan_to_num(0.0)
    shares = torch.stack([(mass - occurred).clamp_min(0.0), occurred], -1)
    shares = shares / shares.sum((-2, -1), keepdim=True)
    smooth = _smoothed(shares, mean, shares.sum(-1), samples)

    def residuals(counts: Tensor) -> tuple[Tensor, Tensor]:
        in_bin = counts.sum(-1)
        total = in_bin.sum(-1, keepdim=True)
        residual = in_bin * mean - counts[..., 1]
        return residual / total, _root(residual, in_bin, total)

    (residual, root), (centre, root_centre) = residuals(shares), residuals(smooth)
    second = (smooth * (mean.unsqueeze(-1) - RIGHT).square()).sum(-1)
    deviation = ((second - centre.square()).clamp_min(0.0) / samples).sqrt()
    clear = residual.abs() > clear_from(resampling) * deviation

    def statistics(counts: Tensor) -> dict[str, Tensor]:
        drawn, drawn_root = residuals(counts)
        error = sum_noise(residual, drawn - centre, clear)
        reliability = _root_noise(root, drawn_root - root_centre)
        return {
            "excess": error.excess / classes,
            "along": error.along / classes,
            "root_excess": reliability.excess,
            "root_along": reliability.along,
            "resolution": _resolution_between_bins(counts.sum(-1), counts[..., 1]),
        }

    drawn = resampling.draw(smooth, statistics, stream=1)
    error = _Noise(drawn["excess"], drawn["along"])
    reliability = _Noise(drawn["root_excess"], drawn["root_along"])
    resolution = values["brier_resolution"]
    # what resampling adds on average is a bias, of which the lower end is free
    added = drawn["resolution"]
    centre_resolution = _resolution_between_bins(smooth.sum(-1), smooth[..., 1])
    spread = _Noise(added - centre_resolution, added - added.mean())
    bounds = {
        "classwise_ece": error.interval(values["classwise_ece"], tail, CLASS_DEPENDENCE),
        "brier_reliability": reliability.square_interval(_length(root), tail, CLASS_DEPENDENCE),
        "brier_resolution": spread.interval(resolution, tail, CLASS_DEPENDENCE),
        "brier_uncertainty": _uncertainty_interval(
            occurred.sum(-1), values["brier_uncertainty"], resampling
        ),
    }
    most = 1 - 1 / classes
    limits = {
        "classwise_ece": UNIT,
        "brier_reliability": BRIER_LIMITS,
        # negative if, within bins, probabilities are anti-correlated with what occurs
        "brier_resolution": (0.0 if resolution >= 0 else -1.0, most),
        "brier_uncertainty": (0.0, most),
    }
    return {name: within(each, values[name], limits[name]) for name, each in bounds.items()}


def _resolution_between_bins(mass: Tensor, occurred: Tensor) -> Tensor:
    """Return Σ_k Σ_m mass_km / n · (ō_km - ō_k)²: how far the frequencies of the bins spread."""
    share = (occurred.sum(-1) / mass.sum(-1)).unsqueeze(-1)
    return squared_error(mass, occurred - mass * share).sum(-1)


def _uncertainty_interval(class_mass: Tensor, value: float, resampling: Resampling) -> Interval:
    """Resample the class frequencies ō_k, and with them Σ_k ō_k (1 - ō_k) = 1 - Σ_k ō_k².

    If the frequencies are nearly equal, the excess of Σ_k ō_k² is all bias. The upper quantile of
    what resampling adds covers it and bounds both sides. One more sample, spread evenly over the
    classes, is counted.
    """
    samples = resampling.samples
    shares = (samples * class_mass / class_mass.sum() + 1 / len(class_mass)) / (samples + 1)

    def statistics(counts: Tensor) -> dict[str, Tensor]:
        return {"squares": (counts / samples).square().sum((-2, -1))}

    drawn = resampling.draw(shares.unsqueeze(-1), statistics, stream=2)["squares"]
    added = drawn - shares.square().sum()
    reach = max(
        _quantile(added.abs(), resampling.confidence_level), _quantile(added, 1 - resampling.tail)
    )
    return value - reach, value + reach
