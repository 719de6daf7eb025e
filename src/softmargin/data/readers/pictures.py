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

from softmargin.data.errors import BrokenFileError
from softmargin.data.readers.parts import Options, Parts
from softmargin.data.sampling import stratified_indices
from softmargin.data.sets import Split

TINY = "tiny-imagenet-200/"


def read_tiny_zip(files: Mapping[str, Path], options: Options) -> Parts:
    """Read Tiny-ImageNet from its zip archive, without unpacking it."""
    (path,) = files.values()
    try:
        with zipfile.ZipFile(path) as opened:
            return _tiny(opened.read, opened.namelist(), path, options)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise BrokenFileError(f"{path} cannot be read as Tiny-ImageNet: {error}.") from None


def read_tiny_folder(files: Mapping[str, Path], options: Options) -> Parts:
    """Read Tiny-ImageNet from its unpacked folder."""
    root = files["wnids.txt"].parent
    names = [TINY + path.relative_to(root).as_posix() for path in sorted(root.glob("train/*/*/*"))]
    try:
        return _tiny(
            lambda name: (root / name.removeprefix(TINY)).read_bytes(), names, root, options
        )
    except OSError as error:
        raise BrokenFileError(f"{root} cannot be read as Tiny-ImageNet: {error}.") from None


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
        y_train = torch.tensor([number[name.split("/")[2]] for name in train])
        y_test = torch.tensor([number[name] for _, name in test])
    except KeyError as error:
        raise BrokenFileError(f"{path} has pictures of {error}, not in its wnids.txt.") from None
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
            picture = as_tensor(open_picture(lambda: read(names[i]), names[i]))
            if picture.shape != images[i].shape:
                raise BrokenFileError(
                    f"{names[i]} must be {size} x {size}, but is {tuple(picture.shape[1:])}."
                )
            images[i] = picture

        done: Iterator[None] = pool.map(store, range(len(names)))
        for _ in done:
            pass
    return images


def open_picture(read: Callable[[], bytes], name: str) -> Any:
    """Return a decoded picture, as Pillow has it, in three colours."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(
            'Decoding pictures needs pillow, which is missing: pip install "softmargin[lab]".'
        ) from None
    try:
        return Image.open(io.BytesIO(read())).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BrokenFileError(f"{name} cannot be read as a picture: {error}.") from None


def as_tensor(picture: Any) -> Tensor:
    """Return a picture as uint8 (3, H, W)."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)
