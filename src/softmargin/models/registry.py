"""Networks by name, for commands and configuration files."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from softmargin.functional._checks import check_choice, check_count
from softmargin.models._base import FeatureNetwork, ImageNetwork
from softmargin.models.convnet13 import ConvNet13
from softmargin.models.fcnn import FCNN, MLP
from softmargin.models.mobilenet import MobileNetV1
from softmargin.models.resnet import ResNet18, ResNet34, ResNet50, ResNeXt50, SmallResNet
from softmargin.models.vgg import VGG16, VGG16Mod
from softmargin.models.wide_resnet import WideResNet

MODELS: Mapping[str, Callable[..., FeatureNetwork]] = {
    "fcnn": FCNN,
    "fcnn_2d": partial(FCNN, widths=(50, 20, 2), last_activation=False),
    "mlp": MLP,
    "small_resnet": SmallResNet,
    "resnet18": ResNet18,
    "resnet34": ResNet34,
    "resnet50": ResNet50,
    "resnext50": ResNeXt50,
    "wide_resnet": WideResNet,
    "vgg16": VGG16,
    "vgg16_bn": partial(VGG16, batch_norm=True),
    "vgg16_mod": VGG16Mod,
    "mobilenet_v1": MobileNetV1,
    "convnet13": ConvNet13,
}
"""Every network by its name; what it is called with says which options it has."""

ALIASES: Mapping[str, str] = {
    "resnet35": "resnet34",  # a slip in the gradient-decay paper
    "resnext50_32x4d": "resnext50",
    "wide_resnet_28_10": "wide_resnet",
    "wrn_28_10": "wide_resnet",
    "mobilenet": "mobilenet_v1",
    "13_layer": "convnet13",
}
"""Other names that papers use."""


def _letters(name: str) -> str:
    return "".join(character for character in str(name).lower() if character.isalnum())


def find(name: str) -> str:
    """Return the name under which a network is in ``MODELS``.

    Capitals, hyphens, underscores and spaces make no difference.

    Example:
        >>> from softmargin.models import find
        >>> find("VGG-16-mod"), find("ResNet35")
        ('vgg16_mod', 'resnet34')
    """
    known = {_letters(k): v for k, v in [*((m, m) for m in MODELS), *ALIASES.items()]}
    if _letters(name) in known:
        return known[_letters(name)]
    close = get_close_matches(_letters(name), known, n=3, cutoff=0.5)
    nearest = list(dict.fromkeys(known[k] for k in close)) or list(MODELS)
    raise ValueError(f"name must be a model such as {', '.join(nearest)}, but got {name!r}.")


def build(name: str, input_shape: int | Sequence[int], **options: Any) -> FeatureNetwork:
    """Make a network by its name, for samples of a shape.

    Weights are drawn from torch's generator: ``torch.manual_seed`` fixes them.

    Args:
        name: one of ``MODELS``, in any spelling that :func:`find` understands.
        input_shape: shape of one sample, (channels, height, width) for the convolutional networks
            and anything for the others; or a number alone, of channels or of features.
        options: arguments of the network's class.

    Returns:
        The network, checked to be able to take such samples.

    Example:
        >>> from softmargin.models import build
        >>> build("resnet18", (3, 32, 32), width=16).out_features
        128
        >>> build("fcnn", (1, 28, 28), widths=[50, 20]).out_features
        20
        >>> build("resnet19", 3)
        Traceback (most recent call last):
        ...
        ValueError: name must be a model such as resnet18, resnet50, resnet34, but got 'resnet19'.
    """
    name = find(name)
    make = MODELS[name]
    first, *allowed = inspect.signature(make).parameters
    for option in options:
        check_choice(f"an option of {name}", option, allowed)
    shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
    for size in shape:
        check_count("every number of input_shape", size, 1)
    if first == "in_features":
        return make(math.prod(shape), **options)
    if len(shape) != 3 and not isinstance(input_shape, int):
        raise ValueError(
            f"input_shape must be (channels, height, width) or a number of channels for {name}, "
            f"but got {shape}."
        )
    network = make(shape[0], **options)
    if len(shape) == 3 and isinstance(network, ImageNetwork):
        network.check_size("input_shape", shape[1], shape[2])
    return network
