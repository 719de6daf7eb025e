"""What the callbacks of several frameworks share: schedules that follow the optimiser's steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from softmargin.schedules import Schedule, Schedules


def as_schedules(schedules: Schedule | Schedules | Iterable[Schedule] | None) -> Schedules:
    """Return one schedule, several, or none as one object."""
    if isinstance(schedules, Schedules):
        return schedules
    if isinstance(schedules, Schedule):
        return Schedules([schedules])
    return Schedules(schedules or [])


def go_to(schedules: Schedules, step: int) -> None:
    """Set every schedule to a number of optimiser steps, wherever it was."""
    for schedule in schedules:
        schedule.load_state_dict({"name": schedule.name, "steps_taken": step})


def values(schedules: Schedules) -> dict[str, float]:
    """Return the present values by name; equal names are told apart by their modules'."""
    names = [schedule.name for schedule in schedules]
    found = {}
    for schedule in schedules:
        name = schedule.name
        if names.count(name) > 1:
            name = f"{type(schedule.module).__name__}.{name}"
        found[name] = schedule.value
    return found


def check_learned(criterion: nn.Module, optimizers: Iterable[Any]) -> None:
    """Raise where a criterion has parameters that no optimiser moves."""
    moved = {
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    for name, parameter in criterion.named_parameters():
        if parameter.requires_grad and id(parameter) not in moved:
            raise ValueError(
                f"criterion {type(criterion).__name__} must have its {name} in the optimiser, but "
                "it is in none: make the criterion an attribute of the model."
            )
