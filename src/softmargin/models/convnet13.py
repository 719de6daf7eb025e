"""The 13-layer network that the large-margin paper trains on CIFAR."""

from __future__ import annotations

from torch import nn

from softmargin.functional._checks import check_choice, check_count
from softmargin.models._base import ImageNetwork, check_image_options, pooled

VARIANTS = ("large_margin", "mean_teacher")


class ConvNet13(ImageNetwork):
    """The 13-layer network for 32×32 images: nine convolutions; 128 features.

    Three convolutions of 128 channels, three of 256, then 512 (without padding), 256 and 128, with
    a maximum over 2×2 after the first and second three, and the mean over what is left. Thirteen
    counts the convolutions, the two maxima, the mean and the head. The large-margin paper takes the
    network from the semi-supervised literature, and leaves its details to a supplement:

    - ``"large_margin"`` follows the author's published code: the last two convolutions are 3×3,
      activations are ReLU, nothing is dropped. 4,432,522 parameters with a head for 10 classes,
      4,444,132 for 100.
    - ``"mean_teacher"`` follows the paper it is taken from: the last two are 1×1, activations are
      leaky ReLU with slope 0.1, half the units are dropped after each maximum. 3,121,802
      parameters with a head for 10 classes. That paper's weight normalisation and noise on the
      input are left out.

    Both have batch normalisation after every convolution.

    Args:
        in_channels: channels of an image.
        variant: ``"large_margin"`` or ``"mean_teacher"``.
        width: channels of the first and the last convolution; 128 is the published one.

    Shape:
        x (N, C, H, W) with H and W of at least 12, features (N, ``width``).

    Example:
        >>> import torch
        >>> from softmargin.models import ConvNet13
        >>> ConvNet13(width=16)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 16])

    Reference:
        Kobayashi, "Large Margin In Softmax Cross-Entropy Loss", BMVC 2019. Tarvainen and Valpola,
        "Mean teachers are better role models", NIPS 2017. Laine and Aila, "Temporal Ensembling for
        Semi-Supervised Learning", ICLR 2017.
    """

    def __init__(
        self, in_channels: int = 3, *, variant: str = "large_margin", width: int = 128
    ) -> None:
        """Make the layers."""
        check_image_options(in_channels)
        check_choice("variant", variant, VARIANTS)
        check_count("width", width, 1)
        teacher = variant == "mean_teacher"
        last_size = 1 if teacher else 3
        # for each convolution: channels that leave it, size, padding
        stages = (
            ((width, 3, 1),) * 3,
            ((2 * width, 3, 1),) * 3,
            (
                (4 * width, 3, 0),
                (2 * width, last_size, last_size // 2),
                (width, last_size, last_size // 2),
            ),
        )
        layers: dict[str, nn.Module] = {}
        channels = in_channels
        for index, stage in enumerate(stages, 1):
            convolutions: list[nn.Module] = []
            for out_channels, size, padding in stage:
                convolutions += [
                    nn.Conv2d(channels, out_channels, size, padding=padding, bias=False),
                    nn.BatchNorm2d(out_channels),
                    nn.LeakyReLU(0.1, inplace=True) if teacher else nn.ReLU(inplace=True),
                ]
                channels = out_channels
            layers[f"stage{index}"] = nn.Sequential(*convolutions)
            if index < len(stages):
                layers[f"maxpool{index}"] = nn.MaxPool2d(2)
                if teacher:
                    layers[f"dropout{index}"] = nn.Dropout(0.5)
        # two halvings, then a 3×3 convolution without padding
        super().__init__(layers | pooled(), in_channels, width, least_size=12)
