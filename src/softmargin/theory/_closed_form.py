"""How a formula on tensors takes numbers, arrays and tensors, and refuses what does not fit."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeAlias

import numpy as np
import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.functional import margins
from softmargin.functional._checks import LARGE, check_number, value_range

Value: TypeAlias = Any
"""A number, an array or a tensor; the result's kind follows the arguments' (softmargin.theory)."""

# what an argument may be, by its name
PASSED_ON = ("target", "divergence")
PROBABILITIES = ("p", "p_max", "q")
LOWER_BOUNDS = {"beta": 0.0, "gap": 0.0, "scale": 0.0, "num_classes": 2.0, "x": 0.0}
BOUND_INCLUDED = ("num_classes", "x")

# what an argument is, by its name, in the docstrings that do not say it themselves
ARGUMENTS = {
    **margins.MARGIN_ARGUMENTS,
    "p": "the target's probability, from 0 to 1.",
    "beta": "gradient decay factor above 0.",
    "p_max": "end of the range of confidence, from 0 to 1.",
    "z": "the target's logit; the others are -z/(m - 1).",
    "num_classes": "the number of classes, m or C, of at least 2.",
    "xi": "by how much the other classes, plus a bias, are ahead of the target.",
    "q": "the first class's share, from 0 to 1.",
    "divergence": "one of the three names above.",
    "x": "finite, of at least 0.",
    "scale": "s above 0.",
    "gap": "m̃ above 0: the wrong classes' angle less the target's, in radians.",
}

P = ParamSpec("P")


def closed_form(formula: Callable[P, Value]) -> Callable[P, Value]:
    """Let a formula on tensors take and return any :data:`Value`, and check it by its name."""
    signature = inspect.signature(formula)

    @functools.wraps(formula)
    def convert(*args: P.args, **kwargs: P.kwargs) -> Value:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = [value for value in bound.arguments.values() if isinstance(value, Tensor)]
        dtype = _common_dtype(given)
        compute = torch.float32 if dtype in margins.HALF else dtype
        device = given[0].device if given else None
        for name, value in bound.arguments.items():
            if name not in PASSED_ON:
                tensor = value if isinstance(value, Tensor) else _tensor(name, value)
                if tensor.is_complex():
                    raise TypeError(f"{name} must hold real numbers, but got {tensor.dtype}.")
                bound.arguments[name] = converted = tensor.to(device=device, dtype=compute)
                _check(name, tensor, converted)
        _check_shapes(bound.arguments)
        result = formula(*bound.args, **bound.kwargs)
        if given:
            return result.to(dtype)
        return result.numpy() if result.ndim else result.item()

    if "Args:" not in (formula.__doc__ or ""):
        document_arguments(ARGUMENTS)(convert)
    return convert


def _common_dtype(tensors: list[Tensor]) -> torch.dtype:
    """Return the floating-point dtype to answer in. As in torch, 0-d tensors follow the others."""
    dtypes = [tensor.dtype for tensor in tensors if tensor.ndim] or [t.dtype for t in tensors]
    dtype = functools.reduce(torch.promote_types, dtypes) if dtypes else torch.float64
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _tensor(name: str, value: Value) -> Tensor:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) >= LARGE:
            raise ValueError(f"{name} must be given as a float if it is so large, but got {value}.")
        return torch.tensor(float(value), dtype=torch.float64)  # torch.compile can trace this
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number, an array or a tensor, but got {value!r}.")
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


def _check(name: str, given: Tensor, converted: Tensor) -> None:
    """Raise unless numbers are allowed as they are given, and as the formula takes them."""
    taken = value_range(converted) or ()
    for number, rounded in zip(value_range(given) or (), taken, strict=False):  # NaN is both
        if name in PROBABILITIES and not 0 <= number <= 1:
            raise ValueError(f"{name} must be between 0 and 1, but got {number}.")
        if name in LOWER_BOUNDS:
            least, included = LOWER_BOUNDS[name], name in BOUND_INCLUDED
            check_number(name, number, above=least, inclusive=included)
            if not (math.isfinite(rounded) and (rounded > least or included)):
                raise ValueError(
                    f"{name} must be a number that {converted.dtype} can hold, but got {number}."
                )


def _check_shapes(arguments: Mapping[str, Any]) -> None:
    """Raise unless the arguments of a formula on single numbers fit together."""
    if "logits" in arguments:
        return
    shapes = {n: tuple(v.shape) for n, v in arguments.items() if isinstance(v, Tensor)}
    try:
        torch.broadcast_shapes(*shapes.values())  # type: ignore[no-untyped-call]
    except RuntimeError:
        given = ", ".join(map(str, shapes.values()))
        names = " and ".join(shapes)
        raise ValueError(f"{names} must have shapes that broadcast, but got {given}.") from None
