"""Networks by name, and networks with heads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from softmargin import heads
from softmargin.models import ALIASES, MODELS, Classifier, SmallResNet, build, find


@pytest.mark.parametrize("name", [*MODELS, *ALIASES])
def test_names_in_any_spelling(name):
    expected = ALIASES.get(name, name)
    for spelling in (name, name.upper(), name.replace("_", "-"), name.replace("_", "")):
        assert find(spelling) == expected


def test_the_papers_spellings():
    spellings = {
        "ResNet35": "resnet34",
        "Resnet18": "resnet18",
        "VGG-16-mod": "vgg16_mod",
        "MobilenetV1": "mobilenet_v1",
        "MobileNet": "mobilenet_v1",
        "ResNeXt-50": "resnext50",
        "WideResNet28-10": "wide_resnet",
        "13-layer": "convnet13",
    }
    assert {name: find(name) for name in spellings} == spellings


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("resnet81", "resnet18"), ("vg16", "vgg16"), ("wideresnt", "wide_resnet"), ("cnn", "fcnn")],
)
def test_unknown_names_bring_the_nearest(name, nearest):
    with pytest.raises(
        ValueError, match=f"name must be a model such as .*, but got '{name}'.$"
    ) as e:
        build(name, 3)
    assert nearest in str(e.value)


def test_a_name_like_no_other_brings_all():
    with pytest.raises(ValueError) as error:
        build("transformer", 3)
    assert all(name in str(error.value) for name in MODELS)
    with pytest.raises(ValueError, match="but got None"):
        build(None, 3)


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        (
            "resnet18",
            3,
            {"stem": "imagenet"},
            "an option of resnet18 must be one of images, width, but got 'stem'.",
        ),
        (
            "vgg16_bn",
            3,
            {"in_channels": 1},
            "an option of vgg16_bn must be one of images, batch_norm, dropout, "
            "but got 'in_channels'.",
        ),
        (
            "resnet18",
            (784,),
            {},
            "input_shape must be (channels, height, width) or a number of channels for resnet18, "
            "but got (784,).",
        ),
        ("fcnn", (1, 0), {}, "every number of input_shape must be at least 1, but got 0."),
        ("fcnn", (1.5,), {}, "every number of input_shape must be a whole number, but got 1.5."),
        (
            "vgg16",
            (1, 28, 28),
            {},
            "input_shape must hold images of at least 32 by 32 for this VGG16, but got 28 by 28.",
        ),
    ],
)
def test_bad_arguments(name, shape, options, message):
    with pytest.raises((ValueError, TypeError)) as error:
        build(name, shape, **options)
    assert str(error.value) == message


def test_options_and_shapes_reach_the_network():
    assert build("fcnn", (1, 28, 28)).in_features == 784
    assert build("mlp", 13, width=5).out_features == 5
    assert build("small_resnet", torch.Size((1, 28, 28))).in_channels == 1
    assert build("resnet18", 2, width=4).in_channels == 2
    assert build("fcnn_2d", 784, widths=(30, 2)).linear1.out_features == 30


HEADS = [getattr(heads, name) for name in heads.__all__ if name != "Head"]


@pytest.mark.parametrize("head", HEADS)
def test_classifier_gives_what_the_head_gives(head):
    network = SmallResNet(width=4)
    classifier = Classifier(network, head(network.out_features, 5))
    x, target = torch.randn(6, 3, 16, 16), torch.arange(6) % 5
    assert classifier(x, target).shape == (6, 5)
    assert classifier.features is network
    classifier.eval()
    assert classifier(x).equal(classifier.head(network(x)))
    assert classifier(x, target).equal(classifier.head(network(x), target))
    keys = classifier.state_dict()
    assert "head.weight" in keys or head is heads.SimplexHead
    assert "features.conv1.weight" in keys


@pytest.mark.slow
def test_classifier_compiles_and_trains_under_autocast():
    torch.compiler.reset()
    network = SmallResNet(width=4)
    classifier = Classifier(network, heads.ArcFaceHead(network.out_features, 5))
    x, target = torch.randn(6, 3, 16, 16), torch.arange(6) % 5
    compiled = torch.compile(classifier, fullgraph=True, backend="eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(compiled(x, target), target)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in classifier.parameters())


def test_classifier_takes_any_module_and_refuses_sizes_that_differ():
    other = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU())
    assert Classifier(other, heads.LinearHead(3, 2))(torch.randn(5, 4)).shape == (5, 2)
    with pytest.raises(ValueError) as error:
        Classifier(SmallResNet(), heads.LinearHead(32, 10))
    assert str(error.value) == (
        "head must have in_features=64, the out_features of SmallResNet, but got 32."
    )
    with pytest.raises(TypeError) as error:
        Classifier(SmallResNet(), nn.Linear(64, 10))
    assert str(error.value) == (
        "head must be a head of softmargin.heads, such as LinearHead, but got Linear."
    )
