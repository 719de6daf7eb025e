"""What paper scale would take: a rule of thumb, from counted operations to hours of a GPU.

A forward pass of one image is counted by PyTorch (a multiplication and an addition are two
operations); training takes three times as many, forward and twice backward; a GPU is taken to
sustain ten tera-operations a second, about what a data-centre card of recent years gives for these
networks in float32. Small networks on 32×32 images keep a card less busy, half precision makes it
faster: read it as right to a factor of three.
"""

from __future__ import annotations

from collections.abc import Mapping

from softmargin.data.registry import entry_of

SUSTAINED = 10e12  # operations a second
PASSES = 3  # one forward, two backward

SHAPES: Mapping[str, tuple[int, int, int]] = {
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "svhn": (3, 32, 32),
    "tiny_imagenet": (3, 64, 64),
    "imagenet": (3, 224, 224),
    "places365": (3, 224, 224),
}

GIGA_OPERATIONS: Mapping[tuple[str, int], float] = {
    ("resnet18", 32): 1.111,
    ("resnet34", 32): 2.319,
    ("vgg16_bn", 32): 0.626,
    ("mobilenet_v1", 32): 0.0927,
    ("convnet13", 32): 1.557,
    ("wide_resnet", 32): 10.49,
    ("resnet34", 64): 9.275,
    ("resnet50", 64): 10.38,
    ("vgg16_bn", 224): 30.93,
    ("vgg16_mod", 224): 31.55,
    ("mobilenet_v1", 224): 1.135,
    ("resnext50", 224): 8.457,
}
"""Of one image forward, by network and height; kept so that a list of cells needs no networks."""


def gpu_seconds(data: str, model: str, epochs: int) -> float:
    """Return about how long a GPU trains, by the rule above.

    Example:
        >>> round(gpu_seconds("cifar10", "resnet18", 200) / 3600, 1)
        0.9
    """
    forward = 1e9 * GIGA_OPERATIONS[model, SHAPES[data][1]]
    return PASSES * forward * entry_of(data).train * epochs / SUSTAINED
