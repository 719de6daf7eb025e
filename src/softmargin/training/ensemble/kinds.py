"""Models whose head and loss are of one kind: one call computes them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from softmargin._logit_loss import LogitLoss
from softmargin.heads import Head
from softmargin.losses import AdaFocalLoss
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble import stacked
from softmargin.training.ensemble.stack import Stack, numbers_of
from softmargin.training.objective import check_loss
from softmargin.training.parts import (
    Parts,
    make_head,
    make_loss,
    make_parts,
    make_schedules,
)


class Kind:
    """Neighbouring variants of a block whose head and loss are computed by one call.

    Args:
        configs: of the variants.
        members: their heads, losses and center losses.
    """

    def __init__(self, configs: Sequence[TrainingConfig], members: Sequence[Parts]) -> None:
        """Stack the parts."""
        self.apart = False  # whether the loss gives a value per sample
        self.configs, self.members = configs, members
        config, head = configs[0], members[0].head
        sizes = head.in_features, head.num_classes
        heads, losses, centers = zip(*members, strict=True)
        make_another = partial(make_head, config.head, *sizes, config.head_options)
        self.head = Stack(heads, make_another, self._moved("head"))
        make_another_loss = partial(make_loss, config.loss, config.loss_options)
        steered = ("gammas", "edges") if isinstance(losses[0], AdaFocalLoss) else ()
        self.loss = Stack(losses, make_another_loss, [*self._moved("loss"), *steered])
        self.center = None if centers[0] is None else Stack(centers)
        stacks = {"head": self.head, "loss": self.loss, "center": self.center}
        self.stacks = {owner: stack for owner, stack in stacks.items() if stack is not None}

    def __len__(self) -> int:
        """Return the number of variants."""
        return len(self.configs)

    def _moved(self, owner: str) -> list[str]:
        """Return the numbers that schedules may move in the head or the loss."""
        specs = [spec for config in self.configs for spec in config.schedules]
        targets = [spec.partition("=")[0].rpartition(".") for spec in specs]
        return [name for named, _, name in targets if named in ("", owner)]

    def schedules(self, total: int) -> Iterator[tuple[Stack, str, int, Callable[[float], float]]]:
        """Yield what moves in ``total`` steps: its stack, name and variant, and its value."""
        for place, (config, parts) in enumerate(zip(self.configs, self.members, strict=True)):
            for each in make_schedules(config.schedules, parts.loss, parts.head, total):
                stack = self.head if each.module is parts.head else self.loss
                yield stack, each.name, place, each.value_at

    def keep_samples_apart(self) -> None:
        """Let the loss give a value per sample, which can then be weighted."""
        head, loss = self.head.module, self.loss.module
        if self.center is not None or type(head).added_loss is not Head.added_loss:
            raise ValueError(
                "sample_weight must be left out with a center loss or a head that adds to the "
                f"loss, but got {'center' if self.center is not None else type(head).__name__}."
            )
        if not isinstance(loss, LogitLoss):
            raise ValueError(
                "sample_weight must be left out with a loss that has no reduction of the "
                f"library's, but got {type(loss).__name__}."
            )
        loss.reduction = "none"
        self.apart = True

    def losses_of(
        self, h: Tensor, y: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the losses (K,) and logits of features (K, B, D), and keep the new state."""
        head, loss, index, added = self.head, self.loss, y.unsqueeze(-1), None
        if head.written_out:
            z = stacked.stacked_logits(head.module, h, head.tensors, index)
        else:
            z, added = head(self._with_added, h, y)
        if loss.written_out:
            value = stacked.stacked_loss(loss.module, z, loss.tensors, index)
        else:
            value = loss(loss.module, z, y)
        if weight is not None:
            value = value * weight
        if value.ndim > 1:
            value = value.mean(1)
        if added is not None:
            value = value + added
        if self.center is not None:
            value = value + stacked.stacked_center(h, self.center.tensors, index)
        return value, z

    def _with_added(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        head = self.head.module
        logits, added = head(x, y), head.added_loss(x, y)
        return logits, logits.new_zeros(()) if added is None else added

    def probe(self, h: Tensor, y: Tensor) -> None:
        """Find out how head and loss can be called."""
        if self.head.written_out:
            z = self.logits(h)
        else:
            z, _ = self.head.probe(self._with_added, h, y)
        if not self.loss.written_out:
            found = self.loss.probe(self.loss.module, z, y)[0]
            if not self.apart:
                check_loss(self.loss.module, found)

    @torch.no_grad()
    def logits(self, h: Tensor, *, training: bool = False) -> Tensor:
        """Return the logits (K, B, C) of inference, maybe with heads that stay in training."""
        head, tensors = self.head.module, self.head.tensors
        if self.head.written_out:
            return stacked.stacked_logits(head, h, tensors, None)
        head.train(training)
        found: Tensor = self.head.run(head.inference_logits if training else head, tensors, h)[0]
        head.train()
        return found


def kinds_of(
    variants: Sequence[TrainingConfig], features: int, classes: int
) -> tuple[list[Kind], list[int]]:
    """Group variants by kind; return the kinds, and the variants in the order of the kinds."""
    found: dict[tuple[str, ...], list[int]] = {}
    members = [make_parts(config, features, classes) for config in variants]
    for number, config in enumerate(variants):
        found.setdefault(_kind_key(config, members[number]), []).append(number)
    kinds = [Kind([variants[n] for n in own], [members[n] for n in own]) for own in found.values()]
    return kinds, [number for own in found.values() for number in own]


def _kind_key(config: TrainingConfig, parts: Parts) -> tuple[str, ...]:
    """Return what must be equal for two variants to be computed by the same call."""
    key: list[Any] = [parts.center is not None]
    given = config.head_options, config.loss_options
    for module, options in zip((parts.head, parts.loss), given, strict=True):
        numbers = numbers_of(module)
        key.append((type(module), sorted((k, repr(options[k])) for k in {*options} - {*numbers})))
        for path, each in module.named_modules():
            for name, value in sorted(vars(each).items()):
                if isinstance(value, bool | int | float | str) and name != "training":
                    key.append((path, name, value) if path or name not in numbers else name)
    return tuple(map(repr, key))
