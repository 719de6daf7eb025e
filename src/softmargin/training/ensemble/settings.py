"""The numbers in which models of one kind differ, at every step of their schedules."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble.members import Kind, make_parts
from softmargin.training.parts import make_schedules


@dataclass(frozen=True)
class Moving:
    """A setting that follows a schedule, for the streams that take equally many steps."""

    kind: int
    owner: str
    name: str
    variant: int
    streams: Tensor
    value_at: Callable[[float], float]
    total: int


class Settings:
    """Settings of heads and losses as tensors, one number per model.

    β is kept as its logarithm, which is what the losses need.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        variants: Sequence[TrainingConfig],
        totals: Sequence[int],
        dtype: torch.dtype,
    ) -> None:
        """Read the settings of every variant; ``totals`` are the steps of every stream."""
        self.totals, self.dtype = totals, dtype
        self.head: list[dict[str, Tensor]] = []
        self.loss: list[dict[str, Tensor]] = []
        self.moving: list[Moving] = []
        for number, kind in enumerate(kinds):
            head: dict[str, Tensor] = {}
            loss: dict[str, Tensor] = {}
            for place, variant in enumerate(kind.variants):
                parts = make_parts(variants[variant], kind.head.in_features, kind.head.num_classes)
                for module, into in ((parts[0], head), (parts[1], loss)):
                    for name in module.settings:
                        self._set(into, name, len(kind.variants), place, getattr(module, name))
                if parts[2] is not None:
                    self._set(loss, "center", len(kind.variants), place, parts[2].lam)
                self._schedule(number, kind, place, variants[variant])
            self._drop(number, loss, "tau", 1.0)
            self._drop(number, head, "likelihood", 0.0)
            self.head.append(head)
            self.loss.append(loss)
        self.go_to([0] * len(totals))

    def _set(
        self, into: dict[str, Tensor], name: str, count: int, place: int, value: float | Tensor
    ) -> None:
        name, value = _stored(name, float(value))
        if name not in into:
            into[name] = torch.zeros(count, len(self.totals), dtype=self.dtype)
        into[name][place] = value

    def _drop(self, kind: int, settings: dict[str, Tensor], name: str, neutral: float) -> None:
        """Leave out what changes nothing: dividing by 1 costs as much as dividing by 2."""
        moves = any(each.kind == kind and each.name == name for each in self.moving)
        if name in settings and not moves and bool((settings[name] == neutral).all()):
            del settings[name]

    def _schedule(self, number: int, kind: Kind, place: int, config: TrainingConfig) -> None:
        if not config.schedules:
            return
        alike = defaultdict(list)
        for stream, total in enumerate(self.totals):
            alike[total].append(stream)
        for total, streams in alike.items():
            head, loss, _ = make_parts(config, kind.head.in_features, kind.head.num_classes)
            for schedule in make_schedules(config.schedules, loss, head, total):
                owner = "head" if schedule.module is head else "loss"
                where = torch.tensor(streams)
                self.moving.append(
                    Moving(number, owner, schedule.name, place, where, schedule.value_at, total)
                )

    def go_to(self, steps: Sequence[int]) -> None:
        """Set what moves to its values at these steps, one per stream."""
        for each in self.moving:
            step = steps[int(each.streams[0])]
            name, value = _stored(each.name, each.value_at(step))
            getattr(self, each.owner)[each.kind][name][each.variant, each.streams] = value


def _stored(name: str, value: float) -> tuple[str, float]:
    return ("log_beta", math.log(value)) if name == "beta" else (name, value)
