"""Numbers that a module is set to and that training may move: β, λ, margins, scales.

They live in the module's ``state_dict``, so that a schedule survives a resume, and read and
write like ordinary attributes: ``loss.beta = 0.5``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from softmargin.functional._checks import check_setting


@dataclass(frozen=True)
class Setting:
    """What a setting may be: finite, between bounds, and maybe one value per class.

    A setting that is not ``stored`` stays a plain number, outside ``state_dict``.
    """

    above: float = 0.0
    inclusive: bool = False
    below: float = math.inf
    per_class: bool = False
    stored: bool = True

    def check(self, name: str, value: float | Tensor) -> None:
        """Raise unless ``value`` is allowed."""
        classes = None
        if self.per_class and isinstance(value, Tensor) and value.ndim == 1:
            classes = len(value)
        check_setting(
            name, value, classes, above=self.above, inclusive=self.inclusive, below=self.below
        )


class ModuleWithSettings(nn.Module):
    """A module whose class names its settings in ``settings``.

    A number or tensor becomes a float64 buffer, an ``nn.Parameter`` is learned. Every value is
    checked when it is set.
    """

    settings: ClassVar[Mapping[str, Setting]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Check and store a setting; treat everything else as ``nn.Module`` does."""
        if name not in self.settings:
            return super().__setattr__(name, value)
        setting = self.settings[name]
        setting.check(name, value)
        if isinstance(value, nn.Parameter) or not setting.stored:
            self._buffers.pop(name, None)
            return super().__setattr__(name, value)
        if isinstance(value, Tensor) and value.requires_grad:
            raise TypeError(f"{name} must be an nn.Parameter to be learned, but got a Tensor.")
        learned = self._parameters.get(name)
        if learned is not None:
            with torch.no_grad():
                learned.copy_(torch.as_tensor(value))
            return None
        # a new tensor each time: a graph that still holds the old value stays valid
        old = self._buffers.get(name)
        new = torch.as_tensor(value, dtype=torch.float64).detach().clone()
        self._buffers[name] = new if old is None else new.to(old.device, old.dtype)
        return None

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> Self:
        """Move settings with the module, but do not let ``.half()`` round a number like 0.1."""
        kept = {name: self._buffers.pop(name) for name in self.settings if name in self._buffers}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = fn(torch.zeros(())).device
        for name, value in kept.items():
            # Apple's GPUs know no float64
            dtype = torch.float32 if device.type == "mps" else torch.float64
            self._buffers[name] = value if value is None else value.to(device, dtype)
        return self


ANY_NUMBER = Setting(above=-math.inf)
POSITIVE = Setting()
NOT_NEGATIVE = Setting(inclusive=True)
PER_CLASS = Setting(per_class=True)


def describe(value: Any) -> str:
    """Return a setting as it should appear in a ``repr``."""
    if not isinstance(value, Tensor):
        return repr(value)
    learned = ", learned" if isinstance(value, nn.Parameter) else ""
    if value.ndim == 0:
        return f"{value.item():g}{learned}"
    numbers = f"{value.min().item():g} to {value.max().item():g}"
    return f"<{len(value)} values from {numbers}{learned}>"
