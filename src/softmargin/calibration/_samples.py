"""Logits and targets as a fit sees them: checked, and in float64 a few rows at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin.functional._checks import LARGE

Array = Tensor | NDArray[Any]

# float64 per chunk: on a processor the work stays in its cache, an accelerator wants more at once
CHUNK_SIZE = 1 << 16
ACCELERATOR_CHUNK_SIZE = 1 << 24
LARGEST = 1e100  # the fourth power is still a float64
# how far the sum of a row of probabilities may be from 1
SUM_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 1e-2}
DEFAULT_SUM_TOLERANCE = 1e-3
_known_as_logits = ContextVar("known_as_logits", default=False)


class Chunk(NamedTuple):
    """Some rows: logits (n, C), classes (n, 1), float64 weights (n,) with a sum of 1 over all."""

    logits: Tensor
    target: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Samples:
    """The rows that a fit uses, without a copy of them.

    Attributes:
        logits: all logits as they were given, of shape (N, C).
        target: all class indices in int64, of shape (N,).
        weight: one float64 weight per row.
        rows: numbers of the rows that count, or None where all do.

    All but the logits are on the device that computes, see :func:`worker`.
    """

    logits: Tensor
    target: Tensor
    weight: Tensor
    rows: Tensor | None

    @property
    def num_classes(self) -> int:
        """Return C."""
        return self.logits.shape[1]

    @property
    def count(self) -> int:
        """Return how many rows are used."""
        return len(self.target if self.rows is None else self.rows)

    def every(self, step: int) -> Samples:
        """Return every ``step``-th row, for a first guess; weights keep their proportions."""
        rows = self.rows
        if rows is None:
            rows = torch.arange(0, self.count, step, device=self.target.device)
        else:
            rows = rows[::step]
        return Samples(self.logits, self.target, self.weight, rows)

    def chunks(self, dtype: torch.dtype = torch.float64) -> Iterator[Chunk]:
        """Yield all used rows in order, a bounded number at a time, as copies to work on."""
        device = self.target.device
        size = CHUNK_SIZE if device.type == "cpu" else ACCELERATOR_CHUNK_SIZE
        length = max(1, size * 8 // dtype.itemsize // self.num_classes)
        for start in range(0, self.count, length):
            part = slice(start, start + length)
            if self.rows is None:
                logits, target, weight = self.logits[part], self.target[part], self.weight[part]
            else:
                rows = self.rows[part]
                logits = self.logits[rows.to(self.logits.device)]
                target, weight = self.target[rows], self.weight[rows]
            logits = logits.to(device).to(dtype, copy=True)
            yield Chunk(logits, target.unsqueeze(1), weight)

    def row_number(self, index: int) -> int:
        """Return where the used row ``index`` stands in what was given."""
        return index if self.rows is None else int(self.rows[index])


def worker(device: torch.device) -> torch.device:
    """Return where to compute: Apple's GPUs know no float64, so their work goes to the CPU."""
    return torch.device("cpu") if device.type == "mps" else device


def as_tensor(name: str, value: Array) -> Tensor:
    """Return a tensor that shares the memory of a tensor or NumPy array, without its graph."""
    if isinstance(value, Tensor):
        return value.detach()
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{name} must be a Tensor or a NumPy array, but got {type(value).__name__}."
        )
    if not value.dtype.isnative or any(stride < 0 for stride in value.strides):
        value = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # torch warns of memory-mapped files, which cannot be written to; nothing here writes
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        try:
            return torch.from_numpy(value)
        except TypeError:
            raise TypeError(f"{name} must hold numbers, but got {value.dtype}.") from None


def check_logits(logits: Tensor) -> None:
    """Raise unless the tensor can be logits of at least two classes, in its last dimension."""
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating-point numbers, but got {logits.dtype}.")
    if not logits.ndim or logits.shape[-1] < 2:
        raise ValueError(
            "logits must hold at least 2 classes in the last dimension (the single logit z of a "
            f"binary model is the two columns 0 and z), but got shape {tuple(logits.shape)}."
        )


