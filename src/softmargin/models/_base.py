"""What all networks share: layers in a row, a size of features, and a check of what comes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Tensor, nn

from softmargin.functional._checks import check_choice, check_count

IMAGES = ("small", "imagenet")


class FeatureNetwork(nn.Module):
    """Base of all networks: layers that run one after the other and end in features.

    Attributes:
        out_features: size D of a feature vector, what a head takes as ``in_features``.
        channels_last: whether its convolutions run faster with their channels last, as measured in
            docs/models.md.
    """

    channels_last: ClassVar[bool] = False

    def __init__(self, layers: Mapping[str, nn.Module], out_features: int) -> None:
        """Take the layers in their order; their names become those of the parameters."""
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        """Return features of shape (N, D)."""
        self.check_input(x)
        for layer in self.children():
            x = layer(x)
        return x

    def check_input(self, x: Tensor) -> None:
        """Raise where ``x`` is not what the network takes."""
        if not x.is_floating_point():
            raise TypeError(f"x must be a floating-point tensor, but got {x.dtype}.")

    def extra_repr(self) -> str:
        """Show the size of the features."""
        return f"out_features={self.out_features}"


class ImageNetwork(FeatureNetwork):
    """Base of the convolutional networks, from images (N, C, H, W) to features (N, D).

    Attributes:
        in_channels: channels C of an image.
        least_size: smallest height and width, the product of all strides: below it the last
            feature map would be made of padding alone.
    """

    def __init__(
        self, layers: Mapping[str, nn.Module], in_channels: int, out_features: int, least_size: int
    ) -> None:
        """Take the layers and draw the weights of the convolutions."""
        super().__init__(layers, out_features)
        self.in_channels = in_channels
        self.least_size = least_size
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al. 2015, by the fan of the output
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def check_input(self, x: Tensor) -> None:
        """Raise unless ``x`` holds images with the right channels that are large enough."""
        super().check_input(x)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x must have shape (N, {self.in_channels}, H, W) for this "
                f"{type(self).__name__}, but got {tuple(x.shape)}."
            )
        self.check_size("x", x.shape[2], x.shape[3])

    def check_size(self, name: str, height: int, width: int) -> None:
        """Raise if images of this size are too small for the depth of the network."""
        if height < self.least_size or width < self.least_size:
            raise ValueError(
                f"{name} must hold images of at least {self.least_size} by {self.least_size} "
                f"for this {type(self).__name__}, but got {height} by {width}."
            )


def check_image_options(in_channels: int, images: str = "small") -> None:
    """Check the arguments that the convolutional networks have in common."""
    check_count("in_channels", in_channels, 1)
    check_choice("images", images, IMAGES)


def check_counts(name: str, values: Sequence[int]) -> None:
    """Raise unless ``values`` holds whole numbers of at least 1."""
    given: object = values
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"{name} must be a sequence of whole numbers, but got {given!r}.")
    for index, value in enumerate(values):
        check_count(f"{name}[{index}]", value, 1)


def pooled() -> dict[str, nn.Module]:
    """Return the last layers of most networks: the mean over the image, as a vector."""
    return {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}


def convolution(
    in_channels: int, out_channels: int, size: int = 3, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """Return a convolution that keeps the size where the stride is 1; normalisation follows it."""
    return nn.Conv2d(
        in_channels, out_channels, size, stride, padding=size // 2, groups=groups, bias=False
    )
