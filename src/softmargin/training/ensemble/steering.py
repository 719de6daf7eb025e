"""Feedback for models trained together: one controller per model, as the trainer has it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softmargin.losses import AdaFocalLoss
from softmargin.training.ensemble.kinds import Kind
from softmargin.training.ensemble.stack import Stack
from softmargin.training.held_out import Controller, is_due, make_controller, updates_of


class Steering:
    """The controllers of a part's models, and where each one's β, or its γ, is.

    Args:
        kinds: the kinds of the part, laid out.
        streams: how many streams each variant has.
        rows: how many rows are held out, and how many there were to train on with them.
    """

    def __init__(self, kinds: Sequence[Kind], streams: int, rows: tuple[int, int]) -> None:
        """Make the controllers, and set what they move to where it starts."""
        self.controllers: list[tuple[int, Controller, Stack, int]] = []
        first = 0  # place of the kind's first model in the part
        for kind in kinds:
            for variant, (config, parts) in enumerate(zip(kind.configs, kind.members, strict=True)):
                if not config.schedules and not isinstance(parts.loss, AdaFocalLoss):
                    continue  # nothing to steer, and losses are slow to copy
                for own in range(variant * streams, (variant + 1) * streams):
                    controller = make_controller(config, copy.deepcopy(parts.loss), *rows)
                    if controller is not None:
                        self.controllers.append((first + own, controller, kind.loss, own))
            first += len(kind) * streams
        self._set()

    def __len__(self) -> int:
        """Return how many models are steered."""
        return len(self.controllers)

    def is_due(self, step: int, steps: int) -> bool:
        """Whether a model is updated after so many steps, in epochs of ``steps``."""
        return any(is_due(step, steps, updates_of(each)) for _, each, _, _ in self.controllers)

    def update(self, logits: Tensor, y: Tensor, step: int, steps: int) -> None:
        """Move what is due by its model's held-out logits (K, N, C) and classes (K, N)."""
        for place, controller, _, _ in self.controllers:
            if not is_due(step, steps, updates_of(controller)):
                continue
            if bool(logits[place].isfinite().all()):  # one that diverged is left as it is
                controller.update(logits[place], y[place])
        self._set()

    def _set(self) -> None:
        with torch.no_grad():
            for _, controller, stack, own in self.controllers:
                if isinstance(controller, AdaFocalLoss):
                    stack.tensors["gammas"][own] = controller.gammas
                    stack.tensors["edges"][own] = controller.edges
                else:
                    stack.tensors["beta"][own] = float(controller.value)

    def state_dict(self) -> list[dict[str, Any]]:
        """Return all that is needed to go on."""
        return [controller.state_dict() for _, controller, _, _ in self.controllers]

    def load_state_dict(self, state: Sequence[dict[str, Any]]) -> None:
        """Go on from there."""
        for (_, controller, _, _), own in zip(self.controllers, state, strict=True):
            controller.load_state_dict(own)
        self._set()
