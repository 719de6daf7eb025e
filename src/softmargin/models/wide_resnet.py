"""Wide residual networks."""

from __future__ import annotations

from torch import Tensor, nn

from softmargin.functional._checks import check_count, check_number
from softmargin.models._base import ImageNetwork, check_image_options, convolution, pooled


class WideBlock(nn.Module):
    """Two 3×3 convolutions, each after batch normalisation and ReLU, beside a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, dropout: float) -> None:
        """Make a block that leaves ``out_channels`` channels."""
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = convolution(in_channels, out_channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = convolution(out_channels, out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or in_channels != out_channels:
            self.shortcut = convolution(in_channels, out_channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of shortcut and convolutions."""
        active = self.relu(self.bn1(x))
        residual = self.relu(self.bn2(self.conv1(active)))
        out: Tensor = self.conv2(self.dropout(residual))
        return out + (x if self.shortcut is None else self.shortcut(active))


class WideResNet(ImageNetwork):
    """Wide residual network for small images, by default WRN-28-10; 640 features.

    With a linear head WRN-28-10 has 36,479,194 parameters for 10 classes and 36,536,884 for 100
    (the paper: 36.5 million).

    Args:
        in_channels: channels of an image.
        depth: number of layers, 6n + 4 for n blocks in each of the three stages.
        width: factor k on the channels 16, 32 and 64 of the stages.
        dropout: share of units that training drops between a block's convolutions; the paper's
            value where it uses dropout is 0.3.

    Shape:
        x (N, C, H, W) with H and W of at least 4, features (N, ``64 * width``).

    Example:
        >>> import torch
        >>> from softmargin.models import WideResNet
        >>> WideResNet(depth=10, width=1)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 64])

    Reference:
        Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016.
    """

    def __init__(
        self, in_channels: int = 3, *, depth: int = 28, width: int = 10, dropout: float = 0.0
    ) -> None:
        """Make the layers."""
        check_image_options(in_channels)
        check_count("depth", depth, 10)
        check_count("width", width, 1)
        check_number("dropout", dropout, inclusive=True, below=1.0)
        if depth % 6 != 4:
            raise ValueError(f"depth must be 6n + 4 (10, 16, 22, 28, 34, 40), but got {depth}.")
        layers: dict[str, nn.Module] = {"conv1": convolution(in_channels, 16)}
        channels = 16
        for index in range(3):
            out_channels = 16 * 2**index * width
            stage: list[nn.Module] = []
            for position in range((depth - 4) // 6):
                stride = 2 if index > 0 and position == 0 else 1
                stage.append(WideBlock(channels, out_channels, stride, dropout))
                channels = out_channels
            layers[f"stage{index + 1}"] = nn.Sequential(*stage)
        layers["bn"] = nn.BatchNorm2d(channels)
        layers["relu"] = nn.ReLU(inplace=True)
        super().__init__(layers | pooled(), in_channels, channels, least_size=4)
