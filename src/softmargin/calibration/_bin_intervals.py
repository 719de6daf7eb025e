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
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softmargin.calibration.binning import ConfidenceCells, equal_mass_residuals, squared_error
from softmargin.calibration.intervals import Interval, Resampling, wilson_interval, within

CLASS_DEPENDENCE = math.sqrt(2)
UNIT = (0.0, 1.0)
BRIER_LIMITS = (0.0, 2.0)


class _TopLabel(NamedTuple):
    """The occupied cells of the top label's histogram, as shares of all predictions.

    Attributes:
        shares: shares of wrong and right predictions, of shape (K, 2).
        smooth: the same with one more prediction in every bin.
        gap: confidence minus correctness, of shape (K, 2).
        to_bins: 1 where a cell belongs to a bin, of shape (K, M).
    """

    shares: Tensor
    smooth: Tensor
    gap: Tensor
    to_bins: Tensor


def top_label_intervals(
    cells: Tensor, layout: ConfidenceCells, values: Mapping[str, float], resampling: Resampling
) -> dict[str, Interval]:
    """Return the intervals of the top label's errors over bins.

    Args:
        cells: the histogram, of shape (4, cells, 2), see ``Sums`` of the accumulator.
        layout: which bin each cell belongs to.
        values: the metrics by name.
        resampling: how to bootstrap.
    """
    table = _top_label(cells, layout, resampling.samples)

    def parts(counts: Tensor) -> dict[str, Tensor]:
        mass, residual = counts.sum(-1), (counts * table.gap).sum(-1)
        total = mass.sum(-1, keepdim=True)
        in_bin, residual_in_bin = mass @ table.to_bins, residual @ table.to_bins
        return {
            "ece": residual_in_bin / total,
            "equal_mass_ece": equal_mass_residuals(mass, residual, layout.bins),
            "rms_error": residual_in_bin / (in_bin * total).sqrt().clamp_min(1e-300),
            "ks_error": residual.cumsum(-1) / total,
        }

    observed, centre = parts(table.shares), parts(table.smooth)
    drawn = resampling.draw(table.smooth, parts, stream=0)
    noise = {name: drawn[name] - centre[name] for name in drawn}
    result = {
        name: within(_sum_interval(observed[name], noise[name], resampling), values[name], UNIT)
        for name in ("ece", "equal_mass_ece")
    }
    bounds = _root_interval(observed["rms_error"], noise["rms_error"], resampling)
    result["rms_error"] = within(bounds, values["rms_error"], UNIT)
    result["debiased_error"] = within(bounds, values["debiased_error"], UNIT)
    bounds = _largest_interval(observed["ks_error"], noise["ks_error"], resampling)
    result["ks_error"] = within(bounds, values["ks_error"], UNIT)
    result["mce"] = within(_mce_interval(table, resampling), values["mce"], UNIT)
    return result


def _top_label(cells: Tensor, layout: ConfidenceCells, samples: int) -> _TopLabel:
    """Return the occupied cells, as they are and with one more prediction in every bin."""
    occupied = cells[1].sum(-1) > 0
    weight, confidence = cells[1][occupied], cells[3][occupied]
    own = confidence.sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)
    mean = torch.where(weight > 0, confidence / weight, own)
    to_bins = torch.nn.functional.one_hot(layout.bin_of_cell[occupied], layout.bins).double()
    shares = weight / weight.sum()
    mass = shares.sum(-1, keepdim=True)
    added = to_bins @ (1 / (1 + samples * (mass.squeeze(-1) @ to_bins)))
    expected = mass * torch.cat([1 - own, own], -1)
    smooth = shares + added.unsqueeze(-1) * (expected - shares)
    return _TopLabel(shares, smooth, mean - torch.tensor([0.0, 1.0]).double(), to_bins)


def _clear(resampling: Resampling) -> float:
    """Return the number of standard deviations above which a residual is not noise."""
    return math.sqrt(max(1.0, 2 * math.log(resampling.samples)))


def _quantile(values: Tensor, share: float, spread: float = 1.0) -> float:
    """Return a quantile after spreading the values by a factor around their mean."""
    quantile, mean = float(np.quantile(values.numpy(), share)), float(values.mean())
    return mean + spread * (quantile - mean)


