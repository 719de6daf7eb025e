"""What a training run is: one frozen set of options, from the command line or a YAML file.

An option is one field: its default, its check and its description, which is that of the flag too.
Wherever a configuration comes from (flags, YAML, Python, a stored run), its values are checked
here: type first, then what is allowed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from types import FunctionType
from typing import Any, TypeVar

from softmargin._docs import document_arguments
from softmargin._plain_checks import check_choice, check_count, check_number
from softmargin.data.registry import own_kind

Config = TypeVar("Config", bound=type)
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


class DivergedError(ArithmeticError):
    """Training has gone off to infinity; ``step`` is where it showed."""

    def __init__(self, step: int) -> None:
        """Keep the step."""
        super().__init__(step)
        self.step = step

    def __str__(self) -> str:
        """Say so, and what to do."""
        return f"training diverged at step {self.step}: lower lr, or set clip."


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


def is_calibrated(spec: str) -> bool:
    """Whether a schedule moves by what held-out rows say.

    Example:
        >>> is_calibrated("beta=calibrated:5"), is_calibrated("beta=linear:0.1:1:30%")
        (True, False)
    """
    name, _, rest = spec.partition("=")
    return name in ("beta", "loss.beta") and rest.partition(":")[0] == "calibrated"


Check = Callable[[str, Any], Any]
"""(name, value) to the value in its own type; raises where it is of another or not allowed."""


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, but got {value!r}.")
    return value


def _part(name: str, value: Any) -> str:
    """Return the name of a part; a class or function is named by where it can be imported from."""
    if not isinstance(value, type | FunctionType):
        return _text(name, value)
    if "<" in value.__qualname__:  # of locals and lambdas
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
    name: str,
    value: Any,
    *,
    inclusive: bool = False,
    below: float = math.inf,
    optional: bool = False,
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


def _one_of(*allowed: str) -> Check:
    return partial(_choice, allowed=allowed)


_several = partial(_count, least=1, most=10**9)
_seed = partial(_count, least=0, most=LARGEST_SEED)
_share = partial(_number, inclusive=True, below=1.0)
_at_least_0 = partial(_number, inclusive=True)
_positive_or_none = partial(_number, optional=True)
_part_of_all = partial(_number, below=math.nextafter(1.0, 2.0), optional=True)


def _option(default: Any, check: Check, text: str) -> Any:
    """Return an option: its default, its check and what it is."""
    kept: Any = {"metadata": {"check": check, "text": text}}
    return field(default_factory=dict, **kept) if default == {} else field(default=default, **kept)


def _documented(config: Config) -> Config:
    """List the options in the docstring."""
    texts = {each.name: f"{each.metadata['text']}." for each in dataclasses.fields(config)}
    return document_arguments(texts)(config)


@_documented
@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the numbers of a run.

    Two runs with equal ones give equal numbers, on one machine and with the same number of
    threads. A head or loss may be given as a class and is kept as text.
    """

    data: str = _option(
        "digits",
        _text,
        "data set, such as mnist, cifar10, digits, uci/iris; or your own: a table (.csv, .tsv, "
        ".parquet; see target), or a folder with a folder of pictures per class",
    )
    model: Any = _option(  # noqa: RUF009
        "fcnn",
        _part,
        "network, such as fcnn, small_resnet, resnet18; or your own, a function from the shape of "
        "a sample to any nn.Module that gives features, as package.module:function",
    )
    head: Any = _option(  # noqa: RUF009
        "linear",
        _part,
        "head, such as linear, arcface (see softmargin losses), or a class of your own, a "
        "subclass of Head, as package.module:Class",
    )
    loss: Any = _option(  # noqa: RUF009
        "gradient_decay",
        _part,
        "loss, such as gradient_decay (see softmargin losses), or a class of your own, any "
        "nn.Module from logits and classes to one number, as package.module:Class",
    )
    model_options: Mapping[str, Any] = _option({}, _options, "arguments of the network")
    head_options: Mapping[str, Any] = _option({}, _options, "arguments of the head")
    loss_options: Mapping[str, Any] = _option({}, _options, "arguments of the loss")
    center: float = _option(
        0.0, _at_least_0, "weight of a center loss to add, with running centers; 0 adds none"
    )
    schedules: tuple[str, ...] = _option(
        (),
        _texts,
        "settings that move, such as beta=linear:0.1:1:30%, anneal=l_softmax or, by what held-out "
        "rows say, beta=calibrated",
    )
    epochs: int = _option(60, _several, "passes over the training set")
    batch: int = _option(50, _several, "samples per step, over all processes")
    lr: float = _option(0.05, _number, "learning rate at its base")
    lr_schedule: str = _option(
        "constant", _text, "how lr moves: constant, step:50%,75%, log_linear:1e-4 or one_cycle"
    )
    optimizer: str = _option("sgd", _one_of("sgd", "adam", "adamw"), "sgd, adam or adamw")
    momentum: float = _option(0.9, _share, "momentum of sgd")
    weight_decay: float = _option(0.0, _at_least_0, "weight decay, of all parameters")
    clip: float | None = _option(None, _positive_or_none, "largest norm of the gradient")
    augment: bool = _option(
        False,
        _flag,
        "crop with 4 pixels of padding, or pictures in a folder at random, scaled; and mirror "
        "where the data set says that a mirrored picture is still of its class",
    )
    target: str = _option("", _text, "column that holds the classes, for a table of your own")
    fraction: float | None = _option(None, _part_of_all, "share of the training set to keep")
    held_out: float = _option(
        0.0,
        _share,
        "share of the training set to hold out of training, stratified: measured after every "
        "epoch, and what beta=calibrated is steered by",
    )
    pollute: float = _option(0.0, _share, "share of training labels to move to another class")
    seed: int = _option(
        0,
        _seed,
        "seed of weights, order, augmentation, fraction, held-out rows and pollution",
    )
    precision: str = _option(
        "32",
        _one_of("32", "64", "bf16", "16"),
        "32, 64, bf16 or 16, the last two with autocast",
    )
    record: bool = _option(False, _flag, "keep every training sample's confidence at every epoch")

    def __post_init__(self) -> None:
        """Check every value, and keep it in its own type."""
        for each in dataclasses.fields(self):
            name, check = each.name, each.metadata["check"]
            with naming(name):
                object.__setattr__(self, name, check(name, getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        """Refuse options that do not go together."""
        is_table = own_kind(self.data) == "table"
        if is_table != bool(self.target):
            told = (
                f"be the column of {self.data!r} that holds the classes"
                if is_table
                else f"be left out for {self.data!r}, which is no table of your own"
            )
            got = f", but got {self.target!r}." if self.target else ", but got none."
            raise OptionError("target", f"target must {told}{got}")
        if not self.held_out and (steered := [*filter(is_calibrated, self.schedules)]):
            raise OptionError(
                "held_out",
                f"held_out must be above 0, such as 0.1, for the schedule {steered[0]}, but got 0.",
            )

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
