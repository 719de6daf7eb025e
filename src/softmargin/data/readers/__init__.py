"""The readers of the published formats, and what they have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.sets import Split


@dataclass(frozen=True)
class ReadOptions:
    """What a caller may ask of a reader."""

    fraction: float | None = None
    seed: int = 0
    image_size: int = 224
    filtered: bool = True


@dataclass(frozen=True)
class Splits:
    """Both splits, the names of the classes, and whether the fraction was already taken.

    Without names, the classes are called as the entry says.
    """

    train: Split
    test: Split
    class_names: Sequence[str] = ()
    is_cut: bool = False


REMEDY = "delete it and fetch it again"


@contextlib.contextmanager
def reading(path: Path, *errors: type[Exception], what: str = "") -> Iterator[None]:
    """Turn errors of these kinds into one sentence about the file, with what to do.

    Args:
        path: The file that is read inside.
        errors: What its reader raises where the file is damaged.
        what: As what it cannot be read, such as " as a table".
    """
    try:
        yield
    except BrokenFileError:  # a sentence already
        raise
    except errors as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = printable(why.partition("\n")[0] or type(error).__name__).rstrip(":.")
        raise BrokenFileError(f"{path} cannot be read{what}: {why}; {REMEDY}.") from None


def image_split(images: npt.NDArray[Any], labels: npt.NDArray[Any], path: Path) -> Split:
    """Return a split of channels-first images, or say which file does not fit."""
    fits = images.dtype == np.uint8 and images.ndim == 4 and labels.dtype.kind in "iu"
    if not fits or labels.shape != images.shape[:1]:
        raise BrokenFileError(
            f"{path} must hold uint8 images (N, C, H, W) and as many labels, but holds "
            f"{images.dtype} of shape {images.shape} and labels of shape {labels.shape}."
        )
    return Split(_tensor(images), _tensor(labels.astype(np.int64)))


def channels_first(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Turn (N, H, W, C) into (N, C, H, W)."""
    if images.ndim != 4:
        return images  # refused by its shape later
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
