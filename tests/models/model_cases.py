"""One row per network: a small version of it for quick tests, and the published sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A network by name, options that make it small, and the shape of a sample."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (3, 32, 32)


EVERY_MODEL = {
    "fcnn": Case("fcnn", shape=(1, 28, 28)),
    "fcnn_deep": Case("fcnn", {"widths": [9] * 6, "last_activation": False}, (7,)),
    "fcnn_2d": Case("fcnn_2d", shape=(784,)),
    "mlp": Case("mlp", {"width": 16}, (4,)),
    "small_resnet": Case("small_resnet", {"width": 4}),
    "resnet18": Case("resnet18", {"width": 4}, (3, 16, 16)),
    "resnet18_imagenet": Case("resnet18", {"width": 4, "images": "imagenet"}, (3, 64, 64)),
    "resnet34": Case("resnet34", {"width": 4}, (1, 16, 16)),
    "resnet50": Case("resnet50", {"width": 2}, (3, 16, 16)),
    "resnext50": Case("resnext50", {"width": 16}, (3, 16, 16)),
    "wide_resnet": Case("wide_resnet", {"depth": 10, "width": 1, "dropout": 0.3}, (3, 16, 16)),
    "vgg16": Case("vgg16"),
    "vgg16_bn": Case("vgg16_bn", {"dropout": 0.2}),
    "vgg16_mod": Case("vgg16_mod", {"width": 32}),
    "mobilenet_v1": Case("mobilenet_v1", {"width_multiplier": 0.25}),
    "convnet13": Case("convnet13", {"width": 8}),
    "convnet13_teacher": Case("convnet13", {"width": 8, "variant": "mean_teacher"}),
}

IMAGENET = {"images": "imagenet"}

# name, options, classes of the linear head, parameters of both
PUBLISHED = [
    ("resnet18", IMAGENET, 1000, 11_689_512),
    ("resnet34", IMAGENET, 1000, 21_797_672),
    ("resnet35", IMAGENET, 1000, 21_797_672),
    ("resnet50", IMAGENET, 1000, 25_557_032),
    ("resnext50", IMAGENET, 1000, 25_028_904),
    ("vgg16", IMAGENET, 1000, 138_357_544),
    ("vgg16_bn", IMAGENET, 1000, 138_365_992),
    ("mobilenet_v1", IMAGENET, 1000, 4_231_976),
    ("wide_resnet", {}, 10, 36_479_194),
    ("wide_resnet", {}, 100, 36_536_884),
    ("resnet18", {}, 10, 11_173_962),
    ("resnet34", {}, 10, 21_282_122),
    ("resnet50", {}, 10, 23_520_842),
    ("vgg16_bn", {}, 10, 14_728_266),
]

# the same, in millions as papers round them
ROUNDED = [
    ("mobilenet_v1", {"width_multiplier": 0.75}, 1000, 2.6),
    ("mobilenet_v1", {"width_multiplier": 0.5}, 1000, 1.3),
    ("mobilenet_v1", {"width_multiplier": 0.25}, 1000, 0.5),
    ("wide_resnet", {"depth": 40, "width": 1}, 10, 0.6),
    ("wide_resnet", {"depth": 40, "width": 4}, 10, 8.9),
    ("wide_resnet", {"depth": 16, "width": 8}, 10, 11.0),
    ("small_resnet", {"depth": 3}, 10, 0.3),
    ("convnet13", {"variant": "mean_teacher"}, 10, 3.1),
]

# what the documentation of this library says where nothing is published
DOCUMENTED = [
    ("small_resnet", {}, 10, 78_042),
    ("small_resnet", {"depth": 3}, 10, 272_474),
    ("resnext50", {}, 10, 22_992_714),
    ("vgg16", {}, 10, 14_719_818),
    ("vgg16_mod", {}, 10, 33_663_050),
    ("vgg16_mod", {}, 1000, 37_719_080),
    ("mobilenet_v1", {}, 10, 3_217_226),
    ("convnet13", {}, 10, 4_432_522),
    ("convnet13", {}, 100, 4_444_132),
    ("convnet13", {"variant": "mean_teacher"}, 10, 3_121_802),
]
