"""Lengths of vectors, and vectors of length one, however short or long they are."""

from __future__ import annotations

import torch
from torch import Tensor

from softmargin.functional._checks import known_within
from softmargin.functional.margins import WITHOUT_FLOAT64


def inverse_length(vectors: Tensor) -> Tensor:
    """Return 1/‖v‖ for each row, and 1 for a zero vector, which has no direction."""
    length = length_of(vectors)
    return torch.where(length > 0, length, 1.0).reciprocal()


def length_of(vectors: Tensor) -> Tensor:
    """Return ‖v‖ for each row; on a CPU also where float32 cannot hold its square."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    if vectors.device.type != "cpu" or vectors.dtype == torch.float64:
        return length
    if known_within(length, 1e-15, 1e15):
        return length
    # slower, so only for such a vector, or where it cannot be seen whether there is one
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True, dtype=torch.float64)
    return length.to(vectors.dtype)


def unit(vectors: Tensor) -> Tensor:
    """Return vectors of length one; a zero vector stays zero."""
    length = length_of(vectors)
    if known_within(length, 1e-9, 1e9):
        return vectors * length.reciprocal()
    # a quotient: the product would square a short vector's length in backward
    return vectors / torch.where(length > 0, length, 1.0)


def moderate_size(vectors: Tensor) -> Tensor:
    """Return 1, or the largest entry of a vector whose length has no square in float32."""
    peak = vectors.detach().abs().amax(-1, keepdim=True)
    return torch.where(((peak > 1e-15) & (peak < 1e15)) | (peak == 0), 1.0, peak)


def precise(tensor: Tensor) -> Tensor:
    """Return the tensor in float64, where the device has it."""
    return tensor.float() if tensor.device.type in WITHOUT_FLOAT64 else tensor.double()
