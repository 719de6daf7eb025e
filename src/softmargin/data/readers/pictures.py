"""Picture files: Tiny-ImageNet, decoded into memory, and folders decoded when asked."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmargin.data.errors import BrokenFileError, MissingDataError
from softmargin.data.readers.parts import Options, Parts
from softmargin.data.sampling import stratified_indices
from softmargin.data.sets import Split

ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".webp")
TINY = "tiny-imagenet-200/"


class FolderSplit(Split):
    """Pictures that are decoded when asked for, from one folder per class.

    Each is scaled so that its shorter side is 8/7 of ``size`` and the middle ``size`` × ``size``
    is cut out: 256 and 224, the usual evaluation on ImageNet.
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
        paths = [self.paths[i] for i in indices.tolist()]
        images = [_decode(path.read_bytes, str(path), self.size) for path in paths]
        empty = torch.empty(0, 3, self.size, self.size, dtype=torch.uint8)
        return torch.stack(images) if images else empty, self.y[indices]

    def select(self, indices: Tensor) -> FolderSplit:
        """Return a split of the pictures at these indices."""
        return FolderSplit([self.paths[i] for i in indices.tolist()], self.y[indices], self.size)

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


def read_folders(files: Mapping[str, Path], options: Options) -> Parts:
    """Read folders ``train`` and ``val`` that each hold one folder per class."""
    folders = {part: _class_folders(files[part]) for part in ("train", "val")}
    names = sorted(folders["train"])
    if extra := sorted(set(folders["val"]) - set(names)):
        raise BrokenFileError(
            f"{files['val']} must have the classes of train, but also has {extra[0]!r}."
        )
    splits = []
    for part in ("train", "val"):
        found = [(p, c) for c, n in enumerate(names) for p in _pictures(folders[part].get(n))]
        if not found:
            raise MissingDataError(f"{files[part]} must hold pictures, but holds none.")
        y = torch.tensor([c for _, c in found])
        splits.append(FolderSplit([p for p, _ in found], y, options.image_size))
    return Parts(splits[0], splits[1], names)


def _class_folders(folder: Path) -> dict[str, Path]:
    found = {entry.name: Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()}
    if not found:
        raise MissingDataError(f"{folder} must hold one folder per class, but holds none.")
    return found


def _pictures(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    names = (entry.name for entry in os.scandir(folder))
    return [folder / name for name in sorted(names) if name.lower().endswith(ENDINGS)]


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
            picture = _decode(lambda: read(names[i]), names[i], None)
            if picture.shape != images[i].shape:
                raise BrokenFileError(
                    f"{names[i]} must be {size} x {size}, but is {tuple(picture.shape[1:])}."
                )
            images[i] = picture

        done: Iterator[None] = pool.map(store, range(len(names)))
        for _ in done:
            pass
    return images


def _decode(read: Callable[[], bytes], name: str, size: int | None) -> Tensor:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(
            'Decoding pictures needs pillow, which is missing: pip install "softmargin[lab]".'
        ) from None
    try:
        picture: Any = Image.open(io.BytesIO(read())).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BrokenFileError(f"{name} cannot be read as a picture: {error}.") from None
    if size is not None:
        scale = round(size * 8 / 7) / min(picture.size)
        width, height = (max(size, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - size) // 2, (height - size) // 2
        picture = picture.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)
