"""Predictions in a file: logits or probabilities with labels, read in bounded memory.

Whatever the format, what comes out is a matrix on disk that can be passed over many times, and a
vector of labels. Which array or column was taken is said, and whether it holds logits or
probabilities is never guessed from its values: the name or the caller says it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin._text import printable
from softmargin.calibration._columns import choose
from softmargin.calibration._file_checks import check_labels, check_predictions
from softmargin.calibration._files import CHUNK, Npy, Npz, Progress, Reader, Spool, quoted, sentence
from softmargin.calibration._tables import Csv, Parquet

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
    _spools: list[Spool]

    def __enter__(self) -> Self:
        """Return the predictions."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was written to disk."""
        for spool in self._spools:
            spool.close()

    def spooled(self, values: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a function of the rows of a matrix, kept on disk as long as the predictions."""
        spool = Spool()
        self._spools.append(spool)
        for part in torch.split(values, max(1, CHUNK // values.shape[1])):
            spool.write(function(part).numpy())
        dtype = function(values[:1]).numpy().dtype
        rows, classes = values.shape
        return torch.from_numpy(spool.mapped(dtype, (rows, classes)))


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
        raise ValueError(f"FILE must be a file that exists, but got {quoted(str(path))}.")
    shown = quoted(path.name)
    ending = path.suffix.lower()
    if ending not in READERS:
        raise ValueError(f"FILE must end in {', '.join(READERS)}, but got {shown}.")
    if (ending == ".npy") != (labels_path is not None):
        got = "none" if labels_path is None else quoted(str(labels_path))
        raise ValueError(
            "LABELS must name the .npy file of labels, and only for a FILE that ends in .npy, "
            f"but got {got} for {shown}."
        )
    try:
        with READERS[ending](path, labels_path) as table:
            match = choose(table.names, predictions, labels, from_logits, table.file)
            values, numbers, spool = table.read(match.predictions, match.labels, progress)
            try:
                checked = check_labels(numbers, values.shape[1], match, table)
                check_predictions(values, match, table)
            except BaseException:
                spool.close()
                raise
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"FILE {shown} cannot be read: {sentence(error)}.") from error
    kind = "logits" if match.from_logits else "probabilities"
    source = f"{printable(path.name)}: {kind} from {match.shown}, labels from {match.label_shown}"
    return Predictions(values, checked, match.from_logits, source, [spool])
