"""Losses by the compiled kernel: loss and gradient in one pass over each row of logits.

What the kernel cannot do, it declines, and the caller goes on with PyTorch's own operations: other
devices, compilers and function transforms, learned settings, masked classes in some losses, and
every mistake, so that there is one place that says what is wrong.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from softmargin._kernel import library
from softmargin.functional import _triton
from softmargin.functional._checks import LARGE
from softmargin.functional._criterion import result_dtype
from softmargin.functional.divergences import SHARES
from softmargin.functional.margins import HALF, needs_plain_operations

TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
INDICES = {torch.int64: 4, torch.uint8: 5}
ONE = {dtype: torch.empty((), dtype=dtype, device="cpu") for dtype in TYPES}
"""By dtype, a tensor of the shape of a loss: to make another like it is the quickest way to one."""

PLAIN = (Tensor, nn.Parameter)
ROOM = "_softmargin_room"
"""An attribute of logits that names a tensor of their shape to write the gradient to."""

WORTH_THREADS = 32768
"""Fewer logits than these are done before another thread has woken up."""

kernel, reason = library.load()
instructions = kernel.instructions if kernel is not None else 0

LOGITS, UPSTREAM, LOSS, GRADIENT, OF_LOGITS, OF_GRADIENT = 0, 4, 5, 6, 10, 16
"""Places in the layout of a call: addresses, and where three strides begin."""

FORMS = {"decay": 0, "floored": 1, "margin": 1, "focal": 2}
"""By loss, its form in ``call.h``."""

Again = Callable[[Tensor], Tensor]
"""The loss as a function of the logits, in PyTorch's operations."""


@contextlib.contextmanager
def using(wanted: library.Kernel | None, copy: int | None = None) -> Iterator[None]:
    """Compute with another kernel, or without one, and maybe with other instructions."""
    global kernel, instructions
    before = kernel, instructions
    kernel, instructions = wanted, instructions if copy is None else copy
    try:
        yield
    finally:
        kernel, instructions = before


class Call:
    """One call of the kernel: as it was packed, and what must live as long as its addresses do."""

    __slots__ = ("again", "dtype", "gradient", "kept", "loss", "packed")

    def __init__(
        self,
        packed: bytes,
        loss: Tensor,
        gradient: Tensor | None,
        again: Again,
        kept: tuple[Tensor | None, ...],
    ) -> None:
        self.packed, self.again, self.kept, self.dtype = packed, again, kept, loss.dtype
        self.loss: Tensor | None = loss
        self.gradient = gradient

    def repacked(self, places: dict[int, Any]) -> bytes:
        """Return the same call with other values in some places of the layout."""
        fields = list(library.LAYOUT.unpack(self.packed))
        for place, value in places.items():
            fields[place] = value
        return library.LAYOUT.pack(*fields)


