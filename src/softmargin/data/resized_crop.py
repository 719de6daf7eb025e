"""The random crop that networks for ImageNet and Places are trained with.

A rectangle of random area and shape is cut out of a picture and scaled to the size that the network
takes; then the picture is mirrored or not. What is drawn follows from a seed and the number of the
picture, so it is the same whichever process decodes it, and when.

>>> window, flipped = RandomResizedCrop().draw(500, 375, seed=0, index=3)
>>> window, flipped
((122, 22, 253, 158), True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

Window = tuple[int, int, int, int]
"""Left, top, right and bottom, the last two exclusive, as Pillow has them."""

TRIES = 10


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random rectangle, then a flip.

    The share of the area is uniform in ``area``, and the logarithm of width : height uniform in
    that of ``ratio``. A rectangle that does not fit into the picture is drawn again; after ten
    such it is the largest one in the middle whose shape is allowed.

    Args:
        area: Least and largest share of the picture's area.
        ratio: Least and largest width : height.
        flip: Whether to mirror with probability 1/2.

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
        generator = torch.Generator().manual_seed(hash((seed, index)) & (2**63 - 1))
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
