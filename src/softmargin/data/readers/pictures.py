"""Picture files, and Tiny-ImageNet, which is decoded into memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.readers.parts import Options, Parts, unreadable
from softmargin.data.safety import UNREADABLE
from softmargin.data.sampling import stratified_indices
from softmargin.data.sets import Split

TINY = "tiny-imagenet-200/"
FILE = 2**27  # bytes of one file
PIXELS = 80_000_000  # of one picture; Pillow itself warns from 89 million on


def read_tiny_zip(files: Mapping[str, Path], options: Options) -> Parts:
    """Read Tiny-ImageNet from its zip archive, without unpacking it."""
    (path,) = files.values()
    try:
        with zipfile.ZipFile(path) as opened:

            def read(name: str) -> bytes:
                # no more than this size is read of a member
                if opened.getinfo(name).file_size > FILE:
                    raise ValueError(f"{printable(name)} in it is larger than {FILE >> 20} MB")
                return opened.read(name)

            return _tiny(read, opened.namelist(), path, options)
    except BrokenFileError:
        raise
    except (*UNREADABLE, KeyError, OSError) as error:
        raise unreadable(path, error, " as Tiny-ImageNet") from None


def read_tiny_folder(files: Mapping[str, Path], options: Options) -> Parts:
    """Read Tiny-ImageNet from its unpacked folder."""
    root = files["wnids.txt"].parent
    names = [TINY + path.relative_to(root).as_posix() for path in sorted(root.glob("train/*/*/*"))]
    try:
        return _tiny(lambda name: read_small(root / name.removeprefix(TINY)), names, root, options)
    except BrokenFileError:
        raise
    except (OSError, ValueError, IndexError) as error:
        raise unreadable(root, error, " as Tiny-ImageNet") from None


def read_small(path: Path) -> bytes:
    """Read a file that holds one picture, or one list."""
    if path.stat().st_size > FILE:
        raise ValueError(f"{path} is larger than {FILE >> 20} MB")
    return path.read_bytes()


def _tiny(
    read: Callable[[str], bytes], names: Sequence[str], path: Path, options: Options
) -> Parts:
    ids = read(TINY + "wnids.txt").decode().split()
    words = dict(
        line.split("\t", 1) for line in read(TINY + "words.txt").decode().splitlines() if line
    )
    number = {name: i for i, name in enumerate(ids)}
    train = [name for name in names if name.startswith(TINY + "train/") and name.endswith(".JPEG")]
    lines = read(TINY + "val/val_annotations.txt").decode().splitlines()
    test = [line.split("\t")[:2] for line in lines if line]
    try:
        y_train = torch.tensor([number[name.split("/")[2]] for name in train], dtype=torch.int64)
        y_test = torch.tensor([number[name] for _, name in test], dtype=torch.int64)
    except KeyError as error:
        raise BrokenFileError(
            f"{path} has pictures of '{printable(str(error.args[0]))}', not in its wnids.txt."
        ) from None
    if options.fraction is not None:  # before decoding, which is what takes time
        kept = stratified_indices(y_train, options.fraction, options.seed)
        train, y_train = [train[i] for i in kept.tolist()], y_train[kept]
    return Parts(
        Split(_decode_all(read, train), y_train),
        Split(_decode_all(read, [TINY + "val/images/" + name for name, _ in test]), y_test),
        [words.get(name, name) for name in ids],
        is_cut=True,
    )


def _decode_all(read: Callable[[str], bytes], names: Sequence[str], size: int = 64) -> Tensor:
    """Decode pictures of one size into one tensor."""
    images = torch.empty(len(names), 3, size, size, dtype=torch.uint8)
    with ThreadPoolExecutor(2) as pool:  # Pillow decodes outside of Python's lock

        def store(i: int) -> None:
            picture = open_picture(lambda: read(names[i]), names[i], size)
            images[i] = as_tensor(picture)

        done: Iterator[None] = pool.map(store, range(len(names)))
        for _ in done:
            pass
    return images


def open_picture(read: Callable[[], bytes], name: str, side: int | None = None) -> Any:
    """Return a decoded picture, as Pillow has it, in three colours.

    Its size is known before it is decoded: one that would fill the memory is refused, and so is
    one that is not ``side`` × ``side``, where that is given.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(
            'Decoding pictures needs pillow, which is missing: pip install "softmargin[lab]".'
        ) from None
    name = printable(name)
    try:
        picture = Image.open(io.BytesIO(read()))
        width, height = picture.size
        if side is not None and (width, height) != (side, side):
            raise BrokenFileError(f"{name} must be {side} x {side}, but is {width} x {height}.")
        if width * height > PIXELS:
            raise ValueError(f"{width} x {height} is more than {PIXELS // 10**6} million pixels")
        return picture.convert("RGB")
    except BrokenFileError:
        raise
    except (*UNREADABLE, OSError, KeyError, SyntaxError, Image.DecompressionBombError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = printable(why or type(error).__name__).rstrip(".")
        raise BrokenFileError(f"{name} cannot be read as a picture: {why}.") from None


def as_tensor(picture: Any) -> Tensor:
    """Return a picture as uint8 (3, H, W)."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)
