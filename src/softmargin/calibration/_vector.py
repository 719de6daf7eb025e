"""Vector scaling: the optimal scale and bias per class, by Newton's method in float64.

The mean negative log-likelihood of softmax(w z + b) is convex in (w, b). It is minimised in
standardised coordinates, x = (z - mean) / deviation of each class's logits, as softmax(u x + c).
A ridge, half of ``ridge`` times the squared distance to the optimal temperature's (u, c), makes
the minimum unique and finite. It is too small to matter if the data alone determines a minimum.
Otherwise only the ridge does: for a class that never occurs (c goes to minus infinity), or one
that is never confused with another (u goes to infinity).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from softmargin._settings import Setting
from softmargin.calibration._batch import Batch
from softmargin.calibration._calibrator import Calibrator
from softmargin.calibration._temperature import fit_temperature

DENSE_CLASSES = 128  # with more, a (2C)² Hessian costs more than conjugate gradients
ROUNDS = 200
CONJUGATE_ROUNDS = 100
CONVERGED = 1e-14  # twice the decrease of the NLL that is still expected
NEGLIGIBLE_RIDGE = 1e-6


class VectorScaling(Calibrator):
    r"""Scale and shift the logits of each class by numbers of its own (Guo et al., 2017).

    .. math:: z_j \mapsto w_j z_j + b_j, \quad \sum_j b_j = 0

    The NLL is convex in (w, b) and minimised by Newton's method in float64. A ridge pulls towards
    the optimal temperature, so the minimum is unique and, on the fitted rows, never worse than
    that of temperature scaling. The ridge is too small to matter if the data alone determines a
    minimum. If it does not, a :class:`CalibrationWarning` says so: the bias of a class that never
    occurs would go to minus infinity, the scale of one that is never confused to infinity.

    With 2C numbers to fit, it needs many more rows than temperature scaling, and it can change
    the predicted class. Unlike softmax, it also depends on a constant added to a row: logits and
    log-probabilities give different results.

    Args:
        ridge: strength of the pull, per row and in units of standardised logits, at least 1e-12;
            raise it, to 0.01 or 0.1, when there are few rows per class.

    Attributes:
        scale: w, a float64 buffer of shape (C,).
        bias: b, a float64 buffer of shape (C,).

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import VectorScaling
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).repeat(4, 1)
        >>> target = torch.tensor([0, 1, 0, 1, 1, 1, 1, 0])  # more of class 1 than it thinks
        >>> scaler = VectorScaling().fit(logits, target)
        >>> scaler.transform(logits[:2]).softmax(1)
        tensor([[0.5000, 0.5000],
                [0.2500, 0.7500]])
    """

    kind = "vector"
    numbers = ("scale", "bias")
    scale: Setting = Setting(above=-math.inf, per_class=True, moves=True)
    bias: Setting = Setting(above=-math.inf, per_class=True, moves=True)
    ridge: Setting = Setting(above=1e-12, inclusive=True)

    def __init__(self, *, ridge: float = 1e-10) -> None:
        """Set the strength of the ridge."""
        super().__init__()
        self.ridge = ridge

    def _fit(self, batch: Batch) -> list[str]:
        found = fit_temperature(batch)
        if found.note is not None and found.separable:  # scales have no optimum either
            scale = torch.tensor(1 / found.temperature, dtype=torch.float64)
            self.scale = scale.repeat(batch.num_classes)
            self.bias = torch.zeros_like(self.scale)
            return [found.note]
        self.scale, self.bias, notes = fit_vector(batch, found.temperature, float(self.ridge))
        return notes

    def _scaled(self, logits: Tensor) -> Tensor:
        return torch.addcmul(self.bias.to(logits.dtype), logits, self.scale.to(logits.dtype))


class Rows(NamedTuple):
    """Some rows at some θ: x and p (n, C), classes (n, 1), weights (n, 1) and NLL (n,)."""

    x: Tensor
    p: Tensor
    target: Tensor
    weight: Tensor
    nll: Tensor


class Point(NamedTuple):
    """The objective at some θ, its gradient, and its Hessian or the 2 x 2 blocks on its diagonal.

    Blocks are of shape (3, C): second derivatives by u and u, u and c, c and c of each class.
    """

    theta: Tensor
    value: float
    gradient: Tensor
    curvature: Tensor


@dataclass(frozen=True)
class Objective:
    """Mean NLL plus ridge as a function of θ = (u, c), of shape (2C,)."""

    batch: Batch
    mean: Tensor
    deviation: Tensor
    origin: Tensor
    ridge: float

    @property
    def dense(self) -> bool:
        """Return whether the whole Hessian is computed."""
        return self.batch.num_classes <= DENSE_CLASSES

    def at(self, theta: Tensor) -> Point:
        """Return value, gradient and curvature, in one pass over the rows."""
        classes, away = self.batch.num_classes, theta - self.origin
        value = 0.5 * self.ridge * float(away @ away)
        gradient = self.ridge * away
        blocks = self.ridge * theta.new_tensor([[1.0], [0.0], [1.0]]).repeat(1, classes)
        outer = theta.new_zeros((2 * classes, 2 * classes) if self.dense else ())
        for x, p, target, weight, nll in self._rows(theta):
            value += float(nll @ weight.squeeze(1))
            weighted = p * weight
            spread = weighted if self.dense else weighted * (1 - p)
            spread_x = spread * x
            blocks += torch.stack([(spread_x * x).sum(0), spread_x.sum(0), spread.sum(0)])
            if self.dense:
                outer += torch.cat([spread_x, spread], 1).T @ torch.cat([p * x, p], 1)
            residual = weighted.scatter_add(1, target, -weight)
            gradient += torch.cat([(residual * x).sum(0), residual.sum(0)])
        if not self.dense:
            return Point(theta, value, gradient, blocks)
        hessian = outer.neg_()
        uu, uc, cc = blocks
        parts = hessian.view(2, classes, 2, classes)
        for row, column, block in ((0, 0, uu), (0, 1, uc), (1, 0, uc), (1, 1, cc)):
            parts[row, :, column].diagonal().add_(block)
        return Point(theta, value, gradient, hessian)

    def solve(self, point: Point, right: Tensor, accuracy: float) -> Tensor:
        """Return H⁻¹ ``right``, with H the Hessian at ``point``."""
        if self.dense:
            factor = torch.linalg.cholesky(point.curvature)
            return torch.cholesky_solve(right.unsqueeze(1), factor).squeeze(1)
        uu, uc, cc = point.curvature
        determinant = uu * cc - uc * uc

        def precondition(vector: Tensor) -> Tensor:
            u, c = vector.chunk(2)
            inverse = (cc * u - uc * c) / determinant, (uu * c - uc * u) / determinant
            return torch.cat(inverse)

        return _conjugate_gradients(
            lambda vector: self._product(point.theta, vector), precondition, right, accuracy
        )

    def _product(self, theta: Tensor, vector: Tensor) -> Tensor:
        """Return the Hessian times a vector, in one pass over the rows."""
        result = self.ridge * vector
        u, c = vector.chunk(2)
        for x, p, _, weight, _ in self._rows(theta):
            along = torch.addcmul(c, x, u)
            along -= (along * p).sum(1, keepdim=True)
            along.mul_(p).mul_(weight)
            result += torch.cat([(along * x).sum(0), along.sum(0)])
        return result

    def _rows(self, theta: Tensor) -> Iterator[Rows]:
        scale, bias = theta.chunk(2)
        for chunk in self.batch.chunks():
            x = (chunk.logits - self.mean).div_(self.deviation)
            shifted = torch.addcmul(bias, x, scale)
            shifted -= shifted.amax(1, keepdim=True)
            own = shifted.gather(1, chunk.target).squeeze(1)
            p = shifted.clamp_(min=-700.0).exp_()  # exp is slow where it underflows
            total = p.sum(1, keepdim=True)
            nll = total.squeeze(1).log() - own
            yield Rows(x, p.div_(total), chunk.target, chunk.weight.unsqueeze(1), nll)


def fit_vector(batch: Batch, temperature: float, ridge: float) -> tuple[Tensor, Tensor, list[str]]:
    """Return the scale and bias that minimise the NLL, and notes if only the ridge holds them."""
    mean, deviation, occurs = _columns(batch)
    origin = torch.cat([deviation, mean]) / temperature
    objective = Objective(batch, mean, deviation, origin, ridge)
    point, converged = _minimum(objective)
    notes = _notes(objective, point, occurs)
    if not converged:
        notes.append("the fit of scale and bias stopped before it had converged.")
    u, c = point.theta.chunk(2)
    scale = u / deviation
    bias = c - scale * mean
    return scale, bias - bias.mean(), notes


def _columns(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and deviation of each class's logits, and which classes occur."""
    device = batch.target.device
    occurs = torch.zeros(batch.num_classes, dtype=torch.bool, device=device)
    first, second = torch.zeros(2, batch.num_classes, dtype=torch.float64, device=device)
    reference = None
    for chunk in batch.chunks():
        occurs[chunk.target.squeeze(1)] = True
        if reference is None:
            reference = chunk.logits.mean(0)  # close to the mean, so that squares do not cancel
        shifted = chunk.logits - reference
        first += chunk.weight @ shifted
        second += chunk.weight @ shifted.square_()
    assert reference is not None
    deviation = (second - first.square()).clamp(min=0.0).sqrt()
    # a constant logit is no more than a bias: its scale stays that of the temperature
    constant = deviation <= 1e-12 * (reference.abs() + deviation.max())
    return reference + first, deviation.masked_fill(constant, 1.0), occurs


