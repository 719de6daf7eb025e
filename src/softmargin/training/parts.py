"""From names to parts: the loss, the head, the network and the schedules of a configuration."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softmargin import catalogue, models, schedules
from softmargin.center import CenterLoss
from softmargin.functional._checks import check_choice
from softmargin.heads import Head
from softmargin.models import FeatureNetwork
from softmargin.schedules import Schedule, Schedules
from softmargin.training.config import OptionError, TrainingConfig, is_calibrated, naming

ANNEALING: Mapping[str, tuple[str, Callable[[nn.Module], Schedule]]] = {
    "l_softmax": ("anneal", schedules.l_softmax_annealing),
    "a_softmax": ("anneal", schedules.a_softmax_annealing),
    "lgm": ("margin", schedules.lgm_annealing),
}
"""Published annealing, with its authors' numbers: the setting of the head that it moves."""

KINDS = {
    "constant": (schedules.Constant, 1),
    "linear": (schedules.Linear, 3),
    "geometric": (schedules.Geometric, 3),
    "cosine": (schedules.Cosine, 3),
}


def make_network(name: str, shape: Sequence[int], options: Mapping[str, Any]) -> FeatureNetwork:
    """Return the network of that name, or what a function ``package.module:function`` makes.

    The function gets the shape of a sample, such as (3, 32, 32), and the options. What it makes
    is any module from samples to features (N, D): a network without its last layer, in whose
    place the head comes.
    """
    if ":" not in name:
        with naming("model", "name"):
            return models.build(name, shape, **options)
    make = _found("model", name, "package.module:function, which can be imported")
    if not callable(make):
        raise OptionError("model", f"model must be a function, but got {name!r}.")
    try:
        network = make(tuple(shape), **options)
        return OwnNetwork(network, tuple(shape))
    except (TypeError, ValueError, RuntimeError) as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise OptionError(
            "model",
            "model must be a function from the shape of a sample to a network that gives features "
            f"(N, D), but {name!r} is not: {said}.",
        ) from None


class OwnNetwork(FeatureNetwork):
    """A network of the user's own, whose size of features is found by trying it."""

    def __init__(self, network: nn.Module, shape: tuple[int, ...]) -> None:
        """Try the network on two samples of zeros; nothing of it changes."""
        if not isinstance(network, nn.Module):
            raise TypeError(f"it gives a {type(network).__name__} and no nn.Module")
        was = network.training
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            features = network.eval()(torch.zeros(2, *shape))
        network.train(was)
        if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(f"for samples {(2, *shape)} it gives {got}")
        super().__init__({"network": network}, features.shape[1])


def _class_of(
    what: str, name: str, find: Callable[[str], catalogue.Entry], base: type[nn.Module]
) -> Any:
    """Return the class of that name in the catalogue, or of a class ``package.module:Class``."""
    if ":" in name:
        return _imported(what, name, base)
    with naming(what):
        return find(name).module


def _imported(what: str, name: str, base: type[nn.Module]) -> Any:
    """Return a class of the user's own."""
    allowed = f"package.module:Class, a subclass of {base.__name__} that can be imported"
    found = _found(what, name, allowed)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise OptionError(what, f"{what} must be {allowed}, but got {name!r}.")
    return found


def _found(what: str, name: str, allowed: str) -> Any:
    """Return what a path ``package.module:name`` stands for."""
    path, _, attributes = name.partition(":")
    try:
        return functools.reduce(getattr, attributes.split("."), importlib.import_module(path))
    except (ImportError, AttributeError, ValueError) as error:
        said = str(error).rstrip(".")
        raise OptionError(what, f"{what} must be {allowed}, but got {name!r}: {said}.") from None


def takes(module: type[nn.Module]) -> list[str]:
    """Return the names of a class's arguments."""
    return list(inspect.signature(module).parameters)


def loss_takes(loss: Any, option: str) -> bool:
    """Whether a loss, by its name or as a class, has an argument.

    Example:
        >>> loss_takes("gradient_decay", "beta"), loss_takes("max_hinge", "beta")
        (True, False)
    """
    found = loss if isinstance(loss, type) else None
    return option in takes(found or _class_of("loss", loss, catalogue.find_loss, nn.Module))


def _made(what: str, module: Any, options: Mapping[str, Any], *sizes: int) -> Any:
    """Return a part; a mistake in an option is named by it."""
    allowed = takes(module)[len(sizes) :]
    for name in options:
        with naming(name):
            check_choice(f"an option of {what} {module.__name__}", name, allowed)
    try:
        return module(*sizes, **options)
    except (TypeError, ValueError, RuntimeError) as error:
        blamed = str(error).split(" ", 1)[0]  # every check begins with the argument's name
        raise OptionError(blamed if blamed in options else what, str(error)) from None


