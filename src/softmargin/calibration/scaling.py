"""Post-hoc calibration: temperature and vector scaling, and their evaluation on held-out folds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.calibration._batch import Array, as_tensor, fit_batch, known_as_logits, worker
from softmargin.calibration._calibrator import (
    FIT_ARGUMENTS,
    CalibrationWarning,
    Calibrator,
    read_calibrator,
)
from softmargin.calibration._temperature import TemperatureScaling
from softmargin.calibration._vector import VectorScaling
from softmargin.functional._checks import check_flag

__all__ = [
    "CalibrationWarning",
    "Calibrator",
    "CrossValidated",
    "TemperatureScaling",
    "VectorScaling",
    "cross_validated",
    "held_out_calibrators",
    "load_calibrator",
]


ARGUMENTS = {
    **FIT_ARGUMENTS,
    "scaler": "makes a calibrator, such as the class ``TemperatureScaling`` itself.",
    "folds": """number of folds, from 2 to the number of rows that count. Each holds its share of
        every class, to within one row.""",
    "seed": "seed of the random division into folds.",
    "in_sample": """transform the rows that were fitted instead. The resulting metrics are too
        good, especially with ``VectorScaling`` and few rows.""",
    "ignore_index": "a target whose rows do not count in the fits; they are still transformed.",
}


KINDS: dict[str, type[Calibrator]] = {
    each.kind: each for each in (TemperatureScaling, VectorScaling)
}


def load_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator of any kind from a JSON file made by its ``save``.

    Example:
        >>> import pathlib, tempfile
        >>> from softmargin.calibration import TemperatureScaling, load_calibrator
        >>> scaler = TemperatureScaling()
        >>> scaler.temperature = 2.0
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "calibrator.json"
        ...     scaler.save(path)
        ...     load_calibrator(path)
        TemperatureScaling(temperature=2)
    """
    kind = read_calibrator(Path(path))["kind"]
    if kind not in KINDS:
        raise ValueError(
            f"path must be a calibrator of kind {' or '.join(KINDS)}, but {str(path)!r} is of "
            f"kind {kind!r}."
        )
    return KINDS[kind].load(path)


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


@document_arguments(ARGUMENTS)
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

    Example:
        >>> import torch
        >>> from softmargin.calibration.scaling import TemperatureScaling, cross_validated
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = torch.randn(1000, 3, generator=generator)
        >>> target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
        >>> result = cross_validated(TemperatureScaling, 5 * logits, target)
        >>> nll = torch.nn.functional.cross_entropy
        >>> abs(nll(result.logits, target) - nll(logits, target)).item() < 0.01  # held out
        True
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


@document_arguments(ARGUMENTS)
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

    Use it for data too large to hold twice: transform and score the rows piece by piece.

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
    fold = fold_numbers(labels.cpu(), folds, seed, ignore_index)
    for number in range(folds):
        calibrator = scaler()
        seen = labels.masked_fill((fold == number).to(labels.device), hidden)
        with known_as_logits():
            calibrator.fit(rows, seen, sample_weight=sample_weight, ignore_index=hidden)
        yield (fold == number).nonzero().squeeze(1), calibrator


def fold_numbers(
    target: Tensor, folds: int, seed: int = 0, ignore_index: int | None = None
) -> Tensor:
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
