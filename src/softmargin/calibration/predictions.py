"""Predictions in a file: logits or probabilities with labels, read in bounded memory.

For every format the result is a matrix on disk, which can be read many times, and a vector of
labels. It names the array or column that was used. Whether that holds logits or probabilities is
never guessed from its values: its name or the caller must say so.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin._text import printable
from softmargin.calibration._arrays import Npy, Npz, Pt
from softmargin.calibration._batch import (
    LARGEST_LOGIT,
    WrongRow,
    all_like_probabilities,
    find_wrong,
    sum_tolerance,
)
from softmargin.calibration._columns import Asked, Columns, choose
from softmargin.calibration._files import CHUNK, Progress, Reader, quoted, sentence
from softmargin.calibration._labels import LabelError, RawLabels
from softmargin.calibration._tables import Csv, Parquet

# one class for each format
READERS: dict[str, type[Reader]] = {
    ".npz": Npz,
    ".npy": Npy,
    ".csv": Csv,
    ".tsv": Csv,
    ".csv.gz": Csv,
    ".tsv.gz": Csv,
    ".parquet": Parquet,
    ".pt": Pt,
}


@dataclass(frozen=True)
class Predictions:
    """A matrix of predictions of shape (N, C) and N labels, and where they came from.

    With ``confidence_only``, the matrix has one column, the confidence in the predicted class, and
    the labels say whether it was right. ``class_names`` are what columns or the file call the
    classes, in their order.
    """

    values: NDArray[Any]
    labels: NDArray[np.int64]
    from_logits: bool
    source: str
    confidence_only: bool = False
    class_names: tuple[str, ...] | None = None


def open_predictions(
    path: Path,
    labels_path: Path | None = None,
    *,
    predictions: str | None = None,
    labels: str | None = None,
    from_logits: bool | None = None,
    positive: str | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Open a file of predictions and labels.

    A score of one class, a vector or a matrix of one column, becomes two columns: 1 - p and p, or
    0 and z.

    Args:
        path: a file with both that ends in one of ``READERS``, or ``.npy`` with the predictions.
        labels_path: the file of labels that goes with an ``.npy`` or ``.pt`` of predictions.
        predictions: key of the array, common prefix of the columns, or their names with commas
            between; recognised by default.
        labels: key or column of the labels; recognised by default.
        from_logits: whether the predictions are logits; by default their name must say so.
        positive: of a score of one class, the label of that class.
        progress: called with the rows read and the rows in total (0 if unknown).

    Raises:
        ValueError: if the file cannot be read or is ambiguous, in one sentence.
    """
    with open_reader(path, labels_path) as table:
        match = choose(table, Asked(predictions, labels, from_logits))
        found, spread = RawLabels(), Spread(match.kind)
        try:
            values = table.read(match.predictions, match.labels, spread, found, progress)
            if positive is not None and not spread.single:
                raise ValueError("--positive is only for a score of one class.")
            classes = 2 if match.kind == "confidence" else values.shape[1]
            numbers = found.numbers(classes, match.class_names, positive)
        except LabelError as error:
            raise ValueError(_label_sentence(error, found, match, table, spread.single)) from None
        _check_numbering(numbers, match, table)
        _check_predictions(values, match, table, spread.single)
    logits, only = match.kind == "logits", match.kind == "confidence"
    what = "correctness" if only else "labels"
    source = f"{printable(path.name)}: {match.kind} from {match.shown}, {what} from "
    source += match.label_shown
    return Predictions(values, numbers, logits, source, only, match.own_names(values.shape[1]))


@contextmanager
def open_reader(
    path: Path, labels_path: Path | None, *, needs_labels: bool = True
) -> Iterator[Reader]:
    """Open a file for reading; errors of the format become a sentence."""
    if not path.is_file():
        raise ValueError(f"FILE must be a file that exists, but got {quoted(str(path))}.")
    shown = quoted(path.name)
    kind = READERS.get(ending_of(path))
    if kind is None:
        raise ValueError(f"FILE must end in {', '.join(READERS)}, but got {shown}.")
    given = labels_path is not None
    if (kind.needs_labels_file and needs_labels and not given) or (
        given and not kind.takes_labels_file
    ):
        got = "none" if labels_path is None else quoted(str(labels_path))
        raise ValueError(
            "LABELS must name the .npy file of labels, and only for a FILE that ends in .npy, "
            f"but got {got} for {shown}."
        )
    try:
        with kind(path, labels_path) as table:
            yield table
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"FILE {shown} cannot be read: {sentence(error)}.") from error