class _Fused(torch.autograd.Function):
    """Hands over what the kernel has computed already."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call) -> Tensor:
        ctx.save_for_backward(input)
        ctx.call = call
        loss, call.loss = call.loss, None
        return loss  # type: ignore[return-value]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        call: Call = ctx.call
        address = None
        if not (torch.is_grad_enabled() or kernel is None or needs_plain_operations()):
            address = _address(upstream := upstream.contiguous())
        if address is None or kernel is None:
            return _differentiate(call, ctx.saved_tensors[0], upstream), None
        gradient, call.gradient = call.gradient, None  # it is given away: once
        if gradient is None:
            return _gradient_again(call, ctx.saved_tensors[0], upstream), None
        if upstream.ndim or upstream.item() != 1.0:
            kernel.scale(call.repacked({UPSTREAM: address, GRADIENT: gradient.data_ptr()}))
        return gradient, None


_apply = super(torch.autograd.Function, _Fused).apply  # what handles function transforms is above


def _address(tensor: Tensor) -> int | None:
    """Return where the values are, or None if they are nowhere: a tensor may stand for several."""
    if type(tensor) not in PLAIN or tensor.is_neg():
        return None
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return None


def _differentiate(call: Call, input: Tensor, upstream: Tensor) -> Tensor:
    """Return a gradient that may itself be differentiated or vectorised."""
    with torch.enable_grad():
        loss = call.again(input).to(call.dtype)
    create = torch.is_grad_enabled()
    return torch.autograd.grad(loss, input, upstream, create_graph=create)[0]


def _gradient_again(call: Call, input: Tensor, upstream: Tensor) -> Tensor:
    """Return the gradient from the logits: rounded once, or for one more backward pass."""
    logits, of_logits = _places(input)
    gradient, of_gradient = _places(torch.empty_like(input))
    at_once = input.dtype in HALF
    places = dict(enumerate(of_logits, OF_LOGITS)) | dict(enumerate(of_gradient, OF_GRADIENT))
    places |= {LOGITS: logits.data_ptr(), LOSS: 0, GRADIENT: gradient.data_ptr()}
    places[UPSTREAM] = upstream.data_ptr() if at_once else 0
    if kernel is None or kernel.loss(call.repacked(places)):
        return _differentiate(call, input, upstream)
    if not at_once:
        kernel.scale(call.repacked(places | {UPSTREAM: upstream.data_ptr()}))
    return gradient


def loss(
    form: str,
    setting: float | Tensor,
    input: Tensor,
    target: Tensor,
    tau: float | Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    again: Again,
    *,
    pull: tuple[float | Tensor, str] | None = None,
    compensate: bool = False,
) -> Tensor:
    """Return a loss by the kernel, or by PyTorch's operations where the kernel declines.

    Args:
        form: ``"decay"`` and ``"floored"`` with β, ``"margin"`` with m, ``"focal"`` with γ.
        setting: that number, or one β per class.
        input: the logits.
        target: classes or probabilities.
        tau: temperature.
        weight: one per class.
        ignore_index: the target that does not count.
        reduction: as everywhere.
        label_smoothing: as everywhere.
        again: the same loss of any logits in PyTorch's operations.
        pull: λ and the name of a divergence.
        compensate: whether to make up for the small gradients of a large β.
    """
    if (
        needs_plain_operations()
        or kernel is None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state() is not None  # torch.jit.trace
        or not _usual(input, target)
    ):
        shared = tau, weight, ignore_index, reduction, label_smoothing, again
        return _triton.loss(form, setting, input, target, *shared, pull=pull, compensate=compensate)
    parameter = _parameter(form, setting)
    temperature = tau if type(tau) is float else _number(tau)
    if parameter is None or temperature is None or not 1e-30 < temperature < 1e30:
        return again(input)
    if not _plain_options(ignore_index, reduction, label_smoothing):
        return again(input)
    if compensate and input.dtype in HALF:  # a gradient of such a type is rounded once, at the end
        return again(input)
    soft = target.dtype in TYPES
    if (soft and ignore_index >= 0) or ((soft or label_smoothing) and (compensate or pull)):
        return again(input)
    to_uniform = from_uniform = 0.0
    if pull is not None:
        lam = _number(pull[0])
        if lam is None:
            return again(input)
        to_uniform, from_uniform = (lam * share for share in SHARES[pull[1]])
    per_class = None
    if isinstance(parameter, Tensor):
        per_class, parameter = parameter, 0.0
    if weight is not None or per_class is not None:
        classes = input.shape[0 if input.ndim == 1 else 1]
        weight, good = _weight(weight, classes)
        if not good or (per_class is not None and per_class.shape[0] != classes):
            return again(input)
    settings = (
        *(ignore_index, parameter, temperature, label_smoothing, to_uniform, from_uniform),
        *(FORMS[form], library.REDUCTIONS[reduction], compensate),
    )
    done = _run(input, target, weight, per_class, settings, again)
    return again(input) if done is None else done


def _run(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    per_class: Tensor | None,
    settings: tuple[Any, ...],
    again: Again,
) -> Tensor | None:
    """Call the kernel on checked arguments; return the loss, or None if it declines."""
    dtype, shape, learning = input.dtype, input.shape, input.requires_grad
    indices = INDICES.get(target.dtype)
    counts = (*shape, 1) if len(shape) == 2 else _counts(shape)
    logits, of_logits = _places(input)
    if indices is None:
        target, of_target = _places(target)
        result = result_dtype(input, target)
    else:
        target, of_target = target.contiguous(), (counts[2], 0, 1)
        result = result_dtype(input, target) if dtype in HALF else dtype
    if settings[7]:
        loss = torch.empty_like(ONE[result])
    elif indices is None:
        loss = input.new_empty(shape[: len(shape) > 1] + shape[2:], dtype=result)
    else:
        loss = input.new_empty(target.shape, dtype=result)
    learning = learning and torch.is_grad_enabled()
    gradient, of_gradient = None, (0, 0, 0)
    if learning and dtype not in HALF:
        room = getattr(input, ROOM, None)
        gradient, of_gradient = _places(torch.empty_like(input) if room is None else room)
    many = counts[0] * counts[1] * counts[2] >= WORTH_THREADS
    try:
        packed = library.LAYOUT.pack(
            *(logits.data_ptr(), target.data_ptr()),
            0 if weight is None else weight.data_ptr(),
            0 if per_class is None else per_class.data_ptr(),
            *(0, loss.data_ptr(), 0 if gradient is None else gradient.data_ptr()),
            *(*counts, *of_logits, *of_target, *of_gradient, *settings),
            torch.get_num_threads() if many else 1,
            *(TYPES[dtype], indices or TYPES[target.dtype], TYPES[result], instructions),
        )
    except RuntimeError:  # a tensor without values of its own
        return None
    if kernel is None or kernel.loss(packed):
        return None
    if not learning:
        return loss
    call = Call(packed, loss, gradient, again, (logits, target, weight, per_class))
    return _apply(input, call)  # type: ignore[no-any-return, no-untyped-call]


def _usual(input: Tensor, target: Tensor) -> bool:
    """Whether these are tensors that have an address, belong together, and nobody looks on."""
    if type(input) not in PLAIN or type(target) not in PLAIN:
        return False
    if not (input.is_cpu and target.is_cpu and input.dtype in TYPES):
        return False
    if input.layout is not torch.strided or target.layout is not torch.strided:
        return False
    if input.is_neg() or target.is_neg():  # what is in memory is not what they say
        return False
    shape, of_target = input.shape, target.shape
    if not shape or shape[len(shape) > 1] < 2:
        return False
    if target.dtype not in INDICES:
        return of_target == shape and target.dtype in TYPES and not target.requires_grad
    if len(shape) == 2:
        return len(of_target) == 1 and of_target[0] == shape[0]
    return of_target == shape[:1] + shape[2:] if len(shape) > 2 else of_target in ((), (1,))


def _plain_options(ignore_index: int, reduction: str, label_smoothing: float) -> bool:
    if type(ignore_index) is not int or not -LARGE < ignore_index < LARGE:
        return False
    if type(label_smoothing) not in (float, int) or not 0 <= label_smoothing <= 1:
        return False
    return type(reduction) is str and reduction in library.REDUCTIONS


def _number(setting: float | Tensor) -> float | None:
    """Return a setting as a finite number, or None where it is not one or is to be learned."""
    if isinstance(setting, Tensor):
        if type(setting) not in PLAIN or setting.ndim or not setting.is_cpu:
            return None
        if setting.requires_grad or setting.dtype not in TYPES:
            return None
        setting = setting.item()
    elif type(setting) is not float and type(setting) is not int:
        return None
    return float(setting) if -LARGE < setting < LARGE else None


def _parameter(form: str, setting: float | Tensor) -> float | Tensor | None:
    """Return log β, one per class in float64, or γ; None where there is none to be had."""
    if type(setting) is float and form == "decay":
        return math.log(setting) if 1e-26 < setting < 1e26 else None
    if isinstance(setting, Tensor) and setting.ndim == 1:
        if type(setting) not in PLAIN or setting.dtype not in TYPES or not setting.is_cpu:
            return None
        return None if setting.requires_grad else setting.double().log().contiguous()
    value = _number(setting)
    if value is None or form == "focal":
        return value if value is not None and 0 <= value <= 1e3 else None
    if form == "margin":
        return -value if -60 < value < 60 else None
    return math.log(value) if 1e-26 < value < 1e26 else None


def _weight(weight: Tensor | None, classes: int) -> tuple[Tensor | None, bool]:
    """Return the weights in float64, and whether they are such that the kernel can take them."""
    if weight is None:
        return None, True
    if type(weight) not in PLAIN or weight.shape != (classes,) or not weight.is_cpu:
        return None, False
    if weight.requires_grad or not weight.is_floating_point():
        return None, False
    return weight.double().contiguous(), True


def _counts(shape: torch.Size) -> tuple[int, int, int]:
    """Return the numbers of samples, of classes, and of places within a sample."""
    if len(shape) == 1:
        return 1, shape[0], 1
    return shape[0], shape[1], math.prod(shape[2:])


def _places(tensor: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
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
