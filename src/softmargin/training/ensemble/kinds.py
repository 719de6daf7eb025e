"""Models whose head and loss are of one kind: what they differ in comes stacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings
from softmargin.center import CenterLoss
from softmargin.heads import Head
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble import stacked
from softmargin.training.ensemble.vectorize import Tensors, Vectorized
from softmargin.training.objective import check_loss
from softmargin.training.parts import make_center, make_head, make_loss, make_schedules, takes

Own = dict[str, Tensors]
"""The tensors of K models, by part and by their name in it: ``own["head"]["weight"]``."""


class Parts(NamedTuple):
    """What a model has on top of its network."""

    head: Head
    loss: nn.Module
    center: CenterLoss | None


def make_parts(config: TrainingConfig, features: int, classes: int) -> Parts:
    """Return the parts of one model, made in the trainer's order."""
    head = make_head(config.head, features, classes, config.head_options)
    loss = make_loss(config.loss, config.loss_options)
    return Parts(head, loss, make_center(config.center, features, classes))


class Kind:
    """Neighbouring variants whose head and loss are computed by one call.

    ``numbers`` are those in which the members differ, and ``state`` is what calls may change; both
    go by part and name, such as ``head.scale``.
    """

    def __init__(
        self, variants: range, configs: Sequence[TrainingConfig], members: Sequence[Parts]
    ) -> None:
        """Find out in what the members differ; ``variants`` are their numbers in the block."""
        self.variants, self.configs, self.members = variants, configs, members
        self.head, self.loss, self.center = members[0]
        self.stacks_head = stacked.has_stacked(self.head)
        self.stacks_loss = stacked.has_stacked(self.loss)
        self.numbers: dict[str, list[Tensor]] = {}
        for place, owner in enumerate(Parts._fields):
            for name in self._may_differ(owner):
                values = [torch.as_tensor(getattr(each[place], name)) for each in members]
                if self._needed(owner, name, values):
                    self.numbers[f"{owner}.{name}"] = [each.double().clone() for each in values]
        self.heads = Vectorized(self.head, self._state("head"))
        self.losses = Vectorized(self.loss, self._state("loss"))
        self.state = [f"head.{name}" for name in self.heads.state]
        self.state += [f"loss.{name}" for name in self.losses.state]
        if self.center is not None:
            self.state.append("center.centers")

    def _may_differ(self, owner: str) -> list[str]:
        """Return the numbers of a part that its members may differ in, or that schedules move."""
        module = getattr(self, owner)
        names = numbers_of(module)
        for name in self._moved(owner):
            if name not in names and isinstance(vars(module).get(name), int | float):
                names.append(name)
        return names

    def _moved(self, owner: str) -> list[str]:
        """Return the numbers that schedules may move, if the part has them."""
        found = []
        for spec in (spec for config in self.configs for spec in config.schedules):
            named, _, name = spec.partition("=")[0].rpartition(".")
            if owner != "center" and named in ("", owner):
                found.append(name)
        return found

    def _needed(self, owner: str, name: str, values: Sequence[Tensor]) -> bool:
        """Whether a number must be handed over: it differs, moves, or a stacked version reads it.

        What is neutral is not: dividing by 1 costs as much as dividing by 2.
        """
        setting: Any = getattr(getattr(self, owner), "settings", {}).get(name)
        if name in self._moved(owner) or (setting is not None and setting.moves):
            return True
        if any(not torch.equal(each, values[0]) for each in values):
            return True
        read = {"head": self.stacks_head, "loss": self.stacks_loss, "center": True}[owner]
        return read and (setting.neutral is None or float(values[0]) != setting.neutral)

    def _state(self, owner: str) -> list[str]:
        """Return the tensors that a call may change: settings that move, and other buffers."""
        module = getattr(self, owner)
        settings = getattr(module, "settings", {})
        names = [name for name, setting in settings.items() if setting.moves]
        if not (self.stacks_head if owner == "head" else self.stacks_loss):
            names += [name for name, _ in module.named_buffers() if name not in settings]
        return names

    def draw(self) -> Iterator[tuple[str, Tensor]]:
        """Draw the tensors of one model anew, from the present state of the random numbers."""
        config, head, loss = self.configs[0], self.head, self.loss
        if self.stacks_head:  # one of ours, which can draw all of its parameters again
            head.reset_parameters()
        else:
            head = make_head(config.head, head.in_features, head.num_classes, config.head_options)
        if [*loss.parameters(), *self.losses.state]:
            loss = make_loss(config.loss, config.loss_options)
        for owner, module in zip(Parts._fields, (head, loss, self.center), strict=True):
            if module is not None:
                yield from ((f"{owner}.{name}", p) for name, p in module.named_parameters())
                for name, buffer in module.named_buffers():
                    full = f"{owner}.{name}"
                    if full in self.state and full not in self.numbers:
                        yield full, buffer

    def schedules(self, place: int, total: int) -> list[tuple[str, Any]]:
        """Return the moving numbers of a member and what they are at every step."""
        head, loss, _ = self.members[place]
        made = make_schedules(self.configs[place].schedules, loss, head, total)
        return [(f"{'head' if s.module is head else 'loss'}.{s.name}", s.value_at) for s in made]

    # --- computing

    def losses_of(self, own: Own, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses (K,) and logits of features (K, B, D); ``own`` gets the new state."""
        index, added = y.unsqueeze(-1), None
        if self.stacks_head:
            z = stacked.stacked_logits(self.head, h, own["head"], index)
        else:
            (z, added), state = self.heads(self._with_added, own["head"], h, y)
            own["head"] |= state
        if self.stacks_loss:
            loss = stacked.stacked_loss(self.loss, z, own["loss"], index)
        else:
            loss, state = self.losses(self.loss, own["loss"], z, y)
            own["loss"] |= state
        if added is not None:
            loss = loss + added
        if self.center is not None:
            loss = loss + stacked.stacked_center(h, own["center"], index)
        return loss, z

    def _with_added(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits, added = self.head(x, y), self.head.added_loss(x, y)
        return logits, logits.new_zeros(()) if added is None else added

    def probe(self, own: Own, h: Tensor, y: Tensor) -> None:
        """Find out how head and loss can be called."""
        if self.stacks_head:
            z = stacked.stacked_logits(self.head, h, own["head"], None)
        else:
            z, _ = self.heads.probe(self._with_added, own["head"], h, y)
        if not self.stacks_loss:
            check_loss(self.loss, self.losses.probe(self.loss, own["loss"], z, y)[0])

    @torch.no_grad()
    def logits(self, own: Own, h: Tensor, *, training: bool = False) -> Tensor:
        """Return the logits (K, B, C) of inference, maybe with heads that stay in training."""
        if self.stacks_head:
            return stacked.stacked_logits(self.head, h, own["head"], None)
        self.head.train(training)
        function = self.head.inference_logits if training else self.head
        found: Tensor = self.heads(function, own["head"], h)[0]
        self.head.train()
        return found


def numbers_of(module: nn.Module | None) -> list[str]:
    """Return the numbers that models of one kind may differ in.

    They are a module's settings that it does not learn. A module without settings keeps a number
    as an attribute named like the argument of its constructor.
    """
    if isinstance(module, ModuleWithSettings):
        return [name for name in module.settings if not module.learns(name)]
    if module is None:
        return []
    return [name for name in takes(type(module)) if type(vars(module).get(name)) is float]


def kinds_of(
    variants: Sequence[TrainingConfig], features: int, classes: int
) -> tuple[list[Kind], list[int]]:
    """Group variants by kind; return the kinds, and the variants in the order of the kinds."""
    found: dict[tuple[Any, ...], list[tuple[int, Parts]]] = {}
    for number, config in enumerate(variants):
        parts = make_parts(config, features, classes)
        found.setdefault(_kind_key(config, parts), []).append((number, parts))
    kinds: list[Kind] = []
    order: list[int] = []
    for group in found.values():
        numbers = [number for number, _ in group]
        places = range(len(order), len(order) + len(group))
        kinds.append(Kind(places, [variants[n] for n in numbers], [parts for _, parts in group]))
        order += numbers
    return kinds, order


def _kind_key(config: TrainingConfig, parts: Parts) -> tuple[Any, ...]:
    """Return what must be equal for two variants to be computed by the same call."""
    key: list[Any] = [parts.center is not None]
    given = config.head_options, config.loss_options
    for module, options in zip(parts[:2], given, strict=True):
        numbers = numbers_of(module)
        key.append((type(module), sorted((k, repr(options[k])) for k in {*options} - {*numbers})))
        for path, each in module.named_modules():
            for name, value in sorted(vars(each).items()):
                if isinstance(value, bool | int | float | str) and name != "training":
                    key.append((path, name, value) if path or name not in numbers else name)
    return tuple(map(repr, key))
