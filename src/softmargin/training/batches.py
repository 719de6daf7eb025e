"""Batches of a split in memory: in an order that follows from seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from softmargin.data import Augment, FolderSplit, Normalize, RandomResizedCrop, Split
from softmargin.data.sampling import mixed_seed

ORDER, CHANGES, CROPS = range(3)  # what is drawn, each from a seed of its own
IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Batches:
    """A split on a device, cut into batches and normalised on the way.

    The order of an epoch and the augmentation of a step follow from the seed, the epoch and the
    step, so that training goes on anywhere exactly as if it had never stopped. With several
    processes each takes its part of every batch: together they see what one alone would.

    Args:
        split: the samples.
        normalize: the z-score, of the training split.
        batch: samples per batch, over all processes.
        seed: of order and augmentation.
        augment: what to do to training images, or None. Pictures in a folder get a random part
            cut out and scaled instead of a crop with padding.
        device: where batches go. The samples stay there too if they are in memory.
        dtype: of the batches.
        rank: number of this process.
        world: number of processes.
    """

    def __init__(
        self,
        split: Split,
        normalize: Normalize,
        batch: int,
        *,
        seed: int = 0,
        augment: Augment | None = None,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Move what is in memory to the device."""
        self.split, self.batch, self.seed, self.augment = split, batch, seed, augment
        self.device, self.dtype, self.rank, self.world = device, dtype, rank, world
        first, _ = split.batch(torch.arange(1))
        shape = (-1,) + (1,) * (first.ndim - 2)
        factor = 255.0 if first.dtype == torch.uint8 else 1.0
        mean = torch.tensor(normalize.mean, dtype=torch.float64).view(shape) * factor
        std = torch.tensor(normalize.std, dtype=torch.float64).view(shape) * factor
        self.mean, self.std = (each.to(device, dtype) for each in (mean, std))

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.split) // self.batch)

    def of_epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield shuffled batches of an epoch from a step on: samples, classes, all numbers."""
        order = order_of_epoch(self.seed, epoch, len(self.split))
        for step in range(start, len(self)):
            chosen = order[step * self.batch : (step + 1) * self.batch]
            mine = chosen[self.rank :: self.world]
            if self.augment is None:
                x, y = self.split.batch(mine)
            elif isinstance(self.split, FolderSplit):
                crop = RandomResizedCrop(flip=self.augment.flip)
                x, y = self.split.random_batch(mine, mixed_seed(self.seed, epoch, CROPS), crop)
            else:  # all of the batch, so that every process draws what one alone would
                x, y = self.split.batch(chosen)
                generator = torch.Generator().manual_seed(
                    mixed_seed(self.seed, epoch, CHANGES, step)
                )
                x = self.augment(x, generator)[self.rank :: self.world]
                y = y[self.rank :: self.world]
            yield self.prepared(x), y.to(self.device), chosen

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield this process's samples in the order of the split, in large batches."""
        size = max(self.batch, 1000)
        numbers = torch.arange(self.rank, len(self.split), self.world)
        for chosen in torch.split(numbers, size) if len(numbers) else ():
            x, y = self.split.batch(chosen)
            yield self.prepared(x), y.to(self.device)

    def prepared(self, x: Tensor) -> Tensor:
        """Return a batch on the device, as z-scores."""
        return x.to(self.device, self.dtype, copy=True).sub_(self.mean).div_(self.std)


def statistics(split: Split) -> Normalize:
    """Return the z-score of a split: its own, or ImageNet's for pictures that stay on disk."""
    return IMAGENET if isinstance(split, FolderSplit) else Normalize.of(split.x)


def order_of_epoch(seed: int, epoch: int, size: int) -> Tensor:
    """Return in which order an epoch goes over its samples."""
    generator = torch.Generator().manual_seed(mixed_seed(seed, epoch, ORDER))
    return torch.randperm(size, generator=generator)