def make_loss(name: str, options: Mapping[str, Any]) -> nn.Module:
    """Return the loss of that name in the catalogue, or of a class ``package.module:Class``.

    Example:
        >>> from softmargin.training.parts import make_loss
        >>> make_loss("gradient_decay", {"beta": 5.0})
        GradientDecayLoss(beta=5, tau=1, floored=False)
    """
    module = _class_of("loss", name, catalogue.find_loss, nn.Module)
    loss: nn.Module = _made("loss", module, options)
    smoothing: Any = getattr(loss, "label_smoothing", 0.0)
    if not 0 <= smoothing <= 1:  # the loss itself says so, as PyTorch, at its first call
        raise OptionError(
            "label_smoothing",
            f"label_smoothing must be between 0.0 and 1.0, but got {smoothing}.",
        )
    return loss


def make_head(name: str, in_features: int, num_classes: int, options: Mapping[str, Any]) -> Head:
    """Return the head of that name in the catalogue, or of a class ``package.module:Class``."""
    module = _class_of("head", name, catalogue.find_head, Head)
    head: Head = _made("head", module, options, in_features, num_classes)
    return head


def make_center(lam: float, in_features: int, num_classes: int) -> CenterLoss | None:
    """Return the center loss with the original's running centers, or None for λ = 0."""
    return CenterLoss(in_features, num_classes, lam, update="running") if lam else None


class Parts(NamedTuple):
    """What a model has on top of its network."""

    head: Head
    loss: nn.Module
    center: CenterLoss | None


def make_parts(config: TrainingConfig, features: int, classes: int) -> Parts:
    """Return what a model has on top of its network, drawn in this order."""
    head = make_head(config.head, features, classes, config.head_options)
    loss = make_loss(config.loss, config.loss_options)
    return Parts(head, loss, make_center(config.center, features, classes))


def make_schedules(specs: Sequence[str], loss: nn.Module, head: nn.Module, total: int) -> Schedules:
    """Return schedules from texts such as ``"beta=linear:0.1:1:30%"``.

    A text is a setting, a kind (constant, linear, geometric, cosine), its start and end, and its
    length in steps or as a share of all steps. The setting is the loss's if it has one of that
    name, otherwise the head's; ``head.margin`` and ``loss.margin`` say which.

    Published annealing goes by name, step by step with its authors' numbers:
    ``"anneal=l_softmax"``, ``"anneal=a_softmax"`` and ``"margin=lgm"``, always of the head.

    Example:
        >>> from softmargin.heads import LSoftmaxHead
        >>> from softmargin.losses import GradientDecayLoss
        >>> from softmargin.training.parts import make_schedules
        >>> head = LSoftmaxHead(8, 3)
        >>> schedules = make_schedules(["anneal=l_softmax"], GradientDecayLoss(), head, total=100)
        >>> float(head.anneal)
        1000.0
    """
    planned = [spec for spec in specs if not is_calibrated(spec)]  # that one goes by feedback
    with naming("schedules"):
        return Schedules([_schedule(spec, loss, head, total) for spec in planned])


def _schedule(spec: str, loss: nn.Module, head: nn.Module, total: int) -> Schedule:
    name, _, rest = spec.partition("=")
    kind, *numbers = rest.split(":")
    owner, _, attribute = name.rpartition(".")
    if owner not in ("", "loss", "head") or not attribute or not rest:
        raise ValueError(f"schedule must look like beta=linear:0.1:1:30%, but got {spec!r}.")
    if kind == "calibrated":
        raise ValueError(f"schedule must be beta=calibrated, of the loss, but got {spec!r}.")
    check_choice("the kind of a schedule", kind, [*KINDS, *ANNEALING])
    on_head = not hasattr(loss, attribute) and hasattr(head, attribute)
    module = head if owner == "head" or (not owner and on_head) else loss
    try:
        if kind in ANNEALING:
            setting, annealing = ANNEALING[kind]
            if attribute != setting or owner == "loss" or numbers:
                raise ValueError(f"schedule must be {setting}={kind}, but got {spec!r}.")
            return annealing(head)
        make, count = KINDS[kind]
        made: Schedule = make(module, attribute, *_numbers(spec, kind, numbers, count, total))
        return made
    except AttributeError as error:  # it names the attributes that there are
        raise ValueError(f"schedule {spec!r}: {error}") from None


def _numbers(spec: str, kind: str, numbers: Sequence[str], count: int, total: int) -> list[Any]:
    try:
        if len(numbers) != count:
            raise ValueError
        values: list[Any] = [float(number) for number in numbers[:2]]
        return values + [_steps(number, total) for number in numbers[2:]]
    except ValueError:
        raise ValueError(
            f"schedule must have {count} numbers after {kind}, as in beta=linear:0.1:1:30%, "
            f"but got {spec!r}."
        ) from None


def _steps(text: str, total: int) -> int:
    if text.endswith("%"):
        share = float(text[:-1]) / 100
        if not 0 < share <= 1:
            raise ValueError
        return max(1, round(share * total))
    return int(text)
