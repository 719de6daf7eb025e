"""Predictions in a file: logits or probabilities with labels, read in bounded memory.

Whatever the format, what comes out is a matrix on disk that can be passed over many times, and a
vector of labels. Which array or column was taken is said, and whether it holds logits or
probabilities is never guessed from its values: the name or the caller says it.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin.calibration._files import (
    CHUNK,
    LOGITS,
    PROBABILITIES,
    Csv,
    Npy,
    Npz,
    Parquet,
    Progress,
    Reader,
    checked_labels,
    stem_of,
)

LABELS = ("labels", "label", "targets", "target", "y_true", "y", "class")
READERS: dict[str, type[Reader]] = {".npz": Npz, ".npy": Npy, ".csv": Csv, ".parquet": Parquet}


@dataclass
class Predictions:
    """A matrix of predictions of shape (N, C) and N labels, with where they came from.

    Use it in a ``with`` statement: a copy on disk, where one was needed, goes when it ends.
    """

    values: NDArray[Any]
    labels: NDArray[np.int64]
    from_logits: bool
    source: str
    _spool: ExitStack

    def __enter__(self) -> Self:
        """Return the predictions."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was written to disk."""
        self._spool.close()

    def spooled(self, values: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a function of the rows of a matrix, kept on disk as long as the predictions."""
        temporary = tempfile.NamedTemporaryFile(prefix="softmargin-")  # noqa: SIM115
        file = self._spool.enter_context(temporary)
        for part in torch.split(values, max(1, CHUNK // values.shape[1])):
            function(part).numpy().tofile(file)
        file.flush()
        dtype = function(values[:1]).numpy().dtype
        return torch.from_numpy(np.memmap(file.name, dtype, "c", shape=tuple(values.shape)))


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
        predictions: key of the array, or first letters of the columns; recognised by default.
        labels: key or column of the labels; recognised by default.
        from_logits: whether the predictions are logits; by default their name must say it.
        progress: called with rows read and rows in all (0 if unknown).

    Raises:
        ValueError: with one sentence, for a file that cannot be read or is not clear.
    """
    if not path.is_file():
        raise ValueError(f"FILE must be a file that exists, but got {str(path)!r}.")
    ending = path.suffix.lower()
    if ending not in READERS:
        raise ValueError(f"FILE must end in {', '.join(READERS)}, but got {path.name!r}.")
    if (ending == ".npy") != (labels_path is not None):
        raise ValueError(
            "LABELS must name the .npy file of labels, and only for a FILE that ends in .npy, "
            f"but got {None if labels_path is None else str(labels_path)!r} for {path.name!r}."
        )
    try:
        table = READERS[ending](path, labels_path)
        with table:
            chosen, matched = _choose(table.names, predictions, labels, from_logits, path.name)
            values, numbers, spool = table.read(chosen, matched.labels, progress)
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"FILE {path.name!r} cannot be read: {error}.") from error
    kind = "logits" if matched.from_logits else "probabilities"
    shown = chosen[0] if len(chosen) == 1 else f"{chosen[0]} … {chosen[-1]}"
    source = f"{path.name}: {kind} from {shown!r}, labels from {matched.labels!r}"
    checked = checked_labels(numbers, values.shape, matched.labels)
    return Predictions(values, checked, matched.from_logits, source, spool)


@dataclass(frozen=True)
class _Match:
    labels: str
    from_logits: bool


def _choose(
    names: Sequence[str],
    predictions: str | None,
    labels: str | None,
    from_logits: bool | None,
    file: str,
) -> tuple[list[str], _Match]:
    """Decide which names hold the predictions and the labels, and what kind they are."""
    label = _one("labels", labels, [n for n in names if n.lower() in LABELS], names, file)
    rest = [name for name in names if name != label]
    if predictions is not None:
        chosen = [predictions] if predictions in rest else _with_prefix(rest, predictions)
        if not chosen:
            raise ValueError(_missing("predictions", predictions, names, file))
        stem = stem_of(predictions)
    else:
        stems: dict[str, list[str]] = {}
        for name in rest:
            if (stem := stem_of(name)) in (*LOGITS, *PROBABILITIES):
                stems.setdefault(stem, []).append(name)
        stem = _one("predictions", None, list(stems), names, file)
        chosen = stems[stem]
    if from_logits is None:
        if stem not in (*LOGITS, *PROBABILITIES):
            raise ValueError(
                f"say --logits or --probabilities: the name {stem!r} in {file!r} does not tell."
            )
        from_logits = stem in LOGITS
    return _in_order(chosen), _Match(label, from_logits)


def _one(what: str, given: str | None, found: list[str], names: Sequence[str], file: str) -> str:
    if given is not None:
        if given not in names:
            raise ValueError(_missing(what, given, names, file))
        return given
    if not found:
        raise ValueError(
            f"--{what} must name one of {', '.join(names)} in {file!r}: none was recognised."
        )
    if len(found) > 1:
        raise ValueError(
            f"--{what} must choose one of {', '.join(found)} in {file!r}: there is more than one."
        )
    return found[0]


def _missing(what: str, given: str, names: Sequence[str], file: str) -> str:
    return f"--{what} must be one of {', '.join(names)} in {file!r}, but got {given!r}."


def _with_prefix(names: Sequence[str], prefix: str) -> list[str]:
    return [name for name in names if name.startswith(prefix)]


def _in_order(names: list[str]) -> list[str]:
    """Return columns by the number at their end, where all have one."""
    numbers = [re.search(r"(\d+)\]?$", name) for name in names]
    if len(names) > 1 and all(numbers):
        return sorted(names, key=lambda name: int(re.search(r"(\d+)\]?$", name)[1]))  # type: ignore[index]
    return names