def ending_of(path: Path) -> str:
    """Return the end of a file's name that tells its format.

    Example:
        >>> ending_of(Path("run.2/Predictions.CSV.gz")), ending_of(Path("a.b.npz"))
        ('.csv.gz', '.npz')
    """
    both = "".join(path.suffixes[-2:]).lower()
    return both if both in READERS else path.suffix.lower()


class Spread:
    """Makes two columns of a score of one class: 1 - p and p, or 0 and z; more columns stay."""

    def __init__(self, kind: str) -> None:
        """Take what the predictions are."""
        self.kind = kind
        self.single = False  # whether a score of one class has come

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the columns of all classes."""
        if values.shape[1] > 1 or self.kind == "confidence":
            return values
        self.single = True
        if values.dtype.kind != "f":
            values = values.astype(np.float64)
        other = np.zeros_like(values) if self.kind == "logits" else 1 - values
        return np.concatenate([other, values], 1)


def _label_sentence(
    error: LabelError, found: RawLabels, match: Columns, table: Reader, single: bool
) -> str:
    sentence = (
        f"labels {match.label_shown} must be {error.rule}, but {table.place(error.row)} holds "
        f"{error.held}"
    )
    if found.kind == "text" and not match.class_names and found.texts:
        if single and len(found.texts) == 2:
            return f"{sentence}; --positive says of which label the score is."
        return f"{sentence}; an array 'classes' in the file may name the classes in order."
    return f"{sentence}."


def _check_numbering(labels: NDArray[np.int64], match: Columns, table: Reader) -> None:
    """Raise if it is not clear which label is which column."""
    if match.first_number == 1 and not (labels == 0).any():
        raise ValueError(
            f"the columns {match.shown} in {table.file} are numbered from 1, and no label is 0: "
            "number columns and labels from 0, so that it is clear which label is which column."
        )


def _check_predictions(values: NDArray[Any], match: Columns, table: Reader, single: bool) -> None:
    """Raise unless all rows can be logits or probabilities, as declared."""
    name = f"{match.shown} in {table.file}"
    logits = match.kind == "logits"
    tensor = torch.from_numpy(values)
    tolerance = math.inf if match.kind == "confidence" else sum_tolerance(tensor.dtype)
    parts = torch.split(tensor, max(1, CHUNK // values.shape[1]))
    wrong = find_wrong(parts, tolerance, LARGEST_LOGIT if logits else None)
    if wrong is not None and single:
        # of a score of one class, the column of the other is made up
        wrong = wrong._replace(value=float(values[wrong.row, 1]))
    if wrong is None:
        if logits and all(all_like_probabilities(each, tolerance) for each in parts):
            raise ValueError(
                f"{match.said} that {name} holds logits, but every row holds numbers of at least "
                "0 with a sum of 1, like probabilities: say --probabilities, or, if they are "
                "logits all the same, add 1 to all of them."
            )
    else:
        raise ValueError(wrong_value(wrong, table.place(wrong.row), match, table, tolerance))


def wrong_value(
    wrong: WrongRow, place: str, match: Columns, table: Reader, tolerance: float
) -> str:
    """Return a sentence about a row that holds neither logits nor probabilities."""
    name = f"{match.shown} in {table.file}"
    if match.kind == "logits":
        return (
            f"{name} must hold finite logits of size up to {LARGEST_LOGIT:g}, but "
            f"{place} holds {wrong.value:g}."
        )
    if not wrong.is_sum:
        return (
            f"{name} must hold probabilities from 0 to 1, but {place} holds "
            f"{wrong.value:g}; if they are logits, say --logits."
        )
    return (
        f"{name} must hold probabilities with a sum of 1 in every row, within {tolerance:g}, "
        f"but that of {place} is {wrong.value:.6g}, off by {abs(wrong.value - 1):.2g}."
    )
