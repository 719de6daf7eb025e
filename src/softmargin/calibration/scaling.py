"""Post-hoc calibration by temperature or vector scaling, and its evaluation on held-out folds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin._settings import Setting
from softmargin.calibration._batch import (
    Array,
    Batch,
    as_tensor,
    fit_batch,
    known_as_logits,
    worker,
)
from softmargin.calibration._calibrator import CalibrationWarning, Calibrator
from softmargin.calibration._newton import fit_temperature
from softmargin.calibration._vector import fit_vector
from softmargin.functional._checks import check_flag

__all__ = [
    "CalibrationWarning",
    "Calibrator",
    "CrossValidated",
    "TemperatureScaling",
    "VectorScaling",
    "cross_validated",
    "held_out_calibrators",
]


class TemperatureScaling(Calibrator):
    r"""Divide all logits by one temperature T (Guo et al., 2017).

    .. math:: z \mapsto z / T, \quad
              T = \arg\min_{T > 0} \frac{1}{N} \sum_i
              \left[\log \sum_j e^{z_{ij} / T} - z_{i c_i} / T\right]

    T above 1 makes a model less confident, T below 1 more. The predicted class never changes. The
    NLL is convex in 1/T, so there is one optimum or none. Newton's method in float64 finds it to a
    relative 1e-12 or so, whatever the precision of the logits. The search covers T from 1e-3 to
    1e6 times the spread of the logits (the root of the mean variance over classes), and always
    T = 1. If the NLL still falls at an end, T is that end and a :class:`CalibrationWarning` says
    so: labels that do not go with high logits push T up without limit, logits that are never
    wrong push it down.

    Attributes:
        temperature: T, a float64 buffer; may also be set by hand.

    Shape:
        - logits: (N, C), or (C,) in ``transform``.
        - target: (N,).

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import TemperatureScaling
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
        >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 1, 0, 1]))
        >>> scaler  # 3 of 4 are right, so the logits should differ by log 3
        TemperatureScaling(temperature=3.64096)
        >>> scaler.transform(logits)[0].softmax(0)
        tensor([0.7500, 0.2500])
    """

    kind = "temperature"
    numbers = ("temperature",)
    temperature = Setting(moves=True)

    def _fit(self, batch: Batch) -> list[str]:
        found = fit_temperature(batch)
        self.temperature = torch.tensor(found.temperature, dtype=torch.float64)
        return [] if found.note is None else [found.note]

    def _scaled(self, logits: Tensor) -> Tensor:
        return logits * self.temperature.reciprocal().to(logits.dtype)


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

    Shape:
        - logits: (N, C), or (C,) in ``transform``.
        - target: (N,).

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
    scale = Setting(above=-math.inf, per_class=True, moves=True)
    bias = Setting(above=-math.inf, per_class=True, moves=True)
    ridge = Setting(above=1e-12, inclusive=True)

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


class Fittable(Protocol):
    """What can be cross-validated: the calibrators of this library, and your own."""

    def fit(
        self,
        logits: Tensor,
        target: Tensor,
        *,
        sample_weight: Array | None = None,
        ignore_index: int | None = None,
    ) -> object:
        """Learn from the rows whose target is not ``ignore_index``."""

    def transform(self, logits: Tensor) -> Tensor:
        """Return calibrated logits."""


S = TypeVar("S", bound=Fittable)
A = TypeVar("A", Tensor, NDArray[Any])


@dataclass(frozen=True)
class CrossValidated(Generic[A, S]):
    """Calibrated logits to report on, and the calibrator to use from now on.

    Attributes:
        logits: calibrated logits of shape (N, C), each row transformed by a calibrator that was
            fitted without it, or all by ``calibrator`` if ``in_sample``.
        calibrator: the calibrator fitted on all rows.
        in_sample: whether each row was transformed by a calibrator that was fitted on it.
        fold: the fold that held out each row, of shape (N,), or None if ``in_sample``.
        fold_calibrators: the calibrator of each fold.
    """

    logits: A
    calibrator: S
    in_sample: bool
    fold: Tensor | None
    fold_calibrators: tuple[S, ...]


def cross_validated(
    scaler: Callable[[], S],
    logits: A,
    target: Array,
    *,
    folds: int = 5,
    seed: int = 0,
    in_sample: bool = False,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> CrossValidated[A, S]:
    """Fit a calibrator on all rows, and calibrate each row by one that was fitted without it.

    A calibrator is fitted once per fold with the labels of that fold hidden, and transforms the
    fold. Metrics of the result are those of new data, except that each fit lacks 1/``folds`` of
    the rows. Apart from the result, the logits are not copied.

    Args:
        scaler: makes a calibrator, such as the class ``TemperatureScaling`` itself.
        logits: of shape (N, C), a tensor or a NumPy array.
        target: class indices of shape (N,).
        folds: number of folds, from 2 to the number of rows that count. Each holds its share of
            every class, to within one row.
        seed: seed of the random division into folds.
        in_sample: transform the rows that were fitted instead. The resulting metrics are too good,
            especially with ``VectorScaling`` and few rows.
        sample_weight: how much each row counts in the fits, of shape (N,).
        ignore_index: a target whose rows do not count in the fits; they are still transformed.

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import TemperatureScaling, cross_validated
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = torch.randn(1000, 3, generator=generator)
        >>> target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
        >>> result = cross_validated(TemperatureScaling, 5 * logits, target)
        >>> round(torch.nn.functional.cross_entropy(result.logits, target).item(), 2)  # held out
        0.89
        >>> 4.5 < result.calibrator.temperature < 5.5  # to use from now on
        tensor(True)
    """
    options: dict[str, Any] = {"sample_weight": sample_weight, "ignore_index": ignore_index}
    rows, labels = as_tensor("logits", logits), as_tensor("target", target)
    fit_batch(rows, labels, sample_weight, ignore_index)  # your own calibrator may check less
    check_flag("in_sample", in_sample)
    calibrator = scaler() if callable(scaler) else None
    if not hasattr(calibrator, "fit"):
        raise TypeError(f"scaler must make a calibrator with a method fit, but got {scaler!r}.")
    calibrator.fit(rows, labels, **options)
    fold: Tensor | None = None
    fitted: list[S] = []
    if in_sample:
        result = calibrator.transform(rows)
    else:
        result = torch.empty(0)
        fold = torch.empty(len(labels), dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            for held_out, each in held_out_calibrators(
                scaler, rows, labels, folds=folds, seed=seed, **options
            ):
                transformed = each.transform(rows[held_out.to(rows.device)])
                if not fitted:
                    result = transformed.new_empty(len(rows), *transformed.shape[1:])
                result[held_out.to(rows.device)] = transformed
                fold[held_out] = len(fitted)
                fitted.append(each)
        _warn_of_folds(calibrator, fitted)
    answer = result.numpy(force=True) if isinstance(logits, np.ndarray) else result
    return CrossValidated(answer, calibrator, in_sample, fold, tuple(fitted))


def held_out_calibrators(
    scaler: Callable[[], S],
    logits: Array,
    target: Array,
    *,
    folds: int = 5,
    seed: int = 0,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
) -> Iterator[tuple[Tensor, S]]:
    """Yield each fold's row numbers, in order, and a calibrator fitted without their labels.

    Use it for data too large to hold twice: transform and score the rows piece by piece. The
    arguments are those of :func:`cross_validated`.

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import TemperatureScaling, held_out_calibrators
        >>> logits, target = 3 * torch.eye(3).repeat(4, 1), torch.arange(12) % 7 % 3
        >>> for rows, scaler in held_out_calibrators(TemperatureScaling, logits, target, folds=3):
        ...     print(len(rows), scaler.transform(logits[rows]).shape)
        4 torch.Size([4, 3])
        4 torch.Size([4, 3])
        4 torch.Size([4, 3])
    """
    fit_batch(logits, target, sample_weight, ignore_index)  # your own calibrator may check less
    rows = as_tensor("logits", logits)
    labels = as_tensor("target", target).to(worker(rows.device), torch.int64)
    hidden = -1 if ignore_index is None else ignore_index
    fold = _folds(labels.cpu(), folds, seed, ignore_index)
    for number in range(folds):
        calibrator = scaler()
        seen = labels.masked_fill((fold == number).to(labels.device), hidden)
        with known_as_logits():
            calibrator.fit(rows, seen, sample_weight=sample_weight, ignore_index=hidden)
        yield (fold == number).nonzero().squeeze(1), calibrator


def _folds(target: Tensor, folds: int, seed: int, ignore_index: int | None) -> Tensor:
    """Assign the rows to folds, class by class, in random order within each class."""
    used = len(target) if ignore_index is None else int((target != ignore_index).sum())
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= used:
        raise ValueError(
            f"folds must be an integer from 2 to the number of rows that count, {used}, "
            f"but got {folds!r}."
        )
    shuffled = torch.randperm(len(target), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[target[shuffled].argsort(stable=True)]
    result = torch.empty_like(target)
    result[by_class] = torch.arange(len(target)) % folds
    return result


def _warn_of_folds(calibrator: object, fitted: list[S]) -> None:
    """Warn once of the notes of single folds, unless the fit on all rows has notes too."""
    noted = [notes for each in fitted if (notes := getattr(each, "notes", ()))]
    if noted and not getattr(calibrator, "notes", ()):
        warnings.warn(
            f"{type(calibrator).__name__}, in {len(noted)} of {len(fitted)} folds: {noted[0][0]}",
            CalibrationWarning,
            stacklevel=3,
        )
