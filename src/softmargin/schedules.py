"""Schedules: how β, λ, scales and margins move during training.

A schedule sets one numeric attribute of a loss or head. It sets the value for step 0 when it is
made and the next one at every ``step()``; what a step is, an iteration or an epoch, is up to who
calls it. Values that the attribute would refuse are refused when the schedule is made.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings, Setting
from softmargin.functional._checks import check_flag, check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# numbers that say what a module is, not how it is set
STRUCTURE = {"ignore_index", "in_features", "num_classes", "out_features"}


class Schedule(ABC):
    """Base of all schedules: a value for every step, and the attribute that follows it.

    A subclass keeps its own numbers, says in ``value_at`` what the value is, and hands the
    extreme values on, so that they can be checked before training starts.

    Args:
        module: the loss or head; a module from ``torch.compile`` will do.
        name: its attribute: a number that is not learned.
        extremes: values between which the schedule stays.
    """

    def __init__(self, module: nn.Module, name: str, extremes: Iterable[float]) -> None:
        """Check attribute and extremes, then set the attribute to its value at step 0."""
        if not isinstance(module, nn.Module):
            raise TypeError(f"module must be an nn.Module, but got {type(module).__name__}.")
        self.module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
        self.name = name
        self.steps_taken = 0
        _check_attribute(self.module, name)
        allowed = _settings_of(self.module).get(name)
        before = getattr(self.module, name)
        if isinstance(before, Tensor):  # which changes in place
            before = before.clone()
        try:
            for value in extremes:  # set too, for what an attribute may check by itself
                if allowed is None:
                    check_number(name, value, above=-math.inf)
                else:
                    allowed.check(value)
                setattr(self.module, name, value)
            self._go_to(0)
        except Exception:
            setattr(self.module, name, before)
            raise
        if isinstance(self.module, ModuleWithSettings):
            self.module.moving.add(name)

    @abstractmethod
    def value_at(self, step: float) -> float:
        """Return the value at a step; steps below 0 count as 0."""

    @property
    @abstractmethod
    def length(self) -> float:
        """The step after which little or nothing happens, which is where a plot ends."""

    @property
    def value(self) -> float:
        """The value at the present step, which the attribute has."""
        return self.value_at(self.steps_taken)

    def step(self) -> None:
        """Go one step on and set the attribute."""
        self._go_to(self.steps_taken + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return which attribute this is about and how many steps have been taken."""
        return {"name": self.name, "steps_taken": self.steps_taken}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go to the step of a ``state_dict`` and set the attribute to its value there."""
        self._go_to(self._steps_in(state_dict))

    def plot(self, ax: Axes | None = None, steps: int | None = None) -> Axes:
        """Draw the value against the step.

        Args:
            ax: matplotlib axes to draw on; new ones by default.
            steps: the last step to draw; by default a little past the end of the schedule.

        Returns:
            The axes.
        """
        if steps is None:
            steps = math.ceil(1.1 * self.length)
        check_number("steps", steps, above=1, inclusive=True)
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError(
                    'plot needs matplotlib, which is missing: pip install "softmargin[lab]".'
                ) from error
            ax = pyplot.subplots()[1]
        drawn = sorted({round(step) for step in np.linspace(0, steps, 1001)})
        values = [self.value_at(step) for step in drawn]
        ax.plot(drawn, values, drawstyle="steps-post", label=self._subject())
        ax.set_xlabel("step")
        ax.set_ylabel(self.name)
        return ax

    def __repr__(self) -> str:
        """Show what moves, how, and where it is now."""
        numbers = ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value!r}"
            for key, value in vars(self).items()
            if key not in ("module", "name", "steps_taken")
        )
        now = f"{self.value:g} at step {self.steps_taken}"
        return f"{type(self).__name__}({self._subject()}, {numbers}): {now}"

    def _subject(self) -> str:
        return f"{type(self.module).__name__}.{self.name}"

    def _go_to(self, step: int) -> None:
        setattr(self.module, self.name, self.value_at(step))
        self.steps_taken = step

    def _steps_in(self, state_dict: Mapping[str, Any]) -> int:
        """Check a ``state_dict`` and return its step."""
        _check_mapping(state_dict)
        if set(state_dict) != {"name", "steps_taken"}:
            got = ", ".join(map(str, state_dict)) or "nothing"
            raise ValueError(f"state_dict must hold name and steps_taken, but got {got}.")
        if state_dict["name"] != self.name:
            raise ValueError(
                f"state_dict must be that of a schedule over {self.name!r}, "
                f"but got one over {state_dict['name']!r}."
            )
        steps = state_dict["steps_taken"]
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise ValueError(f"steps_taken must be an int of at least 0, but got {steps!r}.")
        return steps


class Constant(Schedule):
    """The same value at every step.

    Args:
        module: the loss or head.
        name: its attribute.
        value: the value.

    Example:
        >>> from softmargin import FocalLoss
        >>> from softmargin.schedules import Constant
        >>> Constant(FocalLoss(), "gamma", 0.5)
        Constant(FocalLoss.gamma, constant=0.5): 0.5 at step 0
    """

    def __init__(self, module: nn.Module, name: str, value: float) -> None:
        """Keep the value and set the attribute; see the class."""
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
        """Keep start, end and steps and set the attribute; see the class."""
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


class Linear(_Ramp):
    r"""On a straight line from start to end, then constant (GD eq. 24).

    .. math:: v_t = v_\mathrm{start} + (v_\mathrm{end} - v_\mathrm{start}) \cdot t / T

    Args:
        module: the loss or head.
        name: its attribute.
        start: value at step 0.
        end: value from step ``steps`` on.
        steps: T, at least 1.

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


