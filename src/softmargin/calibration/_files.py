"""Readers of prediction files: the base class and the temporary copy.

Nothing is read before its size is checked, and then only a block at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softmargin._text import printable
from softmargin.calibration._labels import RawLabels

LOGITS = ("logits", "logit", "z")
PROBABILITIES = (
    *("probabilities", "probability", "probs", "prob", "proba", "softmax", "p"),
    *("y_prob", "y_proba", "predict_proba"),
)
KNOWN = (*LOGITS, *PROBABILITIES)
CLASS_NAMES = ("classes", "class_names")  # arrays with the names of the classes in order
CHUNK = 1 << 22  # numbers read at once
MOST_CLASSES = 100_000
LONGEST_SHOWN = 80  # characters of a name or a cell in an error
# Real data does not compress more than this; a file made to fill a disk does.
MOST_EXPANSION, HARMLESS_BYTES = 200, 1 << 28
Progress = Callable[[int, int], None]
Blocks = Iterator[tuple[NDArray[Any], NDArray[Any]]]
Convert = Callable[[NDArray[Any]], NDArray[Any]]


def quoted(text: str) -> str:
    """Return a name from a file in quotation marks, safe to show (see :func:`printable`)."""
    return f"'{printable(text, LONGEST_SHOWN)}'"


def sentence(error: BaseException) -> str:
    """Return the first line of an error's message, to quote within a sentence."""
    lines = str(error).strip().splitlines()
    return printable(lines[0].rstrip(".")) if lines else type(error).__name__


def stem_of(name: str) -> str:
    """Return the name in lower case, without a number at its end."""
    return re.sub(r"[_.\- \[]*\d+\]?$", "", name).rstrip("_.-").lower()


def parts_of(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the rows of a matrix in order, a bounded number at a time."""
    step = max(1, CHUNK // values.shape[1])
    for start in range(0, len(values), step):
        yield values[start : start + step]


def spooled(blocks: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Write blocks of rows to a temporary file and return them mapped from there.

    The file has no name, and its space is free again when the array is gone.
    """
    rows, width = 0, 0
    dtype: np.dtype[Any] | None = None
    with _writing():
        file = TemporaryFile(prefix="softmargin-")  # noqa: SIM115
    try:
        for block in blocks:
            dtype = dtype or stored_type(block.dtype)
            with _writing():
                file.write(np.ascontiguousarray(block, dtype).data)
                file.flush()
            rows, width = rows + len(block), block.shape[1]
        return np.memmap(file, dtype or np.float32, "c", shape=(rows, width))
    finally:
        with suppress(OSError):  # data that could not be written cannot be flushed either
            file.close()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(
            "the temporary copy of the predictions cannot be written "
            f"({printable(error.strerror or str(error))}): set TMPDIR to a folder with space "
            "for it."
        ) from None


def stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to store numbers in so that none is changed."""
    if dtype.kind == "f" and dtype.itemsize <= 4:
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if dtype.kind in "iu" and dtype.itemsize <= 2 else np.float64)


class Reader:
    """A file with named columns, some of which can be read in blocks of rows.

    A format is a subclass that sets ``names``, and ``rows`` if it is known, yields blocks, and
    writes a copy of itself with other predictions.
    """

    names: list[str]
    rows = 0  # in total, for the progress
    needs_labels_file, takes_labels_file = False, False

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        self.path, self.labels_path = path, labels_path
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @property
    def file(self) -> str:
        """Return the file's name as errors show it."""
        return quoted(self.path.name)

    def blocks(self, chosen: list[int], labels: list[int]) -> Blocks:
        """Yield rows of predictions and their labels; columns are given by their index.

        Predictions are a matrix. Labels are a vector of numbers, truth values or text, or a matrix
        of one column or one per class.
        """
        raise NotImplementedError

    def label_texts(self, labels: list[int]) -> list[str] | None:
        """Return the different labels if they are text and columns may have their names."""
        return None

    def class_names(self) -> list[str] | None:
        """Return the names of the classes in order, if the file holds them as an array."""
        return None

    def rewrite(self, out: Path, chosen: list[int], convert: Convert) -> None:
        """Write a copy with other predictions; all else in the file stays as it is.

        Args:
            out: the new file.
            chosen: indices of the columns of predictions.
            convert: turns rows of these columns, a matrix, into others of the same shape.
        """
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Return where to find a row, as a user would count."""
        return f"row {row} (counting from 0)"

    def read(
        self,
        chosen: list[int],
        labels: list[int],
        convert: Convert,
        found: RawLabels,
        progress: Progress | None,
    ) -> NDArray[Any]:
        """Copy the predictions to a temporary file, converted, and return them mapped.

        The labels are added to ``found``.
        """

        def predictions() -> Iterator[NDArray[Any]]:
            done = 0
            for values, targets in self.blocks(chosen, labels):
                if not done:
                    self.check_width(values.shape[1], chosen[0])
                found.add(targets, done)
                yield convert(values)
                done += len(targets)
                if progress is not None:
                    progress(done, self.rows)
            self.check_not_empty(done)

        return spooled(predictions())

    def check_not_empty(self, rows: int) -> None:
        """Raise if there are no rows."""
        if not rows:
            raise ValueError(f"FILE {self.file} must hold predictions, but is empty.")

    def check_one(self, chosen: list[int]) -> int:
        """Return the index of the only array of predictions."""
        if len(chosen) > 1:
            several = ", ".join(printable(self.names[i]) for i in chosen[:9])
            raise ValueError(f"--predictions must choose one of {several} in {self.file}.")
        return chosen[0]

    def check_width(self, width: int, place: int) -> None:
        """Raise unless the number of classes is plausible."""
        name = f"{quoted(self.names[place])} in {self.file}"
        if width < 1:
            raise ValueError(f"{name} must hold predictions, but its rows are empty.")
        if width > MOST_CLASSES:
            raise ValueError(
                f"{name} must hold predictions of at most {MOST_CLASSES:,} classes, "
                f"but holds {width:,}."
            )

    def check_shapes(
        self, shape: tuple[int, ...], labels: tuple[int, ...], names: tuple[str, str], place: int
    ) -> None:
        """Raise unless predictions are a matrix, or one score per row, and labels go with them."""
        if len(shape) not in (1, 2):
            raise ValueError(
                f"predictions must have shape (N, C), but got {shape} for {quoted(names[0])}."
            )
        width = shape[1] if len(shape) == 2 else 1
        self.check_width(width, place)
        if labels[:1] != shape[:1] or len(labels) > 2:
            raise ValueError(
                f"labels {quoted(names[1])} must have shape ({shape[0]},), as many as predictions, "
                f"but got {labels}."
            )


def as_matrix(values: NDArray[Any]) -> NDArray[Any]:
    """Return one score per row as a matrix of one column; a matrix stays as it is."""
    return values.reshape(len(values), 1) if values.ndim == 1 else values
