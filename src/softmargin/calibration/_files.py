"""Readers of files of predictions, each as names of columns and blocks of rows."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

LOGITS = ("logits", "logit", "z")
PROBABILITIES = ("probabilities", "probability", "probs", "prob", "proba", "softmax", "p")
CHUNK = 1 << 22  # numbers read at once
Progress = Callable[[int, int], None]
Blocks = Iterator[tuple[NDArray[Any], NDArray[Any]]]


def stem_of(name: str) -> str:
    """Return the name without a number at its end, in small letters."""
    return re.sub(r"[_.\- \[]*\d+\]?$", "", name).rstrip("_.-").lower()


def checked_labels(labels: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    """Return labels as int64, if there is one whole number per row of predictions."""
    if len(shape) != 2:
        raise ValueError(f"predictions must have shape (N, C), but got {shape}.")
    if labels.shape != shape[:1]:
        raise ValueError(
            f"labels {name!r} must have shape ({shape[0]},), as many as predictions, "
            f"but got {labels.shape}."
        )
    if labels.dtype.kind == "f":
        broken = np.flatnonzero(labels != np.floor(labels))
        if len(broken):
            raise ValueError(
                f"labels {name!r} must be whole numbers, but row {broken[0]} is "
                f"{labels[broken[0]]}."
            )
    elif labels.dtype.kind not in "iu":
        raise ValueError(f"labels {name!r} must be whole numbers, but got {labels.dtype}.")
    return labels.astype(np.int64, copy=False)


class Reader:
    """A file as names of columns, and blocks of rows of some of them."""

    names: list[str]

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        self.path, self.labels_path = path, labels_path
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def blocks(self, chosen: list[str], label: str) -> Blocks:
        """Yield rows of predictions and their labels."""
        raise NotImplementedError

    def rows(self) -> int:
        """Return the number of rows, 0 if unknown."""
        return 0

    def read(
        self, chosen: list[str], label: str, progress: Progress | None
    ) -> tuple[NDArray[Any], NDArray[Any], ExitStack]:
        """Copy the predictions to a file that can be mapped; return it and the labels."""
        spool = ExitStack()
        try:
            temporary = tempfile.NamedTemporaryFile(prefix="softmargin-")  # noqa: SIM115
            file = spool.enter_context(temporary)
            labels: list[NDArray[Any]] = []
            width, done = 0, 0
            dtype: np.dtype[Any] = np.dtype(np.float32)
            for values, targets in self.blocks(chosen, label):
                if not labels:
                    width = values.shape[1]
                    dtype = np.dtype(np.float64 if values.dtype == np.float64 else np.float32)
                values.astype(dtype, copy=False).tofile(file)
                labels.append(targets)
                done += len(targets)
                if progress is not None:
                    progress(done, self.rows())
            file.flush()
            if not done:
                raise ValueError(f"FILE {self.path.name!r} must hold predictions, but is empty.")
            mapped = np.memmap(file.name, dtype, "c", shape=(done, width))
        except BaseException:
            spool.close()
            raise
        return mapped, np.concatenate(labels), spool


class Npy(Reader):
    """Two ``.npy`` files, the predictions mapped where they lie."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        stem = stem_of(path.stem)
        known = (*LOGITS, *PROBABILITIES)
        words = [word for word in re.split(r"[^a-z]+", stem) if word in known]
        self.names = [words[0] if len(set(words)) == 1 else path.stem, "labels"]

    def read(
        self, chosen: list[str], label: str, progress: Progress | None
    ) -> tuple[NDArray[Any], NDArray[Any], ExitStack]:
        """Map the predictions and load the labels."""
        assert self.labels_path is not None
        if not self.labels_path.is_file():
            raise ValueError(f"LABELS must be a file that exists, got {str(self.labels_path)!r}.")
        return _mapped(self.path), np.array(_mapped(self.labels_path)), ExitStack()


def _mapped(path: Path) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="c", allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError) as error:
        raise ValueError(f"FILE {path.name!r} cannot be read: {_sentence(error)}.") from error


