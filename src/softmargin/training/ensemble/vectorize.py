"""Any head or loss as one call for many models: ``torch.vmap`` over the module itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]


class Vectorized:
    """A module that stands for K of its kind, whose tensors and numbers come stacked.

    A module that vmap cannot run, because it looks at values for instance, is called K times.

    Args:
        module: one of them.
        state: which of its tensors its calls may change.
    """

    def __init__(self, module: nn.Module, state: Iterable[str]) -> None:
        """Keep the module; nothing is called yet."""
        self.module, self.state, self.one_by_one = module, list(state), False

    def __call__(
        self, function: Callable[..., Any], tensors: Tensors, *inputs: Tensor
    ) -> tuple[Any, Tensors]:
        """Return what ``function``, of the module, gives for every model, and the new state."""
        if not self.one_by_one:
            call = torch.vmap(partial(self._one, function), randomness="different")
            return call(tensors, *inputs)
        found = []
        for k in range(len(inputs[0])):
            own = {name: value[k] for name, value in tensors.items()}
            found.append(self._one(function, own, *(each[k] for each in inputs)))
        outputs, states = zip(*found, strict=True)
        if isinstance(outputs[0], tuple):
            stacked: Any = tuple(torch.stack(each) for each in zip(*outputs, strict=True))
        else:
            stacked = torch.stack(outputs)
        return stacked, {name: torch.stack([s[name] for s in states]) for name in self.state}

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

    def probe(self, function: Callable[..., Any], tensors: Tensors, *inputs: Tensor) -> Any:
        """Find out how the module can be called; refuse one that draws random numbers.

        Returns:
            What ``function`` gives. The tensors stay as they are.
        """
        random = torch.get_rng_state()
        copies = [{name: value.clone() for name, value in tensors.items()} for _ in range(2)]
        try:
            found, _ = self(function, copies[0], *inputs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            self.one_by_one = True  # a mistake of the module's shows here again
            found, _ = self(function, copies[1], *inputs)
        if not torch.equal(random, torch.get_rng_state()):
            raise ValueError(
                "head and loss must not draw random numbers to be trained together, but "
                f"{type(self.module).__name__} does."
            )
        return found


def _place(module: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Return where a module keeps a tensor or a number: a dictionary and the key in it."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path) if path else module
    for store in (owner._parameters, owner._buffers):
        if key in store:
            return store, key
    return vars(owner), key
