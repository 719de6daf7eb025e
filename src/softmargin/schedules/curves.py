"""The curves that a setting may follow."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from softmargin._docs import document_arguments
from softmargin.functional._checks import check_flag, check_number
from softmargin.schedules.base import SCHEDULE_ARGUMENTS, Schedule


@document_arguments(SCHEDULE_ARGUMENTS, value="the value.")
class Constant(Schedule):
    """The same value at every step.

    Example:
        >>> from softmargin import FocalLoss
        >>> from softmargin.schedules import Constant
        >>> Constant(FocalLoss(), "gamma", 0.5)
        Constant(FocalLoss.gamma, constant=0.5): 0.5 at step 0
    """

    def __init__(self, module: nn.Module, name: str, value: float) -> None:
        self.constant = _as_number("value", value)
        super().__init__(module, name, (self.constant,))

    def value_at(self, step: float) -> float:
        """Return the value."""
        return float(self.constant)

    @property
    def length(self) -> float:
        """Return 1."""
        return 1.0


class _Ramp(Schedule):
    """From ``start`` to ``end`` in ``steps`` steps, then constant."""

    def __init__(
        self, module: nn.Module, name: str, start: float, end: float, steps: float
    ) -> None:
        self.start, self.end = _as_number("start", start), _as_number("end", end)
        self.steps = _as_number("steps", steps)
        check_number("steps", self.steps, above=1, inclusive=True)
        super().__init__(module, name, (self.start, self.end))

    def value_at(self, step: float) -> float:
        """Return the value at a step; steps below 0 count as 0."""
        step = _as_step(step)
        if step <= 0 or step >= self.steps:  # exactly, whatever the rounding of the formula
            return float(self.start if step <= 0 else self.end)
        low, high = sorted((self.start, self.end))
        return float(min(max(self._between(step / self.steps), low), high))

    @abstractmethod
    def _between(self, share: float) -> float:
        """Return the value after a share of the steps, strictly between 0 and 1."""

    @property
    def length(self) -> float:
        """Return ``steps``."""
        return self.steps


@document_arguments(SCHEDULE_ARGUMENTS)
class Linear(_Ramp):
    r"""On a straight line from start to end, then constant (GD-v1 eq. 24).

    .. math:: v_t = v_\mathrm{start} + (v_\mathrm{end} - v_\mathrm{start}) \cdot t / T

    Example:
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.schedules import Linear
        >>> criterion = GradientDecayLoss()
        >>> warm_up = Linear(criterion, "beta", start=0.1, end=1.0, steps=1000)
        >>> criterion
        GradientDecayLoss(beta=0.1, tau=1, floored=False)
        >>> warm_up.step()
        >>> warm_up
        Linear(GradientDecayLoss.beta, start=0.1, end=1, steps=1000): 0.1009 at step 1
    """

    def _between(self, share: float) -> float:
        return self.start + (self.end - self.start) * share


@document_arguments(SCHEDULE_ARGUMENTS)
class Geometric(_Ramp):
    r"""From start to end by a constant factor per step: linear in the margin -log β.

    .. math:: v_t = v_\mathrm{start} \, (v_\mathrm{end} / v_\mathrm{start})^{t / T}

    Both ends are above 0.

    Example:
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.schedules import Geometric
        >>> schedule = Geometric(GradientDecayLoss(), "beta", start=0.01, end=1.0, steps=10)
        >>> round(schedule.value_at(5), 6)
        0.1
    """

    def __init__(
        self, module: nn.Module, name: str, start: float, end: float, steps: float
    ) -> None:
        for argument, value in (("start", start), ("end", end)):
            check_number(argument, _as_number(argument, value))
        super().__init__(module, name, start, end, steps)

    def _between(self, share: float) -> float:
        return math.exp((1 - share) * math.log(self.start) + share * math.log(self.end))


@document_arguments(SCHEDULE_ARGUMENTS)
class Cosine(_Ramp):
    r"""From start to end along half a cosine, slow at both ends, then constant.

    .. math:: v_t = v_\mathrm{start} +
              (v_\mathrm{end} - v_\mathrm{start}) \cdot (1 - \cos(\pi t / T)) / 2

    Example:
        >>> from softmargin import RegularizedSoftmaxLoss
        >>> from softmargin.schedules import Cosine
        >>> schedule = Cosine(RegularizedSoftmaxLoss(), "lam", start=0.0, end=0.3, steps=90)
        >>> [round(schedule.value_at(step), 3) for step in (0, 30, 60, 90, 120)]
        [0.0, 0.075, 0.225, 0.3, 0.3]
    """

    def _between(self, share: float) -> float:
        return self.start + (self.end - self.start) * (1 - math.cos(math.pi * share)) / 2


@document_arguments(
    SCHEDULE_ARGUMENTS,
    points="(step, value) pairs, by increasing step.",
    interpolate="whether to join the points by straight lines.",
)
class Piecewise(Schedule):
    """Given values at given steps, each kept until the next one, or joined by lines.

    Before the first point and after the last the value is that of the point.

    Example:
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.schedules import Piecewise
        >>> schedule = Piecewise(GradientDecayLoss(), "beta", [(0, 0.1), (100, 1.0), (150, 5.0)])
        >>> [schedule.value_at(step) for step in (0, 99, 100, 1000)]
        [0.1, 0.1, 1.0, 5.0]
    """

    def __init__(
        self,
        module: nn.Module,
        name: str,
        points: Iterable[tuple[float, float]],
        *,
        interpolate: bool = False,
    ) -> None:
        self.points = _as_points(points)
        check_flag("interpolate", interpolate)
        self.interpolate = interpolate
        super().__init__(module, name, (value for _, value in self.points))

    def value_at(self, step: float) -> float:
        """Return the value at a step."""
        step = _as_step(step)
        following = bisect_right(self.points, step, key=lambda point: point[0])
        at, value = self.points[max(following - 1, 0)]
        if self.interpolate and 0 < following < len(self.points):
            next_at, next_value = self.points[following]
            low, high = sorted((value, next_value))
            mixed = value + (next_value - value) * (step - at) / (next_at - at)
            return float(min(max(mixed, low), high))
        return float(value)

    @property
    def length(self) -> float:
        """Return the step of the last point, or 1."""
        return max(self.points[-1][0], 1.0)


@document_arguments(SCHEDULE_ARGUMENTS)
class InversePower(Schedule):
    r"""Decay by an inverse power of the step, down to a floor: the annealing of L-Softmax.

    .. math:: v_t = \max(\mathrm{floor}, \mathrm{base} \cdot (1 + \gamma t)^{-\mathrm{power}})

    Example:
        >>> from softmargin import RegularizedSoftmaxLoss
        >>> from softmargin.schedules import InversePower
        >>> schedule = InversePower(RegularizedSoftmaxLoss(), "lam", base=8, gamma=1, floor=1)
        >>> [schedule.value_at(step) for step in (0, 1, 3, 100)]
        [8.0, 4.0, 2.0, 1.0]
    """

    def __init__(
        self,
        module: nn.Module,
        name: str,
        base: float,
        gamma: float,
        power: float = 1.0,
        floor: float = 0.0,
    ) -> None:
        self.base, self.gamma, self.power = _as_number("base", base), gamma, power
        self.floor = _as_number("floor", floor)
        check_number("gamma", gamma)
        check_number("power", power)
        super().__init__(module, name, (self.base, self.floor))

    def value_at(self, step: float) -> float:
        """Return the value at a step; steps below 0 count as 0."""
        # through the logarithm: a large power underflows to 0 where a quotient would overflow
        decay = math.exp(-self.power * math.log1p(self.gamma * max(_as_step(step), 0)))
        return float(max(self.floor, self.base * decay))

    @property
    def length(self) -> float:
        """Return the step at which the floor, or a hundredth of the base, is reached."""
        if self.base <= 0:
            return 1.0
        lowest = max(self.floor, self.base / 100)
        return max(math.expm1(math.log(self.base / lowest) / self.power) / self.gamma, 1.0)


def _as_number(argument: str, value: Any) -> float:
    """Return 0-d tensors and NumPy numbers as Python's; the attribute judges everything else."""
    if isinstance(value, Tensor | np.generic):
        if value.ndim:
            raise TypeError(f"{argument} must be one number, but got shape {tuple(value.shape)}.")
        value = value.item()
    return cast(float, value)


def _as_step(step: float) -> float:
    """Return a step as a float; any real number is one, also between and beyond the integers."""
    step = _as_number("step", step)
    if not isinstance(step, int | float):
        raise TypeError(f"step must be a number, but got {step!r}.")
    try:
        return float(step)
    except OverflowError:
        return math.inf if step > 0 else -math.inf


def _as_points(points: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    """Check that ``points`` are pairs by increasing step."""
    checked: list[tuple[float, float]] = []
    try:
        points = list(points)
    except TypeError:
        raise TypeError(f"points must hold (step, value) pairs, but got {points!r}.") from None
    for point in points:
        try:
            step, value = point
        except (TypeError, ValueError):
            raise ValueError(f"points must hold (step, value) pairs, but got {point!r}.") from None
        step = _as_number("step of a point", step)
        check_number("step of a point", step, inclusive=True)
        if checked and step <= checked[-1][0]:
            raise ValueError(
                f"points must have increasing steps, but got {step} after {checked[-1][0]}."
            )
        checked.append((step, _as_number("value of a point", value)))
    if not checked:
        raise ValueError("points must hold at least one (step, value) pair, but got none.")
    return checked
