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
from softmargin.functional._fused_directions import classes_of, fits, may_run
from softmargin.functional._plain_directions import full_precision, plain_backward
from softmargin.functional.margins import needs_plain_operations

PREPARE, TARGETS, SEPARATE, JOIN = range(4)
"""As ``enum GaussianStep`` in ``call.h`` has them."""

FOR_CENTRE = 64
"""From how many means, at most, the centre is taken: any point among them keeps the digits."""

NAMES = (
    *("features", "mean", "log_variance", "centre", "target", "inputs", "weights", "constant"),
    *("logits", "grad", "of_products", "sums", "of_inputs"),
    *("of_features", "of_mean", "of_log_variance"),
)
"""The addresses of ``struct Gaussian`` in ``call.h``."""

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
    given = {"features": features, "mean": mean, "log_variance": log_variance, "target": classes}
    with full_precision(features), torch.no_grad():
        logits = work.forward(given)
    if logits is None:
        return None
    work.logits = logits
    return _apply(features, mean, log_variance, work)  # type: ignore[no-any-return, no-untyped-call]


class _Work:
    """One head's call of the kernel, and what it leaves for the way back."""

    def __init__(self, margin: float, ignore_index: int, plain: Plain) -> None:
        self.margin, self.ignore_index, self.plain = margin, ignore_index, plain
        self.logits: Tensor | None = None
        self.kept: dict[str, Tensor] = {}

    def forward(self, given: dict[str, Tensor]) -> Tensor | None:
        """Return the logits, or None if they are declined."""
        features, mean = given["features"], given["mean"]
        samples, size = features.shape
        own = {
            "centre": mean[:: -(-len(mean) // FOR_CENTRE)].mean(0),
            "inputs": features.new_empty(samples, 2 * size),
            "weights": features.new_empty(len(mean), 2 * size),
            "constant": features.new_empty(2, len(mean)),
        }
        if self.run(PREPARE, **given, **own):
            return None
        logits = torch.addmm(own["constant"][0], own["inputs"], own["weights"].t())
        self.run(TARGETS, **given, **own, logits=logits)
        del own["constant"]
        self.kept = {"target": given["target"], **own}
        return logits

    def backward(
        self, given: dict[str, Tensor], grad: Tensor, wanted: dict[str, bool]
    ) -> list[Tensor | None]:
        """Return the gradients of features, means and log-variances, as far as they are wanted."""
        features, mean = given["features"], given["mean"]
        inputs, weights, size = given["inputs"], given["weights"], features.shape[1]
        of_products, sums = torch.empty_like(grad), grad.new_empty(len(mean))
        given = given | {"grad": grad, "of_products": of_products, "sums": sums}
        self.run(SEPARATE, **given)
        results: dict[str, Tensor] = {}
        if wanted["features"]:
            given["of_inputs"] = of_products @ weights
            results["of_features"] = torch.empty_like(features)
        if wanted["mean"] or wanted["log_variance"]:
            results["of_mean"] = of_products.t() @ inputs[:, :size]
            results["of_log_variance"] = of_products.t() @ inputs[:, size:]
        self.run(JOIN, **given, **results)
        return [results.get(f"of_{name}") if want else None for name, want in wanted.items()]

    def run(self, step: int, **tensors: Tensor) -> int:
        """Call the kernel for one step."""
        found = (tensors.get(name) for name in NAMES)
        (samples, size), classes = tensors["features"].shape, len(tensors["mean"])
        packed = library.GAUSSIAN.pack(
            *(0 if each is None else each.data_ptr() for each in found),
            *(samples, classes, size, self.ignore_index, self.margin, step),
            torch.get_num_threads() if samples * classes >= _fused.WORTH_THREADS else 1,
            *(_fused.instructions, 0),
        )
        assert _fused.kernel is not None
        return _fused.kernel.gaussian(packed)


class _Gaussian(torch.autograd.Function):
    """Hands over what the kernel has computed already."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, mean: Tensor, log_variance: Tensor, work: _Work
    ) -> Tensor:
        assert work.logits is not None
        logits, work.logits = work.logits, None
        ctx.save_for_backward(features, mean, log_variance, *work.kept.values())
        ctx.names = ("features", "mean", "log_variance", *work.kept)
        ctx.work, work.kept = work, {}
        return logits

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        given = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        work: _Work = ctx.work
        grad = grad.contiguous()
        plain = torch.is_grad_enabled() or _fused.kernel is None or needs_plain_operations()
        if plain or not fits(grad):
            inputs = given["features"], given["mean"], given["log_variance"]
            return *plain_backward(work.plain, inputs, grad, 3), None
        with full_precision(grad):
            wanted = dict(zip(ctx.names[:3], ctx.needs_input_grad[:3], strict=True))
            return *work.backward(given, grad, wanted), None


_apply = super(torch.autograd.Function, _Gaussian).apply  # as in _fused
