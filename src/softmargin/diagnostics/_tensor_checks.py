"""Checks of tensors that several diagnostics take: type, shape, finite values, probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_floating(name: str, value: Tensor) -> None:
    """Raise ``TypeError`` unless the value is a floating-point tensor."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, but got {_kind(value)}.")


def check_integers(name: str, value: Tensor) -> None:
    """Raise ``TypeError`` unless the value is a tensor of whole numbers."""
    if not isinstance(value, Tensor) or value.dtype not in INTEGERS:
        raise TypeError(f"{name} must be a tensor of whole numbers, but got {_kind(value)}.")


def _kind(value: object) -> object:
    return value.dtype if isinstance(value, Tensor) else type(value).__name__


def check_finite(name: str, value: Tensor) -> None:
    """Raise ``ValueError`` if numbers are NaN or infinite, with how many there are."""
    if wrong := int((~value.isfinite()).sum()):
        raise ValueError(f"{name} must be finite, but {wrong} of {value.numel()} numbers are not.")


def check_confidence(confidence: Tensor, dimensions: int) -> None:
    """Raise unless these are probabilities, or NaN, of at least the given dimensions."""
    check_floating("confidence", confidence)
    shape = "(..., N)" if dimensions == 1 else "(..., E, N)"
    if confidence.ndim < dimensions or not confidence.numel():
        raise ValueError(
            f"confidence must have shape {shape} and must not be empty, "
            f"but got {tuple(confidence.shape)}."
        )
    outside = (confidence < 0) | (confidence > 1)  # NaN is not outside: it means "not seen"
    if bool(outside.any()):
        raise ValueError(
            f"confidence must be between 0 and 1, but got {float(confidence[outside][0])}."
        )


def check_same_shape(name: str, value: Tensor, shape: tuple[int, ...], whose: str = "") -> None:
    """Raise unless the value is a tensor of the given shape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, but got {type(value).__name__}.")
    if tuple(value.shape) != tuple(shape):
        raise ValueError(
            f"{name} must have {whose}shape {tuple(shape)}, but got {tuple(value.shape)}."
        )
