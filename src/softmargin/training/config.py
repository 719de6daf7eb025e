"""What a training run is: one frozen set of options, from the command line or a YAML file.

Wherever a configuration comes from (flags, YAML, Python, a stored run), its values are checked
once, here, by the table ``CHECKS``: type first, then what is allowed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import Any

from softmargin._plain_checks import check_choice, check_count, check_number

OPTIMIZERS = ("sgd", "adam", "adamw")
PRECISIONS = ("32", "64", "bf16", "16")
LARGEST_SEED = 2**62
DEEPEST = 8  # lists and mappings within each other in the options of a part


class OptionError(ValueError):
    """An option that cannot be used; ``option`` is its name, for those who let users type it."""

    def __init__(self, option: str, message: str) -> None:
        """Keep the option and the sentence."""
        super().__init__(option, message)  # as arguments: workers send errors to each other

    @property
    def option(self) -> str:
        """The name of the option."""
        return str(self.args[0])

    def __str__(self) -> str:
        """Return the sentence."""
        return str(self.args[1])


@contextmanager
def naming(option: str, argument: str | None = None) -> Iterator[None]:
    """Turn a mistake in what is done with an option into an ``OptionError``.

    Args:
        option: the option.
        argument: what the function that is called calls it, if not the same.
    """
    try:
        yield
    except OptionError:
        raise
    except (TypeError, ValueError) as error:
        text = str(error)
        if argument is not None and text.startswith(f"{argument} "):
            text = option + text.removeprefix(argument)
        raise OptionError(option, text) from None


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the numbers of a run.

    Two runs with equal ones give equal numbers, on one machine and with the same number of
    threads.

    Attributes:
        data: name of a data set of :mod:`softmargin.data`.
        model: name of a network of :mod:`softmargin.models`.
        head: name of a head, such as ``"linear"`` or ``"arcface"``; or a class of your own, a
            subclass of :class:`softmargin.heads.Head`, which becomes ``"package.module:Class"``.
        loss: name of a loss, such as ``"gradient_decay"`` or ``"focal"``; or a class of your own,
            any ``nn.Module`` from logits and classes to one number.
        model_options: arguments of the network.
        head_options: arguments of the head.
        loss_options: arguments of the loss.
        center: weight λ of the center loss that is added, with running centers; 0 adds none.
        schedules: settings that move, such as ``"beta=linear:0.1:1:30%"``.
        epochs: passes over the training set.
        batch: samples per step, over all processes.
        lr: learning rate at its base.
        lr_schedule: how it moves, see :func:`softmargin.training.rates.learning_rate`.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adamw"``.
        momentum: of SGD.
        weight_decay: of all parameters.
        clip: largest norm of the gradient, or None.
        augment: whether to crop with 4 pixels of padding; of pictures in a folder, to cut a random
            part out and scale it. Both also mirror, where the data set says that a mirrored picture
            is still of its class.
        fraction: share of the training set to keep, or None.
        pollute: share of training labels to move to another class.
        seed: of weights, order, augmentation, fraction and pollution.
        precision: ``"32"``, ``"64"``, ``"bf16"`` or ``"16"``, the last two with autocast.
        record: whether to record every training sample's confidence at every epoch.
    """

    data: str = "digits"
    model: str = "fcnn"
    head: Any = "linear"  # kept as text; so is the loss
    loss: Any = "gradient_decay"
    model_options: Mapping[str, Any] = field(default_factory=dict)
    head_options: Mapping[str, Any] = field(default_factory=dict)
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    center: float = 0.0
    schedules: tuple[str, ...] = ()
    epochs: int = 10
    batch: int = 100
    lr: float = 0.01
    lr_schedule: str = "constant"
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float | None = None
    augment: bool = False
    fraction: float | None = None
    pollute: float = 0.0
    seed: int = 0
    precision: str = "32"
    record: bool = False

    def __post_init__(self) -> None:
        """Check every value, and keep it in its own type."""
        for name, check in CHECKS.items():
            with naming(name):
                object.__setattr__(self, name, check(name, getattr(self, name)))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        values = dataclasses.asdict(self)
        values["schedules"] = list(self.schedules)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Return the configuration of plain values; an unknown name is refused."""
        names = [each.name for each in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise OptionError(
                    str(name), f"every option must be one of {', '.join(names)}, but got {name!r}."
                )
        return cls(**values)

    def difference(self, other: TrainingConfig) -> list[str]:
        """Return the names of the options in which two configurations differ."""
        mine, theirs = self.as_dict(), other.as_dict()
        return [name for name in mine if mine[name] != theirs[name]]


Check = Callable[[str, Any], Any]
"""(name, value) to the value in its own type; raises where it is of another or not allowed."""


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, but got {value!r}.")
    return value


def _part(name: str, value: Any) -> str:
    """Return the name of a head or loss; a class is named by where it can be imported from."""
    if not isinstance(value, type):
        return _text(name, value)
    if "<locals>" in value.__qualname__:
        raise ValueError(
            f"{name} must be a class at the top of its module, but got {value.__qualname__}."
        )
    return f"{value.__module__}:{value.__qualname__}"


def _choice(name: str, value: Any, *, allowed: tuple[str, ...]) -> str:
    # YAML reads 64 as a number; nothing else can be meant by it
    if not isinstance(value, bool) and isinstance(value, Integral):
        value = str(int(value))
    check_choice(name, value, allowed)
    return str(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, but got {value!r}.")
    return value


def _count(name: str, value: Any, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, but got {value!r}.")
    if int(value) > most:
        raise ValueError(f"{name} must be at most {most}, but got {value}.")
    check_count(name, int(value), least)
    return int(value)


def _number(
    name: str, value: Any, *, inclusive: bool = False, below: float = math.inf, optional: bool
) -> float | None:
    if optional and value is None:
        return None
    number = value
    if isinstance(value, str):  # YAML reads 1e-3, without a point, as text
        try:
            number = float(value)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number, but got {value!r}.")
    check_number(name, float(number), inclusive=inclusive, below=below)
    return float(number)


def _options(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must hold names and values, but got {value!r}.")
    return {_text(f"every name in {name}", key): _plain(name, value[key]) for key in value}


def _plain(name: str, value: Any, depth: int = 0) -> Any:
    """Return a value as JSON gives it back, so that a stored configuration equals its origin."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if depth < DEEPEST:
        if isinstance(value, list | tuple):
            return [_plain(name, each, depth + 1) for each in value]
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {key: _plain(name, each, depth + 1) for key, each in value.items()}
    raise TypeError(
        f"{name} must hold numbers, text, and lists of them, but got a {type(value).__name__}."
    )


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list of texts, but got {value!r}.")
    return tuple(_text(f"every one of {name}", each) for each in value)


_share = partial(_number, inclusive=True, below=1.0, optional=False)
_at_least_0 = partial(_number, inclusive=True, optional=False)
CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("data", "model", "lr_schedule"), _text),
    **dict.fromkeys(("head", "loss"), _part),
    **dict.fromkeys(("model_options", "head_options", "loss_options"), _options),
    **dict.fromkeys(("augment", "record"), _flag),
    **dict.fromkeys(("epochs", "batch"), partial(_count, least=1, most=10**9)),
    **dict.fromkeys(("momentum", "pollute"), _share),
    **dict.fromkeys(("center", "weight_decay"), _at_least_0),
    "schedules": _texts,
    "lr": partial(_number, optional=False),
    "clip": partial(_number, optional=True),
    "fraction": partial(_number, below=math.nextafter(1.0, 2.0), optional=True),
    "optimizer": partial(_choice, allowed=OPTIMIZERS),
    "precision": partial(_choice, allowed=PRECISIONS),
    "seed": partial(_count, least=0, most=LARGEST_SEED),
}
"""How every option of a configuration is checked."""
