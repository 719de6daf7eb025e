"""Networks by name, for commands and configuration files; PyTorch is imported by ``build``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softmargin._lazy import load_object
from softmargin._text import nearest

if TYPE_CHECKING:
    from softmargin.models._base import FeatureNetwork


@dataclass(frozen=True)
class NetworkEntry:
    """A network that has a name. Called with sizes and options, it makes one.

    Args:
        home: its class, as "module:class" within this package.
        options: arguments of the class that differ from the class's own defaults.
        aliases: other names that papers use.
        for_images: whether it takes images, and their channels as its first argument; the others
            take vectors of ``in_features`` numbers.
    """

    home: str
    options: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    for_images: bool = True

    @property
    def network(self) -> Callable[..., FeatureNetwork]:
        """The class."""
        found: Callable[..., FeatureNetwork] = load_object(f"softmargin.models.{self.home}")
        return found

    def __call__(self, *sizes: int, **options: Any) -> FeatureNetwork:
        """Make the network."""
        return self.network(*sizes, **{**self.options, **options})


MODELS: Mapping[str, NetworkEntry] = {
    "fcnn": NetworkEntry("fcnn:FCNN", for_images=False),
    "fcnn_2d": NetworkEntry(
        "fcnn:FCNN", {"widths": (50, 20, 2), "last_activation": False}, for_images=False
    ),
    "mlp": NetworkEntry("fcnn:MLP", for_images=False),
    "small_resnet": NetworkEntry("resnet:SmallResNet"),
    "resnet18": NetworkEntry("resnet:ResNet18"),
    # the gradient-decay paper calls it ResNet35 by a slip
    "resnet34": NetworkEntry("resnet:ResNet34", aliases=("resnet35",)),
    "resnet50": NetworkEntry("resnet:ResNet50"),
    "resnext50": NetworkEntry("resnet:ResNeXt50", aliases=("resnext50_32x4d",)),
    "wide_resnet": NetworkEntry(
        "wide_resnet:WideResNet", aliases=("wide_resnet_28_10", "wrn_28_10")
    ),
    "vgg16": NetworkEntry("vgg:VGG16"),
    "vgg16_bn": NetworkEntry("vgg:VGG16", {"batch_norm": True}),
    "vgg16_mod": NetworkEntry("vgg:VGG16Mod"),
    "mobilenet_v1": NetworkEntry("mobilenet:MobileNetV1", aliases=("mobilenet",)),
    "convnet13": NetworkEntry("convnet13:ConvNet13", aliases=("13_layer",)),
}
"""Every network by its name."""

ALIASES: Mapping[str, str] = {
    alias: name for name, entry in MODELS.items() for alias in entry.aliases
}
"""Other names that papers use."""


def names() -> list[str]:
    """Return the names that ``build`` knows.

    Example:
        >>> names()[:3]
        ['fcnn', 'fcnn_2d', 'mlp']
    """
    return list(MODELS)


def _letters(name: str) -> str:
    return "".join(character for character in str(name).lower() if character.isalnum())


def find(name: str, argument: str = "name") -> str:
    """Return the name under which a network is in ``MODELS``.

    Capitals, hyphens, underscores and spaces make no difference. ``argument`` is what messages
    call the name.

    Example:
        >>> from softmargin.models import find
        >>> find("VGG-16-mod"), find("ResNet35")
        ('vgg16_mod', 'resnet34')
    """
    known = {_letters(k): v for k, v in [*((m, m) for m in MODELS), *ALIASES.items()]}
    if _letters(name) in known:
        return known[_letters(name)]
    close = dict.fromkeys(known[k] for k in nearest(_letters(name), known)) or MODELS
    raise ValueError(f"{argument} must be a model such as {', '.join(close)}, but got {name!r}.")


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
    from softmargin.functional._checks import check_choice, check_count
    from softmargin.models._base import ImageNetwork

    name = find(name)
    entry = MODELS[name]
    _, *allowed = inspect.signature(entry.network).parameters
    for option in options:
        check_choice(f"an option of {name}", option, allowed)
    shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
    for size in shape:
        check_count("every number of input_shape", size, 1)
    if not entry.for_images:
        return entry(math.prod(shape), **options)
    if len(shape) != 3 and not isinstance(input_shape, int):
        raise ValueError(
            f"input_shape must be (channels, height, width) or a number of channels for {name}, "
            f"but got {shape}."
        )
    network = entry(shape[0], **options)
    if len(shape) == 3 and isinstance(network, ImageNetwork):
        network.check_size("input_shape", shape[1], shape[2])
    return network
