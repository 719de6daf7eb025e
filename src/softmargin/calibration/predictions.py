"""Predictions in a file: logits or probabilities with labels, read in bounded memory.

For every format the result is a matrix on disk, which can be read many times, and a vector of
labels. It names the array or column that was used. Whether that holds logits or probabilities is
never guessed from its values: its name or the caller must say so.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softmargin._text import printable
from softmargin.calibration._batch import (
    LARGEST_LOGIT,
    all_like_probabilities,
    find_wrong,
    sum_tolerance,
)
from softmargin.calibration._files import (
    CHUNK,
    KNOWN,
    LOGITS,
    LONGEST_SHOWN,
    Npy,
    Npz,
    Progress,
    Reader,
    quoted,
    sentence,
    stem_of,
)
from softmargin.calibration._tables import Csv, Parquet

# one class for each format
READERS: dict[str, type[Reader]] = {".npz": Npz, ".npy": Npy, ".csv": Csv, ".parquet": Parquet}

LABELS = ("labels", "label", "targets", "target", "y_true", "y", "class")
MOST_NAMES = 8  # that an error lists


@dataclass(frozen=True)
class Predictions:
    """A matrix of predictions of shape (N, C) and N labels, and where they came from."""

    values: NDArray[Any]
    labels: NDArray[np.int64]
    from_logits: bool
    source: str


def open_predictions(
    path: Path,
    labels_path: Path | None = None,
    *,
    predictions: str | None = None,
    labels: str | None = None,
    from_logits: bool | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Open a file of predictions and labels.

    Args:
        path: ``.npz``, ``.csv`` or ``.parquet`` with both, or ``.npy`` with the predictions.
        labels_path: the ``.npy`` file of labels that goes with an ``.npy`` of predictions.
        predictions: key of the array, or common prefix of the columns; recognised by default.
        labels: key or column of the labels; recognised by default.
        from_logits: whether the predictions are logits; by default their name must say so.
        progress: called with the rows read and the rows in total (0 if unknown).

    Raises:
        ValueError: if the file cannot be read or is ambiguous, in one sentence.
    """
    if not path.is_file():
        raise ValueError(f"FILE must be a file that exists, but got {quoted(str(path))}.")
    shown = quoted(path.name)
    ending = path.suffix.lower()
    if ending not in READERS:
        raise ValueError(f"FILE must end in {', '.join(READERS)}, but got {shown}.")
    if READERS[ending].labels_apart != (labels_path is not None):
        got = "none" if labels_path is None else quoted(str(labels_path))
        raise ValueError(
            "LABELS must name the .npy file of labels, and only for a FILE that ends in .npy, "
            f"but got {got} for {shown}."
        )
    try:
        with READERS[ending](path, labels_path) as table:
            match = _choose(table.names, predictions, labels, from_logits, table.file)
            values, numbers = table.read(match.predictions, match.labels, progress)
            numbers = _check_labels(numbers, values.shape[1], match, table)
            _check_predictions(values, match, table)
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"FILE {shown} cannot be read: {sentence(error)}.") from error
    kind = "logits" if match.from_logits else "probabilities"
    source = f"{printable(path.name)}: {kind} from {match.shown}, labels from {match.label_shown}"
    return Predictions(values, numbers, match.from_logits, source)


@dataclass(frozen=True)
class _Match:
    """Which columns of a file hold what, and how errors show them."""

    predictions: list[int]  # indices among the file's names, in the order of the classes
    labels: int
    from_logits: bool
    first_number: int  # at the end of the first column's name, 0 if there is none
    said: str  # what says whether they are logits
    shown: str
    label_shown: str


def _choose(
    names: Sequence[str],
    predictions: str | None,
    labels: str | None,
    from_logits: bool | None,
    file: str,
) -> _Match:
    """Choose the columns of the predictions and the labels, and their kind."""
    _check_twice(names, predictions, labels, file)
    label = _one("labels", labels, [n for n in names if n.lower() in LABELS], names, file)
    rest = [name for name in names if name != label]
    if predictions is not None:
        exact = predictions in rest
        chosen = [predictions] if exact else [n for n in rest if n.startswith(predictions)]
        if not chosen:
            raise ValueError(_missing("predictions", predictions, names, file))
        stem = stem_of(predictions)
    else:
        stems: dict[str, list[str]] = {}
        for name in rest:
            if (stem := stem_of(name)) in KNOWN:
                stems.setdefault(stem, []).append(name)
        stem = _one("predictions", None, list(stems), names, file)
        chosen = stems[stem]
    said = "--logits says" if from_logits else "--probabilities says"
    if from_logits is None:
        if stem not in KNOWN:
            raise ValueError(
                f"say --logits or --probabilities: the name {quoted(stem)} in {file} does not tell."
            )
        from_logits, said = stem in LOGITS, "its name says"
    chosen, first = _in_order(chosen, file)
    places = [names.index(name) for name in chosen]
    shown = chosen[0] if len(chosen) == 1 else f"{chosen[0]} … {chosen[-1]}"
    place = names.index(label)
    return _Match(places, place, from_logits, first, said, quoted(shown), quoted(label))


