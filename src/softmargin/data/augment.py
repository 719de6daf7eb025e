"""Augmentation of whole batches of images: crop with padding, flip, z-score.

Random ones take an explicit ``torch.Generator``: the same generator state gives the same pixels.

>>> import torch
>>> from softmargin.data import Augment, Normalize
>>> images = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8)
>>> augment, normalize = Augment(), Normalize.of(images)
>>> normalize(augment(images, torch.Generator().manual_seed(0))).shape
torch.Size([8, 3, 32, 32])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from softmargin.data.sampling import mixed_seed
from softmargin.functional._checks import check_count

Window = tuple[int, int, int, int]
"""Left, top, right and bottom, the last two exclusive, as Pillow has them."""

TRIES = 10


def random_crop(images: Tensor, padding: int = 4, *, generator: torch.Generator) -> Tensor:
    """Pad each image with zeros and cut its size out at a random place.

    Image b of the result is ``padded[b, :, i : i + H, j : j + W]`` with i and j drawn uniformly
    from 0 to 2·padding: first all i, then all j.

    Args:
        images: A batch of any dtype.
        padding: Rows and columns of zeros on every side; 0 does nothing.
        generator: Where the places are drawn from.

    Shape:
        - images and result: (N, C, H, W).
    """
    _check_batch(images)
    check_count("padding", padding, 0)
    if padding == 0:
        return images
    size = (2, len(images))
    drawn = torch.randint(2 * padding + 1, size, generator=generator, device=generator.device)
    top, left = drawn.to(images.device)
    height, width = images.shape[-2:]
    padded = F.pad(images, (padding, padding, padding, padding))
    # every window as a view (N, C, i, j, H, W), of which one per image is copied
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(len(images), device=images.device), :, top, left]


def random_flip(images: Tensor, *, generator: torch.Generator) -> Tensor:
    """Mirror each image left to right with probability 1/2.

    Shape:
        - images and result: (N, C, H, W).
    """
    _check_batch(images)
    drawn = torch.randint(2, (len(images),), generator=generator, device=generator.device)
    flipped = drawn.to(images.device, torch.bool)[:, None, None, None]
    return torch.where(flipped, images.flip(-1), images)


@dataclass(frozen=True)
class Augment:
    """Crop, then flip: what the papers call "+" (with the z-score that follows).

    Args:
        padding: Zeros on every side before the crop; 0 for no crop.
        flip: Whether to mirror at random; only where ``Dataset.mirrorable`` says so.
    """

    padding: int = 4
    flip: bool = True

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return the augmented batch, of the same shape and dtype."""
        images = random_crop(images, self.padding, generator=generator)
        return random_flip(images, generator=generator) if self.flip else images


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random rectangle, then a flip: how networks for ImageNet and Places are trained.

    A rectangle of random area and shape is cut out of a picture and scaled to the size that the
    network takes; then the picture is mirrored or not. What is drawn follows from a seed and the
    number of the picture, so it is the same whichever process decodes it, and when.

    The share of the area is uniform in ``area``, and the logarithm of width : height uniform in
    that of ``ratio``. A rectangle that does not fit into the picture is drawn again; after ten
    such it is the largest one in the middle whose shape is allowed.

    Args:
        area: Least and largest share of the picture's area.
        ratio: Least and largest width : height.
        flip: Whether to mirror with probability 1/2.

    Example:
        >>> RandomResizedCrop().draw(500, 375, seed=0, index=3)
        ((90, 122, 316, 311), False)

    Reference:
        Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, section 6.
    """

    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    def __post_init__(self) -> None:
        """Check that both are ranges."""
        if not 0 < self.area[0] <= self.area[1] <= 1:
            raise ValueError(f"area must be a range within 0 to 1, but got {self.area}.")
        if not 0 < self.ratio[0] <= self.ratio[1] < math.inf:
            raise ValueError(f"ratio must be a range above 0, but got {self.ratio}.")

    def draw(self, width: int, height: int, *, seed: int, index: int) -> tuple[Window, bool]:
        """Return the rectangle for a picture of this size, and whether to mirror it.

        Args:
            width: Of the picture.
            height: Of the picture.
            seed: Such as that of the run and the epoch, mixed.
            index: Number of the picture.
        """
        generator = torch.Generator().manual_seed(mixed_seed(seed, index))
        drawn = torch.rand(2 * TRIES + 3, generator=generator, dtype=torch.float64).tolist()
        *sizes, to_the_left, above, mirror = drawn
        flipped = self.flip and mirror < 0.5
        for share, shape in zip(sizes[::2], sizes[1::2], strict=True):
            area = width * height * _between(share, *self.area)
            ratio = math.exp(_between(shape, *map(math.log, self.ratio)))
            across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < across <= width and 0 < down <= height:
                left, top = (
                    int(to_the_left * (width - across + 1)),
                    int(above * (height - down + 1)),
                )
                return (left, top, left + across, top + down), flipped
        return self._middle(width, height), flipped

    def _middle(self, width: int, height: int) -> Window:
        """Return the largest rectangle in the middle whose shape is allowed."""
        across = min(width, max(1, round(height * self.ratio[1])))
        down = min(height, max(1, round(width / self.ratio[0])))
        left, top = (width - across) // 2, (height - down) // 2
        return left, top, left + across, top + down


def _between(share: float, low: float, high: float) -> float:
    return low + share * (high - low)


@dataclass(frozen=True)
class Normalize:
    """The z-score (x - mean) / std per channel or feature, in float32.

    uint8 images are first scaled from 0...255 to 0...1, so that the familiar means apply.

    Args:
        mean: One number per channel.
        std: One number above 0 per channel.

    Shape:
        - batch and result: (N, C, ...).

    Example:
        >>> normalize = Normalize(mean=(0.5,), std=(0.25,))
        >>> normalize(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
        tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that the numbers belong together."""
        if len(self.mean) != len(self.std):
            raise ValueError(
                f"std must have one number per channel, {len(self.mean)}, but got {len(self.std)}."
            )
        if not all(0 < value < float("inf") for value in self.std):
            raise ValueError(f"std must be finite and above 0, but got {self.std}.")

    @classmethod
    def of(cls, x: Tensor) -> Normalize:
        """Return the z-score of this data, usually the training split.

        A channel or feature that never varies is only centred.
        """
        mean, std = channel_statistics(x)
        std = torch.where(std > 0, std, 1.0)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def __call__(self, batch: Tensor) -> Tensor:
        """Return the z-scores."""
        if batch.ndim < 2 or batch.shape[1] != len(self.mean):
            raise ValueError(
                f"batch must have shape (N, {len(self.mean)}, ...), got {tuple(batch.shape)}."
            )
        scale = 255.0 if batch.dtype == torch.uint8 else 1.0
        shape = (1, -1) + (1,) * (batch.ndim - 2)
        mean, std = (
            (scale * torch.tensor(values, dtype=torch.float64)).to(batch.device).view(shape)
            for values in (self.mean, self.std)
        )
        if batch.dtype == torch.float64:  # a table: round only at the end
            return ((batch - mean) / std).float()
        return (batch.float() - mean.float()).div_(std.float())


def channel_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation (over N) of each channel or feature, as float64.

    uint8 images are counted as 0...1, and exactly: by how often each of the 256 values occurs.

    Shape:
        - x: (N, C, ...).
        - mean, std: (C).
    """
    if x.ndim < 2 or not x.numel():
        raise ValueError(f"x must have shape (N, C, ...) and not be empty, got {tuple(x.shape)}.")
    if x.dtype != torch.uint8:
        rows = x.transpose(0, 1).flatten(1).double()
        return rows.mean(1), rows.std(1, correction=0)
    levels = torch.arange(256, dtype=torch.float64, device=x.device) / 255
    counts = torch.stack(
        [torch.bincount(x[:, c].flatten(), minlength=256) for c in range(x.shape[1])]
    ).double()
    total = counts.sum(1)
    mean = counts @ levels / total
    variance = (counts * (levels - mean[:, None]).square()).sum(1) / total
    return mean, variance.sqrt()


def _check_batch(images: Tensor) -> None:
    if not isinstance(images, Tensor) or images.ndim != 4:
        got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"images must be a tensor of shape (N, C, H, W), but got {got}.")