class Geometric(_Ramp):
    r"""From start to end by a constant factor per step: linear in the margin -log β.

    .. math:: v_t = v_\mathrm{start} \, (v_\mathrm{end} / v_\mathrm{start})^{t / T}

    Arguments as in :class:`Linear`; start and end are above 0.

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
        """Keep start, end and steps and set the attribute; see the class."""
        for argument, value in (("start", start), ("end", end)):
            check_number(argument, _as_number(argument, value))
        super().__init__(module, name, start, end, steps)

    def _between(self, share: float) -> float:
        return math.exp((1 - share) * math.log(self.start) + share * math.log(self.end))


class Cosine(_Ramp):
    r"""From start to end along half a cosine, slow at both ends, then constant.

    .. math:: v_t = v_\mathrm{start} +
              (v_\mathrm{end} - v_\mathrm{start}) \cdot (1 - \cos(\pi t / T)) / 2

    Arguments as in :class:`Linear`.

    Example:
        >>> from softmargin import RegularizedSoftmaxLoss
        >>> from softmargin.schedules import Cosine
        >>> schedule = Cosine(RegularizedSoftmaxLoss(), "lam", start=0.0, end=0.3, steps=90)
        >>> [round(schedule.value_at(step), 3) for step in (0, 30, 60, 90, 120)]
        [0.0, 0.075, 0.225, 0.3, 0.3]
    """

    def _between(self, share: float) -> float:
        return self.start + (self.end - self.start) * (1 - math.cos(math.pi * share)) / 2


class Piecewise(Schedule):
    """Given values at given steps, each kept until the next one, or joined by lines.

    Before the first point and after the last the value is that of the point.

    Args:
        module: the loss or head.
        name: its attribute.
        points: (step, value) pairs, by increasing step.
        interpolate: whether to join the points by straight lines.

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
        """Keep the points and set the attribute; see the class."""
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


