"""From names to parts: the loss, the head, the network and the schedules of a configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from torch import nn

from softmargin import catalogue, schedules
from softmargin.center import CenterLoss
from softmargin.functional._checks import check_choice
from softmargin.heads import Head
from softmargin.losses import LogitLoss
from softmargin.schedules import Schedule, Schedules

KINDS = {
    "constant": (schedules.Constant, 1),
    "linear": (schedules.Linear, 3),
    "geometric": (schedules.Geometric, 3),
    "cosine": (schedules.Cosine, 3),
}


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _find(what: str, name: str, entries: Sequence[catalogue.Entry], suffix: str) -> Any:
    """Return the class of that name, whatever its spelling, with or without its suffix."""
    known = {_letters(e.name.removesuffix(suffix)): e.module for e in entries}
    if what == "loss":
        known["crossentropy"] = known["gradientdecay"]
    wanted = _letters(name).removesuffix(suffix.lower())
    if wanted in known:
        return known[wanted]
    close = get_close_matches(wanted, known, n=3, cutoff=0.5) or list(known)
    raise ValueError(f"{what} must be a name such as {', '.join(close)}, but got {name!r}.")


def _checked_options(what: str, module: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    allowed = list(inspect.signature(module).parameters)
    for name in options:
        check_choice(f"an option of {what} {module.__name__}", name, allowed)
    return dict(options)


def make_loss(name: str, options: Mapping[str, Any]) -> LogitLoss:
    """Return the loss of that name.

    Example:
        >>> from softmargin.training.parts import make_loss
        >>> make_loss("gradient_decay", {"beta": 5.0})
        GradientDecayLoss(beta=5, tau=1, floored=False)
    """
    module = _find("loss", name, catalogue.LOSSES, "Loss")
    loss: LogitLoss = module(**_checked_options("loss", module, options))
    return loss


def make_head(name: str, in_features: int, num_classes: int, options: Mapping[str, Any]) -> Head:
    """Return the head of that name."""
    module = _find("head", name, catalogue.HEADS, "Head")
    options = _checked_options("head", module, options)
    head: Head = module(in_features, num_classes, **options)
    return head


def make_center(lam: float, in_features: int, num_classes: int) -> CenterLoss | None:
    """Return the center loss with the original's running centers, or None for λ = 0."""
    return CenterLoss(in_features, num_classes, lam, update="running") if lam else None


def make_schedules(specs: Sequence[str], loss: nn.Module, head: nn.Module, total: int) -> Schedules:
    """Return schedules from texts such as ``"beta=linear:0.1:1:30%"``.

    A text is a setting, a kind (constant, linear, geometric, cosine), its start and end, and its
    length in steps or as a share of all steps. The setting is the loss's if it has one of that
    name, otherwise the head's; ``head.margin`` and ``loss.margin`` say which.
    """
    made: list[Schedule] = []
    for spec in specs:
        name, _, rest = spec.partition("=")
        kind, *numbers = rest.split(":")
        owner, _, attribute = name.rpartition(".")
        if owner not in ("", "loss", "head") or not attribute or not rest:
            raise ValueError(f"schedule must look like beta=linear:0.1:1:30%, but got {spec!r}.")
        check_choice("the kind of a schedule", kind, KINDS)
        make, count = KINDS[kind]
        try:
            if len(numbers) != count:
                raise ValueError
            values: list[Any] = [float(number) for number in numbers[:2]]
            values += [_steps(number, total) for number in numbers[2:]]
        except ValueError:
            raise ValueError(
                f"schedule must have {count} numbers after {kind}, as in beta=linear:0.1:1:30%, "
                f"but got {spec!r}."
            ) from None
        on_head = not hasattr(loss, attribute) and hasattr(head, attribute)
        module = head if owner == "head" or (not owner and on_head) else loss
        try:
            made.append(make(module, attribute, *values))
        except AttributeError as error:  # it names the attributes that there are
            raise ValueError(f"schedule {spec!r}: {error}") from None
    return Schedules(made)


def _steps(text: str, total: int) -> int:
    if text.endswith("%"):
        share = float(text[:-1]) / 100
        if not 0 < share <= 1:
            raise ValueError
        return max(1, round(share * total))
    return int(text)
