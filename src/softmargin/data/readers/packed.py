"""The re-packed ``.npz`` files: CIFAR-10 as residuals, CIFAR-100 and SVHN as pixels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.readers.parts import (
    REMEDY,
    Options,
    Parts,
    channels_first,
    image_split,
    unreadable,
)

UNPACKED = 2**29  # bytes of the arrays of one file; the largest has 31 MB
CLASSES = 100_000


def read_cifar10(files: Mapping[str, Path], _: Options) -> Parts:
    """Read as many of the five training batches as are there, and the test set."""
    test = _arrays(test_path := files["cifar10_test.npz"], "x_d2", "y", "class_names")
    batches = {name: path for name, path in files.items() if "train" in name}
    arrays = [_arrays(path, "x_d2", "y") for path in batches.values()]
    pixels = np.concatenate([undo_differences(part["x_d2"]) for part in arrays])
    labels = np.concatenate([part["y"] for part in arrays])
    return Parts(
        image_split(pixels, labels, next(iter(batches.values()))),
        image_split(undo_differences(test["x_d2"]), test["y"], test_path),
        _names(test["class_names"], test_path),
    )


def read_subset(files: Mapping[str, Path], _: Options) -> Parts:
    """Read a file that holds training and test pixels."""
    (path,) = files.values()
    arrays = _arrays(path, "x_train", "y_train", "x_test", "y_test", "class_names")
    return Parts(
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
    try:
        with np.load(path, allow_pickle=False) as opened:
            if not isinstance(opened, np.lib.npyio.NpzFile) or opened.zip is None:
                raise ValueError("it is no .npz file")
            # no more than these sizes is read of a member
            sizes = {member.filename: member.file_size for member in opened.zip.infolist()}
            if sum(sizes.get(f"{name}.npy", 0) for name in names) > UNPACKED:
                raise ValueError(f"its arrays would take more than {UNPACKED >> 20} MB")
            return {name: opened[name] for name in names}
    except KeyError as error:
        why = printable(str(error.args[0]))
        raise BrokenFileError(f"{path} must hold {', '.join(names)}: {why}; {REMEDY}.") from None
    except Exception as error:  # NumPy raises many kinds for a damaged file
        raise unreadable(path, error) from None
