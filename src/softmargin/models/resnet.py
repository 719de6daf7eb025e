"""Residual networks: ResNet-18, 34 and 50, ResNeXt-50, and a small one for CPUs.

Parameters have torchvision's names, so that its ImageNet weights load into the ImageNet networks
once their last layer, ``fc``, is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import nn

from softmargin.functional._checks import check_count
from softmargin.models._base import ImageNetwork, check_counts, check_image_options, pooled
from softmargin.models._blocks import BasicBlock, Bottleneck, GroupedBottleneck, convolution


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
    ) -> None:
        """Make the layers; see the class."""
        check_image_options(in_channels, images)
        check_counts("blocks", blocks)
        check_count("the number of stages in blocks", len(blocks), 1)
        check_count("width", width, 1)
        if issubclass(block, Bottleneck) and width * block.inner % block.groups:
            step = block.groups // block.inner
            raise ValueError(f"width must be a multiple of {step}, but got {width}.")
        layers = _stem(in_channels, width, images)
        channels = width
        for index, count in enumerate(blocks):
            stage: list[nn.Module] = []
            for position in range(count):
                stride = 2 if index > 0 and position == 0 else 1
                stage.append(block(channels, width * 2**index, stride))
                channels = width * 2**index * block.expansion
            layers[f"layer{index + 1}"] = nn.Sequential(*stage)
        strides = 2 ** (len(blocks) - 1) * (4 if images == "imagenet" else 1)
        super().__init__(layers | pooled(), in_channels, channels, least_size=strides)


def _stem(in_channels: int, width: int, images: str) -> dict[str, nn.Module]:
    size, stride = (7, 2) if images == "imagenet" else (3, 1)
    layers: dict[str, nn.Module] = {
        "conv1": convolution(in_channels, width, size, stride),
        "bn1": nn.BatchNorm2d(width),
        "relu": nn.ReLU(inplace=True),
    }
    if images == "imagenet":
        layers["maxpool"] = nn.MaxPool2d(3, stride=2, padding=1)
    return layers


class ResNet18(ResNet):
    """ResNet with 18 layers and 512 features; arguments as for :class:`ResNet`.

    With a linear head: 11,689,512 parameters for ImageNet and 1000 classes, 11,173,962 for small
    images and 10 classes.

    Example:
        >>> from softmargin.models import ResNet18
        >>> ResNet18().out_features
        512
    """

    def __init__(self, in_channels: int = 3, *, images: str = "small", width: int = 64) -> None:
        """Make the layers; see the class."""
        super().__init__(in_channels, (2, 2, 2, 2), images=images, width=width)


class ResNet34(ResNet):
    """ResNet with 34 layers and 512 features; arguments as for :class:`ResNet`.

    With a linear head: 21,797,672 parameters for ImageNet and 1000 classes, 21,282,122 for small
    images and 10 classes. The gradient-decay paper calls it ResNet35 in some tables.

    Example:
        >>> from softmargin.models import ResNet34
        >>> ResNet34(width=16).out_features
        128
    """

    def __init__(self, in_channels: int = 3, *, images: str = "small", width: int = 64) -> None:
        """Make the layers; see the class."""
        super().__init__(in_channels, (3, 4, 6, 3), images=images, width=width)


class ResNet50(ResNet):
    """ResNet with 50 layers in bottlenecks and 2048 features; arguments as for :class:`ResNet`.

    With a linear head: 25,557,032 parameters for ImageNet and 1000 classes, 23,520,842 for small
    images and 10 classes.

    Example:
        >>> from softmargin.models import ResNet50
        >>> ResNet50(width=8).out_features
        256
    """

    def __init__(self, in_channels: int = 3, *, images: str = "small", width: int = 64) -> None:
        """Make the layers; see the class."""
        super().__init__(in_channels, (3, 4, 6, 3), block=Bottleneck, images=images, width=width)


class ResNeXt50(ResNet):
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

    def __init__(self, in_channels: int = 3, *, images: str = "small", width: int = 64) -> None:
        """Make the layers; see the class."""
        block = GroupedBottleneck
        super().__init__(in_channels, (3, 4, 6, 3), block=block, images=images, width=width)


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

    Shape:
        x (N, C, H, W) with H and W of at least 4, features (N, ``4 * width``).

    Example:
        >>> import torch
        >>> from softmargin.models import SmallResNet
        >>> SmallResNet()(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 64])
    """

    def __init__(self, in_channels: int = 3, *, width: int = 16, depth: int = 1) -> None:
        """Make the layers; see the class."""
        check_count("depth", depth, 1)
        super().__init__(in_channels, (depth,) * 3, width=width)
