"""The files that the authors published: CIFAR's pickles and SVHN's ``.mat``."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmargin.data.checksums import CIFAR10, CIFAR100
from softmargin.data.errors import BrokenFileError
from softmargin.data.pickles import read_numbers
from softmargin.data.readers.parts import (
    Options,
    Parts,
    channels_first,
    image_split,
    unreadable,
)
from softmargin.data.safety import UNREADABLE, open_tar, tar_members
from softmargin.data.sets import Split

PIXELS = 2**29  # numbers in one file of SVHN; the training set has 225 million
Contents = Mapping[str, dict[str, Any]]


def read_cifar10(files: Mapping[str, Path], _: Options) -> Parts:
    """Read the folder ``cifar-10-batches-py``."""
    return _cifar10(_unpickle(files), files["test_batch"].parent)


def read_cifar10_archive(files: Mapping[str, Path], _: Options) -> Parts:
    """Read ``cifar-10-python.tar.gz`` without unpacking it."""
    (path,) = files.values()
    return _cifar10(_unpickle_archive(path, CIFAR10), path)


def read_cifar100(files: Mapping[str, Path], _: Options) -> Parts:
    """Read the folder ``cifar-100-python``."""
    return _cifar100(_unpickle(files), files["test"].parent)


def read_cifar100_archive(files: Mapping[str, Path], _: Options) -> Parts:
    """Read ``cifar-100-python.tar.gz`` without unpacking it."""
    (path,) = files.values()
    return _cifar100(_unpickle_archive(path, CIFAR100), path)


def read_svhn(files: Mapping[str, Path], _: Options) -> Parts:
    """Read ``train_32x32.mat`` and ``test_32x32.mat``; the class 10 is the digit 0."""
    train, test = (_svhn(files[f"{part}_32x32.mat"]) for part in ("train", "test"))
    return Parts(train, test, [str(digit) for digit in range(10)])


def _cifar10(contents: Contents, path: Path) -> Parts:
    batches = sorted(name for name in contents if name.startswith("data_batch"))
    return _cifar(contents, path, batches, "test_batch", "batches.meta", "label")


def _cifar100(contents: Contents, path: Path) -> Parts:
    return _cifar(contents, path, ["train"], "test", "meta", "fine_label")


def _cifar(
    contents: Contents, path: Path, batches: list[str], test: str, meta: str, kind: str
) -> Parts:
    splits = []
    try:
        for names in (batches, [test]):
            parts = [contents[name] for name in names]
            pixels = [_pixels(part["data"]) for part in parts]
            labels = [_labels(part[kind + "s"]) for part in parts]
            splits.append(image_split(np.concatenate(pixels), np.concatenate(labels), path))
        class_names = [_text(name) for name in contents[meta][kind + "_names"]]
    except BrokenFileError:
        raise
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise BrokenFileError(f"{path} does not hold CIFAR as published: {error}.") from None
    return Parts(splits[0], splits[1], class_names)


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


def _unpickle(files: Mapping[str, Path]) -> Contents:
    contents = {}
    for name, path in files.items():
        try:
            with path.open("rb") as file:
                contents[name] = read_numbers(file, path)
        except OSError as error:
            raise unreadable(path, error) from None
    return contents


def _unpickle_archive(path: Path, wanted: Container[str]) -> Contents:
    contents = {}
    try:
        with open_tar(path) as opened:
            for member in tar_members(path, opened):
                name = member.name.rpartition("/")[2]
                if name in wanted and (file := opened.extractfile(member)) is not None:
                    contents[name] = read_numbers(file, path)
    except BrokenFileError:
        raise
    except (*UNREADABLE, KeyError, OSError) as error:
        raise unreadable(path, error, " as an archive") from None
    return contents


def _svhn(path: Path) -> Split:
    try:
        from scipy.io import loadmat, whosmat
    except ImportError:
        raise ImportError(
            f'Reading {path} needs scipy, which is missing: pip install "softmargin[lab]".'
        ) from None
    try:
        shapes = {name: shape for name, shape, _ in whosmat(path)}
        if any(math.prod(shapes.get(name, ())) > PIXELS for name in ("X", "y")):
            raise ValueError("it holds more than any file of SVHN")
        content = loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], content["y"].reshape(-1).astype(np.int64) % 10
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise unreadable(path, error, " as the .mat of SVHN") from None
    if pixels.ndim != 4:
        raise BrokenFileError(f"{path} must hold images, but X has shape {pixels.shape}.")
    return image_split(channels_first(pixels.transpose(3, 0, 1, 2)), labels, path)


def _text(name: object) -> str:
    if not isinstance(name, (str, bytes)):
        raise ValueError("a class name is no text")
    return name.decode() if isinstance(name, bytes) else name