def _minimum(objective: Objective) -> tuple[Point, bool]:
    """Take Newton steps, halved if they do not decrease the objective as predicted."""
    point = objective.at(objective.origin)
    accuracy, start = 0.1, None
    for _ in range(ROUNDS):
        step = -objective.solve(point, point.gradient, accuracy)
        promise = -float(point.gradient @ step)
        start = start or promise
        # rough steps at first, finer ones towards the end
        accuracy = min(0.1, (promise / start) ** 0.5) if start > 0 else 0.1
        length = 1.0
        trial = objective.at(point.theta + step)
        enough = point.value + 1e-15 * (1 + abs(point.value))
        while trial.value > enough - 1e-4 * length * promise and length > 1e-9:
            length /= 2
            trial = objective.at(point.theta + length * step)
        if length <= 1e-9:
            return point, promise < 1e-10
        point = trial
        if promise < CONVERGED:
            return point, True
    return point, False


def _conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    right: Tensor,
    accuracy: float,
) -> Tensor:
    """Solve a positive definite system to a relative accuracy in the preconditioned norm."""
    solution, residual = torch.zeros_like(right), right
    direction = precondition(residual)
    size = first = float(residual @ direction)
    for _ in range(CONJUGATE_ROUNDS):
        if size <= accuracy**2 * first:
            break
        image = product(direction)
        length = size / float(direction @ image)
        solution = solution + length * direction
        residual = residual - length * image
        improved = precondition(residual)
        previous, size = size, float(residual @ improved)
        direction = improved + (size / previous) * direction
    return solution