def _sum_interval(residual: Tensor, noise: Tensor, resampling: Resampling) -> Interval:
    """Return the interval of Σ |r|; bins are last, resamples first."""
    value = float(residual.abs().sum())
    sign = residual.sign()
    clear = residual.abs() > _clear(resampling) * noise.std(0)
    excess = torch.where(clear, sign * noise, noise.abs()).sum(-1)
    return (
        value - _quantile(excess, 1 - resampling.tail),
        value - _quantile(noise @ sign, resampling.tail),
    )


def _root_interval(residual: Tensor, noise: Tensor, resampling: Resampling) -> Interval:
    """Return the interval of √(Σ r²), with r a bin's residual over the root of its mass."""
    square = float(residual.square().sum())
    value = math.sqrt(square)
    excess = (2 * residual * noise + noise.square()).sum(-1)
    along = noise @ (residual / max(value, 1e-300))
    lowest = square - _quantile(excess, 1 - resampling.tail)
    return math.sqrt(max(lowest, 0.0)), value - _quantile(along, resampling.tail)


def _largest_interval(partial: Tensor, noise: Tensor, resampling: Resampling) -> Interval:
    """Return the interval of max |S| over partial sums S, from those that may be largest."""
    value = float(partial.abs().max())
    deviation, noise_alone = noise.std(0), _quantile(noise.abs().amax(1), 1 - resampling.tail)
    above, below = partial >= value - noise_alone, -partial >= value - noise_alone
    lowest = 0.0
    if value > noise_alone:
        signed = torch.cat([noise[:, above], -noise[:, below]], 1)
        lowest = value - _quantile(signed.amax(1), 1 - resampling.tail)
    z = NormalDist().inv_cdf(1 - resampling.tail)
    return lowest, value + z * float(deviation[above | below].max())


def _mce_interval(table: _TopLabel, resampling: Resampling) -> Interval:
    """Return the interval of the largest gap over the bins that hold a prediction."""
    wrong, right = (table.shares.t() @ table.to_bins).unbind(0)
    filled = wrong + right > 0
    count = resampling.samples * (wrong + right)[filled]
    accuracy = (right / (wrong + right))[filled]
    own = table.gap + torch.tensor([0.0, 1.0]).double()

    def mean(values: Tensor) -> Tensor:
        total = (table.shares * values).sum(-1) @ table.to_bins
        return (total / (wrong + right))[filled]

    confidence = mean(own)
    # The mean confidence of a bin is noisy too; for one prediction, by its position in the bin.
    width = 1 / table.to_bins.shape[1]
    variance = count * (mean(own.square()) - confidence.square()).clamp_min(0.0)
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
    mass: Tensor,
    probability: Tensor,
    occurred: Tensor,
    values: Mapping[str, float],
    resampling: Resampling,
) -> dict[str, Interval]:
    """Return the intervals of the errors over the bins of every class.

    Args:
        mass: Σ w in the bins of each class, of shape (C, M).
        probability: Σ w·p in them.
        occurred: Σ w·y in them.
        values: the metrics by name.
        resampling: how to bootstrap.
    """
    table = _classes(mass, probability, occurred, resampling)
    drawn = resampling.draw(table.smooth, table.statistics, stream=1)
    high, low = (
        {name: _quantile(each, share, CLASS_DEPENDENCE) for name, each in drawn.items()}
        for share in (1 - resampling.tail, resampling.tail)
    )
    ece, resolution = values["classwise_ece"], values["brier_resolution"]
    smooth = table.statistics(table.smooth * resampling.samples)["resolution"]
    bounds = {
        "classwise_ece": ((ece - high["excess"], ece - low["signed"]), UNIT),
        "brier_reliability": (
            (table.length**2 - high["root_excess"], (table.length - low["root_along"]) ** 2),
            BRIER_LIMITS,
        ),
        "brier_resolution": (
            (
                resolution - (high["resolution"] - float(smooth)),
                resolution + float(drawn["resolution"].mean()) - low["resolution"],
            ),
            # negative if, within bins, probabilities are anti-correlated with what occurs
            (0.0 if resolution >= 0 else -1.0, 1 - 1 / len(mass)),
        ),
    }
    result = {name: within(each, values[name], limits) for name, (each, limits) in bounds.items()}
    result["brier_uncertainty"] = _uncertainty_interval(
        occurred.sum(-1), values["brier_uncertainty"], resampling
    )
    return result


