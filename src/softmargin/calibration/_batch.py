"""Predictions with targets and weights: checked once, then read a few rows at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin.functional._checks import LARGE, check_choice

Array = Tensor | NDArray[Any]

# Numbers per chunk: on a CPU the work stays in its cache, an accelerator needs more at once.
CHUNK_SIZE = 1 << 16
ACCELERATOR_CHUNK_SIZE = 1 << 24
LARGEST_LOGIT = 1e100  # its fourth power is still a float64
RANGE_TOLERANCE = 1e-6  # how far a probability may be from [0, 1]
_known_as_logits = ContextVar("known_as_logits", default=False)


class Chunk(NamedTuple):
    """Some rows: logits (n, C), classes (n, 1) and float64 weights (n,)."""

    logits: Tensor
    target: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Batch:
    """Predictions with their targets; the predictions are not copied.

    Attributes:
        predictions: logits or probabilities as given, of shape (N, C).
        target: int64 classes of the n rows that count, of shape (n,).
        weight: their float64 weights, of shape (n,).
        rows: their row numbers, or None if all N count.

    Everything but the predictions is on the device that computes, see :func:`worker`.
    """

    predictions: Tensor
    target: Tensor
    weight: Tensor
    rows: Tensor | None

    def __len__(self) -> int:
        """Return the number of rows that count."""
        return len(self.target)

    @property
    def num_classes(self) -> int:
        """Return C."""
        return self.predictions.shape[1]

    def rows_per_chunk(self, dtype: torch.dtype = torch.float64) -> int:
        """Return how many rows to work on at a time."""
        size = CHUNK_SIZE if self.target.device.type == "cpu" else ACCELERATOR_CHUNK_SIZE
        return max(1, size * 8 // dtype.itemsize // self.num_classes)

    def chunk(self, part: slice | Tensor) -> Tensor:
        """Return some of the rows that count, in their own precision, on the device to use."""
        if self.rows is not None:
            part = self.rows[part]
        if isinstance(part, Tensor):
            part = part.to(self.predictions.device)
        return self.predictions[part].to(self.target.device)

    def chunks(self, dtype: torch.dtype = torch.float64) -> Iterator[Chunk]:
        """Yield all rows that count in order, a bounded number at a time, as copies to work on."""
        length = self.rows_per_chunk(dtype)
        for start in range(0, len(self), length):
            part = slice(start, start + length)
            logits = self.chunk(part).to(dtype, copy=True)
            yield Chunk(logits, self.target[part].unsqueeze(1), self.weight[part])

    def every(self, step: int) -> Batch:
        """Return every ``step``-th row, for a first guess; weights keep their proportions."""
        rows = torch.arange(0, len(self), step, device=self.target.device)
        if self.rows is not None:
            rows = self.rows[rows]
        return Batch(self.predictions, self.target[::step], self.weight[::step], rows)

    def row_number(self, index: int) -> int:
        """Return the number, in the input, of a row that counts."""
        return index if self.rows is None else int(self.rows[index])


class TopLabelBatch(NamedTuple):
    """Confidences, whether each was right (0 or 1), and weights: three float64 vectors."""

    confidence: Tensor
    correct: Tensor
    weight: Tensor


def prediction_batch(
    predictions: Array,
    target: Array,
    sample_weight: Array | None,
    ignore_index: int | None,
    name: str = "predictions",
) -> Batch:
    """Return a batch, or raise a one-sentence error that calls the predictions ``name``.

    The values of the predictions are checked later, when they are read.
    """
    predictions, target = as_tensor(name, predictions), as_tensor("target", target)
    _check_shapes(predictions, target, name)
    if predictions.ndim > 2:
        predictions = predictions.movedim(1, -1).flatten(0, -2)
    device = worker(predictions.device)
    classes = target.flatten().to(device, torch.int64)
    used = _used_rows(classes, predictions.shape[1], ignore_index)
    weight = _checked_weight(sample_weight, target.shape, device)
    if sample_weight is not None:
        used = weight > 0 if used is None else used & (weight > 0)
    if used is None or bool(used.all()):
        return Batch(predictions, classes, weight, None)
    rows = used.nonzero().squeeze(1)
    weight = weight[: len(rows)] if sample_weight is None else weight[rows]
    return Batch(predictions, classes[rows], weight, rows)


def fit_batch(
    logits: Array, target: Array, sample_weight: Array | None, ignore_index: int | None
) -> Batch:
    """Return the rows to fit on, with weights that add up to 1, or raise a one-sentence error.

    Whether the logits are finite is checked in the first pass over them. That they are not
    probabilities is checked here, so that every calibrator refuses them alike.
    """
    logits = as_tensor("logits", logits)
    check_logits(logits)
    if logits.ndim != 2 or not len(logits):
        raise ValueError(
            f"logits must have shape (N, C) with at least one row, but got {tuple(logits.shape)}."
        )
    batch = prediction_batch(logits, target, sample_weight, ignore_index, "logits")
    if not len(batch):
        if ignore_index is not None and bool((as_tensor("target", target) == ignore_index).all()):
            raise ValueError(
                f"target must hold at least one class, but all are ignore_index {ignore_index}."
            )
        raise ValueError("sample_weight must be above 0 in a row that counts, but is 0 in all.")
    if sample_weight is None:  # one number, expanded: it takes no memory
        weight = (batch.weight[0] / len(batch)).expand(len(batch))
    else:
        weight = batch.weight / batch.weight.max()  # first, so that no sum overflows
        weight /= weight.sum()
    batch = replace(batch, weight=weight)
    _check_not_probabilities(batch)
    return batch


def top_label_batch(
    confidence: Array, correct: Array, sample_weight: Array | None
) -> TopLabelBatch:
    """Return checked confidences, or raise a one-sentence error."""
    confidence, correct = as_tensor("confidence", confidence), as_tensor("correct", correct)
    for name, value in (("confidence", confidence), ("correct", correct)):
        if value.is_complex():
            raise ValueError(f"{name} must hold real numbers, but got {value.dtype}.")
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise ValueError(
            "confidence and correct must both have shape (N,), "
            f"but got {tuple(confidence.shape)} and {tuple(correct.shape)}."
        )
    inside = (confidence >= 0) & (confidence <= 1)  # NaN is not
    _refuse(~inside, confidence, "confidence must hold probabilities from 0 to 1")
    neither = (correct != 0) & (correct != 1)
    _refuse(neither, correct, "correct must hold 0 and 1 (or False and True)")
    device = worker(confidence.device)
    weight = _checked_weight(sample_weight, confidence.shape, device)
    if not len(weight):
        raise ValueError("confidence must hold at least one value, but it is empty.")
    if not bool((weight > 0).any()):
        raise ValueError("sample_weight must be above 0 for at least one row, but is 0 in all.")
    return TopLabelBatch(confidence.to(device).double(), correct.to(device).double(), weight)


def worker(device: torch.device) -> torch.device:
    """Return where to compute: Apple's GPUs have no float64, so their work goes to the CPU."""
    return torch.device("cpu") if device.type == "mps" else device


