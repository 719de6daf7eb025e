"""Numbers that a module is set to and that training may move: β, τ, λ, margins, scales.

They are buffers, so that a schedule survives a resume and every framework knows how to store and
move them, and they read and write like ordinary attributes: ``loss.beta = 0.5``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast, overload

import torch
from torch import Tensor, nn

from softmargin.functional._checks import check_setting
from softmargin.functional.margins import WITHOUT_FLOAT64, at_least_float32, may_look


@dataclass(eq=False)
class Setting:
    """A module's number: finite, between bounds, and maybe one value per class.

    Stands in the class as an attribute and is one: a module's value is read and set by its name.

    Args:
        above: the lower bound.
        inclusive: whether the lower bound is allowed itself.
        below: the upper bound.
        per_class: whether there may be one value per class.
        neutral: the value that changes nothing, for which the module may skip the work.
        moves: whether the module itself changes it in training.
    """

    above: float = 0.0
    inclusive: bool = False
    below: float = math.inf
    per_class: bool = False
    neutral: float | None = None
    moves: bool = False
    name: str = field(init=False, default="")

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the attribute's name."""
        self.name = name

    @overload
    def __get__(self, module: None, owner: type) -> Self: ...
    @overload
    def __get__(self, module: nn.Module, owner: type | None = None) -> Tensor: ...
    def __get__(self, module: nn.Module | None, owner: type | None = None) -> Self | Tensor:
        """Return the buffer, the parameter, or e to a learned logarithm."""
        if module is None:
            return self
        for store in (module._buffers, module._parameters):
            value = store.get(self.name)
            if value is not None:
                return value
        log = module._parameters.get(f"log_{self.name}")
        if log is not None:
            return _exponential(log)
        raise AttributeError(f"{type(module).__name__} has no {self.name} yet.")

    def __set__(self, module: ModuleWithSettings, value: float | Tensor) -> None:
        """Check the value and set it, in place where there is something to change."""
        self.check(value)
        if self.name not in module._given:
            module._given[self.name] = _remembered(value)
        if isinstance(value, nn.Parameter):
            module._buffers.pop(self.name, None)
            module._parameters.pop(f"log_{self.name}", None)
            nn.Module.__setattr__(module, self.name, value)
        elif isinstance(value, Tensor) and value.requires_grad:
            raise TypeError(f"{self.name} must be an nn.Parameter to be learned, but got a Tensor.")
        else:
            self._write(module, value)

    @torch.no_grad()
    def _write(self, module: ModuleWithSettings, value: float | Tensor) -> None:
        shape = value.shape if isinstance(value, Tensor) else ()
        learned, log = (module._parameters.get(lead + self.name) for lead in ("", "log_"))
        old = module._buffers.get(self.name)
        if learned is not None:
            _copy(value, learned)
        elif log is not None:
            _copy(value.log() if isinstance(value, Tensor) else math.log(value), log)
        elif isinstance(value, Tensor) and old is not None and old.is_meta and not value.is_meta:
            # a loader gives a module on meta its tensors one after the other
            module._buffers[self.name] = old = _on(value.device, value).clone()
        elif old is not None and old.shape == shape:
            _copy(value, old)
        else:
            here = module._home() if old is None else old.device
            module._buffers[self.name] = _on(here or torch.as_tensor(value).device, value).clone()
        if old is not None and old.is_meta:  # nothing there to write to: keep it for later
            module._given[self.name] = _remembered(value)
        if isinstance(value, Tensor) and value.device.type not in ("cpu", "meta"):
            module._neutral.pop(self.name, None)  # to look would be to wait for the device
        elif self.neutral is not None:
            module._mark_neutral(self, value)

    def learn_logarithm(self, module: ModuleWithSettings, value: float | Tensor) -> None:
        """Make log of the value a parameter, whose exponential the setting then is."""
        self.check(value)
        if isinstance(value, nn.Parameter):
            raise TypeError(
                f"{self.name} must be a number or a plain tensor where learn_{self.name}=True, "
                "but got an nn.Parameter."
            )
        module._given[self.name] = _remembered(value)
        log = value.detach().log() if isinstance(value, Tensor) else torch.tensor(math.log(value))
        module.register_parameter(f"log_{self.name}", nn.Parameter(log))

    def check(self, value: float | Tensor) -> None:
        """Raise unless ``value`` is allowed."""
        classes = None
        if self.per_class and isinstance(value, Tensor) and value.ndim == 1:
            classes = len(value)
        above, inclusive, below = self.above, self.inclusive, self.below
        check_setting(self.name, value, classes, above=above, inclusive=inclusive, below=below)