def _check_twice(
    names: Sequence[str], predictions: str | None, labels: str | None, file: str
) -> None:
    """Raise if a name that matters occurs twice, which is ambiguous."""
    seen: set[str] = set()
    for name in names:
        matters = name.lower() in LABELS or stem_of(name) in KNOWN
        matters |= name == labels or (predictions is not None and name.startswith(predictions))
        if name in seen and matters:
            raise ValueError(f"{quoted(name)} occurs more than once in {file}: rename all but one.")
        seen.add(name)


def _one(what: str, given: str | None, found: list[str], names: Sequence[str], file: str) -> str:
    if given is not None:
        if given not in names:
            raise ValueError(_missing(what, given, names, file))
        return given
    if not found:
        raise ValueError(
            f"--{what} must name one of {_listed(names)} in {file}: none was recognised."
        )
    if len(found) > 1:
        raise ValueError(
            f"--{what} must choose one of {_listed(found)} in {file}: there is more than one."
        )
    return found[0]


def _missing(what: str, given: str, names: Sequence[str], file: str) -> str:
    return f"--{what} must be one of {_listed(names)} in {file}, but got {quoted(given)}."


def _listed(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(printable(name, LONGEST_SHOWN) or "''" for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


def _in_order(names: list[str], file: str) -> tuple[list[str], int]:
    """Return the columns sorted by the number at their end, and the first number.

    Without numbers, the classes are in the order of the columns.
    """
    if len(names) == 1:
        return names, 0
    found = [re.search(r"(\d+)\]?$", name) for name in names]
    numbers = [int(each[1]) for each in found if each is not None]
    if not numbers:
        return names, 0
    if len(numbers) < len(names):
        odd = names[found.index(None)]
        raise ValueError(
            f"columns of predictions in {file} must all end in a number or none of them, but "
            f"{quoted(odd)} does not and {quoted(names[found.index(None) - 1])} does."
        )
    by_number = sorted(zip(numbers, names, strict=True))
    for expected, (number, name) in enumerate(by_number, start=min(1, by_number[0][0])):
        if number != expected:
            raise ValueError(
                f"columns of predictions in {file} must be numbered from 0 or 1 on, each number "
                f"once, but {quoted(name)} comes where {expected} should."
            )
    return [name for _, name in by_number], by_number[0][0]


def _check_labels(
    labels: NDArray[Any], classes: int, match: _Match, table: Reader
) -> NDArray[np.int64]:
    """Return the labels as int64; raise unless all are classes."""
    rules = {
        "whole numbers": labels != np.floor(labels) if labels.dtype.kind == "f" else np.False_,
        f"classes from 0 to {classes - 1}": (labels < 0) | (labels >= classes),
    }
    for rule, wrong in rules.items():
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"labels {match.label_shown} must be {rule}, but {table.place(row)} holds "
                f"{labels[row]:g}."
            )
    if match.first_number == 1 and not (labels == 0).any():
        raise ValueError(
            f"the columns {match.shown} in {table.file} are numbered from 1, and no label is 0: "
            "number columns and labels from 0, so that it is clear which label is which column."
        )
    return labels.astype(np.int64, copy=False)


def _check_predictions(values: NDArray[Any], match: _Match, table: Reader) -> None:
    """Raise unless all rows can be logits or probabilities, as declared."""
    name = f"{match.shown} in {table.file}"
    tensor = torch.from_numpy(values)
    tolerance = sum_tolerance(tensor.dtype)
    parts = torch.split(tensor, max(1, CHUNK // values.shape[1]))
    wrong = find_wrong(parts, tolerance, LARGEST_LOGIT if match.from_logits else None)
    place = "" if wrong is None else table.place(wrong.row)
    if wrong is None:
        if match.from_logits and all(all_like_probabilities(each, tolerance) for each in parts):
            raise ValueError(
                f"{match.said} that {name} holds logits, but every row holds numbers of at least "
                "0 with a sum of 1, like probabilities: say --probabilities, or, if they are "
                "logits all the same, add 1 to all of them."
            )
    elif match.from_logits:
        raise ValueError(
            f"{name} must hold finite logits of size up to {LARGEST_LOGIT:g}, but "
            f"{place} holds {wrong.value:g}."
        )
    elif not wrong.is_sum:
        raise ValueError(
            f"{name} must hold probabilities from 0 to 1, but {place} holds "
            f"{wrong.value:g}; if they are logits, say --logits."
        )
    else:
        raise ValueError(
            f"{name} must hold probabilities with a sum of 1 in every row, within {tolerance:g}, "
            f"but that of {place} is {wrong.value:.6g}, off by {abs(wrong.value - 1):.2g}."
        )