@dataclass(frozen=True)
class _Classes:
    """The bins of all classes, of shape (C, M), and statistics of their resamples.

    Attributes:
        smooth: shares of samples outside and inside the class, with one more sample in every bin,
            of shape (C, M, 2).
        mean: mean probability.
        residual: observed residual / n, see :func:`_class_residuals`.
        root: observed residual over the root of the mass.
        clear: whether the residual is more than noise.
    """

    smooth: Tensor
    mean: Tensor
    residual: Tensor
    root: Tensor
    clear: Tensor

    @property
    def length(self) -> float:
        """Return the root of the reliability."""
        return float(self.root.square().sum().sqrt())

    def statistics(self, counts: Tensor) -> dict[str, Tensor]:
        """Return the statistics of every resample that the intervals need."""
        (residual, root), (centre, root_centre) = (
            _class_residuals(each, self.mean) for each in (counts, self.smooth)
        )
        noise, root_noise = residual - centre, root - root_centre
        signed = self.residual.sign() * noise
        classes, along = len(self.mean), (self.root * root_noise).sum((-2, -1))
        return {
            "excess": torch.where(self.clear, signed, noise.abs()).sum((-2, -1)) / classes,
            "signed": signed.sum((-2, -1)) / classes,
            "root_excess": 2 * along + root_noise.square().sum((-2, -1)),
            "root_along": along / max(self.length, 1e-300),
            "resolution": _resolution_between_bins(counts.sum(-1), counts[..., 1]),
        }


def _resolution_between_bins(mass: Tensor, occurred: Tensor) -> Tensor:
    """Return Σ_k Σ_m mass_km / n · (ō_km - ō_k)²: how far the frequencies of the bins spread."""
    share = (occurred.sum(-1) / mass.sum(-1)).unsqueeze(-1)
    return squared_error(mass, occurred - mass * share).sum(-1)


def _class_residuals(counts: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return residual / n of each bin, and residual over the root of its mass."""
    in_bin = counts.sum(-1)
    total = in_bin.sum(-1, keepdim=True)
    residual = in_bin * mean - counts[..., 1]
    return residual / total, residual / (in_bin * total).sqrt().clamp_min(1e-300)


def _classes(
    mass: Tensor, probability: Tensor, occurred: Tensor, resampling: Resampling
) -> _Classes:
    """Return the bins of all classes; arguments as in :func:`class_intervals`."""
    samples = resampling.samples
    mean = (probability / mass).nan_to_num(0.0)
    shares = torch.stack([(mass - occurred).clamp_min(0.0), occurred], -1)
    shares = shares / shares.sum((-2, -1), keepdim=True)
    total = shares.sum(-1, keepdim=True)
    expected = total * torch.stack([1 - mean, mean], -1)
    smooth = shares + (expected - shares) / (1 + samples * total)
    residual, root = _class_residuals(shares, mean)
    centre, _ = _class_residuals(smooth, mean)
    second = (smooth * torch.stack([mean, mean - 1], -1).square()).sum(-1)
    deviation = ((second - centre.square()).clamp_min(0.0) / samples).sqrt()
    clear = residual.abs() > _clear(resampling) * deviation
    return _Classes(smooth, mean, residual, root, clear)


def _uncertainty_interval(class_mass: Tensor, value: float, resampling: Resampling) -> Interval:
    """Resample the class frequencies ō_k, and with them Σ_k ō_k (1 - ō_k) = 1 - Σ_k ō_k².

    If the frequencies are nearly equal, the excess of Σ_k ō_k² is all bias. The upper quantile of
    what resampling adds covers it and bounds both sides. One more sample, spread evenly over the
    classes, is counted.
    """
    classes, samples = len(class_mass), resampling.samples
    shares = (samples * class_mass / class_mass.sum() + 1 / classes) / (samples + 1)

    def statistics(counts: Tensor) -> dict[str, Tensor]:
        return {"squares": (counts / samples).square().sum((-2, -1))}

    drawn = resampling.draw(shares.unsqueeze(-1), statistics, stream=2)["squares"]
    added = drawn - shares.square().sum()
    reach = max(
        _quantile(added.abs(), resampling.confidence_level), _quantile(added, 1 - resampling.tail)
    )
    return within((value - reach, value + reach), value, (0.0, 1 - 1 / classes))
