"""A calibrator applied to a file of predictions: a copy of the file with calibrated numbers."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin._files import UMASK, UNFINISHED
from softmargin.calibration._batch import (
    LARGEST_LOGIT,
    all_like_probabilities,
    find_wrong,
    sum_tolerance,
)
from softmargin.calibration._columns import Asked, Columns, choose
from softmargin.calibration._files import Progress, Reader, quoted
from softmargin.calibration.predictions import Spread, open_reader, wrong_value
from softmargin.calibration.scaling import Calibrator, TemperatureScaling


def apply_calibrator(
    calibrator: Calibrator,
    path: Path,
    out: Path,
    *,
    predictions: str | None = None,
    from_logits: bool | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a copy of a file with calibrated predictions, and return the number of rows.

    Predictions stay of their kind: logits become calibrated logits, probabilities calibrated
    probabilities, and a score of one class stays one score. All else in the file is copied. The
    new file is there whole or not at all.

    Args:
        calibrator: fitted, on predictions of the same kind and classes in the same order.
        path: a file that :func:`softmargin.calibration.predictions.open_predictions` reads;
            labels are not needed.
        out: the new file, of the same format.
        predictions: key of the array, or start of the columns; recognised by default.
        from_logits: whether the predictions are logits; by default their name must say so.
        progress: called with the rows done and the rows in total (0 if unknown).

    Raises:
        ValueError: if the file cannot be read or does not go with the calibrator, in one sentence.
    """
    with open_reader(path, None, needs_labels=False) as table:
        match = choose(table, Asked(predictions, None, from_logits, needs_labels=False))
        if match.kind == "confidence":
            raise ValueError(
                f"FILE {table.file} must hold logits or probabilities of all classes, but holds "
                "the confidence of the predicted class alone."
            )
        work = _Conversion(calibrator, match, table, progress)
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=".apply.", suffix=UNFINISHED)
        os.close(handle)
        try:
            table.rewrite(Path(name), match.predictions, work)
            work.check_kind()
            os.chmod(name, 0o666 & ~UMASK)
            os.replace(name, out)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    return work.done


class _Conversion:
    """Turns rows of predictions into calibrated ones, and checks them."""

    def __init__(
        self, calibrator: Calibrator, match: Columns, table: Reader, progress: Progress | None
    ) -> None:
        self.calibrator, self.match, self.table, self.progress = calibrator, match, table, progress
        self.spread = Spread(match.kind)
        self.done, self.like_probabilities = 0, True

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype not in (np.float32, np.float64):
            small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
            values = values.astype(np.float32 if small else np.float64)
        rows = torch.from_numpy(np.ascontiguousarray(self.spread(values)))
        self._check(rows)
        logits = self.match.kind == "logits"
        scaled = self.calibrator.transform(rows if logits else _logarithm(rows))
        if not logits:
            scaled = scaled.softmax(1)
        if self.spread.single:
            scaled = scaled[:, 1:] - scaled[:, :1] if logits else scaled[:, 1:]
        self.done += len(rows)
        if self.progress is not None:
            self.progress(self.done, self.table.rows)
        return scaled.numpy()

    def _check(self, rows: torch.Tensor) -> None:
        """Raise unless these rows can be predictions that the calibrator knows."""
        classes = self.calibrator.num_classes
        if classes not in (None, rows.shape[1]):
            raise ValueError(
                f"{self.match.shown} in {self.table.file} must hold {classes} classes, as many as "
                f"CALIBRATOR was fitted on, but holds {rows.shape[1]}."
            )
        self._check_same(rows.shape[1])
        logits, tolerance = self.match.kind == "logits", sum_tolerance(rows.dtype)
        wrong = find_wrong([rows], tolerance, LARGEST_LOGIT if logits else None)
        if wrong is not None:
            if self.spread.single:
                wrong = wrong._replace(value=float(rows[wrong.row, 1]))
            place = self.table.place(self.done + wrong.row)
            raise ValueError(wrong_value(wrong, place, self.match, self.table, tolerance))
        if self.like_probabilities:
            self.like_probabilities = all_like_probabilities(rows, tolerance)

    def _check_same(self, classes: int) -> None:
        """Raise if these are other classes, or another kind of predictions, than were fitted on."""
        known, names = self.calibrator.class_names, self.match.own_names(classes)
        if known is not None and names is not None and known != names:
            pairs = enumerate(zip(known, names, strict=True))
            place = next(number for number, (was, now) in pairs if was != now)
            raise ValueError(
                f"{self.match.shown} in {self.table.file} must hold the classes that CALIBRATOR "
                f"was fitted on, in their order, but class {place} is {quoted(names[place])} and "
                f"was {quoted(known[place])}."
            )
        kind = self.calibrator.fitted_on
        # one temperature for all classes does the same to logits and to logarithms of probabilities
        if kind not in (None, self.match.kind) and self.calibrator.kind != TemperatureScaling.kind:
            raise ValueError(
                f"{self.match.shown} in {self.table.file} must hold {kind}, which CALIBRATOR was "
                f"fitted on, but {self.match.said} {self.match.kind}."
            )

    def check_kind(self) -> None:
        """Raise if probabilities were taken for logits."""
        if self.match.kind == "logits" and self.like_probabilities and not self.spread.single:
            raise ValueError(
                f"{self.match.said} that {self.match.shown} in {self.table.file} holds logits, but "
                "every row holds numbers of at least 0 with a sum of 1, like probabilities: say "
                "--probabilities."
            )


def _logarithm(probabilities: torch.Tensor) -> torch.Tensor:
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