def checked_samples(
    logits: Array, target: Array, sample_weight: Array | None, ignore_index: int | None
) -> Samples:
    """Return the rows to fit on; raise one sentence for what cannot be fitted.

    Whether logits are finite is seen later, in the first pass over them; that they are not
    probabilities is seen here, so that it is the same for every fit.
    """
    logits, target = as_tensor("logits", logits), as_tensor("target", target)
    check_logits(logits)
    if logits.ndim != 2 or not len(logits):
        raise ValueError(
            f"logits must have shape (N, C) with at least one row, but got {tuple(logits.shape)}."
        )
    count, num_classes = logits.shape
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise TypeError(f"target must hold integer class indices, but got {target.dtype}.")
    if tuple(target.shape) != (count,):
        raise ValueError(
            f"target must have shape ({count},) for these logits, but got {tuple(target.shape)}."
        )
    target = target.to(worker(logits.device), torch.int64)
    used = _used_targets(target, num_classes, ignore_index)
    if sample_weight is None:  # one number, seen as many: it takes no memory
        weight = target.new_ones((), dtype=torch.float64) / used.sum()
        weight = weight.expand(count)
    else:
        weight = _checked_weight(as_tensor("sample_weight", sample_weight), count, target.device)
        used &= weight > 0
        largest = weight[used].max() if bool(used.any()) else 0.0
        if not largest > 0:
            raise ValueError("sample_weight must be above 0 in a row that counts, but is 0 in all.")
        weight = weight / largest  # first, so that no sum overflows
        weight /= weight[used].sum()
    rows = None if bool(used.all()) else used.nonzero().squeeze(1)
    samples = Samples(logits, target, weight, rows)
    _check_not_probabilities(samples)
    return samples


@contextmanager
def known_as_logits() -> Iterator[None]:
    """Fit parts of what has been checked as a whole: a few rows may well look otherwise."""
    token = _known_as_logits.set(True)
    try:
        yield
    finally:
        _known_as_logits.reset(token)


def _check_not_probabilities(samples: Samples) -> None:
    """Raise if every row looks like probabilities, of which a fit would make nonsense.

    The first chunk with a row that does not is enough, so that logits cost no pass over the rows.
    """
    if _known_as_logits.get():
        return
    tolerance = SUM_TOLERANCE.get(samples.logits.dtype, DEFAULT_SUM_TOLERANCE)
    for chunk in samples.chunks():
        like = (chunk.logits.amin(1) >= 0) & ((chunk.logits.sum(1) - 1).abs() <= tolerance)
        if not bool(like.all()):
            return
    raise ValueError(
        "logits must be logits, but every row holds numbers of at least 0 with a sum of 1, like "
        "probabilities; pass their logarithm instead, or, if they are logits all the same, add 1 "
        "to all of them, which changes no probability."
    )


def check_ignore_index(ignore_index: int) -> None:
    """Raise unless ``ignore_index`` could be a target."""
    whole = isinstance(ignore_index, int) and not isinstance(ignore_index, bool)
    if not (whole and abs(ignore_index) < LARGE):
        raise TypeError(f"ignore_index must be an integer or None, but got {ignore_index!r}.")


def _used_targets(target: Tensor, num_classes: int, ignore_index: int | None) -> Tensor:
    """Return which targets are not ignored, all of which must be classes."""
    used = torch.ones_like(target, dtype=torch.bool)
    allowed = f"from 0 to {num_classes - 1}"
    if ignore_index is not None:
        check_ignore_index(ignore_index)
        used = target != ignore_index
        allowed += f" or ignore_index {ignore_index}"
        if not bool(used.any()):
            raise ValueError(
                f"target must hold at least one class, but all are ignore_index {ignore_index}."
            )
    wrong = used & ((target < 0) | (target >= num_classes))
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"target must hold classes {allowed}, but got {int(target[row])} in row {row}."
        )
    return used


def _checked_weight(weight: Tensor, count: int, device: torch.device) -> Tensor:
    """Return one weight per row in float64."""
    if tuple(weight.shape) != (count,) or weight.is_complex():
        raise ValueError(
            f"sample_weight must hold {count} real numbers, one per row of logits, "
            f"but got {weight.dtype} of shape {tuple(weight.shape)}."
        )
    weight = weight.to(device).double()
    wrong = ~((weight >= 0) & weight.isfinite())
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            "sample_weight must hold finite numbers of at least 0, "
            f"but got {weight[row].item():g} in row {row}."
        )
    return weight