def _notes(objective: Objective, point: Point, occurs: Tensor) -> list[str]:
    """Return a note on classes that never occur, and one on others that only the ridge holds."""
    notes = []
    if not bool(occurs.all()):
        notes.append(
            f"target never holds {_name(~occurs)}: the NLL keeps falling as the bias goes to minus "
            "infinity, and only the ridge keeps it finite."
        )
    if objective.ridge > NEGLIGIBLE_RIDGE:
        return notes
    away = (point.theta - objective.origin).view(2, -1)
    given = objective.ridge * objective.solve(point, away.flatten(), 1e-3).view(2, -1)
    for pair in (away, given):
        pair[1] -= pair[1, occurs].median()  # a shift common to all biases has no effect
    # if the NLL decays like exp(-t), its curvature at the minimum is about 20 times the ridge
    held = (given.abs() > 0.02 * away.abs()) & (away.abs() > 1.0)
    classes = held.any(0) & occurs
    if bool(classes.any()):
        notes.append(
            f"target and logits do not pin down the scale and bias of {_name(classes)}, rarely "
            "seen or never confused: the NLL keeps falling as they grow, and only the ridge keeps "
            "them finite."
        )
    return notes


def _name(classes: Tensor) -> str:
    """Return the first few classes of a mask in words."""
    numbers = classes.nonzero().flatten().tolist()
    if len(numbers) == 1:
        return f"class {numbers[0]}"
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"classes {', '.join(map(str, numbers[:5]))}{more}"
