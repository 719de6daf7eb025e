"""MobileNet of 2017: convolutions in two steps, one per channel and one across channels."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from softmargin.functional._checks import check_number
from softmargin.models._base import ImageNetwork, check_image_options, convolution, pooled

# channels that leave each block, and its stride
BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


class MobileNetV1(ImageNetwork):
    """MobileNet: a 3×3 convolution and thirteen separable ones; 1024 features.

    With a linear head for 1000 classes it has 4,231,976 parameters (the paper: 4.2 million), and
    3,217,226 for 10 classes. The paper's table gives the last block stride 2, which would not fit
    the sizes beside it; here it is 1, as in all implementations. For small images the first
    convolution has stride 1 instead of 2, which ends in maps of 2×2 for 32×32; papers that train it
    on CIFAR leave this open.

    Args:
        in_channels: channels of an image.
        images: ``"small"`` for stride 1 in the first convolution, ``"imagenet"`` for stride 2.
        width_multiplier: factor α on all channels; 1, 0.75, 0.5 and 0.25 are the published ones.

    Shape:
        x (N, C, H, W), features (N, ``1024 * width_multiplier``). H and W are at least 16 for small
        images, 32 for ImageNet.

    Example:
        >>> import torch
        >>> from softmargin.models import MobileNetV1
        >>> MobileNetV1(width_multiplier=0.25)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 256])

    Reference:
        Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
        Applications", 2017.
    """

    channels_last: ClassVar[bool] = True

    def __init__(
        self, in_channels: int = 3, *, images: str = "small", width_multiplier: float = 1.0
    ) -> None:
        """Make the layers."""
        check_image_options(in_channels, images)
        check_number("width_multiplier", width_multiplier)
        first_stride = 2 if images == "imagenet" else 1
        channels = _scaled(32, width_multiplier)
        stem = _normalised(in_channels, channels, stride=first_stride)
        layers: dict[str, nn.Module] = {"stem": nn.Sequential(*stem)}
        for index, (width, stride) in enumerate(BLOCKS, 1):
            out_channels = _scaled(width, width_multiplier)
            layers[f"block{index}"] = nn.Sequential(
                *_normalised(channels, channels, stride=stride, groups=channels),
                *_normalised(channels, out_channels, size=1),
            )
            channels = out_channels
        super().__init__(layers | pooled(), in_channels, channels, least_size=16 * first_stride)


def _scaled(channels: int, multiplier: float) -> int:
    return max(1, round(channels * multiplier))


def _normalised(
    in_channels: int, out_channels: int, size: int = 3, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    layer = convolution(in_channels, out_channels, size, stride, groups)
    return [layer, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True)]
