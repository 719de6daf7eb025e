"""Predictions and targets as the metrics see them: checked before anything is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from softmargin.calibration._samples import Array, as_tensor, check_ignore_index, worker

__all__ = ["Array", "Batch", "TopLabelBatch", "prediction_batch", "top_label_batch"]

# numbers per chunk: on a processor the work stays in its cache, an accelerator wants more at once
CHUNK_SIZE = 1 << 16
ACCELERATOR_CHUNK_SIZE = 1 << 24


@dataclass(frozen=True)
class Batch:
    """Some predictions with their targets, without a copy of the predictions.

    Attributes:
        predictions: logits or probabilities as they were given, of shape (N, C).
        target: int64 classes of the n rows that count, of shape (n,).
        weight: their float64 weights, of shape (n,).
        rows: their row numbers, or None where all N count.

    All but the predictions are on the device that computes.
    """

    predictions: Tensor
    target: Tensor
    weight: Tensor
    rows: Tensor | None

    @property
    def num_classes(self) -> int:
        """Return C."""
        return self.predictions.shape[1]

    @property
    def rows_per_chunk(self) -> int:
        """Return how many rows to work on at a time."""
        size = CHUNK_SIZE if self.target.device.type == "cpu" else ACCELERATOR_CHUNK_SIZE
        return max(1, size // self.num_classes)

    def chunk(self, part: slice | Tensor) -> Tensor:
        """Return some of the rows that count, as they were given, where the work is done."""
        if self.rows is not None:
            part = self.rows[part]
        if isinstance(part, Tensor):
            part = part.to(self.predictions.device)
        return self.predictions[part].to(self.target.device)

    def row_number(self, index: int) -> int:
        """Return where a row that counts stands in what was given."""
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
) -> Batch:
    """Return a batch, or raise one sentence for what is wrong with it.

    That the predictions' values are allowed is seen later, when they are looked at.
    """
    predictions, target = as_tensor("predictions", predictions), as_tensor("target", target)
    _check_shapes(predictions, target)
    if predictions.ndim > 2:
        predictions = predictions.movedim(1, -1).flatten(0, -2)
    device = worker(predictions.device)
    classes = target.flatten().to(device, torch.int64)
    used = _used_rows(classes, predictions.shape[1], ignore_index)
    weight = _checked_weight(sample_weight, target.shape, device)
    used &= weight > 0
    rows = None
    if not bool(used.all()):
        rows = used.nonzero().squeeze(1)
        classes, weight = classes[rows], weight[rows]
    return Batch(predictions, classes, weight, rows)


def top_label_batch(
    confidence: Array, correct: Array, sample_weight: Array | None
) -> TopLabelBatch:
    """Return checked confidences, or raise one sentence for what is wrong with them."""
    confidence, correct = as_tensor("confidence", confidence), as_tensor("correct", correct)
    for name, value in (("confidence", confidence), ("correct", correct)):
        if value.is_complex():
            raise ValueError(f"{name} must hold real numbers, but got {value.dtype}.")
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise ValueError(
            "confidence and correct must both have shape (N,), "
            f"but got {tuple(confidence.shape)} and {tuple(correct.shape)}."
        )
    outside = ~((confidence >= 0) & (confidence <= 1))  # NaN is outside too
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        raise ValueError(
            "confidence must hold probabilities from 0 to 1, "
            f"but got {confidence[row].item():g} in row {row}."
        )
    neither = (correct != 0) & (correct != 1)
    if bool(neither.any()):
        row = int(neither.nonzero()[0])
        raise ValueError(
            "correct must hold 0 and 1 (or False and True), "
            f"but got {correct[row].item():g} in row {row}."
        )
    device = worker(confidence.device)
    weight = _checked_weight(sample_weight, confidence.shape, device)
    if not len(weight):
        raise ValueError("confidence must hold at least one value, but it is empty.")
    if not bool((weight > 0).any()):
        raise ValueError("sample_weight must be above 0 for at least one row, but is 0 in all.")
    return TopLabelBatch(confidence.to(device).double(), correct.to(device).double(), weight)


def _check_shapes(predictions: Tensor, target: Tensor) -> None:
    if not predictions.is_floating_point():
        raise TypeError(f"predictions must be floating-point, but got {predictions.dtype}.")
    if predictions.ndim < 2:
        raise ValueError(
            "predictions must have shape (N, C) or (N, C, d1, ...), "
            f"but got {tuple(predictions.shape)}."
        )
    if predictions.shape[1] < 2:
        raise ValueError(
            "predictions must hold at least 2 classes in dimension 1 (the probability p of a "
            "binary model is the two columns 1 - p and p, its logit z the columns 0 and z), "
            f"but got shape {tuple(predictions.shape)}."
        )
    expected = (predictions.shape[0], *predictions.shape[2:])
    if tuple(target.shape) != expected:
        raise ValueError(
            f"target must have shape {expected} for these predictions, "
            f"but got {tuple(target.shape)}."
        )
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise TypeError(f"target must hold integer class indices, but got {target.dtype}.")


def _used_rows(classes: Tensor, num_classes: int, ignore_index: int | None) -> Tensor:
    """Return which targets are not ignored, all of which must be classes."""
    allowed = f"from 0 to {num_classes - 1}"
    used = torch.ones_like(classes, dtype=torch.bool)
    if ignore_index is not None:
        check_ignore_index(ignore_index)
        used = classes != ignore_index
        allowed += f" or ignore_index {ignore_index}"
    wrong = used & ((classes < 0) | (classes >= num_classes))
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"target must hold classes {allowed}, but got {int(classes[row])} in row {row}."
        )
    return used


def _checked_weight(sample_weight: Array | None, shape: torch.Size, device: torch.device) -> Tensor:
    """Return one float64 weight per row; 1 where none are given."""
    if sample_weight is None:
        return torch.ones(shape.numel(), dtype=torch.float64, device=device)
    weight = as_tensor("sample_weight", sample_weight)
    if weight.shape != shape or weight.is_complex():
        raise ValueError(
            f"sample_weight must hold real numbers of shape {tuple(shape)}, one per target, "
            f"but got {weight.dtype} of shape {tuple(weight.shape)}."
        )
    weight = weight.flatten().to(device).double()
    wrong = ~((weight >= 0) & weight.isfinite())
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            "sample_weight must hold finite numbers of at least 0, "
            f"but got {weight[row].item():g} in row {row}."
        )
    return weight
