"""Passes of the compiled kernel over matrices, beside products of features and class weights.

All tensors are contiguous, of float32, and on the CPU; ``fit`` says whether they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin._kernel import library
from softmargin.functional import _fused

LENGTHS, SPREAD, COLLECT, AWAY = range(4)
"""As ``enum Step`` in ``call.h`` has them."""


def fit(*tensors: Tensor) -> bool:
    """Whether there is a kernel, and these are matrices that it can read."""
    return _fused.kernel is not None and all(
        type(each) in _fused.PLAIN
        and each.dtype is torch.float32
        and each.is_cpu
        and each.layout is torch.strided
        and each.is_contiguous()
        and not each.is_neg()
        and each.numel() > 0
        for each in tensors
    )


def inverse_lengths(vectors: Tensor) -> Tensor | None:
    """Return 1/‖v‖ of each row, or None if one is shorter than 1e-9 or longer than 1e9."""
    out = torch.empty(len(vectors))
    return out if _run(LENGTHS, vectors, left=vectors, out=out) else None


def spread(
    products: Tensor,
    of_rows: Tensor | None,
    of_columns: Tensor,
    index: Tensor | None = None,
    angle: float | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Multiply products by factors of rows and columns, in their place.

    Returns:
        the entries at ``index``, of shape (N, 1), and ``angle`` times the arccosines of all, as
        far as they are asked for.
    """
    own = None if index is None else torch.empty(len(products), 1)
    angles = None if angle is None else torch.empty_like(products)
    factors = {"of_rows": of_rows, "of_columns": of_columns}
    results = {"out": products, "own": own, "angles": angles}
    _run(SPREAD, products, angle, index=index, **factors, **results)
    return own, angles


def collect(
    grad: Tensor,
    logits: Tensor,
    of_rows: Tensor | None,
    of_columns: Tensor,
    own: tuple[Tensor, Tensor, Tensor] | None = None,
    angle: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gradient times factors of rows and columns, and Σ gradient·logits of each column.

    Args:
        grad: the gradient of the logits.
        logits: what they are, or cosines if they are angles.
        of_rows: one factor per row, or None for 1.
        of_columns: one factor per column.
        own: an index of one column for each row, and what is taken there as gradient and logit.
        angle: if given, the gradient is that of so many times the arccosines of ``logits``.
    """
    out, sums = torch.empty_like(logits), torch.empty(logits.shape[1])
    index, own_left, own_right = own or (None, None, None)
    factors = {"of_rows": of_rows, "of_columns": of_columns}
    places = {"index": index, "own_left": own_left, "own_right": own_right}
    _run(COLLECT, logits, angle, left=grad, right=logits, out=out, sums=sums, **factors, **places)
    return out, sums


def add_along(rows: Tensor, vectors: Tensor, amounts: Tensor) -> None:
    """Add to each row so many times the vector of the same row."""
    _run(AWAY, rows, left=vectors, out=rows, own_left=amounts)


def take_off_along(rows: Tensor, vectors: Tensor, inverse: Tensor) -> None:
    """Take off each row what lies along the vector of the same row, of a known inverse length."""
    _run(AWAY, rows, left=vectors, out=rows, of_rows=inverse)


NAMES = (
    *("left", "right", "out", "angles", "of_rows", "of_columns", "index", "own"),
    *("own_left", "own_right", "sums"),
)


def _run(step: int, matrix: Tensor, angle: float | None = None, **tensors: Tensor | None) -> bool:
    given = [tensors.get(name) for name in NAMES]
    many = matrix.numel() >= _fused.WORTH_THREADS
    packed = library.PASS.pack(
        *(0 if each is None else each.data_ptr() for each in given),
        *(*matrix.shape, 0.0 if angle is None else angle, step, angle is not None),
        *(torch.get_num_threads() if many else 1, _fused.instructions),
    )
    assert _fused.kernel is not None
    return _fused.kernel.one_pass(packed) == 0
