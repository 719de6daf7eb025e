"""The files of CIFAR as its authors published them: pickles, in a folder or an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmargin.data.archives import tar_files
from softmargin.data.errors import reading
from softmargin.data.files import read_limited
from softmargin.data.pickles import read_numbers
from softmargin.data.readers import ReadOptions, Splits, image_split
from softmargin.data.sets import Split

LIMIT = 2**29  # bytes; the largest file has 155 MB


@dataclass(frozen=True)
class _Form:
    """Names of the files, and the word that their keys for classes start with."""

    train: Sequence[str]
    test: str
    names: str
    label: str


_CIFAR10 = _Form([f"data_batch_{i}" for i in range(1, 6)], "test_batch", "batches.meta", "label")
_CIFAR100 = _Form(["train"], "test", "meta", "fine_label")


def read_cifar10(files: Mapping[str, Path], _: ReadOptions) -> Splits:
    """Read the folder ``cifar-10-batches-py``, or its archive without unpacking it."""
    return _cifar(files, _CIFAR10)


def read_cifar100(files: Mapping[str, Path], _: ReadOptions) -> Splits:
    """Read the folder ``cifar-100-python``, or its archive without unpacking it."""
    return _cifar(files, _CIFAR100)


def _cifar(files: Mapping[str, Path], form: _Form) -> Splits:
    if form.test in files:
        path = files[form.test].parent
        contents = {name: read_numbers(_content(each), each) for name, each in files.items()}
    else:
        (path,) = files.values()
        members = tar_files(path, [*form.train, form.test, form.names])
        contents = {name: read_numbers(content, path) for name, content in members}

    def split(names: Sequence[str]) -> Split:
        parts = [contents[name] for name in names if name in contents]
        pixels = [_pixels(part["data"]) for part in parts]
        labels = [_labels(part[form.label + "s"]) for part in parts]
        return image_split(np.concatenate(pixels), np.concatenate(labels), path)

    with reading(path, " as CIFAR"):
        class_names = [_text(name) for name in contents[form.names][form.label + "_names"]]
        return Splits(split(form.train), split([form.test]), class_names)


def _content(path: Path) -> bytes:
    with reading(path):
        return read_limited(path, LIMIT)


def _pixels(data: object) -> npt.NDArray[Any]:
    if not isinstance(data, np.ndarray):
        raise ValueError("data is no array")
    return data.reshape(-1, 3, 32, 32)


def _labels(labels: object) -> npt.NDArray[Any]:
    if isinstance(labels, np.ndarray):
        return labels
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError("labels are no list of whole numbers")
    return np.array(labels, np.int64)


def _text(name: object) -> str:
    if not isinstance(name, (str, bytes)):
        raise ValueError("a class name is no text")
    return name.decode() if isinstance(name, bytes) else name