class InversePower(Schedule):
    r"""Decay by an inverse power of the step, down to a floor: the annealing of L-Softmax.

    .. math:: v_t = \max(\mathrm{floor}, \mathrm{base} \cdot (1 + \gamma t)^{-\mathrm{power}})

    Args:
        module: the loss or head.
        name: its attribute.
        base: value at step 0.
        gamma: γ, above 0.
        power: above 0.
        floor: the smallest value.

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
        """Keep the numbers and set the attribute; see the class."""
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


class Schedules:
    """Several schedules that step, save and load as one.

    Args:
        schedules: schedules over different attributes.

    Example:
        >>> from softmargin import RegularizedSoftmaxLoss
        >>> from softmargin.schedules import Cosine, Linear, Schedules
        >>> criterion = RegularizedSoftmaxLoss()
        >>> schedules = Schedules([
        ...     Linear(criterion, "beta", start=0.1, end=1.0, steps=10),
        ...     Cosine(criterion, "lam", start=0.3, end=0.0, steps=20),
        ... ])
        >>> schedules.step()
        >>> schedules
        Schedules([
            Linear(RegularizedSoftmaxLoss.beta, start=0.1, end=1, steps=10): 0.19 at step 1,
            Cosine(RegularizedSoftmaxLoss.lam, start=0.3, end=0, steps=20): 0.298153 at step 1,
        ])
    """

    def __init__(self, schedules: Iterable[Schedule]) -> None:
        """Keep the schedules; see the class."""
        try:
            self._schedules = list(schedules)
        except TypeError:
            raise TypeError(f"schedules must hold schedules, but got {schedules!r}.") from None
        moved = set()
        for schedule in self._schedules:
            if not isinstance(schedule, Schedule):
                raise TypeError(f"schedules must hold schedules, but got {schedule!r}.")
            attribute = id(schedule.module), schedule.name
            if attribute in moved:
                raise ValueError(
                    "schedules must move different attributes, "
                    f"but got two over {schedule._subject()}."
                )
            moved.add(attribute)

    def step(self) -> None:
        """Go one step on with every schedule."""
        for schedule in self._schedules:
            schedule.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all schedules."""
        return {"schedules": [schedule.state_dict() for schedule in self._schedules]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where a ``state_dict`` of the same schedules stopped; all of it fits or none."""
        _check_mapping(state_dict)
        states = state_dict.get("schedules", ())
        if len(states) != len(self):
            raise ValueError(
                f"state_dict must hold the states of {len(self)} schedules, but got {len(states)}."
            )
        pairs = list(zip(self._schedules, states, strict=True))
        for schedule, steps in [(schedule, schedule._steps_in(state)) for schedule, state in pairs]:
            schedule._go_to(steps)

    def __iter__(self) -> Iterator[Schedule]:
        """Iterate over the schedules."""
        return iter(self._schedules)

    def __len__(self) -> int:
        """Return how many schedules there are."""
        return len(self._schedules)

    def __repr__(self) -> str:
        """Show every schedule on its own line."""
        return "Schedules([\n" + "".join(f"    {each!r},\n" for each in self._schedules) + "])"


def l_softmax_annealing(
    head: nn.Module,
    *,
    base: float = 1000.0,
    gamma: float = 0.000025,
    power: float = 35.0,
    floor: float = 0.0,
) -> InversePower:
    """Return the annealing of L-Softmax's λ with its authors' numbers, stepped per iteration.

    The head starts almost without margin and reaches a tenth of its λ after 2700 iterations.

    ``head`` has an attribute ``anneal``; the other arguments are those of :class:`InversePower`.

    Example:
        >>> import torch
        >>> from softmargin.schedules import l_softmax_annealing
        >>> head = torch.nn.Module()  # any module that has the attribute
        >>> head.anneal = 0.0
        >>> schedule = l_softmax_annealing(head)
        >>> [round(schedule.value_at(step), 3) for step in (0, 2720, 20000)]
        [1000.0, 100.001, 0.001]
    """
    return InversePower(head, "anneal", base, gamma, power, floor)


def a_softmax_annealing(
    head: nn.Module,
    *,
    base: float = 1000.0,
    gamma: float = 0.12,
    power: float = 1.0,
    floor: float = 5.0,
) -> InversePower:
    """Return the annealing of A-Softmax's λ with SphereFace's numbers, stepped per iteration.

    λ reaches its floor of 5 after 1659 iterations and stays there.

    ``head`` has an attribute ``anneal``; the other arguments are those of :class:`InversePower`.

    Example:
        >>> import torch
        >>> from softmargin.schedules import a_softmax_annealing
        >>> head = torch.nn.Module()  # any module that has the attribute
        >>> head.anneal = 0.0
        >>> schedule = a_softmax_annealing(head)
        >>> [round(schedule.value_at(step), 3) for step in (0, 100, 20000)]
        [1000.0, 76.923, 5.0]
    """
    return InversePower(head, "anneal", base, gamma, power, floor)


def lgm_annealing(
    head: nn.Module,
    *,
    start: float = 0.1,
    factor: float = 2.0,
    every: float = 5000,
    maximum: float = 0.3,
) -> Piecewise:
    """Return the growth of LGM's margin α with its authors' numbers, stepped per iteration.

    0.1 at first, 0.2 from step 5000 on, 0.3 from step 10000 on.

    Args:
        head: a head with a ``margin`` attribute.
        start: margin at step 0, above 0.
        factor: what the margin is multiplied by, above 1.
        every: after how many steps it is multiplied.
        maximum: the largest margin, at least ``start``.

    Example:
        >>> import torch
        >>> from softmargin.schedules import lgm_annealing
        >>> head = torch.nn.Module()  # any module that has the attribute
        >>> head.margin = 0.0
        >>> lgm_annealing(head).points
        [(0, 0.1), (5000, 0.2), (10000, 0.3)]
    """
    check_number("start", start)
    check_number("factor", factor, above=1)
    check_number("every", every, above=1, inclusive=True)
    check_number("maximum", maximum, above=start, inclusive=True)
    points: list[tuple[float, float]] = [(0, start)]
    while points[-1][1] < maximum:
        points.append((len(points) * every, min(points[-1][1] * factor, maximum)))
    return Piecewise(head, "margin", points)


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


def _check_mapping(state_dict: Any) -> None:
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"state_dict must be a dict, but got {type(state_dict).__name__}.")


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


def _settings_of(module: nn.Module) -> Mapping[str, Setting]:
    return module.settings if isinstance(module, ModuleWithSettings) else {}


def _check_attribute(module: nn.Module, name: str) -> None:
    """Raise unless ``name`` is a numeric attribute, with a sentence that names those there are."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, but got {name!r}.")
    public = [key for key in vars(module) if not key.startswith("_") and key not in STRUCTURE]
    candidates = dict.fromkeys([*_settings_of(module), *public])
    learned = {key for key in _settings_of(module) if cast(ModuleWithSettings, module).learns(key)}
    numbers = {key for key in candidates if _is_number(getattr(module, key, None))}
    names = [key for key in candidates if key in numbers - learned]
    if name in names:
        return
    owner, value = type(module).__name__, getattr(module, name, None)
    if name in learned or (isinstance(value, Tensor) and value.requires_grad):
        raise ValueError(f"name must be a number that is not learned, but {owner}.{name} is.")
    if isinstance(value, Tensor) and name in candidates:
        raise ValueError(
            f"name must be a single number, but {owner}.{name} has shape {tuple(value.shape)}."
        )
    allowed = f"one of {', '.join(names)}" if names else "of which it has none"
    raise (ValueError if hasattr(module, name) else AttributeError)(
        f"name must be a numeric attribute of {owner}, {allowed}, but got {name!r}."
    )


def _is_number(value: Any) -> bool:
    """Whether an attribute's value is one number that is not learned."""
    if isinstance(value, Tensor):
        return value.ndim == 0 and not value.requires_grad
    return isinstance(value, int | float) and not isinstance(value, bool)
