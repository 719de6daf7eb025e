"""The idx files of MNIST and Fashion-MNIST, packed with gzip or not."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmargin.data.errors import BrokenFileError
from softmargin.data.readers.parts import (
    REMEDY,
    Options,
    Parts,
    Reader,
    image_split,
    unreadable,
)
from softmargin.data.sets import Split

FILES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)

LIMIT = 2**28  # bytes; the images of MNIST have 47 MB


def reader(class_names: tuple[str, ...]) -> Reader:
    """Return the reader of a data set with these classes."""

    def read(files: Mapping[str, Path], _: Options) -> Parts:
        paths = {name.removesuffix(".gz"): path for name, path in files.items()}
        train, test = (_split(*(paths[name] for name in pair)) for pair in (FILES[:2], FILES[2:]))
        return Parts(train, test, class_names)

    return read


def _split(images: Path, labels: Path) -> Split:
    pixels = read_idx(images)
    if pixels.ndim != 3:
        raise BrokenFileError(f"{images} must hold images, but has {pixels.ndim} dimensions.")
    return image_split(pixels[:, None], read_idx(labels), images)


def read_idx(path: Path) -> npt.NDArray[Any]:
    """Read one idx file of bytes; no more of it than its header says."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            # two zero bytes, the type (8: unsigned bytes), the number of dimensions, then each size
            start = file.read(4)
            dimensions = start[3] if len(start) == 4 and start[:3] == b"\0\0\x08" else 0
            sizes = file.read(4 * dimensions)
            shape = [int.from_bytes(sizes[i : i + 4], "big") for i in range(0, len(sizes), 4)]
            count = math.prod(shape)
            is_header = 1 <= dimensions <= 4 and len(sizes) == 4 * dimensions
            content = bytearray(file.read(count + 1)) if is_header and count <= LIMIT else None
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from None
    if content is None or len(content) != count:
        raise BrokenFileError(
            f"{path} must be an idx file of bytes as long as its header says; {REMEDY}."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)
