"""The networks are those of the papers: sizes, order of operations, first weights."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from model_cases import DOCUMENTED, IMAGENET, PUBLISHED, ROUNDED
from torch import nn

from softmargin.heads import LinearHead
from softmargin.models import (
    FCNN,
    MLP,
    Classifier,
    ConvNet13,
    ResNet,
    ResNet18,
    ResNeXt50,
    VGG16Mod,
    WideResNet,
    build,
    parameter_count,
)
from softmargin.models.resnet import BasicBlock, Bottleneck
from softmargin.models.wide_resnet import WideBlock


def size(name, options, classes):
    with torch.device("meta"):
        model = build(name, 3, **options)
        return parameter_count(Classifier(model, LinearHead(model.out_features, classes)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "classes", "count"), PUBLISHED + DOCUMENTED)
def test_parameters(name, options, classes, count):
    assert size(name, options, classes) == count


@pytest.mark.parametrize(("name", "options", "classes", "millions"), ROUNDED)
def test_parameters_in_millions(name, options, classes, millions):
    assert round(size(name, options, classes) / 1e6, 1) == millions


def test_parameters_of_fully_connected_networks():
    assert parameter_count(FCNN(784, (50, 20))) == 784 * 50 + 50 + 50 * 20 + 20
    assert parameter_count(MLP(4, width=64, depth=3)) == 4 * 64 + 64 + 64 * 64 + 64
    assert parameter_count(MLP(4, depth=1)) == 0
    x = torch.randn(3, 4)
    assert MLP(4, depth=1)(x).equal(x)
    assert [MLP(4, 8, depth).out_features for depth in (1, 2, 10)] == [4, 8, 8]


def test_plotted_features_may_be_negative_and_others_not():
    x = torch.randn(50, 784)
    plane = build("fcnn_2d", 784)(x)
    assert plane.shape == (50, 2)
    assert (plane < 0).any()
    assert (FCNN(784)(x) >= 0).all()


@pytest.mark.parametrize(
    ("name", "options", "image", "last"),
    [
        ("resnet18", {}, 32, 4),
        ("resnet34", {}, 64, 8),
        ("resnet18", IMAGENET, 224, 7),
        ("resnet50", IMAGENET, 224, 7),
        ("resnext50", IMAGENET, 224, 7),
        ("small_resnet", {}, 32, 8),
        ("small_resnet", {"width": 32, "stem_stride": 2}, 32, 4),
        ("wide_resnet", {}, 32, 8),
        ("vgg16", {}, 32, 1),
        ("vgg16", IMAGENET, 224, 7),
        ("vgg16_mod", {}, 224, 14),
        ("mobilenet_v1", {}, 32, 2),
        ("mobilenet_v1", IMAGENET, 224, 7),
        ("convnet13", {}, 32, 6),
        ("convnet13", {"variant": "mean_teacher"}, 32, 6),
    ],
)
def test_size_of_the_last_map(name, options, image, last):
    seen = []
    with torch.device("meta"):
        model = build(name, (3, image, image), **options)
        model.avgpool.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[2:]))
        features = model(torch.empty(2, 3, image, image))
    assert seen == [(last, last)]
    assert features.shape == (2, model.out_features)


def normalised(x, norm):
    """Return x with mean 0 and variance 1 in each channel: a fresh normalisation in training."""
    mean, variance = x.mean((0, 2, 3), True), x.var((0, 2, 3), correction=0, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt()


def test_basic_block_equals_its_formula():
    block, x = BasicBlock(4, 6, stride=2).double(), torch.randn(3, 4, 8, 8).double()
    y = normalised(F.conv2d(x, block.conv1.weight, stride=2, padding=1), block.bn1).clamp(min=0)
    y = normalised(F.conv2d(y, block.conv2.weight, padding=1), block.bn2)
    short = normalised(F.conv2d(x, block.downsample[0].weight, stride=2), block.downsample[1])
    torch.testing.assert_close(block(x), (y + short).clamp(min=0))
    same = BasicBlock(4, 4, stride=1).double()
    y = normalised(F.conv2d(x, same.conv1.weight, padding=1), same.bn1).clamp(min=0)
    y = normalised(F.conv2d(y, same.conv2.weight, padding=1), same.bn2)
    torch.testing.assert_close(same(x), (x + y).clamp(min=0))


def test_bottleneck_equals_its_formula():
    block, x = Bottleneck(8, 2, stride=1).double(), torch.randn(3, 8, 5, 5).double()
    y = normalised(F.conv2d(x, block.conv1.weight), block.bn1).clamp(min=0)
    y = normalised(F.conv2d(y, block.conv2.weight, padding=1), block.bn2).clamp(min=0)
    y = normalised(F.conv2d(y, block.conv3.weight), block.bn3)
    torch.testing.assert_close(block(x), (x + y).clamp(min=0))


def test_wide_block_equals_its_formula():
    block, x = WideBlock(4, 6, 2, dropout=0.0).double(), torch.randn(3, 4, 8, 8).double()
    active = normalised(x, block.bn1).clamp(min=0)
    y = normalised(F.conv2d(active, block.conv1.weight, stride=2, padding=1), block.bn2)
    y = F.conv2d(y.clamp(min=0), block.conv2.weight, padding=1)
    torch.testing.assert_close(block(x), y + F.conv2d(active, block.shortcut.weight, stride=2))
    same = WideBlock(4, 4, 1, dropout=0.0).double()
    y = F.conv2d(normalised(x, same.bn1).clamp(min=0), same.conv1.weight, padding=1)
    y = F.conv2d(normalised(y, same.bn2).clamp(min=0), same.conv2.weight, padding=1)
    torch.testing.assert_close(same(x), x + y)


def test_dropout_acts_in_training_only():
    model, x = WideResNet(depth=10, width=1, dropout=0.5), torch.randn(2, 3, 8, 8)
    assert not model(x).equal(model(x))
    assert model.eval()(x).equal(model(x))
    with torch.device("meta"):
        shares = [m.p for m in build("vgg16", 3, images="imagenet").modules() if hasattr(m, "p")]
    assert shares == [0.5, 0.5]


def test_resnext_has_32_groups_of_4():
    with torch.device("meta"):
        convolution = ResNeXt50().layer1[0].conv2
    assert (convolution.groups, convolution.weight.shape) == (32, (128, 4, 3, 3))


def test_names_are_those_of_published_weights():
    with torch.device("meta"):
        residual = build("resnet50", 3, images="imagenet").state_dict()
        plain = build("vgg16", 3, images="imagenet").state_dict()
    assert len(residual) == 318  # torchvision's 320 without fc.weight and fc.bias
    assert residual["conv1.weight"].shape == (64, 3, 7, 7)
    assert residual["layer2.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert residual["layer4.2.bn3.running_var"].shape == (2048,)
    assert len(plain) == 30  # torchvision's 32 without classifier.6
    assert plain["features.28.weight"].shape == (512, 512, 3, 3)
    assert plain["classifier.3.weight"].shape == (4096, 4096)


def test_thirteen_and_sixteen_layers():
    with torch.device("meta"):
        thirteen, sixteen = ConvNet13(), VGG16Mod()
    kinds = [type(module) for module in thirteen.modules()]
    pools = kinds.count(nn.MaxPool2d) + kinds.count(nn.AdaptiveAvgPool2d)
    assert kinds.count(nn.Conv2d) + pools + 1 == 13
    weights = [m for m in sixteen.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert len(weights) + 1 == 16


def test_first_weights():
    model = ResNet18(width=32)
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 5000:
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.05)
        elif isinstance(module, nn.BatchNorm2d):
            assert module.weight.eq(1).all()
            assert module.bias.eq(0).all()
    linear = VGG16Mod(width=256).classifier[0]
    assert linear.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert linear.bias.eq(0).all()
    assert all(
        m.bias.eq(0).all()
        for m in build("vgg16", 3).features
        if hasattr(m, "padding") and hasattr(m, "bias")
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FCNN(0), "in_features must be at least 1, but got 0."),
        (lambda: FCNN(4, (5, 0)), "widths[1] must be at least 1, but got 0."),
        (lambda: FCNN(4, 5), "widths must be a sequence of whole numbers, but got 5."),
        (lambda: FCNN(4, (2.5,)), "widths[0] must be a whole number, but got 2.5."),
        (lambda: MLP(4, width=0), "width must be at least 1, but got 0."),
        (lambda: MLP(4, depth=0), "depth must be at least 1, but got 0."),
        (lambda: ResNet18(0), "in_channels must be at least 1, but got 0."),
        (lambda: ResNet18(width=-1), "width must be at least 1, but got -1."),
        (
            lambda: ResNet18(images="tiny"),
            "images must be one of small, imagenet, but got 'tiny'.",
        ),
        (lambda: ResNet(3, (1, 0)), "blocks[1] must be at least 1, but got 0."),
        (lambda: ResNet(3, ()), "the number of stages in blocks must be at least 1, but got 0."),
        (lambda: ResNeXt50(width=24), "width must be a multiple of 16, but got 24."),
        (lambda: build("small_resnet", 3, depth=0), "depth must be at least 1, but got 0."),
        (
            lambda: build("small_resnet", 3, stem_stride=0),
            "stem_stride must be at least 1, but got 0.",
        ),
        (
            lambda: build("small_resnet", (3, 7, 7), stem_stride=2),
            "input_shape must hold images of at least 8 by 8 for this SmallResNet, but got 7 by 7.",
        ),
        (
            lambda: WideResNet(depth=27),
            "depth must be 6n + 4 (10, 16, 22, 28, 34, 40), but got 27.",
        ),
        (
            lambda: WideResNet(dropout=1.0),
            "dropout must be a finite number of at least 0 and below 1, but got 1.0.",
        ),
        (
            lambda: ConvNet13(variant="student"),
            "variant must be one of large_margin, mean_teacher, but got 'student'.",
        ),
        (
            lambda: build("mobilenet", 3, width_multiplier=0.0),
            "width_multiplier must be a finite number above 0, but got 0.0.",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert str(error.value) == message
