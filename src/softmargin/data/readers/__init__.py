"""The readers of the published formats, and what they have in common.

A reader is a function of the files of a layout, by their names, and of what the caller asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmargin.data.entry import DatasetEntry
from softmargin.data.errors import BrokenFileError
from softmargin.data.sets import Split


@dataclass(frozen=True)
class ReadOptions:
    """What a caller may ask of a reader: the arguments of ``load``, and the data set."""

    entry: DatasetEntry
    fraction: float | None = None
    seed: int = 0
    verify: bool = True
    filtered: bool = True
    image_size: int = 224


@dataclass(frozen=True)
class Splits:
    """What a reader found.

    Args:
        train: The training split, or the whole where there is no split.
        test: The test split, if there is one.
        class_names: Names of the classes; without any, they are called as the entry says.
        feature_names: Names of a table's columns.
        is_cut: Whether the fraction was already taken.
    """

    train: Split
    test: Split | None = None
    class_names: Sequence[str] = ()
    feature_names: Sequence[str] = ()
    is_cut: bool = False


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