def as_tensor(name: str, value: Array) -> Tensor:
    """Return a detached tensor that shares the memory of a tensor or NumPy array."""
    if isinstance(value, Tensor):
        return value.detach()
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{name} must be a Tensor or a NumPy array, but got {type(value).__name__}."
        )
    if not value.dtype.isnative or any(stride < 0 for stride in value.strides):
        value = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # torch warns that memory-mapped files cannot be written to; nothing here writes
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        try:
            return torch.from_numpy(value)
        except TypeError:
            raise TypeError(f"{name} must hold numbers, but got {value.dtype}.") from None


def sum_tolerance(dtype: torch.dtype) -> float:
    """Return how far the sum of a row of probabilities may be from 1."""
    return 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-3


def like_probabilities(values: Tensor, tolerance: float) -> Tensor:
    """Return which rows hold numbers of at least 0 with a sum of 1."""
    sums = values.sum(1, dtype=torch.float64)
    return (values.amin(1) >= 0) & ((sums - 1).abs() <= tolerance)


def all_like_probabilities(values: Tensor, tolerance: float) -> bool:
    """Whether all rows do; one negative number answers that quickly."""
    return bool(values.min() >= 0) and bool(like_probabilities(values, tolerance).all())


class WrongRow(NamedTuple):
    """A row that is not what it is declared as: its number, and what it should not hold."""

    row: int
    value: float
    is_sum: bool


def find_wrong(parts: Iterable[Tensor], tolerance: float, largest: float | None) -> WrongRow | None:
    """Return the first number that cannot be a logit or a probability, or else the worst sum.

    Args:
        parts: rows in order.
        tolerance: how far the sum of a row of probabilities may be from 1.
        largest: the largest size of a logit; None for probabilities.
    """
    low, high = -RANGE_TOLERANCE, 1 + RANGE_TOLERANCE
    if largest is not None:
        low, high = -largest, largest
    worst, seen = WrongRow(0, 1.0, is_sum=True), 0
    for part in parts:
        lowest, highest = (each.item() for each in part.aminmax())
        if not (low <= lowest and highest <= high):  # or NaN
            values = part.double()
            row, label = (~((values >= low) & (values <= high))).nonzero()[0].tolist()
            return WrongRow(seen + row, values[row, label].item(), is_sum=False)
        if largest is None:
            sums = part.sum(1, dtype=torch.float64)
            row = int((sums - 1).abs().argmax())
            if abs(sums[row].item() - 1) > abs(worst.value - 1):
                worst = WrongRow(seen + row, sums[row].item(), is_sum=True)
        seen += len(part)
    return worst if abs(worst.value - 1) > tolerance else None


@contextmanager
def known_as_logits() -> Iterator[None]:
    """Skip the check for probabilities, which the whole has passed but a few rows may not."""
    token = _known_as_logits.set(True)
    try:
        yield
    finally:
        _known_as_logits.reset(token)


