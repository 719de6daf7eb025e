"""A head, a loss or a center loss that stands for K models: any module, by ``torch.vmap``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings
from softmargin.center import CenterLoss
from softmargin.training.ensemble import stacked
from softmargin.training.ensemble.stacked import Tensors
from softmargin.training.parts import takes


class Stack:
    """A module that stands for K of its kind, whose tensors and numbers it keeps stacked.

    ``numbers`` are those that must be handed over, as they are for every variant; ``state`` names
    the tensors that a call may change. A module that vmap cannot run, because it looks at values
    for instance, is called K times.

    Args:
        members: the module of every variant; the first one stands for all.
        make: makes a new one, with parameters drawn anew; None where they can be drawn again.
        moved: the numbers that schedules move, if the module has them.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        make: Callable[[], nn.Module] | None = None,
        moved: Collection[str] = (),
    ) -> None:
        """Find out in what the members differ; nothing is drawn or called yet."""
        self.module: Any = members[0]
        self.make, self.one_by_one = make, False
        self.written_out = stacked.has_stacked(self.module)
        self.tensors: Tensors = {}
        self.learned: list[str] = []
        self.drawn: dict[str, list[Tensor]] = {}
        settings: Any = getattr(self.module, "settings", {})
        moving = {name for name, setting in settings.items() if setting.moves}
        numbers = numbers_of(self.module)
        numbers += [name for name in moved if name not in numbers and self._is_plain(name)]
        self.numbers: Tensors = {}
        for name in numbers:
            values = [torch.as_tensor(getattr(each, name)) for each in members]
            same = all(torch.equal(each, values[0]) for each in values)
            # what is neutral is not handed over: dividing by 1 costs as much as dividing by 2
            read = self.written_out and settings[name].neutral != float(values[0])
            if not same or read or name in moving or name in moved:
                self.numbers[name] = torch.stack([each.double() for each in values])
        self.state = [name for name in settings if name in moving]
        if not self.written_out or isinstance(self.module, CenterLoss):
            buffers = [name for name, _ in self.module.named_buffers()]
            self.state += [name for name in buffers if name not in settings]

    def _is_plain(self, name: str) -> bool:
        return isinstance(vars(self.module).get(name), int | float)

    def draw(self) -> None:
        """Draw the tensors of one stream, from the present state of the random numbers."""
        if self.written_out or self.make is None:  # one of ours, which can draw everything again
            module = self.module
            module.reset_parameters()
        else:
            module = self.make()
        for name, tensor in chain(module.named_parameters(), module.named_buffers()):
            is_state = name in self.state and name not in self.numbers
            if isinstance(tensor, nn.Parameter) or is_state:
                self.drawn.setdefault(name, []).append(tensor.detach().clone())
            if tensor.requires_grad and name not in self.learned:
                self.learned.append(name)

    def lay_out(self, variants: int, streams: int, dtype: torch.dtype | None) -> None:
        """Stack what was drawn and the numbers, variant by variant; None keeps their dtypes."""
        for name, drawn in self.drawn.items():
            values = torch.stack(drawn)
            if dtype is not None and values.is_floating_point():
                values = values.to(dtype)
            self.tensors[name] = values.repeat(variants, *(1,) * (values.ndim - 1))
            self.tensors[name].requires_grad_(name in self.learned)
        for name, values in self.numbers.items():
            self.tensors[name] = values.repeat_interleave(streams, 0)
        self.drawn.clear()

    def __call__(self, function: Callable[..., Any], *inputs: Tensor) -> Any:
        """Return what ``function``, of the module, gives for every model, and keep its state."""
        found, state = self.run(function, self.tensors, *inputs)
        self.tensors |= {name: value.detach().contiguous() for name, value in state.items()}
        return found

    def run(
        self, function: Callable[..., Any], tensors: Tensors, *inputs: Tensor
    ) -> tuple[Any, Tensors]:
        """Return what ``function`` gives for every model, and the new state."""
        if not self.one_by_one:
            call = torch.vmap(partial(self._one, function), randomness="different")
            return call(tensors, *inputs)
        found = []
        for k in range(len(inputs[0])):
            own = {name: value[k] for name, value in tensors.items()}
            found.append(self._one(function, own, *(each[k] for each in inputs)))
        outputs, states = zip(*found, strict=True)
        if isinstance(outputs[0], tuple):
            together: Any = tuple(torch.stack(each) for each in zip(*outputs, strict=True))
        else:
            together = torch.stack(outputs)
        return together, {name: torch.stack([s[name] for s in states]) for name in self.state}

    def _one(
        self, function: Callable[..., Any], own: Tensors, *inputs: Tensor
    ) -> tuple[Any, Tensors]:
        places = {name: _place(self.module, name) for name in own}
        before = {name: store[key] for name, (store, key) in places.items()}
        try:
            for name, (store, key) in places.items():
                plain = self.one_by_one and not isinstance(before[name], Tensor)
                store[key] = own[name].item() if plain else own[name]
            outputs = function(*inputs)
            after = {name: places[name][0][places[name][1]] for name in self.state}
            return outputs, {name: torch.as_tensor(value) for name, value in after.items()}
        finally:
            for name, (store, key) in places.items():
                store[key] = before[name]

    def probe(self, function: Callable[..., Any], *inputs: Tensor) -> Any:
        """Find out how the module can be called; refuse one that draws random numbers.

        Returns:
            What ``function`` gives. The tensors stay as they are.
        """
        random = torch.get_rng_state()
        copies = [{name: value.clone() for name, value in self.tensors.items()} for _ in range(2)]
        try:
            found, _ = self.run(function, copies[0], *inputs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            self.one_by_one = True  # a mistake of the module's shows here again
            found, _ = self.run(function, copies[1], *inputs)
        if not torch.equal(random, torch.get_rng_state()):
            raise ValueError(
                "head and loss must not draw random numbers to be trained together, but "
                f"{type(self.module).__name__} does."
            )
        return found


def numbers_of(module: nn.Module) -> list[str]:
    """Return the numbers that models of one kind may differ in.

    They are a module's settings that it does not learn. A module without settings keeps a number
    as an attribute named like the argument of its constructor.
    """
    if isinstance(module, ModuleWithSettings):
        return [name for name in module.settings if not module.learns(name)]
    return [name for name in takes(type(module)) if type(vars(module).get(name)) is float]


def _place(module: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Return where a module keeps a tensor or a number: a dictionary and the key in it."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path) if path else module
    for store in (owner._parameters, owner._buffers):
        if key in store:
            return store, key
    return vars(owner), key
