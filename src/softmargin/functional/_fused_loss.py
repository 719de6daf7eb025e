"""Losses by the compiled kernel: loss and gradient in one pass over each row of logits.

What the kernel cannot do, it declines, and the loss is computed by PyTorch's own operations: other
devices, compilers and function transforms, learned settings, masked classes in some losses, and
every mistake, so that there is one place that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.functional import _fused, _triton
from softmargin.functional._fused import INDICES, MOST_KNOWN, ONE, ROOM, known, places, run, usual
from softmargin.functional._fused_settings import PLAIN, Given, settle
from softmargin.functional.margins import HALF, needs_plain_operations

PACK_ADDRESSES = library.ADDRESSES.pack
LOGITS, UPSTREAM, LOSS, GRADIENT, OF_LOGITS, OF_GRADIENT = 0, 4, 5, 6, 10, 16
"""Places in the layout of a call: addresses, and where three strides begin."""

Again = Callable[[Tensor], Tensor]
"""The loss as a function of the logits, in PyTorch's operations."""


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

    def repacked(self, changed: dict[int, Any]) -> bytes:
        """Return the same call with other values in some places of the layout."""
        fields = list(library.LAYOUT.unpack(self.packed))
        for place, value in changed.items():
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
        if _fused.kernel is None or torch.is_grad_enabled() or needs_plain_operations():
            return _differentiate(call, ctx.saved_tensors[0], upstream), None
        gradient = call.gradient
        # a loss's own backward pass is by far the most: nothing is to be scaled, and nothing asked
        if gradient is not None and not upstream.ndim and type(upstream) in PLAIN:
            try:
                if upstream.item() == 1.0:
                    call.gradient = None  # it is given away: once
                    return gradient, None
            except RuntimeError:  # it has no value, or stands for several
                pass
        return _scaled(call, ctx.saved_tensors[0], upstream), None


_apply = super(torch.autograd.Function, _Fused).apply  # what handles function transforms is above


def _scaled(call: Call, input: Tensor, upstream: Tensor) -> Tensor:
    """Return the gradient times that of the loss."""
    address = _address(upstream := upstream.contiguous())
    if _fused.kernel is None or address is None:
        return _differentiate(call, input, upstream)
    gradient, call.gradient = call.gradient, None
    if gradient is None:
        return _gradient_again(call, input, upstream)
    _fused.kernel.scale(call.repacked({UPSTREAM: address, GRADIENT: gradient.data_ptr()}))
    return gradient


def _address(tensor: Tensor) -> int | None:
    """Return where the values are, or None if they are nowhere."""
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
    logits, of_logits = places(input)
    gradient, of_gradient = places(torch.empty_like(input))
    at_once = input.dtype in HALF
    changed = dict(enumerate(of_logits, OF_LOGITS)) | dict(enumerate(of_gradient, OF_GRADIENT))
    changed |= {LOGITS: logits.data_ptr(), LOSS: 0, GRADIENT: gradient.data_ptr()}
    changed[UPSTREAM] = upstream.data_ptr() if at_once else 0
    if _fused.kernel is None or _fused.kernel.loss(call.repacked(changed)):
        return _differentiate(call, input, upstream)
    if not at_once:
        _fused.kernel.scale(call.repacked(changed | {UPSTREAM: upstream.data_ptr()}))
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
    lam: float | Tensor | None = None,
    divergence: str = "",
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
        lam: λ of a divergence, if there is one.
        divergence: its name.
        compensate: whether to make up for the small gradients of a large β.
    """
    followed = (
        needs_plain_operations()
        or _fused.kernel is None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None  # torch.jit.trace
    )
    # From one batch to the next little changes but the addresses: the rest is packed once. To find
    # all of it anew takes longer than the logits of a small batch do.
    key = packed = gradient = None
    if (
        not followed
        and weight is None
        and type(input) in PLAIN
        and type(target) in PLAIN
        and type(setting) is float  # numbers of other types may be equal, and not be the same
        and type(tau) is float
        and type(label_smoothing) is float
        and type(ignore_index) is int
        and type(reduction) is str
        and (lam is None or type(lam) is float)
        and input.is_cpu
        and target.is_cpu
        and getattr(input, ROOM, None) is None
    ):
        try:
            numbers = setting, tau, label_smoothing, ignore_index, lam
            learning = input.requires_grad and torch.is_grad_enabled()
            of_input = input.dtype, input.shape, input.stride(), learning
            of_target = target.dtype, target.shape, target.stride()
            threads = torch.get_num_threads()
            words = form, reduction, divergence
            key = words, numbers, compensate, of_input, of_target, threads
            constants = known.get(key)
            if constants is not None and not input.is_neg():
                found, to = torch.empty_like(ONE[input.dtype]), 0
                if learning:
                    gradient = torch.empty_like(input)
                    to = gradient.data_ptr()
                from_input, from_target = input.data_ptr(), target.data_ptr()
                addresses = from_input, from_target, 0, 0, 0, found.data_ptr(), to
                packed = PACK_ADDRESSES(*addresses) + constants
        except RuntimeError:  # a tensor without strides, or without values of its own
            key = None
    if packed is None:
        shared = tau, weight, ignore_index, reduction, label_smoothing
        given = Given(form, setting, input, target, *shared, lam, divergence, compensate)
        return _anew(given, again, followed, key)
    if _fused.kernel is None or _fused.kernel.loss(packed):
        return again(input)
    if gradient is None:
        return found
    return _apply(input, Call(packed, found, gradient, again, (input, target)))  # type: ignore[no-any-return, no-untyped-call]


def _anew(given: Given, again: Again, followed: bool, key: tuple[Any, ...] | None) -> Tensor:
    """Return a loss of which more than the addresses has to be found.

    ``followed`` says whether somebody looks on at what is done to the logits; the key is what is
    known of the call by, from then on.
    """
    input, target = given.input, given.target
    if followed or not usual(input, target) or input.is_neg():  # memory is not what it says
        if torch.compiler.is_dynamo_compiling():
            from softmargin.functional import _operators  # only compiled code needs it

            if _operators.takes(given):
                return _operators.loss(given)
        return _triton.loss(given, again)
    learning = input.requires_grad and torch.is_grad_enabled()
    settled = settle(given)
    done = None if settled is None else run(input, target, settled, learning)
    if done is None:
        return again(input)
    found, gradient, packed, kept = done
    one_number = given.reduction != "none" and input.ndim == 2 and input.dtype not in HALF
    if key is not None and one_number and target.dtype in INDICES and target.is_contiguous():
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[key] = packed[library.ADDRESSES.size :]
    if not learning:
        return found
    return _apply(input, Call(packed, found, gradient, again, kept))  # type: ignore[no-any-return, no-untyped-call]