class Npz(Reader):
    """An ``.npz`` archive, whose members are streamed."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        self.archive = self.stack.enter_context(zipfile.ZipFile(path))
        members = self.archive.namelist()
        self.names = [name.removesuffix(".npy") for name in members if name.endswith(".npy")]
        self.total = 0

    def rows(self) -> int:
        """Return the number of rows of the predictions."""
        return self.total

    def blocks(self, chosen: list[str], label: str) -> Blocks:
        """Yield rows of the predictions and their labels."""
        if len(chosen) > 1:
            raise ValueError(
                f"--predictions must choose one of {', '.join(chosen)} in {self.path.name!r}."
            )
        with self._open(label) as member:
            shape, dtype = self._header(member, label)
            labels = self._rows(member, dtype, int(np.prod(shape)), label).reshape(shape)
        with self._open(chosen[0]) as member:
            shape, dtype = self._header(member, chosen[0])
            if len(shape) != 2:
                raise ValueError(f"predictions must have shape (N, C), but got {shape}.")
            if labels.shape != shape[:1]:
                checked_labels(labels, shape, label)
            self.total, step = shape[0], max(1, CHUNK // max(1, shape[1]))
            for start in range(0, shape[0], step):
                count = min(step, shape[0] - start)
                rows = self._rows(member, dtype, count * shape[1], chosen[0])
                yield rows.reshape(count, shape[1]), labels[start : start + count]

    def _open(self, name: str) -> IO[bytes]:
        return self.archive.open(f"{name}.npy")

    def _header(self, member: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        try:
            version = np.lib.format.read_magic(member)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, in_columns, dtype = read(member)
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{name!r} in {self.path.name!r} cannot be read: {_sentence(error)}."
            ) from error
        if dtype.hasobject or dtype.kind not in "fiu":
            raise ValueError(f"{name!r} in {self.path.name!r} must hold numbers, got {dtype}.")
        if in_columns and len(shape) > 1:
            raise ValueError(
                f"{name!r} in {self.path.name!r} must be stored by rows; save a copy made with "
                "np.ascontiguousarray."
            )
        return shape, dtype

    def _rows(self, member: IO[bytes], dtype: np.dtype[Any], count: int, name: str) -> NDArray[Any]:
        data = member.read(count * dtype.itemsize)
        if len(data) < count * dtype.itemsize:
            raise ValueError(f"{name!r} in {self.path.name!r} ends too early: it is truncated.")
        return np.frombuffer(data, dtype)


class Arrow(Reader):
    """A table that pyarrow reads batch by batch."""

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of some columns."""
        raise NotImplementedError

    def blocks(self, chosen: list[str], label: str) -> Blocks:
        """Yield rows of the predictions and their labels."""
        from pyarrow import ArrowException

        done = 0
        try:
            for batch in self.batches([*chosen, label]):
                columns = [self._numbers(batch, name, done) for name in chosen]
                values = columns[0] if columns[0].ndim == 2 else np.stack(columns, 1)
                yield values, self._numbers(batch, label, done)
                done += batch.num_rows
        except ArrowException as error:
            message = _sentence(error)
            raise ValueError(f"FILE {self.path.name!r} cannot be read: {message}.") from error

    def _numbers(self, batch: Any, name: str, done: int) -> NDArray[Any]:
        column = batch.column(batch.schema.get_field_index(name))
        if column.null_count:
            row = done + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"column {name!r} must hold numbers, but row {row} is empty.")
        if hasattr(column, "flatten") and column.type.num_fields == 1:  # a list in every row
            flat = column.flatten().to_numpy(zero_copy_only=False)
            if len(flat) % max(1, len(column)):
                raise ValueError(f"column {name!r} must hold lists of one length.")
            return np.asarray(flat.reshape(len(column), -1))
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "fiu":
            raise ValueError(f"column {name!r} must hold numbers, but row {done} is {values[0]!r}.")
        return np.asarray(values)


class Csv(Arrow):
    """Comma-separated values with names in the first line."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            first = file.readline().strip()
        self.names = [name.strip().strip('"') for name in first.split(",")] if first else []

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of some columns."""
        from pyarrow import csv

        convert = csv.ConvertOptions(include_columns=columns)
        blocks = csv.ReadOptions(block_size=1 << 24)
        yield from csv.open_csv(self.path, read_options=blocks, convert_options=convert)


class Parquet(Arrow):
    """A Parquet file."""

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        from pyarrow import ArrowException, parquet

        try:
            self.file = self.stack.enter_context(parquet.ParquetFile(path))
        except ArrowException as error:
            raise ValueError(f"FILE {path.name!r} cannot be read: {_sentence(error)}.") from error
        self.names = list(self.file.schema_arrow.names)

    def rows(self) -> int:
        """Return the number of rows."""
        return int(self.file.metadata.num_rows)

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of some columns."""
        yield from self.file.iter_batches(columns=columns)


def _sentence(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
