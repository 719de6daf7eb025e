"""Argument checks, kept apart from the mathematics.

Every check raises the exception type that ``F.cross_entropy`` raises for the same mistake, with
one sentence that names the argument, its value and what is allowed. Checks that must look at
values only look where that is free: not while compiling, not inside ``torch.func`` transforms,
and not on accelerators, where a look would stall the queue.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import operator
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from softmargin import _plain_checks
from softmargin._plain_checks import LARGE as LARGE
from softmargin._plain_checks import check_choice as check_choice  # with "as": for others, too
from softmargin._plain_checks import check_count as check_count
from softmargin._plain_checks import check_flag as check_flag

REDUCTIONS = ("none", "mean", "sum")
ROUNDING = 1e-3  # what mixing targets in half precision, or a numerical derivative, may take away
P = ParamSpec("P")
R = TypeVar("R")
DIVERGENCES = ("symmetric", "uniform_to_logits", "logits_to_uniform")


def no_weight_in_its_place(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse a tensor of several values where ``cross_entropy`` has its ``weight``.

    That is right after input and target, or first in a criterion's constructor, where a loss of
    this library has a setting of its own.
    """
    names = list(inspect.signature(function).parameters)
    place = 1 if names[0] == "self" else 2
    name = names[place]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = args[place] if len(args) > place else None
        if isinstance(given, Tensor) and given.ndim:
            per_class = "beta=... for one β per class, or " if name == "beta" else ""
            raise TypeError(
                f"{name} must not be given by position as a tensor of shape "
                f"{tuple(given.shape)}: pass {per_class}weight=... for class weights."
            )
        return function(*args, **kwargs)

    return checked


def value_range(tensor: Tensor) -> tuple[float, float] | None:
    """Return the smallest and largest value, or None where looking at values is not free."""
    if torch.compiler.is_compiling() or tensor.device.type != "cpu" or not tensor.numel():
        return None
    if torch._C._functorch.is_batchedtensor(tensor):  # trying costs more than the loss itself
        return None
    try:
        if not tensor.ndim:
            value = tensor.item()
            return value, value
        lowest, highest = tensor.detach().aminmax()
        return lowest.item(), highest.item()
    except RuntimeError:  # inside torch.func.vmap, or a fake tensor
        return None


def known_within(tensor: Tensor, low: float, high: float) -> bool:
    """Whether all values are known to lie between two numbers, so that limits need no care."""
    extremes = value_range(tensor)
    return extremes is not None and low < extremes[0] and extremes[1] < high


def check_number(
    name: str,
    value: float,
    *,
    above: float = 0.0,
    inclusive: bool = False,
    below: float = math.inf,
) -> None:
    """Raise unless ``value`` is a finite number above (or at) one bound and below the other."""
    if not torch.compiler.is_compiling():  # else it may be symbolic: do not guard on its value
        _plain_checks.check_number(name, value, above=above, inclusive=inclusive, below=below)


def check_setting(
    name: str,
    value: float | Tensor,
    num_classes: int | None = None,
    *,
    above: float = 0.0,
    inclusive: bool = False,
    below: float = math.inf,
) -> None:
    """Check a number, a 0-d tensor, or (where ``num_classes`` is given) one value per class."""
    if not isinstance(value, Tensor):
        if type(value) is float and not torch.compiler.is_compiling() and above < value < below:
            return None  # by far the most
        return check_number(name, value, above=above, inclusive=inclusive, below=below)
    if not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, but got {value.dtype}.")
    per_class = num_classes is not None and value.ndim == 1 and value.shape[0] == num_classes
    if value.ndim and not per_class:
        allowed = "()" if num_classes is None else f"() or ({num_classes},)"
        raise ValueError(f"{name} must have shape {allowed}, but got {tuple(value.shape)}.")
    if extremes := value_range(value):
        for number in extremes if value.ndim else extremes[:1]:  # NaN is both
            check_number(name, number, above=above, inclusive=inclusive, below=below)


