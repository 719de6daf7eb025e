"""Temperature scaling: the optimal temperature, by a safeguarded Newton method on log(1/T).

With a = 1/T the mean negative log-likelihood is f(a) = E[LSE(a z) - a z_c]. Its derivatives are
cumulants of the logits under p = softmax(a z):

    f' = E[mean_p(z) - z_c],    f'' = E[variance_p(z)] >= 0,    f''' = E[third cumulant].

So f is convex, and f' has one root or none. There is none if f'(0) >= 0 (labels anti-correlated
with the logits, T goes to infinity), or if no logit of any row exceeds the target's (separable
data, T goes to 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from softmargin._settings import Setting
from softmargin.calibration._batch import LARGEST_LOGIT, Batch
from softmargin.calibration._calibrator import Calibrator

# The search covers T from 1e-3 to 1e6 times the logits' spread, and always T = 1.
SMALLEST_TEMPERATURE = 1e-3
LARGEST_TEMPERATURE = 1e6
USUAL = 100.0  # most temperatures are within this factor of the spread
STRIDE = 11  # between the rows of the first guess; prime, against patterns in the row order
ROWS_TOGETHER = 1 << 14  # a few numbers per row remain, which are cheaper to process together


class TemperatureScaling(Calibrator):
    r"""Divide all logits by one temperature T (Guo et al., 2017).

    .. math:: z \mapsto z / T, \quad
              T = \arg\min_{T > 0} \frac{1}{N} \sum_i
              \left[\log \sum_j e^{z_{ij} / T} - z_{i c_i} / T\right]

    T above 1 makes a model less confident, T below 1 more. The predicted class never changes. The
    NLL is convex in 1/T, so there is one optimum or none. Newton's method in float64 finds it to a
    relative 1e-12 or so, whatever the precision of the logits. The search covers T from 1e-3 to
    1e6 times the spread of the logits (the root of the mean variance over classes), and always
    T = 1. If the NLL still falls at an end, T is that end and a :class:`CalibrationWarning` says
    so: labels that do not go with high logits push T up without limit, logits that are never
    wrong push it down.

    Attributes:
        temperature: T, a float64 buffer; may also be set by hand.

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import TemperatureScaling
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
        >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 1, 0, 1]))
        >>> scaler  # 3 of 4 are right, so the logits should differ by log 3
        TemperatureScaling(temperature=3.64096)
        >>> scaler.transform(logits)[0].softmax(0)
        tensor([0.7500, 0.2500])
    """

    kind = "temperature"
    numbers = ("temperature",)
    temperature: Setting = Setting(moves=True)

    def _fit(self, batch: Batch) -> list[str]:
        found = fit_temperature(batch)
        self.temperature = torch.tensor(found.temperature, dtype=torch.float64)
        return [] if found.note is None else [found.note]

    def _scaled(self, logits: Tensor) -> Tensor:
        return logits * self.temperature.reciprocal().to(logits.dtype)


class Survey(NamedTuple):
    """What one pass over the rows finds.

    Attributes:
        spread: square root of the mean over rows of the variance over classes.
        slope: f'(0), the mean over rows of the mean logit minus the target's.
        separable: whether no row has a logit above its target's.
    """

    spread: float
    slope: float
    separable: bool


class TemperatureFit(NamedTuple):
    """A temperature, why it is not an optimum (or None), and whether the data is separable."""

    temperature: float
    note: str | None = None
    separable: bool = False


def fit_temperature(batch: Batch) -> TemperatureFit:
    """Return the temperature that minimises the NLL, or a bound if there is none."""
    few = survey(batch.every(1 + len(batch) // 200))
    if few.slope < 0 < few.spread:
        low, high = 1 / (USUAL * few.spread), USUAL / few.spread
        rough = torch.promote_types(torch.float32, batch.predictions.dtype)
        inverse = _root(batch, -few.slope / few.spread**2, low, high, rough, rounds=10)
        if low < inverse < high:
            return TemperatureFit(1 / inverse)
    return _fit_unusual(batch, survey(batch))


def _fit_unusual(batch: Batch, facts: Survey) -> TemperatureFit:
    """Return the temperature if it is very high, very low, or does not exist."""
    if not facts.spread > 0:
        return TemperatureFit(
            1.0,
            "logits do not differ between classes in any row, so every temperature fits equally "
            "well; it is set to 1.",
        )
    lowest = min(1.0, SMALLEST_TEMPERATURE * facts.spread)
    highest = max(1.0, LARGEST_TEMPERATURE * facts.spread)
    inverse = 1 / lowest if facts.separable else 1 / highest
    if not facts.separable and facts.slope < 0:
        guess = -facts.slope / facts.spread**2
        inverse = _root(batch, guess, 1 / highest, 1 / lowest, torch.float64, rounds=100)
    if inverse >= 1 / lowest:
        return TemperatureFit(
            lowest,
            "every target has its row's highest logit, or nearly so, and the NLL keeps falling as "
            f"T goes to 0; temperature is set to the lower bound, {lowest:g}.",
            facts.separable,
        )
    if inverse <= 1 / highest:
        return TemperatureFit(
            highest,
            "target does not go with high logits, and the NLL keeps falling as T grows; "
            f"temperature is set to the upper bound, {highest:g}.",
        )
    return TemperatureFit(1 / inverse)


def survey(batch: Batch) -> Survey:
    """Read every row once; raise ``ValueError`` if one is not finite."""
    variance = slope = 0.0
    separable, seen = True, 0
    for chunk in batch.chunks():
        lowest, highest = chunk.logits.amin(1), chunk.logits.amax(1)
        bad = ~((lowest >= -LARGEST_LOGIT) & (highest <= LARGEST_LOGIT))  # NaN is bad too
        if bool(bad.any()):
            _refuse(chunk.logits[bad], batch.row_number(seen + int(bad.nonzero()[0])))
        shifted = chunk.logits - highest.unsqueeze(1)
        target = shifted.gather(1, chunk.target).squeeze(1)
        mean = shifted.mean(1)
        square = shifted.square_().mean(1)
        sums = torch.stack([square - mean * mean, mean - target]) @ chunk.weight
        variance, slope = variance + float(sums[0]), slope + float(sums[1])
        separable = separable and not bool((target < 0).any())
        seen += len(target)
    return Survey(math.sqrt(max(variance, 0.0)), slope, separable)


def _refuse(rows: Tensor, number: int) -> None:
    bad = rows[~(rows.abs() <= LARGEST_LOGIT)][0].item()
    raise ValueError(
        f"logits must be finite numbers of size up to {LARGEST_LOGIT:g}, "
        f"but row {number} holds {bad:g}."
    )


def _root(
    batch: Batch, guess: float, low: float, high: float, rough: torch.dtype, rounds: int
) -> float:
    """Return the root of f' between ``low`` and ``high``, or the end nearest to it.

    A few rows give a first guess, a rough precision improves it, and float64 finishes: usually
    there is one pass of each over all rows. Returns NaN if the last did not converge.
    """
    stages = [(batch, torch.float64, 1e-4)]  # of third order: the next step would be about 1e-12
    if rough != torch.float64:
        stages.insert(0, (batch, rough, 0.1))
    if len(batch) > 50 * STRIDE:
        stages.insert(0, (batch.every(STRIDE), rough, 0.1))
    inverse, found = min(max(guess, low), high), math.nan
    for rows, dtype, accuracy in stages:
        found = _halley_steps(rows, dtype, inverse, (low, high), accuracy, rounds)
        inverse = found if low < found < high else inverse
    return found


def _halley_steps(
    batch: Batch,
    dtype: torch.dtype,
    inverse: float,
    ends: tuple[float, float],
    accuracy: float,
    rounds: int,
) -> float:
    """Take Halley's steps on log a until one is small; bisect if they leave the bracket.

    Returns an end if f' has no root between them, and NaN if a sum is not finite or the steps do
    not become small.
    """
    low, high = ends[0] / 2, ends[1] * 2  # so that the ends themselves are tried
    for round_ in range(rounds):
        first, second, third = _derivatives(batch, inverse, dtype)
        if not math.isfinite(first + second + third):
            break
        low, high = (inverse, high) if first < 0 else (low, inverse)
        if low == ends[1] or high == ends[0] or high <= low * (1 + 1e-15):
            return inverse
        step = _halley(first, second, second + third)
        proposal = min(max(inverse * math.exp(step), ends[0]), ends[1])
        if abs(step) < accuracy and low <= proposal <= high:
            return proposal
        if not low < proposal < high or (round_ > 20 and round_ % 2):
            proposal = min(max(math.sqrt(low) * math.sqrt(high), ends[0]), ends[1])
        inverse = proposal
    return math.nan


def _halley(value: float, slope: float, curvature: float) -> float:
    """Return Halley's step to the root of a rising function, kept between -2 and 2."""
    if not slope > 0:
        return math.copysign(2.0, -value)
    newton = -value / slope
    step = newton / min(max(1 + newton * curvature / (2 * slope), 0.5), 2.0)
    return min(max(step, -2.0), 2.0)


