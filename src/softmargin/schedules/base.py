"""What every schedule does: set an attribute, step, save, load and draw; and several as one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor, nn

from softmargin._lazy import import_extra
from softmargin._settings import ModuleWithSettings, Setting
from softmargin.functional._checks import check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# the arguments that most schedules have
SCHEDULE_ARGUMENTS = {
    "module": "the loss or head.",
    "name": "its attribute.",
    "start": "value at step 0.",
    "end": "value from step ``steps`` on.",
    "steps": "T, at least 1.",
    "base": "value at step 0.",
    "gamma": "γ, above 0.",
    "power": "above 0.",
    "floor": "the smallest value.",
}

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
            _, ax = import_extra("matplotlib.pyplot", "plot needs matplotlib").subplots()
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


def _check_mapping(state_dict: Any) -> None:
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"state_dict must be a dict, but got {type(state_dict).__name__}.")


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
