"""Cosines and angles with the compiled kernel: three products of matrices, and a pass beside each.

Features and weights are multiplied as they are. Their lengths and the margin go into a pass over
the products, and on the way back into a pass over the gradient, so that no copy of the weight is
made. With lengths between 1e-9 and 1e9 nothing overflows on the way. All else is declined: other
lengths, types and devices, and every mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.functional import _fused
from softmargin.functional._close_pairs import ClosePairs, angle_at_target, close_pairs
from softmargin.functional._fused_settings import PLAIN
from softmargin.functional._plain_directions import Margin, full_precision, plain_backward
from softmargin.functional.margins import needs_plain_operations

PACK = library.DIRECTIONS.pack  # arguments one by one: a star costs half a microsecond
FORWARD, BACKWARD = range(2)
DECLINED, CLOSE = 1, 2
ROWS = 32
"""As in ``call.h``."""
ZERO = torch.zeros(1, dtype=torch.float32, device="cpu")
"""What products are added to: with two threads that takes less time than products alone."""
MARGINS = {None: 0, "cosine": 1, "monotone": 2, "easy": 3, "none": 4, "multiple": 5}
"""By name, ``enum Margin`` in ``call.h``; three are what ArcFace does beyond π - m."""


class Kind(NamedTuple):
    """Which function of the cosines the logits are.

    ``scale`` is that of cosines, or of angles if ``angles``; 0 stands for the features' length.
    ``margin`` is None, one of MARGINS, with its ``amount``, and ``function`` is the same margin in
    PyTorch's operations, for targets whose angle the cosine does not resolve.
    """

    scale: float
    angles: bool = False
    margin: str | None = None
    amount: float = 0.0
    function: Margin | None = None
    multiple: int = 1
    anneal: float = 0.0
    ignore_index: int = -1


Plain = Callable[[Tensor, Tensor], Tensor]
"""(features, weight) -> the same logits in PyTorch's operations."""


def logits_of(
    features: Tensor, weight: Tensor, target: Tensor | None, kind: Kind, plain: Plain
) -> Tensor | None:
    """Return logits of shape (N, C), or None where the kernel declines.

    ``target`` holds N classes; what is not a class is declined.
    """
    if not may_run(features) or not (fits(features) and fits(weight)):
        return None
    if target is not None and (target := classes_of(target, len(features))) is None:
        return None
    work = _Work(target, kind, plain)
    with full_precision(features), torch.no_grad():
        logits, cosines = work.forward(features, weight)
    if logits is None or not (features.requires_grad or weight.requires_grad):
        return logits
    work.results = logits, cosines
    return _apply(features, weight, work)  # type: ignore[no-any-return, no-untyped-call]


def may_run(features: Tensor) -> bool:
    """Whether there is a kernel, and nobody looks on."""
    if needs_plain_operations() or _fused.kernel is None or features.ndim != 2:
        return False
    return not torch._C._len_torch_dispatch_stack() and torch._C._get_tracing_state() is None


def fits(matrix: Tensor) -> bool:
    """Whether the kernel can read a matrix."""
    return (
        type(matrix) in PLAIN
        and matrix.dtype is torch.float32
        and matrix.is_cpu
        and matrix.layout is torch.strided
        and matrix.is_contiguous()
        and not matrix.is_neg()
        and matrix.numel() > 0
    )


def classes_of(target: Tensor, samples: int) -> Tensor | None:
    """Return targets of so many samples as the kernel can read them, or None."""
    if type(target) is not Tensor or not target.is_cpu or target.layout is not torch.strided:
        return None
    if target.shape not in ((samples,), (samples, 1)):
        return None
    if target.dtype is torch.uint8:
        target = target.long()
    return target if target.dtype is torch.int64 and target.is_contiguous() else None


