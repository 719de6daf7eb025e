"""The loss of products some classes at a time, for more classes than a few rows can be held of.

A first pass over the classes gives what the loss needs to know of a row: its largest other logit
and the sum of the others' exponentials. With label smoothing, where every class has a loss, a
second one adds those up. The last makes the gradient. Logits are computed anew in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.functional._products import Gradients, Products, Samples
from softmargin.functional.divergences import SHARES
from softmargin.functional.lengths import precise
from softmargin.functional.margins import LIMITS, at_least_float32, softplus

MOST_ROWS = 4096
"""More rows at a time than these make the pieces of classes too narrow."""

FAR = -1e4
"""An exponent whose power is 0 in every type, and whose product with 0 is 0."""


@dataclass(frozen=True)
class Decay:
    """The loss log(β + e^ξ) + λ·D and its settings."""

    beta: float | Tensor = 1.0
    tau: float | Tensor = 1.0
    floored: bool = False
    lam: float | Tensor = 0.0
    divergence: str = "symmetric"
    label_smoothing: float = 0.0

    def levels(self) -> bool:
        """Whether there is a divergence."""
        return isinstance(self.lam, Tensor) or self.lam != 0

    def splits(self) -> bool:
        """Whether the passes here know the loss: not a divergence for every class."""
        return not (self.levels() and self.label_smoothing)

    def log_beta(self, classes: slice | Tensor, like: Tensor) -> Tensor:
        """Return log β of some classes, or one for all, in float64 where there is that."""
        beta = precise(torch.as_tensor(self.beta, device=like.device))
        return (beta[classes] if beta.ndim else beta).log()

    def of_log_odds(self, xi: Tensor, log_beta: Tensor) -> Tensor:
        """Return the loss without its divergence."""
        log_beta = log_beta.to(xi.dtype)
        return softplus(xi - log_beta) if self.floored else torch.logaddexp(xi, log_beta)


def step_through_classes(
    decay: Decay,
    products: Products,
    samples: Samples,
    sums: Gradients,
    upstream: Tensor | None,
    most: int,
) -> Tensor:
    """Return the loss of every sample, and add up the gradients of their sum."""
    input, index = products.input, samples.index()
    assert index is not None
    step = min(len(input), MOST_ROWS)
    room = input.new_empty(min(step * len(products.weight), max(most, step)))
    kind = _SmoothedBlock if decay.label_smoothing else _Block
    shares = precise(samples.counted() if decay.label_smoothing else samples.shares())
    losses = []
    for start in range(0, len(input), step):
        rows = slice(start, start + step)
        block = kind(decay, products.part(rows), index[rows], samples.weight, room)
        share = shares[rows].unsqueeze(1)
        losses.append(torch.where(share != 0, block.losses() * share, 0.0))
        if any(x is not None for x in sums):
            if upstream is not None:
                share = share * precise(upstream[rows]).unsqueeze(1)
            of_input, of_weight, of_bias, of_own = sums
            of_rows = None if of_input is None else of_input[rows]
            of_targets = None if of_own is None else of_own[rows]
            block.add_gradients(share, [of_rows, of_weight, of_bias, of_targets])
    return torch.cat(losses).squeeze(1).to(input.dtype)


class _Block:
    """Some rows, and what is known of each: numbers of shape (N, 1), in float64.

    With u = (z - top)/τ, ``rest`` is Σ e^u over the classes that are neither the target nor the
    top, ``tilt`` is Σ u·e^u and ``level`` is Σ z over all but the target.
    """

    def __init__(
        self, decay: Decay, products: Products, index: Tensor, weight: Tensor | None, room: Tensor
    ) -> None:
        self.decay, self.products, self.index = decay, products, index
        self.weight, self.room = weight, room
        self.tau, self.count = decay.tau, len(products.weight)
        zero = precise(room.new_zeros((len(index), 1)))
        self.own = zero if products.own is None else precise(products.own)
        self.top = torch.full_like(zero, LIMITS[room.dtype][0])
        self.place = torch.zeros_like(index)
        self.rest, self.tilt, self.level = zero - 1, zero, zero  # without the top's power it is -1
        for piece in self.pieces():
            self._take(piece)
        self.log_total = self.rest.log1p()
        self.xi = (self.top - self.own) / self.tau + self.log_total
        self.log_beta = decay.log_beta(index, self.xi)

    def pieces(self) -> Iterator[_Piece]:
        """Yield the logits of some classes after the other."""
        width = max(1, len(self.room) // len(self.index))
        for start in range(0, self.count, width):
            classes = slice(start, min(start + width, self.count))
            part = self.products.part(slice(None), classes)
            yield _Piece(classes, part, at_least_float32(part.write(self.room)))

    def _take(self, piece: _Piece) -> None:
        """Add some classes to what is known."""
        logits, levels = piece.values, self.decay.levels()
        own = precise(piece.at(self.index))
        here = piece.holds(self.index)
        if self.products.own is None:
            self.own = torch.where(here, own, self.own)
        if levels:
            self.level = self.level + precise(logits.sum(1, keepdim=True)) - here * own
        piece.put(self.index, -math.inf)
        top, place = logits.max(1, keepdim=True)
        logits.scatter_(1, place, -math.inf)
        top.clamp_min_(LIMITS[logits.dtype][0])
        logits.sub_(top).div_(self.tau)
        tilt = self.tilt
        if levels:
            powers = logits.clamp_min_(FAR).exp()
            rest = powers.sum(1, keepdim=True)
            tilt = precise(powers.mul_(logits).sum(1, keepdim=True))
        else:
            rest = logits.exp_().sum(1, keepdim=True)
        self._merge(precise(top), place + piece.classes.start, precise(rest), tilt)

    def _merge(self, top: Tensor, place: Tensor, rest: Tensor, tilt: Tensor) -> None:
        """Add the sums over some classes to those over the classes before."""
        taller = top > self.top
        higher = torch.maximum(self.top, top)
        before = ((self.top - higher) / self.tau).clamp_min(FAR)
        now = ((top - higher) / self.tau).clamp_min(FAR)
        shifted = before.exp() * (self.tilt + before * (1 + self.rest))
        self.tilt = shifted + now.exp() * (tilt + now * (1 + rest))
        # the power of the higher of the two tops is 1, and the other's is one more of the rest
        kept = torch.where(taller, (1 + self.rest) * before.exp(), self.rest)
        self.rest = kept + torch.where(taller, rest, (1 + rest) * now.exp())
        self.place = torch.where(taller, place, self.place)
        self.top = higher

    def losses(self) -> Tensor:
        """Return the loss of every row."""
        loss = self.decay.of_log_odds(self.xi, self.log_beta)
        if not self.decay.levels():
            return loss
        others = self.count - 1
        to_uniform = self._entropy() + math.log(others)
        mean = (self.level / others - self.top) / self.tau - self.log_total + math.log(others)
        shares = SHARES[self.decay.divergence]
        return loss + self.decay.lam * (shares[0] * to_uniform - shares[1] * mean)

    def _entropy(self) -> Tensor:
        """Return Σ q log q, with q the softmax over the others."""
        return self.tilt / (1 + self.rest) - self.log_total

    def gradients(self, share: Tensor) -> Iterator[_Piece]:
        """Yield the logits' gradient in pieces, every row's times its share."""
        pull = share * torch.sigmoid(self.xi - self.log_beta)
        factor, tilted, level = pull, share, share
        if self.decay.levels():
            to_uniform, from_uniform = SHARES[self.decay.divergence]
            share = share * self.decay.lam
            factor = pull + share * (from_uniform - to_uniform * self._entropy())
            tilted, level = share * to_uniform, share * from_uniform / (self.count - 1)
        for piece in self.pieces():
            piece.keep_angles()
            log_q, dtype = piece.values, piece.values.dtype
            log_q.sub_(self.top.to(dtype)).div_(self.tau).sub_(self.log_total.to(dtype))
            if self.decay.levels():
                q = log_q.clamp_min_(FAR).exp()
                log_q.mul_(tilted.to(dtype)).add_(factor.to(dtype)).mul_(q).sub_(level.to(dtype))
            else:
                log_q.exp_().mul_(factor.to(dtype))
            piece.put(self.index, -pull)
            log_q.div_(self.tau)
            yield piece

    def add_gradients(self, share: Tensor, sums: Gradients) -> None:
        """Add up what the logits' gradient gives input, weight, bias and targets' own logits."""
        of_input, of_weight, of_bias, of_own = sums
        for piece in self.gradients(share):
            if self.products.own is not None:
                if of_own is not None:
                    of_own.copy_(torch.where(piece.holds(self.index), piece.at(self.index), of_own))
                piece.put(self.index, 0.0)
            gradient = piece.values
            if piece.angles is not None:
                gradient = piece.products.through_angle(gradient, piece.angles)
            classes = piece.classes
            part_of_weight = None if of_weight is None else of_weight[classes]
            part_of_bias = None if of_bias is None else of_bias[classes]
            found = [of_input, part_of_weight, part_of_bias, None]
            piece.products.add_gradients(gradient.to(self.room.dtype), found)


class _SmoothedBlock(_Block):
    """Rows whose every class has a share s of the loss: Σ s_c J_c.

    With b = s/(1 + (β - 1)p), the gradient by z_i is p_i Σ b - b_i.
    """

    def losses(self) -> Tensor:
        """Return the loss of every row, and keep Σ b."""
        smoothing = self.decay.label_smoothing
        loss, self.pulls = torch.zeros_like(self.xi), torch.zeros_like(self.xi)
        for piece in self.log_odds_by_class():
            xi = piece.values
            of_class = self.decay.of_log_odds(xi, self.decay.log_beta(piece.classes, xi))
            of_class.mul_(self._shares(piece))
            loss += precise(of_class.sum(1, keepdim=True))
            self.pulls += precise(self._pull(piece).sum(1, keepdim=True))
        if smoothing == 1:
            self.pull_of_target = torch.zeros_like(loss)
            return loss
        share = (1 - smoothing) * self._weight_of_target()
        beta = self.log_beta.exp()
        self.pull_of_target = share / (self.xi.sigmoid() + beta * (-self.xi).sigmoid())
        self.pulls += self.pull_of_target
        return loss + share * self.decay.of_log_odds(self.xi, self.log_beta)

    def log_odds_by_class(self) -> Iterator[_Piece]:
        """Yield the ξ of every class as if it were the target."""
        # forms that do not cancel for the two classes that may have more than half
        of_top = torch.logaddexp(self.rest.log(), (self.own - self.top) / self.tau)
        log_all = self.log_total + softplus(-self.xi)
        for piece in self.pieces():
            piece.keep_angles()
            log_p, dtype = piece.values, piece.values.dtype
            log_p.sub_(self.top.to(dtype)).div_(self.tau).sub_(log_all.to(dtype))
            piece.values = log_p.exp().neg_().log1p_().sub_(log_p)
            piece.put(self.place, of_top)
            piece.put(self.index, self.xi)
            yield piece

    def gradients(self, share: Tensor) -> Iterator[_Piece]:
        """Yield the logits' gradient in pieces, every row's times its share."""
        for piece in self.log_odds_by_class():
            dtype = piece.values.dtype
            pull = self._pull(piece)
            piece.values = piece.values.neg_().sigmoid_().mul_(self.pulls.to(dtype)).sub_(pull)
            piece.put(self.index, piece.at(self.index) - self.pull_of_target)
            piece.values.mul_((share / self.tau).to(dtype))
            yield piece

    def _pull(self, piece: _Piece) -> Tensor:
        """Return b of every class but for the part that only the target has."""
        xi = piece.values
        beta = self.decay.log_beta(piece.classes, xi).exp().to(xi.dtype)
        slowed = xi.sigmoid().addcmul_((-xi).sigmoid_(), beta)
        return slowed.reciprocal_().mul_(self._shares(piece))

    def _shares(self, piece: _Piece) -> float | Tensor:
        share = self.decay.label_smoothing / self.count
        if self.weight is None:
            return share
        return share * self.weight[piece.classes].to(piece.values.dtype)

    def _weight_of_target(self) -> float | Tensor:
        return 1.0 if self.weight is None else precise(self.weight)[self.index]


@dataclass
class _Piece:
    """Some classes of some rows: their logits, or what becomes of them."""

    classes: slice
    products: Products
    values: Tensor
    angles: Tensor | None = None

    def keep_angles(self) -> None:
        """Keep the logits, which the gradient of angles needs."""
        if self.products.angle is not None:
            self.angles = self.values.clone()

    def holds(self, index: Tensor) -> Tensor:
        """Return whether each row's class is one of these."""
        first: int = self.classes.start
        last: int = self.classes.stop
        return (index >= first) & (index < last)

    def at(self, index: Tensor) -> Tensor:
        """Return the values of rows' classes, something where they are elsewhere."""
        return self.values.gather(1, self._within(index))

    def put(self, index: Tensor, new: float | Tensor) -> None:
        """Set the values of rows' classes where they are among these."""
        if isinstance(new, Tensor):
            new = new.to(self.values.dtype)
        new = torch.where(self.holds(index), new, self.at(index))
        self.values.scatter_(1, self._within(index), new)

    def _within(self, index: Tensor) -> Tensor:
        first: int = self.classes.start
        return (index - first).clamp(0, self.values.shape[1] - 1)
