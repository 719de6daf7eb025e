"""What training asks of data sets and networks is a field of theirs, not a test on their names."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from softmargin import data, models
from softmargin.data import Dataset, Provenance, Split
from softmargin.data.registry import ENTRIES
from softmargin.papers.images import load_part
from softmargin.training import RunFolder, TrainingConfig
from softmargin.training.trainer import Trainer

MIRRORABLE = {"fashion_mnist", "cifar10", "cifar100", "tiny_imagenet", "imagenet", "places365"}
CHANNELS_LAST = {"small_resnet", "resnet18", "resnet34", "resnet50", "resnext50", "mobilenet_v1"}


def test_which_data_sets_may_be_mirrored() -> None:
    assert {name for name, entry in ENTRIES.items() if entry.mirrorable} == MIRRORABLE
    assert not data.load("digits").mirrorable
    split = Split(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.arange(4) % 2)
    assert not Dataset("mine", split, split, ("a", "b"), Provenance("", "")).mirrorable


@pytest.mark.parametrize("name", ENTRIES)
def test_the_trainer_mirrors_what_may_be_mirrored(tmp_path, name: str) -> None:
    """Whatever the name: the field decides."""
    x = torch.randint(0, 256, (12, 3, 8, 8), dtype=torch.uint8)
    split = Split(x, torch.arange(12) % 2)
    pictures = Dataset(name, split, split, ("a", "b"), Provenance("", ""))
    config = TrainingConfig(data=name, batch=6, augment=True)
    for mirrorable in (False, True):
        given = replace(pictures, mirrorable=mirrorable)
        augment = Trainer(config, RunFolder(tmp_path), "cpu", 0, 1, given).batches.augment
        assert augment is not None
        assert augment.flip is mirrorable


def test_a_part_of_the_data_is_as_mirrorable_as_the_whole(monkeypatch) -> None:
    whole = replace(data.load("digits"), mirrorable=True)
    monkeypatch.setattr(data, "load", lambda *_, **__: whole)
    assert load_part("digits", {"train": 100}, 0).dataset.mirrorable
    assert whole.subset(0.5).mirrorable


def test_which_networks_keep_their_channels_last() -> None:
    found = set()
    for name in models.MODELS:
        with torch.device("meta"):
            shape = (3, 224, 224) if name == "vgg16_mod" else (3, 64, 64)
            found |= {name} if models.build(name, shape).channels_last else set()
    assert found == CHANNELS_LAST
