"""Readers of files with arrays: NumPy's formats and PyTorch's."""

from __future__ import annotations

import math
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin._text import printable
from softmargin.calibration._files import (
    CHUNK,
    CLASS_NAMES,
    HARMLESS_BYTES,
    KNOWN,
    MOST_EXPANSION,
    Blocks,
    Convert,
    Reader,
    as_matrix,
    parts_of,
    quoted,
    sentence,
    stem_of,
    stored_type,
)
from softmargin.calibration._labels import RawLabels

NUMBERS = "fiu"  # NumPy's letters
LABELS = "fiubUS"


class Npy(Reader):
    """Two ``.npy`` files; the predictions are mapped in place."""

    needs_labels_file, takes_labels_file = True, True

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        self.names = [name_of(path), "labels"]

    def blocks(self, chosen: list[int], labels: list[int]) -> Blocks:
        """Yield rows of the predictions and their labels."""
        values, targets = self._arrays(chosen[0])
        done = 0
        for part in parts_of(values):
            yield part, targets[done : done + len(part)]
            done += len(part)

    def read(
        self, chosen: list[int], labels: list[int], convert: Convert, found: RawLabels, *_: Any
    ) -> NDArray[Any]:
        """Map the predictions and load the labels."""
        values, targets = self._arrays(chosen[0])
        found.add(targets, 0)
        if values.dtype == stored_type(values.dtype) and values.shape[1] > 1:
            return values
        return super().read(chosen, labels, convert, RawLabels(), None)

    def _arrays(self, place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        assert self.labels_path is not None
        if not self.labels_path.is_file():
            raise ValueError(
                f"LABELS must be a file that exists, but got {quoted(str(self.labels_path))}."
            )
        values, labels = _mapped(self.path, "FILE"), _mapped(self.labels_path, "LABELS")
        names = self.path.name, self.labels_path.name
        self.check_shapes(values.shape, labels.shape, names, place)
        self.check_not_empty(len(values))
        return as_matrix(values), np.array(labels)

    def rewrite(self, out: Path, chosen: list[int], convert: Convert) -> None:
        """Write an array of the same shape."""
        values = _mapped(self.path, "FILE")
        self.check_shapes(values.shape, values.shape[:1], (self.path.name, ""), chosen[0])
        self.check_not_empty(len(values))
        with out.open("wb") as file:
            parts = map(convert, parts_of(as_matrix(values)))
            _write_array(file, values.shape, values.dtype, parts)


def name_of(path: Path) -> str:
    """Return the word in a file's name that says what its array is, or else the whole name."""
    words = [word for word in re.split(r"[^a-z]+", stem_of(path.stem)) if word in KNOWN]
    return words[0] if len(set(words)) == 1 else path.stem


def _write_array(
    file: IO[bytes],
    shape: tuple[int, ...],
    given: np.dtype[Any],
    parts: Iterable[NDArray[Any]],
) -> None:
    """Write parts of an array in NumPy's format, as float64 if that was given, or else float32."""
    dtype = np.dtype(np.float64 if given.kind == "f" and given.itemsize >= 8 else np.float32)
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for part in parts:
        file.write(np.ascontiguousarray(part, dtype).tobytes())


def _mapped(path: Path, what: str) -> NDArray[Any]:
    """Return an array mapped from its file, which must hold only numbers, or text as labels."""
    name = f"{what} {quoted(path.name)}"
    with path.open("rb") as file:
        _header(file, name, NUMBERS if what == "FILE" else LABELS)
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (ValueError, EOFError, OverflowError) as error:
        raise ValueError(f"{name} cannot be read: {sentence(error)}.") from error
    return array


def _header(
    file: IO[bytes], what: str, kinds: str = NUMBERS
) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
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
    if dtype.hasobject or dtype.kind not in kinds:
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

    def blocks(self, chosen: list[int], labels: list[int]) -> Blocks:
        """Yield rows of the predictions and their labels."""
        place, label = self.check_one(chosen), self.check_one(labels)
        members = self.members[label], self.members[place]
        with self.archive.open(members[0]) as labels_file, self.archive.open(members[1]) as file:
            label_shape, label_type = self._array(labels_file, label, LABELS)
            shape, dtype = self._array(file, place)
            names = self.names[place], self.names[label]
            self.check_shapes(shape, label_shape, names, place)
            count = math.prod(label_shape)
            targets = self._numbers(labels_file, label_type, count, label).reshape(label_shape)
            self.rows, width = shape[0], math.prod(shape[1:])
            step = max(1, CHUNK // width)
            for some in (targets[start : start + step] for start in range(0, len(targets), step)):
                values = self._numbers(file, dtype, len(some) * width, place)
                yield values.reshape(len(some), width), some

    def class_names(self) -> list[str] | None:
        """Return the names in an array of text."""
        for place, name in enumerate(self.names):
            if name.lower() in CLASS_NAMES:
                with self.archive.open(self.members[place]) as file:
                    shape, dtype = self._array(file, place, LABELS)
                    values = self._numbers(file, dtype, math.prod(shape), place)
                return [str(value) for value in values.tolist()]
        return None

    def rewrite(self, out: Path, chosen: list[int], convert: Convert) -> None:
        """Write an archive with the same other members."""
        place = self.check_one(chosen)
        with zipfile.ZipFile(out, "w") as archive:
            for number, member in enumerate(self.members):
                with self.archive.open(member) as old:
                    new = zipfile.ZipInfo(member.filename, (1980, 1, 1, 0, 0, 0))
                    new.compress_type = member.compress_type
                    with archive.open(new, "w", force_zip64=True) as file:
                        if number == place:
                            self._rewrite_member(old, file, place, convert)
                        else:
                            shutil.copyfileobj(old, file)

    def _rewrite_member(self, old: IO[bytes], new: IO[bytes], place: int, convert: Convert) -> None:
        shape, dtype = self._array(old, place)
        self.check_shapes(shape, shape[:1], (self.names[place], ""), place)
        self.check_not_empty(shape[0])
        width = math.prod(shape[1:])
        step = max(1, CHUNK // width)

        def parts() -> Iterator[NDArray[Any]]:
            for start in range(0, shape[0], step):
                rows = min(step, shape[0] - start)
                values = self._numbers(old, dtype, rows * width, place)
                yield convert(values.reshape(rows, width))

        _write_array(new, shape, dtype, parts())

    def _array(
        self, member: IO[bytes], place: int, kinds: str = NUMBERS
    ) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of an array whose size is plausible and matches its header."""
        what = f"{quoted(self.names[place])} in {self.file}"
        shape, dtype, by_columns = _header(member, what, kinds)
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


class Pt(Reader):
    """What ``torch.save`` wrote: tensors by name, or one tensor and a second file of labels.

    Only tensors, numbers and text are read, never code.
    """

    takes_labels_file = True

    def __init__(self, path: Path, labels_path: Path | None) -> None:
        super().__init__(path, labels_path)
        content = _loaded(path, "FILE")
        if isinstance(content, (tuple, list)):
            content = {str(number): value for number, value in enumerate(content)}
        if isinstance(content, Tensor):
            content = {name_of(path): content}
        if not isinstance(content, dict):
            raise ValueError(f"FILE {self.file} must hold tensors by name, but holds none.")
        self.content = {str(name): value for name, value in content.items()}
        if labels_path is not None:
            self.content["labels"] = _loaded(labels_path, "LABELS")
        self.names = list(self.content)

    def blocks(self, chosen: list[int], labels: list[int]) -> Blocks:
        """Yield rows of the predictions and their labels."""
        place, label = self.check_one(chosen), self.check_one(labels)
        values, targets = self._tensor(place), self._labels(label)
        names = self.names[place], self.names[label]
        self.check_shapes(tuple(values.shape), targets.shape, names, place)
        self.rows, done = len(values), 0
        for part in parts_of(as_matrix(values.numpy())):
            yield part, targets[done : done + len(part)]
            done += len(part)

    def class_names(self) -> list[str] | None:
        """Return the names in a list of text."""
        for name, value in self.content.items():
            if name.lower() in CLASS_NAMES and isinstance(value, (list, tuple)):
                return [str(each) for each in value]
        return None

    def rewrite(self, out: Path, chosen: list[int], convert: Convert) -> None:
        """Write the same kind of content with another tensor."""
        place = self.check_one(chosen)
        values = self._tensor(place)
        self.check_shapes(tuple(values.shape), tuple(values.shape[:1]), ("", ""), place)
        self.check_not_empty(len(values))
        parts = [torch.from_numpy(convert(part)) for part in parts_of(as_matrix(values.numpy()))]
        content = _loaded(self.path, "FILE")
        new = torch.cat(parts).reshape(values.shape).to(values.dtype)
        if isinstance(content, Tensor):
            content = new
        elif isinstance(content, dict):
            content = {
                name: new if str(name) == self.names[place] else value
                for name, value in content.items()
            }
        else:
            content = [new if number == place else value for number, value in enumerate(content)]
        torch.save(content, out)

    def _tensor(self, place: int) -> Tensor:
        value = self.content[self.names[place]]
        if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
            raise ValueError(f"{quoted(self.names[place])} in {self.file} must hold numbers.")
        value = value.detach()
        return value.float() if value.dtype == torch.bfloat16 else value

    def _labels(self, place: int) -> NDArray[Any]:
        value = self.content[self.names[place]]
        if isinstance(value, Tensor):
            return (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()
        if isinstance(value, (list, tuple)) and all(isinstance(x, (str, int)) for x in value):
            return np.array(value)
        raise ValueError(
            f"{quoted(self.names[place])} in {self.file} must hold labels, as a tensor or a list."
        )


def _loaded(path: Path, what: str) -> Any:
    if not path.is_file():
        raise ValueError(f"{what} must be a file that exists, but got {quoted(str(path))}.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # whatever a mutilated or hostile archive makes of its reader
        raise ValueError(
            f"{what} {quoted(path.name)} cannot be read: it must be a file by torch.save that "
            "holds only tensors, numbers and text."
        ) from None
