"""Picture files: Tiny-ImageNet, decoded into memory, and folders, decoded when asked."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmargin._lazy import import_extra
from softmargin._text import printable
from softmargin.data.augment import RandomResizedCrop
from softmargin.data.errors import BrokenFileError, MissingDataError, reading
from softmargin.data.files import read_limited
from softmargin.data.readers import ReadOptions, Splits
from softmargin.data.sampling import stratified_indices
from softmargin.data.sets import Split

ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".webp")
THREADS = min(8, os.cpu_count() or 1)
TINY, SIDE = "tiny-imagenet-200/", 64
FILE = 2**27  # bytes of one file
PIXELS = 80_000_000  # of one picture; Pillow itself warns from 89 million on


def read_tiny_zip(files: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Read Tiny-ImageNet from its zip archive, without unpacking it."""
    (path,) = files.values()
    with reading(path, " as Tiny-ImageNet"), zipfile.ZipFile(path) as opened:

        def read(name: str) -> bytes:
            # no more than this size is read of a member
            if opened.getinfo(name).file_size > FILE:
                raise ValueError(f"{printable(name)} in it is larger than {FILE >> 20} MB")
            return opened.read(name)

        return _tiny(read, opened.namelist(), path, options)


def read_tiny_folder(files: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Read Tiny-ImageNet from its unpacked folder."""
    root = files["wnids.txt"].parent
    names = [TINY + path.relative_to(root).as_posix() for path in sorted(root.glob("train/*/*/*"))]

    def read(name: str) -> bytes:
        return read_limited(root / name.removeprefix(TINY), FILE)

    with reading(root, " as Tiny-ImageNet"):
        return _tiny(read, names, root, options)


def _tiny(
    read: Callable[[str], bytes], names: Sequence[str], path: Path, options: ReadOptions
) -> Splits:
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

    def decoded(names: Sequence[str], y: Tensor) -> Split:
        def picture(i: int) -> Any:
            with reading(printable(names[i]), " as a picture", remedy=""):
                return open_picture(read(names[i]), SIDE)

        return Split(_decode(len(names), SIDE, 2, picture), y)

    return Splits(
        decoded(train, y_train),
        decoded([f"{TINY}val/images/{name}" for name, _ in test], y_test),
        [words.get(name, name) for name in ids],
        is_cut=True,
    )


def _decode(count: int, size: int, threads: int, picture: Callable[[int], Any]) -> Tensor:
    """Decode so many pictures into one tensor; ``picture`` gives each, in three colours."""
    images = torch.empty(count, 3, size, size, dtype=torch.uint8)

    def store(i: int) -> None:
        images[i] = torch.from_numpy(np.array(picture(i))).permute(2, 0, 1)

    with ThreadPoolExecutor(threads) as pool:  # Pillow decodes outside of Python's lock
        for _ in pool.map(store, range(count)):
            pass
    return images


def open_picture(content: bytes, side: int | None = None) -> Any:
    """Return a decoded picture, as Pillow has it, in three colours.

    Its size is known before it is decoded: one that would fill the memory is refused, and so is
    one that is not ``side`` × ``side``, where that is given.
    """
    picture = _pillow().open(io.BytesIO(content))
    width, height = picture.size
    if side is not None and (width, height) != (side, side):
        raise ValueError(f"it must be {side} x {side}, but is {width} x {height}")
    if width * height > PIXELS:
        raise ValueError(f"{width} x {height} is more than {PIXELS // 10**6} million pixels")
    return picture.convert("RGB")


def _pillow() -> Any:
    return import_extra("PIL.Image", "Decoding pictures needs pillow")


class FolderSplit(Split):
    """Pictures that are decoded when asked for, from one folder per class.

    ``batch`` scales each so that its shorter side is 8/7 of ``size`` and cuts the middle ``size`` ×
    ``size`` out: 256 and 224, the usual evaluation on ImageNet. ``random_batch`` is for training:
    it cuts a random part out and scales that.
    """

    def __init__(self, paths: Sequence[Path], y: Tensor, size: int = 224) -> None:
        """Keep the paths; nothing is opened."""
        self.paths, self.y, self.size = list(paths), y, size

    @property
    def x(self) -> Tensor:
        """Refuse: all pictures at once would not fit into memory."""
        raise TypeError("x is not in memory for a folder of pictures: use batch(indices).")

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Decode the pictures at these indices into uint8 (N, 3, size, size)."""
        return self._decoded(indices, lambda picture, _: _middle(picture, self.size))

    def random_batch(
        self, indices: Tensor, seed: int, crop: RandomResizedCrop | None = None
    ) -> tuple[Tensor, Tensor]:
        """Decode a random part of each picture, scaled to the same shape as ``batch`` gives.

        Which part follows from the seed and the picture's index alone, not from the others of the
        batch: several processes that share a batch see what one would.

        Args:
            indices: Which pictures.
            seed: Another one for every epoch.
            crop: How parts are drawn; by default as usual on ImageNet.
        """
        chosen = crop or RandomResizedCrop()

        def part(picture: Any, index: int) -> Any:
            window, flipped = chosen.draw(*picture.size, seed=seed, index=index)
            scaled = _scaled(picture.crop(window), self.size, self.size)
            mirror = _pillow().Transpose.FLIP_LEFT_RIGHT
            return scaled.transpose(mirror) if flipped else scaled

        return self._decoded(indices, part)

    def _decoded(self, indices: Tensor, change: Callable[[Any, int], Any]) -> tuple[Tensor, Tensor]:
        numbers = indices.tolist()

        def picture(place: int) -> Any:
            path = self.paths[numbers[place]]
            with reading(path, " as a picture", remedy=""):
                opened = open_picture(read_limited(path, FILE))
            return change(opened, numbers[place])

        return _decode(len(numbers), self.size, THREADS, picture), self.y[indices]

    def select(self, indices: Tensor) -> FolderSplit:
        """Return a split of the pictures at these indices, or where a mask says so."""
        chosen = torch.arange(len(self))[indices].tolist()
        return FolderSplit([self.paths[i] for i in chosen], self.y[indices], self.size)

    def with_labels(self, y: Tensor) -> FolderSplit:
        """Return the same pictures with other classes."""
        return FolderSplit(self.paths, y, self.size)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Decode one picture."""
        images, y = self.batch(torch.tensor([index]))
        return images[0], y[0]

    def __repr__(self) -> str:
        """Name the sizes."""
        return f"FolderSplit({len(self)} pictures of 3 x {self.size} x {self.size})"


def read_folders(files: Mapping[str, Path], options: ReadOptions) -> Splits:
    """Read folders ``train`` and ``val`` that each hold one folder per class."""
    train, test = files["train"], files["val"]
    names, others = class_names(train), class_names(test)
    if extra := sorted(set(others) - set(names)):
        raise BrokenFileError(
            f"{test} must have the classes of train, but also has '{printable(extra[0])}'."
        )
    numbers = {name: number for number, name in enumerate(names)}

    def split(folder: Path, classes: Sequence[str]) -> FolderSplit:
        found = [(path, numbers[name]) for name in classes for path in pictures(folder / name)]
        if not found:
            raise MissingDataError(f"{folder} must hold pictures, but holds none.")
        y = torch.tensor([number for _, number in found])
        return FolderSplit([path for path, _ in found], y, options.image_size)

    return Splits(split(train, names), split(test, others), names)


def class_names(folder: Path) -> list[str]:
    """Return the folders in a folder, one per class."""
    found = [entry.name for entry in _entries(folder) if entry.is_dir()]
    if not found:
        raise MissingDataError(f"{folder} must hold one folder per class, but holds none.")
    return found


def pictures(folder: Path) -> list[Path]:
    """Return the pictures in a folder, by name."""
    found = _entries(folder)
    return [folder / entry.name for entry in found if entry.name.lower().endswith(ENDINGS)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with reading(folder, remedy=""):
        return sorted(os.scandir(folder), key=lambda entry: entry.name)


def _scaled(picture: Any, width: int, height: int) -> Any:
    return picture.resize((width, height), _pillow().Resampling.BILINEAR)


def _middle(picture: Any, size: int) -> Any:
    scale = round(size * 8 / 7) / min(picture.size)
    width, height = (max(size, round(side * scale)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    return _scaled(picture, width, height).crop((left, top, left + size, top + size))
