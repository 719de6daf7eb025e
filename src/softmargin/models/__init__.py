"""The networks of the papers. All end in features; a head of :mod:`softmargin.heads` makes logits.

``network(x)`` gives features of shape (N, ``network.out_features``), and ``Classifier(network,
head)`` gives logits.
"""

from typing import TYPE_CHECKING

from softmargin._lazy import lazy
from softmargin.models.registry import ALIASES, MODELS, build, find, names

if TYPE_CHECKING:
    from softmargin.models._base import FeatureNetwork, ImageNetwork
    from softmargin.models.classifier import (
        Classifier,
        has_batch_norm,
        parameter_count,
        to_channels_last,
    )
    from softmargin.models.convnet13 import ConvNet13
    from softmargin.models.fcnn import FCNN, MLP
    from softmargin.models.mobilenet import MobileNetV1
    from softmargin.models.resnet import (
        ResNet,
        ResNet18,
        ResNet34,
        ResNet50,
        ResNeXt50,
        SmallResNet,
    )
    from softmargin.models.synchronized import SynchronizedBatchNorm, synchronize_batch_norm
    from softmargin.models.vgg import VGG16, VGG16Mod
    from softmargin.models.wide_resnet import WideResNet
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "_base": "FeatureNetwork ImageNetwork",
            "classifier": "Classifier has_batch_norm parameter_count to_channels_last",
            "convnet13": "ConvNet13",
            "fcnn": "FCNN MLP",
            "mobilenet": "MobileNetV1",
            "resnet": "ResNet ResNet18 ResNet34 ResNet50 ResNeXt50 SmallResNet",
            "synchronized": "SynchronizedBatchNorm synchronize_batch_norm",
            "vgg": "VGG16 VGG16Mod",
            "wide_resnet": "WideResNet",
        },
    )

__all__ = [
    "ALIASES",
    "FCNN",
    "MLP",
    "MODELS",
    "VGG16",
    "Classifier",
    "ConvNet13",
    "FeatureNetwork",
    "ImageNetwork",
    "MobileNetV1",
    "ResNeXt50",
    "ResNet",
    "ResNet18",
    "ResNet34",
    "ResNet50",
    "SmallResNet",
    "SynchronizedBatchNorm",
    "VGG16Mod",
    "WideResNet",
    "build",
    "find",
    "has_batch_norm",
    "names",
    "parameter_count",
    "synchronize_batch_norm",
    "to_channels_last",
]
