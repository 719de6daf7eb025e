"""Arrays of pixels: the idx files of MNIST, re-packed ``.npz`` files, and SVHN's ``.mat``."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmargin._lazy import import_extra
from softmargin.data.errors import REMEDY, BrokenFileError, reading
from softmargin.data.readers import ReadOptions, Splits, channels_first, image_split
from softmargin.data.sets import Split

FILES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
IDX = 2**28  # bytes; the images of MNIST have 47 MB
UNPACKED = 2**29  # bytes of the arrays of one file; the largest has 31 MB
CLASSES = 100_000
PIXELS = 2**29  # numbers in one file of SVHN; the training set has 225 million


def read_idx_files(files: Mapping[str, Path], _: ReadOptions) -> Splits:
    """Read the four idx files of MNIST or Fashion-MNIST, packed with gzip or not."""
    paths = {name.removesuffix(".gz"): path for name, path in files.items()}
    train, test = (_split(*(paths[name] for name in pair)) for pair in (FILES[:2], FILES[2:]))
    return Splits(train, test)


def _split(images: Path, labels: Path) -> Split:
    pixels = read_idx(images)
    if pixels.ndim != 3:
        raise BrokenFileError(f"{images} must hold images, but has {pixels.ndim} dimensions.")
    return image_split(pixels[:, None], read_idx(labels), images)


def read_idx(path: Path) -> npt.NDArray[Any]:
    """Read one idx file of bytes; no more of it than its header says."""
    opened = gzip.open if path.suffix == ".gz" else open
    with reading(path), opened(path, "rb") as file:
        # two zero bytes, the type (8: unsigned bytes), the number of dimensions, then each size
        start = file.read(4)
        dimensions = start[3] if len(start) == 4 and start[:3] == b"\0\0\x08" else 0
        sizes = file.read(4 * dimensions)
        shape = [int.from_bytes(sizes[i : i + 4], "big") for i in range(0, len(sizes), 4)]
        count = math.prod(shape)
        is_header = 1 <= dimensions <= 4 and len(sizes) == 4 * dimensions
        content = bytearray(file.read(count + 1)) if is_header and count <= IDX else None
    if content is None or len(content) != count:
        raise BrokenFileError(
            f"{path} must be an idx file of bytes as long as its header says; {REMEDY}."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_packed_cifar10(files: Mapping[str, Path], _: ReadOptions) -> Splits:
    """Read the re-packed CIFAR-10: as many of its five batches as are there, and the test set."""
    test = _arrays(test_path := files["cifar10_test.npz"], "x_d2", "y", "class_names")
    batches = {name: path for name, path in files.items() if "train" in name}
    arrays = [_arrays(path, "x_d2", "y") for path in batches.values()]
    pixels = np.concatenate([undo_differences(part["x_d2"]) for part in arrays])
    labels = np.concatenate([part["y"] for part in arrays])
    return Splits(
        image_split(pixels, labels, next(iter(batches.values()))),
        image_split(undo_differences(test["x_d2"]), test["y"], test_path),
        _names(test["class_names"], test_path),
    )


def read_subset(files: Mapping[str, Path], _: ReadOptions) -> Splits:
    """Read a file that holds training and test pixels."""
    (path,) = files.values()
    arrays = _arrays(path, "x_train", "y_train", "x_test", "y_test", "class_names")
    return Splits(
        image_split(channels_first(arrays["x_train"]), arrays["y_train"], path),
        image_split(channels_first(arrays["x_test"]), arrays["y_test"], path),
        _names(arrays["class_names"], path),
    )


def undo_differences(residuals: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Turn residuals (3, N, H, W) into RGB pixels (N, 3, H, W).

    The planes are G, R-G and B-G, each differenced along height and width; all modulo 256.
    """
    if residuals.ndim != 4 or residuals.shape[0] != 3:
        return residuals  # refused by its shape later
    planes = np.cumsum(residuals, axis=2, dtype=np.uint8)
    np.cumsum(planes, axis=3, dtype=np.uint8, out=planes)
    green, red, blue = planes
    return np.stack([red + green, green, blue + green], axis=1)


def _names(names: npt.NDArray[Any], path: Path) -> list[str]:
    if names.ndim != 1 or names.dtype.kind != "U" or len(names) > CLASSES:
        raise BrokenFileError(f"{path} must hold a list of class names, but does not; {REMEDY}.")
    return [str(name) for name in names]


def _arrays(path: Path, *names: str) -> dict[str, npt.NDArray[Any]]:
    """Read arrays, never pickles, from an ``.npz``, if they are not too large."""
    with reading(path), np.load(path, allow_pickle=False) as opened:
        if not isinstance(opened, np.lib.npyio.NpzFile) or opened.zip is None:
            raise ValueError("it is no .npz file")
        # no more than these sizes is read of a member
        sizes = {member.filename: member.file_size for member in opened.zip.infolist()}
        if sum(sizes.get(f"{name}.npy", 0) for name in names) > UNPACKED:
            raise ValueError(f"its arrays would take more than {UNPACKED >> 20} MB")
        if missing := [name for name in names if name not in opened]:
            raise BrokenFileError(f"{path} must hold {', '.join(missing)}, but does not; {REMEDY}.")
        return {name: opened[name] for name in names}


def read_svhn(files: Mapping[str, Path], _: ReadOptions) -> Splits:
    """Read ``train_32x32.mat`` and ``test_32x32.mat``; the class 10 is the digit 0."""
    train, test = (_svhn(files[f"{part}_32x32.mat"]) for part in ("train", "test"))
    return Splits(train, test)


def _svhn(path: Path) -> Split:
    scipy = import_extra("scipy.io", f"Reading {path} needs scipy")
    with reading(path, " as the .mat of SVHN"):
        shapes = {name: shape for name, shape, _ in scipy.whosmat(path)}
        if any(math.prod(shapes.get(name, ())) > PIXELS for name in ("X", "y")):
            raise ValueError("it holds more than any file of SVHN")
        content = scipy.loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], content["y"].reshape(-1).astype(np.int64) % 10
    if pixels.ndim != 4:
        raise BrokenFileError(f"{path} must hold images, but X has shape {pixels.shape}.")
    return image_split(channels_first(pixels.transpose(3, 0, 1, 2)), labels, path)
