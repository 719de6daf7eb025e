"""Readers of prediction files: the base class, the temporary copy, and NumPy's formats.

Nothing is read before its size is checked, and then only a block at a time.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from softmargin._text import printable

LOGITS = ("logits", "logit", "z")
PROBABILITIES = ("probabilities", "probability", "probs", "prob", "proba", "softmax", "p")
KNOWN = (*LOGITS, *PROBABILITIES)
CHUNK = 1 << 22  # numbers read at once
MOST_CLASSES = 100_000
LONGEST_SHOWN = 80  # characters of a name or a cell in an error
# Real data does not compress more than this; a file made to fill a disk does.
MOST_EXPANSION, HARMLESS_BYTES = 200, 1 << 28
Progress = Callable[[int, int], None]
Blocks = Iterator[tuple[NDArray[Any], NDArray[Any]]]


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
            dtype = dtype or _stored(block.dtype)
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


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to store numbers in so that none is changed."""
    if dtype.kind == "f" and dtype.itemsize <= 4:
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if dtype.kind in "iu" and dtype.itemsize <= 2 else np.float64)


class Reader:
    """A file with named columns, some of which can be read in blocks of rows.

    A format is a subclass that sets ``names``, and ``rows`` if it is known, and yields blocks.
    """

    names: list[str]
    rows = 0  # in total, for the progress
    labels_apart = False  # whether the labels are in a second file

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

    def blocks(self, chosen: list[int], label: int) -> Blocks:
        """Yield rows of predictions and their labels; columns are given by their index."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Return where to find a row, as a user would count."""
        return f"row {row} (counting from 0)"

    def read(
        self, chosen: list[int], label: int, progress: Progress | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Copy the predictions to a temporary file; return them mapped, and the labels."""
        labels: list[NDArray[Any]] = []

        def predictions() -> Iterator[NDArray[Any]]:
            done = 0
            for values, targets in self.blocks(chosen, label):
                if not labels:
                    self.check_width(values.shape[1], chosen[0])
                yield values
                labels.append(targets)
                done += len(targets)
                if progress is not None:
                    progress(done, self.rows)
            self.check_not_empty(done)

        return spooled(predictions()), np.concatenate(labels)

    def check_not_empty(self, rows: int) -> None:
        """Raise if there are no rows."""
        if not rows:
            raise ValueError(f"FILE {self.file} must hold predictions, but is empty.")

    def check_width(self, width: int, place: int) -> None:
        """Raise unless the number of classes is plausible."""
        name = f"{quoted(self.names[place])} in {self.file}"
        if width < 2:
            raise ValueError(
                f"{name} must hold predictions of at least 2 classes, but holds "
                f"{width}; of two classes, store both."
            )
        if width > MOST_CLASSES:
            raise ValueError(
                f"{name} must hold predictions of at most {MOST_CLASSES:,} classes, "
                f"but holds {width:,}."
            )

    def check_shapes(
        self, shape: tuple[int, ...], labels: tuple[int, ...], names: tuple[str, str], place: int
    ) -> None:
        """Raise unless predictions are a matrix and there is one label per row."""
        if len(shape) != 2:
            raise ValueError(
                f"predictions must have shape (N, C), but got {shape} for {quoted(names[0])}."
            )
        if labels != shape[:1]:
            raise ValueError(
                f"labels {quoted(names[1])} must have shape ({shape[0]},), as many as predictions, "
                f"but got {labels}."
            )
        self.check_width(shape[1], place)


class Npy(Reader):
    """Two ``.npy`` files; the predictions are mapped in place."""

    labels_apart = True

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        words = [word for word in re.split(r"[^a-z]+", stem_of(path.stem)) if word in KNOWN]
        self.names = [words[0] if len(set(words)) == 1 else path.stem, "labels"]

    def read(
        self, chosen: list[int], label: int, progress: Progress | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Map the predictions and load the labels."""
        assert self.labels_path is not None
        if not self.labels_path.is_file():
            raise ValueError(
                f"LABELS must be a file that exists, but got {quoted(str(self.labels_path))}."
            )
        values, labels = _mapped(self.path, "FILE"), _mapped(self.labels_path, "LABELS")
        names = self.path.name, self.labels_path.name
        self.check_shapes(values.shape, labels.shape, names, chosen[0])
        self.check_not_empty(len(values))
        if values.dtype != _stored(values.dtype):
            values = spooled(parts_of(values))
        return values, np.array(labels)


def _mapped(path: Path, what: str) -> NDArray[Any]:
    """Return an array mapped from its file, which must hold only numbers."""
    name = f"{what} {quoted(path.name)}"
    with path.open("rb") as file:
        _header(file, name)
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (ValueError, EOFError, OverflowError) as error:
        raise ValueError(f"{name} cannot be read: {sentence(error)}.") from error
    return array


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Return the shape and type of an array of numbers, and whether it is stored by columns."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version == (2, 0):
            read = np.lib.format.read_array_header_2_0
        elif version != (1, 0):
            raise ValueError(f"version {version[0]}.{version[1]} is not known")
        shape, by_columns, dtype = read(file)
    except (ValueError, EOFError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"{what} cannot be read: it is no array in NumPy's format ({sentence(error)})."
        ) from None
    if dtype.hasobject or dtype.kind not in "fiu":
        raise ValueError(f"{what} must hold numbers, got {printable(str(dtype))}.")
    return shape, dtype, by_columns


class Npz(Reader):
    """An ``.npz`` archive, whose members are streamed."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        self.archive = self.stack.enter_context(zipfile.ZipFile(path))
        self.members = [each for each in self.archive.infolist() if each.filename.endswith(".npy")]
        self.names = [each.filename.removesuffix(".npy") for each in self.members]
        if not self.names:
            raise ValueError(f"FILE {self.file} must hold arrays, but there are none in it.")

    def blocks(self, chosen: list[int], label: int) -> Blocks:
        """Yield rows of the predictions and their labels."""
        if len(chosen) > 1:
            several = ", ".join(printable(self.names[i]) for i in chosen[:9])
            raise ValueError(f"--predictions must choose one of {several} in {self.file}.")
        place = chosen[0]
        members = self.members[label], self.members[place]
        with self.archive.open(members[0]) as labels_file, self.archive.open(members[1]) as file:
            label_shape, label_type = self._array(labels_file, label)
            shape, dtype = self._array(file, place)
            names = self.names[place], self.names[label]
            self.check_shapes(shape, label_shape, names, place)
            labels = self._numbers(labels_file, label_type, shape[0], label)
            self.rows, step = shape[0], max(1, CHUNK // shape[1])
            for some in (labels[start : start + step] for start in range(0, len(labels), step)):
                values = self._numbers(file, dtype, len(some) * shape[1], place)
                yield values.reshape(len(some), shape[1]), some

    def _array(self, member: IO[bytes], place: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of an array whose size is plausible and matches its header."""
        what = f"{quoted(self.names[place])} in {self.file}"
        shape, dtype, by_columns = _header(member, what)
        if by_columns and len(shape) > 1:
            raise ValueError(
                f"{what} must be stored by rows; save a copy made with np.ascontiguousarray."
            )
        info, size = self.members[place], math.prod(shape) * dtype.itemsize
        if size > info.file_size:
            raise ValueError(f"{what} ends too early: it is truncated.")
        if size > max(HARMLESS_BYTES, MOST_EXPANSION * info.compress_size):
            raise ValueError(
                f"{what} must not be compressed more than {MOST_EXPANSION} times, but "
                f"{info.compress_size:,} bytes unpack to {size:,}; save it uncompressed if that "
                "is what you mean."
            )
        return shape, dtype

    def _numbers(
        self, member: IO[bytes], dtype: np.dtype[Any], count: int, place: int
    ) -> NDArray[Any]:
        data = member.read(count * dtype.itemsize)
        if len(data) < count * dtype.itemsize:
            raise ValueError(
                f"{quoted(self.names[place])} in {self.file} ends too early: it is truncated."
            )
        return np.frombuffer(data, dtype)
