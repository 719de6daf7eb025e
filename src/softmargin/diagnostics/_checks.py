"""Argument checks of the diagnostics, with the wording of :mod:`softmargin.functional._checks`."""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin.functional._checks import value_range

MOST_CLASSES = 10**7  # more would take the memory of the machine, and are a mistake
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_step(index: Tensor, logits: Tensor, target: Tensor, models: int | None) -> None:
    """Raise unless the shapes and types of one step belong together; values are not looked at."""
    check_tensor("logits", logits)
    lead = logits.shape[:-1]
    if models is None:
        good, wanted = len(lead) == 1, "(B, C)"
    else:
        good, wanted = len(lead) == 2 and lead[0] == models, f"({models}, B, C)"
    if not good or logits.shape[-1] < 2:
        raise ValueError(
            f"logits must have shape {wanted} with at least 2 classes, "
            f"but got {tuple(logits.shape)}."
        )
    for name, value in (("index", index), ("target", target)):
        check_integers(name, value)
        if value.shape != lead and value.shape != lead[-1:]:
            shapes = " or ".join(str(tuple(s)) for s in dict.fromkeys((lead, lead[-1:])))
            raise ValueError(
                f"{name} must have shape {shapes} for these logits, but got {tuple(value.shape)}."
            )


def check_index(index: Tensor, num_samples: int, *, padded: bool) -> None:
    """Raise ``IndexError`` if an index names a sample that does not exist."""
    extremes = value_range(index)
    if extremes is None:
        return
    lowest, highest = extremes
    if lowest < (-1 if padded else 0) or highest >= num_samples:
        wrong = int(highest if highest >= num_samples else lowest)
        allowed = f"samples from 0 to {num_samples - 1}" + (" or -1 for padding" if padded else "")
        raise IndexError(f"index must hold {allowed}, but got {wrong}.")


def check_tensor(name: str, value: Tensor) -> None:
    """Raise ``TypeError`` unless the value is a floating-point tensor."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a floating-point tensor, but got {kind}.")


def check_integers(name: str, value: Tensor) -> None:
    """Raise ``TypeError`` unless the value is a tensor of whole numbers."""
    if not isinstance(value, Tensor) or value.dtype not in INTEGERS:
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a tensor of whole numbers, but got {kind}.")


def check_labelled(features: Tensor, target: Tensor) -> None:
    """Raise unless features are finite, of shape (N, D), and each has a class."""
    check_tensor("features", features)
    check_integers("target", target)
    if features.ndim != 2 or not features.numel():
        raise ValueError(
            "features must have shape (N, D) and must not be empty, "
            f"but got {tuple(features.shape)}."
        )
    if target.shape != features.shape[:1]:
        raise ValueError(
            f"target must have shape {tuple(features.shape[:1])} for these features, "
            f"but got {tuple(target.shape)}."
        )
    check_finite("features", features)


def check_finite(name: str, value: Tensor) -> None:
    """Raise ``ValueError`` naming how many numbers are NaN or infinite."""
    if wrong := int((~value.isfinite()).sum()):
        raise ValueError(f"{name} must be finite, but {wrong} of {value.numel()} numbers are not.")


def check_confidence(confidence: Tensor, dimensions: int) -> None:
    """Raise unless these are probabilities, NaN where there is none, of enough dimensions."""
    check_tensor("confidence", confidence)
    shape = "(..., N)" if dimensions == 1 else "(..., E, N)"
    if confidence.ndim < dimensions or not confidence.numel():
        raise ValueError(
            f"confidence must have shape {shape} and must not be empty, "
            f"but got {tuple(confidence.shape)}."
        )
    outside = (confidence < 0) | (confidence > 1)  # NaN is not: it stands for "not seen"
    if bool(outside.any()):
        raise ValueError(
            f"confidence must be between 0 and 1, but got {float(confidence[outside][0])}."
        )


def check_same_shape(name: str, value: Tensor, shape: tuple[int, ...], whose: str = "") -> None:
    """Raise unless the value is a tensor of a shape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, but got {type(value).__name__}.")
    if tuple(value.shape) != tuple(shape):
        raise ValueError(
            f"{name} must have {whose}shape {tuple(shape)}, but got {tuple(value.shape)}."
        )


def check_outcomes(confidence: Tensor, correct: Tensor, margin: Tensor) -> None:
    """Raise unless every sample that was seen was right (1) or not (0), by some margin."""
    for name, value in (("correct", correct), ("margin", margin)):
        check_same_shape(name, value, confidence.shape, "confidence's ")
    seen = ~confidence.isnan()
    odd = seen & (correct != 0) & (correct != 1)
    if bool(odd.any()):
        raise ValueError(f"correct must hold 0 and 1, but got {correct[odd][0].item()}.")
    if wrong := int((seen & margin.isnan()).sum()):
        raise ValueError(
            f"margin must be a number wherever confidence is, but {wrong} of {int(seen.sum())} "
            "are NaN."
        )
