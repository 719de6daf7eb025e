"""VGG-16, with or without batch normalisation, and the modified VGG-16 of Kobayashi.

Parameters of :class:`VGG16` have torchvision's names, so that its ImageNet weights load once the
last layer, ``classifier.6``, is taken out.
"""

from __future__ import annotations

from torch import nn

from softmargin.functional._checks import check_count, check_number
from softmargin.models._base import ImageNetwork, check_image_options, pooled

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def _convolution(
    in_channels: int, out_channels: int, kernel_size: int, batch_norm: bool
) -> list[nn.Module]:
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
    norm: list[nn.Module] = [nn.BatchNorm2d(out_channels)] if batch_norm else []
    return [convolution, *norm, nn.ReLU(inplace=True)]


def _thirteen_convolutions(in_channels: int, batch_norm: bool) -> list[nn.Module]:
    """Return the convolutions of VGG-16, with a maximum over 2×2 after each stage."""
    layers: list[nn.Module] = []
    for stage in STAGES:
        for width in stage:
            layers += _convolution(in_channels, width, 3, batch_norm)
            in_channels = width
        layers.append(nn.MaxPool2d(2))
    return layers


def _draw_linear(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
            nn.init.zeros_(module.bias)


class VGG16(ImageNetwork):
    """VGG-16: thirteen convolutions, and for ImageNet two fully connected layers of 4096 units.

    With a linear head for 1000 classes it has the published 138,357,544 parameters, and 138,365,992
    with batch normalisation. For small images, for which the 4096-unit layers were not made, the
    features are the mean of the last 512 maps, as CIFAR versions of VGG usually have it: 14,719,818
    parameters with a head for 10 classes, 14,728,266 with batch normalisation.

    Args:
        in_channels: channels of an image.
        images: ``"small"`` or ``"imagenet"``.
        batch_norm: whether every convolution is followed by batch normalisation.
        dropout: share of units that training drops after each fully connected layer, or from the
            mean of the maps for small images; if None, 0.5 for ImageNet and 0 for small images.

    Shape:
        x (N, C, H, W) with H and W of at least 32, features (N, 512), or (N, 4096) for ImageNet.

    Example:
        >>> import torch
        >>> from softmargin.models import VGG16
        >>> VGG16(batch_norm=True)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 512])

    Reference:
        Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
        Recognition", ICLR 2015.
    """

    def __init__(
        self,
        in_channels: int = 3,
        *,
        images: str = "small",
        batch_norm: bool = False,
        dropout: float | None = None,
    ) -> None:
        """Make the layers."""
        check_image_options(in_channels, images)
        if dropout is None:
            dropout = 0.5 if images == "imagenet" else 0.0
        check_number("dropout", dropout, inclusive=True, below=1.0)
        layers: dict[str, nn.Module] = {
            "features": nn.Sequential(*_thirteen_convolutions(in_channels, batch_norm))
        }
        if images == "small":
            out_features = 512
            layers |= {**pooled(), "dropout": nn.Dropout(dropout)}
        else:
            out_features = 4096
            classifier: list[nn.Module] = []
            for size in (512 * 7 * 7, out_features):
                classifier += [nn.Linear(size, out_features), nn.ReLU(inplace=True)]
                classifier.append(nn.Dropout(dropout))
            layers |= {"avgpool": nn.AdaptiveAvgPool2d(7), "flatten": nn.Flatten()}
            layers["classifier"] = nn.Sequential(*classifier)
        super().__init__(layers, in_channels, out_features, least_size=32)
        _draw_linear(self)


class VGG16Mod(ImageNetwork):
    """VGG-16-mod: a 1×1 convolution and the mean over the image instead of the first large layer.

    The last maximum of VGG-16 gives way to a 1×1 convolution to 4096 maps, whose mean over the
    image goes through one fully connected layer of 4096 units. That is still 16 layers with the
    head, but 37,719,080 parameters for 1000 classes instead of 138 million. The large-margin paper
    names the network without describing it; this is how its author's published code builds it.

    Args:
        in_channels: channels of an image.
        batch_norm: whether every layer is followed by batch normalisation, as in the author's code.
        width: units of the last two layers; 4096 is the published one.

    Shape:
        x (N, C, H, W) with H and W of at least 16, features (N, ``width``).

    Example:
        >>> import torch
        >>> from softmargin.models import VGG16Mod
        >>> VGG16Mod(width=64)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 64])

    Reference:
        Kobayashi, "Analyzing Filters Toward Efficient ConvNets", CVPR 2018, and "Large Margin In
        Softmax Cross-Entropy Loss", BMVC 2019.
    """

    def __init__(self, in_channels: int = 3, *, batch_norm: bool = True, width: int = 4096) -> None:
        """Make the layers."""
        check_image_options(in_channels)
        check_count("width", width, 1)
        features = _thirteen_convolutions(in_channels, batch_norm)[:-1]
        features += _convolution(512, width, 1, batch_norm)
        norm: list[nn.Module] = [nn.BatchNorm1d(width)] if batch_norm else []
        layers = {
            "features": nn.Sequential(*features),
            **pooled(),
            "classifier": nn.Sequential(nn.Linear(width, width), *norm, nn.ReLU(inplace=True)),
        }
        super().__init__(layers, in_channels, width, least_size=16)
        _draw_linear(self)