def check_bins(bins: int, closed: str) -> None:
    """Raise unless there can be such bins."""
    check_whole("bins", bins, 1)
    check_choice("closed", closed, ("right", "left"))


def check_whole(name: str, value: int, least: int) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least ``least`` in 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < LARGE:
        raise ValueError(f"{name} must be an integer of at least {least}, but got {value!r}.")


def check_ignore_index(ignore_index: int | None) -> None:
    """Raise unless ``ignore_index`` is None or could be a target."""
    if ignore_index is None:
        return
    whole = isinstance(ignore_index, int) and not isinstance(ignore_index, bool)
    if not (whole and abs(ignore_index) < LARGE):
        raise TypeError(f"ignore_index must be an integer or None, but got {ignore_index!r}.")


def check_logits(logits: Tensor) -> None:
    """Raise unless the tensor can be logits of at least two classes, in its last dimension."""
    _check_floating("logits", logits)
    if not logits.ndim or logits.shape[-1] < 2:
        raise ValueError(
            "logits must hold at least 2 classes in the last dimension (the single logit z of a "
            f"binary model is the two columns 0 and z), but got shape {tuple(logits.shape)}."
        )


def _check_floating(name: str, value: Tensor) -> None:
    if not value.is_floating_point():
        raise TypeError(f"{name} must be floating-point numbers, but got {value.dtype}.")


def _check_shapes(predictions: Tensor, target: Tensor, name: str) -> None:
    _check_floating(name, predictions)
    if predictions.ndim < 2:
        raise ValueError(
            f"{name} must have shape (N, C) or (N, C, d1, ...), but got {tuple(predictions.shape)}."
        )
    if predictions.shape[1] < 2:
        raise ValueError(
            f"{name} must hold at least 2 classes in dimension 1 (the probability p of a "
            "binary model is the two columns 1 - p and p, its logit z the columns 0 and z), "
            f"but got shape {tuple(predictions.shape)}."
        )
    expected = (predictions.shape[0], *predictions.shape[2:])
    if tuple(target.shape) != expected:
        raise ValueError(
            f"target must have shape {expected} for these {name}, but got {tuple(target.shape)}."
        )
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise TypeError(f"target must hold integer class indices, but got {target.dtype}.")


def _used_rows(classes: Tensor, num_classes: int, ignore_index: int | None) -> Tensor | None:
    """Return which targets are not ignored, None for all; all of those must be classes."""
    check_ignore_index(ignore_index)
    if len(classes) and classes.device.type == "cpu":  # where to look twice is free
        lowest, highest = (int(each) for each in classes.aminmax())
        ignored = ignore_index is not None and lowest <= ignore_index <= highest
        if lowest >= 0 and highest < num_classes and not ignored:
            return None
    allowed = f"from 0 to {num_classes - 1}"
    used = torch.ones_like(classes, dtype=torch.bool)
    if ignore_index is not None:
        used = classes != ignore_index
        allowed += f" or ignore_index {ignore_index}"
    wrong = used & ((classes < 0) | (classes >= num_classes))
    _refuse(wrong, classes, f"target must hold classes {allowed}")
    return used


def _checked_weight(sample_weight: Array | None, shape: torch.Size, device: torch.device) -> Tensor:
    """Return one float64 weight per row; without weights, a single 1 that is expanded."""
    if sample_weight is None:
        return torch.ones((), dtype=torch.float64, device=device).expand(shape.numel())
    weight = as_tensor("sample_weight", sample_weight)
    if weight.shape != shape or weight.is_complex():
        raise ValueError(
            f"sample_weight must hold real numbers of shape {tuple(shape)}, one per target, "
            f"but got {weight.dtype} of shape {tuple(weight.shape)}."
        )
    weight = weight.flatten().to(device).double()
    wrong = ~((weight >= 0) & weight.isfinite())
    _refuse(wrong, weight, "sample_weight must hold finite numbers of at least 0")
    return weight


def _refuse(wrong: Tensor, values: Tensor, rule: str) -> None:
    """Raise ``ValueError`` with the rule and the first wrong value, if there is one."""
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        value = values[row].item()
        shown = f"{value:g}" if values.is_floating_point() else int(value)
        raise ValueError(f"{rule}, but got {shown} in row {row}.")


def _check_not_probabilities(batch: Batch) -> None:
    """Raise if every row looks like probabilities, of which a fit would make nonsense.

    Reading stops at the first chunk with a row that does not, so that logits cost no full pass.
    """
    if _known_as_logits.get():
        return
    tolerance = sum_tolerance(batch.predictions.dtype)
    if all(all_like_probabilities(chunk.logits, tolerance) for chunk in batch.chunks()):
        raise ValueError(
            "logits must be logits, but every row holds numbers of at least 0 with a sum of 1, "
            "like probabilities; pass their logarithm instead, or, if they are logits all the "
            "same, add 1 to all of them, which changes no probability."
        )