class ModuleWithSettings(nn.Module):
    """A module whose class has attributes of type :class:`Setting`.

    A number or tensor becomes a float64 buffer, which is changed in place, so that who holds it
    (a captured graph, a ``state_dict``) sees the change; an ``nn.Parameter`` is learned. Every
    value is checked when it is set.
    """

    settings: ClassVar[Mapping[str, Setting]] = {}
    moving: set[str]
    """Settings that something moves, so that another value in a checkpoint is no surprise."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Collect the class's settings, those of its bases first."""
        super().__init_subclass__(**options)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Setting)}
        cls.settings = {**cls.settings, **own}

    def __init__(self) -> None:
        """Start without values."""
        super().__init__()
        self.moving = {name for name, setting in self.settings.items() if setting.moves}
        self._given: dict[str, float | Tensor] = {}
        self._neutral: dict[str, tuple[Tensor, int, float]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting; treat everything else as ``nn.Module`` does."""
        setting = self.settings.get(name)
        if setting is None:
            return super().__setattr__(name, value)
        return setting.__set__(self, value)

    def reset_parameters(self) -> None:
        """Give the settings the values back that the module was made with."""
        for name, value in self._given.items():
            if not (isinstance(value, Tensor) and value.is_meta):
                setattr(self, name, value)

    def current(self, name: str, *, number: bool = False) -> float | Tensor:
        """Return a setting to compute with: what a backward pass keeps must not change with it.

        That is a copy, or the neutral number where the setting is known to be that. With
        ``number``, it is a number wherever looking at one is free, which is faster.
        """
        value = self._buffers.get(name)
        if value is None:  # learned
            return cast(Tensor, getattr(self, name))
        known = self._neutral.get(name)
        if known is not None and known[0] is value:
            unchanged = torch.compiler.is_compiling() or known[1] == value._version
            return known[2] if unchanged else value.clone()
        if number and value.ndim == 0 and type(value) is Tensor and value.is_cpu and may_look():
            return value.item()
        return value.clone()

    def current_values(self, names: Iterable[str]) -> dict[str, Any]:
        """Return several settings and other attributes as numbers, where looking at them is free.

        That is asked once for all of them: for a small batch, asking takes as long as the loss.
        """
        if not may_look():
            return {n: self.current(n) if n in self.settings else getattr(self, n) for n in names}
        buffers, neutral, values = self._buffers, self._neutral, {}
        for name in names:
            value = buffers.get(name)
            if value is None:  # learned, or no setting
                values[name] = getattr(self, name)
                continue
            known = neutral.get(name)
            if known is not None and known[0] is value and known[1] == value._version:
                values[name] = known[2]
            elif type(value) is Tensor and value.ndim == 0 and value.is_cpu:
                values[name] = value.item()
            else:
                values[name] = value.clone()
        return values

    def learns(self, name: str) -> bool:
        """Whether a setting is learned, as it is or by its logarithm."""
        return name in self._parameters or f"log_{name}" in self._parameters

    def _home(self) -> torch.device | None:
        """Return where the module's other tensors are."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None and name not in self.settings:
                return value.device
        return None

    def _mark_neutral(self, setting: Setting, value: float | Tensor) -> None:
        """Note whether a setting has its neutral value, as long as nobody changes the buffer."""
        buffer = self._buffers.get(setting.name)
        self._neutral.pop(setting.name, None)
        if buffer is None or torch.compiler.is_compiling():
            return
        if buffer.is_meta or buffer.is_inference():  # no value, or no count of its changes
            return
        if isinstance(value, Tensor) and _transformed(value):
            return
        number = float(value)
        if number == setting.neutral:
            self._neutral[setting.name] = buffer, buffer._version, number

    def _mark_all_neutral(self) -> None:
        for name, setting in self.settings.items():
            buffer = self._buffers.get(name)
            if setting.neutral is not None and buffer is not None:
                self._mark_neutral(setting, buffer)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a copied or stored module."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._mark_all_neutral()

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> Self:
        """Move settings with the module, but do not let ``.half()`` round a number like 0.1.

        A setting that leaves the meta device, where it had no value, has that of the constructor.
        """
        kept = {
            name: buffer
            for name in self.settings
            if (buffer := self._buffers.get(name)) is not None
        }
        try:
            self._buffers.update(dict.fromkeys(kept))
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
            for name, old in kept.items():
                device = fn(torch.zeros((), dtype=torch.float32, device=old.device)).device
                if device == old.device:
                    fn(old)  # for what it may do in place, such as sharing memory
                lost = old.is_meta and device.type != "meta"
                kept[name] = _on(device, self._given.get(name, old) if lost else old)
        finally:
            self._buffers.update(kept)
        self._mark_all_neutral()
        return self

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load settings in place; one that the checkpoint does not have keeps its value."""
        own = {prefix + name: name for name in self.settings if name in self._buffers}
        found = {name: state_dict[key] for key, name in own.items() if key in state_dict}
        # what is loaded below is no business of the base class: it finds what there is already
        rest = {**state_dict, **{prefix + name: self._buffers[name] for name in found}}
        others = missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, *others)
        stays = [name for name, setting in self.settings.items() if not setting.moves]
        optional = {prefix + lead + name for name in stays for lead in ("", "log_")}
        missing_keys[:] = [key for key in missing_keys if key not in optional]
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        self._load_settings(found, prefix, assign, error_msgs)

    def _load_settings(
        self, found: Mapping[str, Any], prefix: str, assign: bool, error_msgs: list[str]
    ) -> None:
        before, after = [], []
        for name, value in found.items():
            old = cast(Tensor, self._buffers[name])
            try:
                self.settings[name].check(value)
            except (TypeError, ValueError) as error:
                error_msgs.append(f"While loading {prefix}{name}: {error}")
                continue
            if old.shape != torch.as_tensor(value).shape:
                error_msgs.append(
                    f"size mismatch for {prefix}{name}: the checkpoint has shape "
                    f"{tuple(torch.as_tensor(value).shape)}, the module {tuple(old.shape)}."
                )
                continue
            if name not in self.moving and _differs(self._given[name], value):
                before.append(f"{name}={describe(self._given[name])}")
                after.append(f"{name}={describe(value)}")
            if assign and isinstance(value, Tensor):
                self._buffers[name] = _on(value.device, value.detach().clone())
            setattr(self, name, value)
        if before:
            warnings.warn(
                f"{type(self).__name__} was made with {', '.join(before)} but now has "
                f"{', '.join(after)}, from the state_dict that it loaded.",
                stacklevel=5,  # whoever calls load_state_dict
            )


def describe(value: Any, learned: bool = False) -> str:
    """Return a setting as it should appear in a ``repr``."""
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, Tensor):
        return repr(value)
    suffix = ", learned" if learned or isinstance(value, nn.Parameter) else ""
    if value.is_meta:
        return f"<on meta{suffix}>"
    if value.ndim == 0:
        return f"{value.item():g}{suffix}"
    numbers = f"{value.min().item():g} to {value.max().item():g}"
    return f"<{len(value)} values from {numbers}{suffix}>"


def _on(device: torch.device, value: float | Tensor) -> Tensor:
    """Return a setting's value on a device, in the best precision that the device has."""
    dtype = torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64
    with torch.inference_mode(False):  # what inference makes could not be set afterwards
        if not isinstance(value, Tensor):
            return torch.tensor(value, dtype=dtype, device=device)
        if value.is_meta and device.type != "meta":  # its value was never known
            return torch.full(value.shape, math.nan, dtype=dtype, device=device)
        value = value.detach()
        # the cast where both types are known
        if dtype == torch.float32:
            return value.to(dtype).to(device)
        return value.to(device).to(dtype)


def _copy(value: float | Tensor, into: Tensor) -> None:
    # through a view: compiled code loses a direct change of a 0-d float64 tensor
    into = into.detach()
    into.copy_(value) if isinstance(value, Tensor) else into.fill_(value)


def _remembered(value: float | Tensor) -> float | Tensor:
    """Return a value as it may be given again, whatever becomes of the original."""
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone() if value.is_meta else value.detach().cpu().double().clone()


def _differs(given: float | Tensor, loaded: Any) -> bool:
    """Whether a loaded value is another one, in the precision that it was stored in."""
    given, loaded = torch.as_tensor(given, dtype=torch.float64), torch.as_tensor(loaded)
    if given.is_meta or loaded.is_meta:
        return False
    return not torch.equal(given.to(loaded.dtype).cpu(), loaded.detach().cpu())


def _exponential(log: Tensor) -> Tensor:
    """Return e^log, held within what its dtype can express: above 0, and finite."""
    log = at_least_float32(log)
    limits = torch.finfo(log.dtype)
    return log.clamp(math.ceil(math.log(limits.tiny)), math.floor(math.log(limits.max))).exp()


def _transformed(tensor: Tensor) -> bool:
    """Whether a tensor's value cannot be looked at here."""
    return tensor.is_meta or torch._C._are_functorch_transforms_active()
