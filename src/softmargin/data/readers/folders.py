"""Folders of pictures, one per class, decoded when asked: ImageNet and Places."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError, MissingDataError
from softmargin.data.readers.parts import Options, Parts
from softmargin.data.readers.pictures import as_tensor, open_picture, read_small
from softmargin.data.resized_crop import RandomResizedCrop
from softmargin.data.sets import Split

ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".webp")
THREADS = min(8, os.cpu_count() or 1)


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
            return _mirrored(scaled) if flipped else scaled

        return self._decoded(indices, part)

    def _decoded(self, indices: Tensor, change: Callable[[Any, int], Any]) -> tuple[Tensor, Tensor]:
        images = torch.empty(len(indices), 3, self.size, self.size, dtype=torch.uint8)
        numbers = indices.tolist()

        def store(place: int) -> None:
            path = self.paths[numbers[place]]
            picture = open_picture(lambda: read_small(path), str(path))
            images[place] = as_tensor(change(picture, numbers[place]))

        with ThreadPoolExecutor(THREADS) as pool:  # Pillow decodes outside of Python's lock
            for _ in pool.map(store, range(len(numbers))):
                pass
        return images, self.y[indices]

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
    try:
        return _read_folders(files, options)
    except MissingDataError:
        raise
    except OSError as error:
        raise MissingDataError(f"{error.filename} cannot be read: {error.strerror}.") from None


def _read_folders(files: Mapping[str, Path], options: Options) -> Parts:
    folders = {part: _class_folders(files[part]) for part in ("train", "val")}
    names = sorted(folders["train"])
    if extra := sorted(set(folders["val"]) - set(names)):
        raise BrokenFileError(
            f"{files['val']} must have the classes of train, but also has '{printable(extra[0])}'."
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


def _scaled(picture: Any, width: int, height: int) -> Any:
    from PIL import Image

    return picture.resize((width, height), Image.Resampling.BILINEAR)


def _mirrored(picture: Any) -> Any:
    from PIL import Image

    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def _middle(picture: Any, size: int) -> Any:
    scale = round(size * 8 / 7) / min(picture.size)
    width, height = (max(size, round(side * scale)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    return _scaled(picture, width, height).crop((left, top, left + size, top + size))
