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
from softmargin.data.readers.parts import Options, Parts, Reader, image_split
from softmargin.data.sets import Split

FILES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)


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
    """Read one idx file of bytes."""
    try:
        read = path.read_bytes()
        content = bytearray(gzip.decompress(read) if path.suffix == ".gz" else read)
    except (OSError, EOFError, zlib.error) as error:
        raise BrokenFileError(f"{path} cannot be read: {error}.") from None
    # two zero bytes, the type (8: unsigned bytes), the number of dimensions, then each size
    dimensions = content[3] if len(content) > 3 and content[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * dimensions
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if not dimensions or len(content) != start + math.prod(shape):
        raise BrokenFileError(f"{path} must be an idx file of bytes as long as its header says.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
