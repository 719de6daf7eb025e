"""One Gaussian per class with the compiled kernel: products of matrices, and a pass beside each.

The logits are inner products of (x, x²) with weights made of means and variances. The target's own
is computed from its distance, where the products would cancel; so is its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.functional import _fused
from softmargin.functional._fused_directions import ROWS, ZERO, classes_of, fits, may_run
from softmargin.functional._plain_directions import full_precision, plain_backward
from softmargin.functional.margins import needs_plain_operations

PREPARE, TARGETS, SEPARATE, JOIN = range(4)
"""As ``enum GaussianStep`` in ``call.h`` has them."""

FOR_CENTRE = 64
"""From how many means, at most, the centre is taken: any point among them keeps the digits."""

PACK = library.GAUSSIAN.pack
ADDRESSES = 16
LOGITS, GRAD, OF_PRODUCTS, SUMS, OF_INPUTS, OF_FEATURES, OF_MEAN, OF_LOG_VARIANCE = range(8, 16)
"""How many addresses ``struct Gaussian`` in ``call.h`` has, and where those of results are."""

GAP = 16
"""Numbers between rows of inputs and weights: where rows are 4096 bytes apart, products of matrices
may take half as long again, since all falls into the same few places of the caches."""

Plain = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(features, means, log-variances) -> the same logits in PyTorch's operations."""


def gaussian_logits(
    features: Tensor,
    mean: Tensor,
    log_variance: Tensor,
    target: Tensor,
    margin: float,
    ignore_index: int,
    plain: Plain,
) -> Tensor | None:
    """Return log-densities with a margin at the targets, or None where the kernel declines."""
    if not may_run(features) or not all(map(fits, (features, mean, log_variance))):
        return None
    classes = classes_of(target, len(features))
    if classes is None:
        return None
    work = _Work(margin, ignore_index, plain)
    with full_precision(features), torch.no_grad():
        logits = work.forward(features, mean, log_variance, classes)
    if logits is None:
        return None
    work.logits = logits
    return _apply(features, mean, log_variance, work)  # type: ignore[no-any-return, no-untyped-call]


class _Work:
    """One head's call of the kernel, and what it leaves for the way back."""

    def __init__(self, margin: float, ignore_index: int, plain: Plain) -> None:
        self.margin, self.ignore_index, self.plain = margin, ignore_index, plain
        self.logits: Tensor | None = None
        self.kept: tuple[Tensor, ...] = ()

    def forward(
        self, features: Tensor, mean: Tensor, log_variance: Tensor, target: Tensor
    ) -> Tensor | None:
        """Return the logits, or None if they are declined."""
        (samples, size), classes = features.shape, len(mean)
        centre = mean[:: -(-classes // FOR_CENTRE)].mean(0)
        inputs = features.new_empty(samples, 2 * size + GAP)
        weights = features.new_empty(classes, 2 * size + GAP)
        constant = features.new_empty(2, classes)
        call = addresses(features, mean, log_variance, centre, target, inputs, weights, constant)
        if self.run(PREPARE, call, samples, classes, size):
            return None
        both = slice(2 * size)
        logits = torch.addmm(constant[0], inputs[:, both], weights[:, both].t())
        call[LOGITS] = logits.data_ptr()
        self.run(TARGETS, call, samples, classes, size)
        self.kept = target, centre, inputs, weights
        return logits

    def backward(
        self,
        saved: tuple[Tensor, ...],
        grad: Tensor,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of features, means and log-variances, as far as they are wanted."""
        features, mean, log_variance, target, centre, inputs, weights = saved
        (samples, size), classes = features.shape, len(mean)
        of_products = torch.empty_like(grad)
        sums = grad.new_empty(-(-samples // ROWS), classes)
        call = addresses(features, mean, log_variance, centre, target, inputs, weights)
        call[GRAD], call[OF_PRODUCTS] = grad.data_ptr(), of_products.data_ptr()
        call[SUMS] = sums.data_ptr()
        self.run(SEPARATE, call, samples, classes, size)
        of_features = of_inputs = of_mean = of_log_variance = None
        if wanted[0]:
            of_inputs = torch.addmm(ZERO, of_products, weights[:, : 2 * size])
            of_features = torch.empty_like(features)
            call[OF_INPUTS], call[OF_FEATURES] = of_inputs.data_ptr(), of_features.data_ptr()
        if wanted[1] or wanted[2]:
            by_class = of_products.t()
            of_mean = torch.addmm(ZERO, by_class, inputs[:, :size])
            of_log_variance = torch.addmm(ZERO, by_class, inputs[:, size : 2 * size])
            call[OF_MEAN], call[OF_LOG_VARIANCE] = of_mean.data_ptr(), of_log_variance.data_ptr()
        self.run(JOIN, call, samples, classes, size)
        return (
            of_features,
            of_mean if wanted[1] else None,
            of_log_variance if wanted[2] else None,
        )

    def run(self, step: int, call: list[int], samples: int, classes: int, size: int) -> int:
        """Call the kernel for one step."""
        threads = torch.get_num_threads() if samples * classes >= _fused.WORTH_THREADS else 1
        packed = PACK(
            *call,
            samples,
            classes,
            size,
            2 * size + GAP,
            self.ignore_index,
            self.margin,
            step,
            threads,
            _fused.instructions,
            0,
        )
        assert _fused.kernel is not None
        return _fused.kernel.gaussian(packed)


def addresses(*tensors: Tensor) -> list[int]:
    """Return the addresses of a call, 0 for what is not there yet."""
    found = [each.data_ptr() for each in tensors]
    return found + [0] * (ADDRESSES - len(found))


class _Gaussian(torch.autograd.Function):
    """Hands over what the kernel has computed already."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, mean: Tensor, log_variance: Tensor, work: _Work
    ) -> Tensor:
        assert work.logits is not None
        logits, work.logits = work.logits, None
        ctx.save_for_backward(features, mean, log_variance, *work.kept)
        ctx.work, work.kept = work, ()
        return logits

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors
        work: _Work = ctx.work
        grad = grad.contiguous()
        plain = torch.is_grad_enabled() or _fused.kernel is None or needs_plain_operations()
        if plain or not fits(grad):
            return *plain_backward(work.plain, saved[:3], grad, 3), None
        with full_precision(grad):
            return *work.backward(saved, grad, ctx.needs_input_grad[:3]), None


_apply = super(torch.autograd.Function, _Gaussian).apply  # as in _fused_loss
