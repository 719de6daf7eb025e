"""The compiled kernel in use, and one call of it for a loss: tensors to addresses and strides.

What the kernel cannot do, it declines, and the caller goes on with PyTorch's own operations.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.functional._criterion import result_dtype
from softmargin.functional._fused_settings import PLAIN, TYPES, Settled
from softmargin.functional.margins import HALF

INDICES = {torch.int64: 4, torch.uint8: 5}
ONE = {dtype: torch.empty((), dtype=dtype, device="cpu") for dtype in TYPES}
"""By dtype, a tensor of the shape of a loss: to make another like it is the quickest way to one."""

ROOM = "_softmargin_room"
"""An attribute of logits that names a tensor of their shape to write the gradient to.

It may be the logits themselves, where nothing else reads them.
"""


class Overwritten(Exception):
    """The kernel has declined, and may have written gradients over some of the logits."""


WORTH_THREADS = 16384
"""Fewer logits than these are done before another thread has woken up."""

kernel, reason = library.load()
instructions = kernel.instructions if kernel is not None else 0

PACK = library.LAYOUT.pack

MOST_KNOWN = 1000
known: dict[tuple[Any, ...], bytes] = {}
"""What follows the addresses in a packed call, by all that it is made of."""


@contextlib.contextmanager
def using(wanted: library.Kernel | None, copy: int | None = None) -> Iterator[None]:
    """Compute with another kernel, or without one, and maybe with other instructions."""
    global kernel, instructions
    before = kernel, instructions
    kernel, instructions = wanted, instructions if copy is None else copy
    known.clear()
    try:
        yield
    finally:
        kernel, instructions = before
        known.clear()


def run(
    input: Tensor,
    target: Tensor,
    settled: Settled,
    learning: bool,
    upstream: Tensor | None = None,
    result: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None, bytes, tuple[Tensor | None, ...]] | None:
    """Call the kernel; return loss, gradient, the packed call and what it needs, None if declined.

    Without the gradient of the loss, ``upstream``, that of half-precision logits has to wait.
    ``result`` is the loss's dtype, if it is not the one that PyTorch would choose now.
    """
    weight, per_class, settings = settled
    dtype, shape = input.dtype, input.shape
    indices = INDICES.get(target.dtype)
    logits: Tensor = input
    # Two dimensions are by far the most. What calls functions, or unpacks into another tuple, takes
    # as long as the logits of a small batch.
    by_row = len(shape) == 2
    if by_row:
        outer, classes = shape
        of_samples, of_classes = input.stride()
        inner, of_places = 1, 0
    else:
        outer, classes, inner = _counts(shape)
        logits, (of_samples, of_classes, of_places) = places(input)
    if indices is None:
        if target.is_neg():  # as for logits; whole numbers never are
            return None
        target, (to_sample, to_class, to_place) = places(target)
        result = result or result_dtype(input, target)
    else:
        target, to_sample, to_class, to_place = target.contiguous(), inner, 0, 1
        result = result or (result_dtype(input, target) if dtype in HALF else dtype)
    if settings[7]:
        loss = torch.empty_like(ONE[result])
    elif indices is None:
        loss = input.new_empty(shape[: len(shape) > 1] + shape[2:], dtype=result)
    else:
        loss = input.new_empty(target.shape, dtype=result)
    gradient, by_sample, by_class, by_place = None, 0, 0, 0
    if learning and (upstream is not None or dtype not in HALF):
        gradient = getattr(input, ROOM, None)
        if gradient is None:
            gradient = torch.empty_like(input)
        if by_row:
            by_sample, by_class = gradient.stride()
        else:
            gradient, (by_sample, by_class, by_place) = places(gradient)
    try:
        packed = PACK(
            logits.data_ptr(),
            target.data_ptr(),
            0 if weight is None else weight.data_ptr(),
            0 if per_class is None else per_class.data_ptr(),
            0 if upstream is None else upstream.data_ptr(),
            loss.data_ptr(),
            0 if gradient is None else gradient.data_ptr(),
            outer,
            classes,
            inner,
            of_samples,
            of_classes,
            of_places,
            to_sample,
            to_class,
            to_place,
            by_sample,
            by_class,
            by_place,
            *settings,
            torch.get_num_threads() if outer * classes * inner >= WORTH_THREADS else 1,
            TYPES[dtype],
            indices or TYPES[target.dtype],
            TYPES[result],
            instructions,
        )
    except RuntimeError:  # a tensor without values of its own
        return None
    if kernel is None or kernel.loss(packed):
        if gradient is not None and gradient.data_ptr() == logits.data_ptr():
            raise Overwritten
        return None
    return loss, gradient, packed, (logits, target, weight, per_class)


def usual(input: Tensor, target: Tensor) -> bool:
    """Whether these are tensors that have an address, belong together, and nobody looks on."""
    if type(input) not in PLAIN or type(target) not in PLAIN:
        return False
    if not (input.is_cpu and target.is_cpu and input.dtype in TYPES):
        return False
    if input.layout is not torch.strided or target.layout is not torch.strided:
        return False
    shape, of_target = input.shape, target.shape
    if not shape or shape[len(shape) > 1] < 2:
        return False
    if target.dtype not in INDICES:
        return of_target == shape and target.dtype in TYPES and not target.requires_grad
    if len(shape) == 2:
        return len(of_target) == 1 and of_target[0] == shape[0]
    return of_target == shape[:1] + shape[2:] if len(shape) > 2 else of_target in ((), (1,))


def _counts(shape: torch.Size) -> tuple[int, int, int]:
    """Return the numbers of samples, of classes, and of places within a sample."""
    if len(shape) == 1:
        return 1, shape[0], 1
    return shape[0], shape[1], math.prod(shape[2:])


def places(tensor: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """Return a tensor with the strides of samples, classes and places, a copy where it has more."""
    strides = tensor.stride()
    if len(strides) == 2:
        return tensor, (strides[0], strides[1], 0)
    if len(strides) == 1:
        return tensor, (0, strides[0], 0)
    shape = tensor.shape
    for i in range(2, len(strides) - 1):
        if strides[i] != strides[i + 1] * shape[i + 1]:
            tensor = tensor.detach().contiguous()
            strides = tensor.stride()
            break
    return tensor, (strides[0], strides[1], strides[-1])
