"""Residual networks: ResNet-18, 34 and 50, ResNeXt-50, and a small one for CPUs.

Parameters have torchvision's names, so that its ImageNet weights load into the ImageNet networks
once their last layer, ``fc``, is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from softmargin.functional._checks import check_count
from softmargin.models._base import (
    ImageNetwork,
    check_counts,
    check_image_options,
    convolution,
    pooled,
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


class ResNet(ImageNetwork):
    """A residual network: a stem, stages that halve the image, and the mean over what is left.

    Args:
        in_channels: channels of an image.
        blocks: number of blocks of each stage.
        block: the kind of block.
        images: ``"small"`` for a stem of one 3×3 convolution that keeps the size (CIFAR, SVHN,
            Tiny-ImageNet), ``"imagenet"`` for a 7×7 convolution and a maximum over 3×3, each of
            stride 2.
        width: channels of the first stage's blocks; every stage doubles them.
        stem_stride: of the stem of small images; 2 halves them before the first stage.

    Shape:
        x (N, C, H, W), features (N, D). H and W are at least the product of the strides: with
        four stages 8 for small images and 32 for ImageNet.

    Example:
        >>> import torch
        >>> from softmargin.models import ResNet
        >>> ResNet(3, (1, 1, 1, 1), width=8)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 64])

    Reference:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
    """

    channels_last: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        blocks: Sequence[int],
        *,
        block: type[BasicBlock] | type[Bottleneck] = BasicBlock,
        images: str = "small",
        width: int = 64,
        stem_stride: int = 1,
    ) -> None:
        """Make the layers."""
        check_image_options(in_channels, images)
        check_count("stem_stride", stem_stride, 1)
        check_counts("blocks", blocks)
        check_count("the number of stages in blocks", len(blocks), 1)
        check_count("width", width, 1)
        if issubclass(block, Bottleneck) and width * block.inner % block.groups:
            step = block.groups // block.inner
            raise ValueError(f"width must be a multiple of {step}, but got {width}.")
        layers = _stem(in_channels, width, images, stem_stride)
        channels = width
        for index, count in enumerate(blocks):
            stage: list[nn.Module] = []
            for position in range(count):
                stride = 2 if index > 0 and position == 0 else 1
                stage.append(block(channels, width * 2**index, stride))
                channels = width * 2**index * block.expansion
            layers[f"layer{index + 1}"] = nn.Sequential(*stage)
        strides = 2 ** (len(blocks) - 1) * (4 if images == "imagenet" else stem_stride)
        super().__init__(layers | pooled(), in_channels, channels, least_size=strides)


def _stem(in_channels: int, width: int, images: str, stride: int) -> dict[str, nn.Module]:
    size, stride = (7, 2) if images == "imagenet" else (3, stride)
    layers: dict[str, nn.Module] = {
        "conv1": convolution(in_channels, width, size, stride),
        "bn1": nn.BatchNorm2d(width),
        "relu": nn.ReLU(inplace=True),
    }
    if images == "imagenet":
        layers["maxpool"] = nn.MaxPool2d(3, stride=2, padding=1)
    return layers


class _PublishedResNet(ResNet):
    """A network of four stages whose blocks are fixed."""

    blocks: ClassVar[tuple[int, ...]] = (3, 4, 6, 3)
    block: ClassVar[type[BasicBlock] | type[Bottleneck]] = BasicBlock

    def __init__(self, in_channels: int = 3, *, images: str = "small", width: int = 64) -> None:
        """Make the layers."""
        super().__init__(in_channels, self.blocks, block=self.block, images=images, width=width)


class ResNet18(_PublishedResNet):
    """ResNet with 18 layers and 512 features; arguments as for :class:`ResNet`.

    With a linear head: 11,689,512 parameters for ImageNet and 1000 classes, 11,173,962 for small
    images and 10 classes.

    Example:
        >>> from softmargin.models import ResNet18
        >>> ResNet18().out_features
        512
    """

    blocks = (2, 2, 2, 2)


class ResNet34(_PublishedResNet):
    """ResNet with 34 layers and 512 features; arguments as for :class:`ResNet`.

    With a linear head: 21,797,672 parameters for ImageNet and 1000 classes, 21,282,122 for small
    images and 10 classes. The gradient-decay paper calls it ResNet35 in some tables.

    Example:
        >>> from softmargin.models import ResNet34
        >>> ResNet34(width=16).out_features
        128
    """


class ResNet50(_PublishedResNet):
    """ResNet with 50 layers in bottlenecks and 2048 features; arguments as for :class:`ResNet`.

    With a linear head: 25,557,032 parameters for ImageNet and 1000 classes, 23,520,842 for small
    images and 10 classes.

    Example:
        >>> from softmargin.models import ResNet50
        >>> ResNet50(width=8).out_features
        256
    """

    block = Bottleneck


class ResNeXt50(_PublishedResNet):
    """ResNeXt-50 32×4d with 2048 features; arguments as for :class:`ResNet`.

    With a linear head: 25,028,904 parameters for ImageNet and 1000 classes. A width other than 64
    keeps the 32 groups and changes their channels, so it is a multiple of 16.

    Example:
        >>> from softmargin.models import ResNeXt50
        >>> ResNeXt50(width=16).out_features
        512

    Reference:
        Xie et al., "Aggregated Residual Transformations for Deep Neural Networks", CVPR 2017.
    """

    block = GroupedBottleneck


class SmallResNet(ResNet):
    """A residual network that a laptop trains: three stages of 16, 32 and 64 channels.

    With one block per stage, the default, it has 8 layers, 78,042 parameters with a linear head
    for 10 classes, and about 12 million multiplications per 32×32 image. With three it is the
    ResNet-20 that He et al. train on CIFAR-10 (0.27 million parameters), except that the shortcuts
    that change shape are projections here.

    Args:
        in_channels: channels of an image.
        width: channels of the first stage.
        depth: blocks per stage.
        stem_stride: of the first convolution; 2 takes a quarter of the time.

    Shape:
        x (N, C, H, W) with H and W of at least 4 times the stride, features (N, ``4 * width``).

    Example:
        >>> import torch
        >>> from softmargin.models import SmallResNet
        >>> SmallResNet()(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 64])
    """

    def __init__(
        self, in_channels: int = 3, *, width: int = 16, depth: int = 1, stem_stride: int = 1
    ) -> None:
        """Make the layers."""
        check_count("depth", depth, 1)
        super().__init__(in_channels, (depth,) * 3, width=width, stem_stride=stem_stride)