def _derivatives(batch: Batch, inverse: float, dtype: torch.dtype) -> tuple[float, float, float]:
    """Return a f', a² f'' and a³ f''' at a = ``inverse``, in one pass over the rows."""
    sums = torch.zeros(3, dtype=torch.float64)
    floor = -80.0 if dtype == torch.float32 else -700.0
    far, pending = True, []
    for chunk in batch.chunks(dtype):
        # relative to the row's highest logit: no overflow, and exact if that is the target's
        shifted = chunk.logits.sub_(chunk.logits.amax(1, keepdim=True)).mul_(inverse)
        target = shifted.gather(1, chunk.target)
        if far:  # exp is a hundred times slower if it underflows, and adds nothing then
            lowest = float(shifted.min())
            if lowest == -math.inf:
                return math.nan, math.nan, math.nan
            far = lowest < floor / 2
            shifted.clamp_(min=floor)
        terms = shifted.exp()
        moments = [terms.sum(1), *(terms.mul_(shifted).sum(1) for _ in range(3))]
        pending.append((*moments, target.squeeze(1), chunk.weight))
        if len(pending) * len(target) >= ROWS_TOGETHER:
            sums += _mean_cumulants(pending)
            pending.clear()
    if pending:
        sums += _mean_cumulants(pending)
    first, second, third = sums.tolist()
    return first, second, third


def _mean_cumulants(rows: Sequence[tuple[Tensor, ...]]) -> Tensor:
    """Return the weighted sums of mean minus target, variance and third cumulant over rows."""
    total, m1, m2, m3, target, weight = (torch.cat(column) for column in zip(*rows, strict=True))
    m1, m2, m3 = m1 / total, m2 / total, m3 / total
    variance = m2 - m1 * m1
    third = m3 - m1 * (3 * variance + m1 * m1)
    return (torch.stack([m1 - target, variance, third]).double() @ weight).cpu()