class _Work:
    """One head's call of the kernel, and what it leaves for the way back."""

    __slots__ = (
        "close",
        "kind",
        "lengths",
        "of_angle",
        "plain",
        "results",
        "target",
    )

    def __init__(self, target: Tensor | None, kind: Kind, plain: Plain) -> None:
        self.target, self.kind, self.plain = target, kind, plain
        self.close: ClosePairs | None = None
        self.of_angle: float | Tensor = kind.scale
        self.results: tuple[Tensor, Tensor] | None = None

    def forward(self, features: Tensor, weight: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return the logits, or None if they are declined, and the cosines times their size."""
        cosines = torch.addmm(ZERO, features, weight.t())
        logits = torch.empty_like(cosines) if self.kind.angles else cosines
        samples, classes = cosines.shape
        own = 0 if self.target is None else 3 * samples
        self.lengths = features.new_empty(samples + classes + own)
        status = self.run(
            FORWARD,
            features,
            weight,
            cosines,
            self.target,
            logits.data_ptr() if self.kind.angles else 0,
        )
        if status == DECLINED:
            return None, cosines
        if status == CLOSE:
            self.mend_close(features, weight, logits)
        return logits, cosines

    def mend_close(self, features: Tensor, weight: Tensor, logits: Tensor) -> None:
        """Set the logits of targets whose angle the cosine does not resolve."""
        assert self.target is not None
        samples, classes = logits.shape
        index = self.index(self.target)
        own, slope, _ = self.lengths[samples + classes :].view(3, -1, 1)
        self.close = close_pairs(features, weight, index, own)
        if self.close is None:
            return
        value, scale = angle_at_target(own, self.close), self.kind.scale
        if self.kind.function is not None:
            value, of_angle = self.kind.function(value, torch.tensor(self.kind.amount))
            self.of_angle = of_angle * scale
        logits.scatter_(-1, index, (value * scale).to(logits.dtype))
        slope.index_fill_(0, self.close.samples, 0.0)  # their gradients go past the cosines

    def index(self, target: Tensor) -> Tensor:
        """Return the targets as (N, 1), class 0 for ignored ones."""
        index = target.view(-1, 1)
        return index.masked_fill(index == self.kind.ignore_index, 0)

    def backward(
        self,
        features: Tensor,
        weight: Tensor,
        cosines: Tensor,
        target: Tensor | None,
        grad: Tensor,
        wanted: list[bool],
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of features and weight, as far as they are wanted."""
        samples, classes = cosines.shape
        of_products = torch.empty_like(cosines)
        sums = features.new_empty(-(-samples // ROWS), classes)
        of_x = torch.empty_like(features) if wanted[0] else None
        of_w = torch.empty_like(weight) if wanted[1] else None
        self.run(
            BACKWARD,
            features,
            weight,
            cosines,
            target,
            cosines.data_ptr() if self.kind.angles else 0,  # not read: that there are some
            grad.data_ptr(),
            of_products.data_ptr(),
            sums.data_ptr(),
            0 if of_x is None else of_x.data_ptr(),
            0 if of_w is None else of_w.data_ptr(),
        )
        if of_x is not None:
            of_x.addmm_(of_products, weight)
        if of_w is not None:
            of_w.addmm_(of_products.t(), features)
        if self.close is not None and target is not None:
            of_angle = grad.gather(-1, self.index(target)) * self.of_angle
            self.close.add_backward(of_x, of_w, features, weight, of_angle)
        return of_x, of_w

    def run(
        self,
        step: int,
        features: Tensor,
        weight: Tensor,
        cosines: Tensor,
        target: Tensor | None,
        angles: int,
        grad: int = 0,
        of_products: int = 0,
        sums: int = 0,
        of_x: int = 0,
        of_w: int = 0,
    ) -> int:
        """Call the kernel for one step; what only one step needs is given by its address."""
        kind, (samples, classes) = self.kind, cosines.shape
        inverses = self.lengths.data_ptr()  # of samples, of classes, and then three per sample
        own = inverses + 4 * (samples + classes)
        assert _fused.kernel is not None
        return _fused.kernel.directions(
            PACK(
                features.data_ptr(),
                weight.data_ptr(),
                cosines.data_ptr(),
                angles,
                0 if target is None else target.data_ptr(),
                inverses,
                inverses + 4 * samples,
                own,
                own + 4 * samples,
                own + 8 * samples,
                grad,
                of_products,
                sums,
                of_x,
                of_w,
                samples,
                classes,
                features.shape[1],
                kind.ignore_index,
                kind.scale,
                kind.amount,
                kind.anneal,
                step,
                MARGINS[kind.margin],
                kind.multiple,
                torch.get_num_threads() if samples * classes >= _fused.WORTH_THREADS else 1,
                _fused.instructions,
                0,
            )
        )


class _Directions(torch.autograd.Function):
    """Hands over what the kernel has computed already."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, work: _Work) -> Tensor:
        assert work.results is not None
        (logits, cosines), work.results = work.results, None
        ctx.save_for_backward(features, weight, cosines, work.target)
        ctx.work, work.target = work, None
        return logits

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, cosines, target = ctx.saved_tensors
        work: _Work = ctx.work
        grad = grad.contiguous()
        plain = torch.is_grad_enabled() or _fused.kernel is None or needs_plain_operations()
        if plain or not fits(grad):
            return *plain_backward(work.plain, (features, weight), grad), None
        with full_precision(features):
            wanted = ctx.needs_input_grad
            found = work.backward(features, weight, cosines, target, grad, wanted)
        return *found, None


_apply = super(torch.autograd.Function, _Directions).apply  # as in _fused_loss