def check_tensor(name: str, value: Tensor) -> None:
    """Raise ``TypeError`` unless ``value`` is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a Tensor, but got {type(value).__name__}.")


def check_fit(input: Tensor, target: Tensor, name: str = "input") -> int:
    """Check that logits and target belong together; return the dimension of the classes.

    ``name`` is what the caller calls the logits.
    """
    check_tensor(name, input)
    check_tensor("target", target)
    if not input.is_floating_point():
        raise NotImplementedError(f"{name} must be floating-point logits, but got {input.dtype}.")
    if input.ndim == 0:
        raise RuntimeError(f"{name} must have shape (C), (N, C) or (N, C, d1, ...), but got ().")
    dim = 0 if input.ndim == 1 else 1
    if input.shape[dim] < 2:
        raise ValueError(
            f"{name} must hold at least 2 classes in dimension {dim}, "
            f"but got {input.shape[dim]} in shape {tuple(input.shape)}."
        )
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                f"target must be floating-point class probabilities when its shape is {name}'s, "
                f"but got {target.dtype}."
            )
        return dim
    expected = input.shape[:dim] + input.shape[dim + 1 :]
    if target.shape != expected and not (input.ndim == 1 and target.shape == (1,)):
        # torch raises ValueError where batch sizes differ and RuntimeError for the other shapes
        batches_differ = dim == 0 or target.ndim == 0 or target.shape[0] != input.shape[0]
        raise (ValueError if batches_differ else RuntimeError)(
            f"target must have shape {tuple(expected)} (classes) or {tuple(input.shape)} "
            f"(probabilities) for this {name}, but got {tuple(target.shape)}."
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(
            f"target must hold class indices as torch.int64 or torch.uint8, got {target.dtype}."
        )
    return dim


def check_classes(target: Tensor, num_classes: int, ignore_index: int | None = None) -> bool:
    """Raise ``IndexError`` if a target names a class that does not exist.

    Returns whether it is known that no target is ``ignore_index``.
    """
    extremes = value_range(target)
    if extremes is None:
        return False
    lowest, highest = extremes
    if lowest < 0 or highest >= num_classes:
        wrong = (target < 0) | (target >= num_classes)
        allowed = f"from 0 to {num_classes - 1}"
        if ignore_index is not None:
            wrong &= target != ignore_index
            allowed += f" or ignore_index {ignore_index}"
        if bool(wrong.any()):
            first = int(target[wrong][0])
            raise IndexError(f"target must hold classes {allowed}, but got {first}.")
    return ignore_index is None or not lowest <= ignore_index <= highest


def check_probabilities(target: Tensor) -> None:
    """Raise ``ValueError`` if probabilities are negative by more than rounding, or a small step."""
    if (extremes := value_range(target)) and extremes[0] < -ROUNDING:
        raise ValueError(f"target must hold probabilities of at least 0, but got {extremes[0]}.")


def check_weight(weight: Tensor, num_classes: int) -> None:
    """Raise unless ``weight`` is a tensor with one weight per class."""
    check_tensor("weight", weight)
    if tuple(weight.shape) != (num_classes,):
        raise RuntimeError(
            f"weight must have shape ({num_classes},), one per class, got {tuple(weight.shape)}."
        )


def check_label_smoothing(value: Any) -> None:
    """Raise ``RuntimeError`` unless the smoothing is a share."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return
    if not torch.compiler.is_compiling() and not isinstance(value, numbers.Real):
        raise TypeError(f"label_smoothing must be a number, but got {value!r}.")
    if not 0.0 <= value <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0, but got {value}.")


def check_ignore_index(value: Any) -> None:
    """Raise ``TypeError`` unless ``value`` could be a target: also one of NumPy, or a tensor."""
    if torch.compiler.is_compiling() or (type(value) is int and -LARGE < value < LARGE):
        return
    try:
        good = not isinstance(value, bool) and abs(operator.index(value)) < LARGE
    except TypeError:
        good = False
    if not good:
        raise TypeError(f"ignore_index must be a whole number of 64 bits, but got {value!r}.")
