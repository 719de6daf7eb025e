"""Logits as inner products of features and class weights, made in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from softmargin.functional import _checks as checks
from softmargin.functional._plain_directions import angle_of_cosine, smallest_sine
from softmargin.functional.margins import HALF, compute_dtype, with_target

Gradients = list[Tensor | None]
"""Those of input, weight, bias and the targets' own logits, None where they are not needed."""


class Products(NamedTuple):
    """Logits as inner products, of shape (N, C).

    With ``angle``, they are that number times the arccosines of the products. ``own`` of shape
    (N, 1) holds the logits of the targets where they are something else.
    """

    input: Tensor
    weight: Tensor
    bias: Tensor | None = None
    own: Tensor | None = None
    angle: float | Tensor | None = None

    def whole(self, index: Tensor | None) -> Tensor:
        """Return all logits; the targets' own are at ``index``."""
        logits = F.linear(self.input, self.weight, self.bias)
        if self.angle is not None:
            logits = angle_of_cosine(logits) * self.angle
        if self.own is not None and index is not None:
            logits = with_target(logits, index, -1, self.own)
        return logits

    def part(self, rows: slice, classes: slice = slice(None)) -> Products:
        """Return the products of some rows and classes."""
        return Products(
            self.input[rows],
            self.weight[classes],
            None if self.bias is None else self.bias[classes],
            None if self.own is None else self.own[rows],
            self.angle,
        )

    def write(self, room: Tensor) -> Tensor:
        """Write the logits, without the targets' own, to a part of some room."""
        logits = room[: len(self.input) * len(self.weight)].view(len(self.input), -1)
        if self.bias is None:
            torch.mm(self.input, self.weight.T, out=logits)
        else:
            torch.addmm(self.bias, self.input, self.weight.T, out=logits)
        if self.angle is not None:
            logits.clamp_(-1, 1).acos_().mul_(self.angle)
        return logits

    def through_angle(self, gradient: Tensor, logits: Tensor) -> Tensor:
        """Return the gradient of the products; it takes the place of the logits."""
        if self.angle is None:
            return gradient
        sine = logits.div_(self.angle).sin_().clamp_min_(smallest_sine(logits.dtype))
        return torch.div(gradient, sine, out=logits).mul_(-self.angle)

    def empty_gradients(self, needed: list[bool]) -> Gradients:
        """Return sums to begin with, in at least float32: they have many terms."""
        return [
            torch.zeros_like(x, dtype=compute_dtype(x)) if want and x is not None else None
            for x, want in zip(self[:4], needed, strict=True)
        ]

    def add_gradients(self, gradient: Tensor, sums: Gradients) -> None:
        """Add what a gradient of these products gives input, weight and bias."""
        of_input, of_weight, of_bias, _ = sums
        if of_input is not None:
            _add_product(of_input, gradient, self.weight)
        if of_weight is not None:
            _add_product(of_weight, gradient.T, self.input)
        if of_bias is not None:
            of_bias += gradient.sum(0, dtype=of_bias.dtype)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if right.dtype in HALF:
        total += left @ right
    else:
        total.addmm_(left, right)


@dataclass(frozen=True)
class Samples:
    """Targets with what they count for."""

    target: Tensor
    weight: Tensor | None
    ignore_index: int

    def __post_init__(self) -> None:
        """Check what is ignored, before anything is compared with it."""
        checks.check_ignore_index(self.ignore_index)

    def index(self) -> Tensor | None:
        """Return the targets as (N, 1), class 0 for ignored ones, or None for probabilities."""
        if self.target.is_floating_point():
            return None
        index = self.target.long().unsqueeze(-1)
        return index.masked_fill(index == self.ignore_index, 0)

    def counted(self) -> Tensor:
        """Return which of the samples with a class are not ignored."""
        # int64 first: in uint8 an ignore_index of -100 would be class 156
        return self.target.long() != self.ignore_index

    def shares(self) -> Tensor:
        """Return the weight of every sample with a class, 0 where it is ignored."""
        counted, index = self.counted(), self.index()
        if self.weight is None or index is None:
            return counted
        return self.weight[index.squeeze(-1)].masked_fill(~counted, 0.0)

    def norm(self) -> Tensor | int:
        """Return what a mean divides the sum by."""
        return len(self.target) if self.target.is_floating_point() else self.shares().sum()
