"""The blocks that residual networks are made of."""

from __future__ import annotations

from torch import Tensor, nn


def convolution(
    in_channels: int, out_channels: int, size: int = 3, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """Return a convolution that keeps the size where the stride is 1; normalisation follows it."""
    return nn.Conv2d(
        in_channels, out_channels, size, stride, padding=size // 2, groups=groups, bias=False
    )


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """Return the identity, or a projection where the shape changes."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    projection = convolution(in_channels, out_channels, 1, stride)
    return nn.Sequential(projection, nn.BatchNorm2d(out_channels))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        """Make a block that leaves ``width`` channels."""
        super().__init__()
        self.conv1 = convolution(in_channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(in_channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of shortcut and convolutions, after ReLU."""
        residual = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(residual + self.downsample(x))
        return out


class Bottleneck(nn.Module):
    """Convolutions 1×1, 3×3 and 1×1 beside a shortcut; the stride is that of the 3×3 one."""

    expansion = 4
    groups = 1
    inner = 1
    """Channels of the 3×3 convolution, per channel of the block's width."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        """Make a block that leaves ``4 * width`` channels."""
        super().__init__()
        inner, out_channels = width * self.inner, width * self.expansion
        self.conv1 = convolution(in_channels, inner, 1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = convolution(inner, inner, 3, stride, self.groups)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = convolution(inner, out_channels, 1)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of shortcut and convolutions, after ReLU."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        out: Tensor = self.relu(residual + self.downsample(x))
        return out


class GroupedBottleneck(Bottleneck):
    """The block of ResNeXt 32×4d: 32 groups, each of 4 channels where the width is 64."""

    groups = 32
    inner = 2
