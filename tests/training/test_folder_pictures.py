"""Training on pictures that stay on disk, with a random part of each in every epoch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softmargin import data
from softmargin.training import TrainingConfig, train
from softmargin.training.batches import IMAGENET, Batches

Image = pytest.importorskip("PIL.Image")

CONFIG = TrainingConfig(
    data="imagenet", model="small_resnet", epochs=2, batch=4, lr=0.02, augment=True
)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for part, count in (("train", 7), ("val", 3)):
        for name in ("a", "b"):
            folder = root / "imagenet" / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 256, (30 + i, 40, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    return data.load("imagenet", root=root, image_size=16)


def batches(pictures, rank=0, world=1, seed=0, augment=True):
    return Batches(
        pictures.train,
        IMAGENET,
        4,
        seed=seed,
        augment=data.Augment() if augment else None,
        device=torch.device("cpu"),
        rank=rank,
        world=world,
    )


def samples(found):
    return [x for x, *_ in found]


def test_every_epoch_has_other_parts_and_every_run_the_same(pictures):
    first = samples(batches(pictures).of_epoch(0))
    for one, two in zip(first, samples(batches(pictures).of_epoch(0)), strict=True):
        assert torch.equal(one, two)
    plain = samples(batches(pictures, augment=False).of_epoch(0))
    assert not any(torch.equal(one, two) for one, two in zip(first, plain, strict=True))
    # the same picture in two epochs: sorted by class and order, none is as it was
    other = torch.cat(samples(batches(pictures).of_epoch(1)))
    assert not any(torch.equal(one, two) for one in torch.cat(first) for two in other)


@pytest.mark.parametrize("start", [1, 3])
def test_an_epoch_goes_on_in_the_middle(pictures, start):
    whole = samples(batches(pictures).of_epoch(1))
    rest = samples(batches(pictures).of_epoch(1, start))
    assert len(rest) == 4 - start
    assert all(torch.equal(one, two) for one, two in zip(whole[start:], rest, strict=True))


@pytest.mark.parametrize("world", [2, 3])
def test_several_processes_see_what_one_would(pictures, world):
    whole = samples(batches(pictures).of_epoch(0))
    parts = [samples(batches(pictures, rank, world).of_epoch(0)) for rank in range(world)]
    for step, x in enumerate(whole):
        for rank in range(world):
            assert torch.equal(parts[rank][step], x[rank::world])


def test_evaluation_is_not_augmented(pictures):
    (augmented,) = samples(batches(pictures).in_order())
    (plain,) = samples(batches(pictures, augment=False).in_order())
    assert torch.equal(augmented, plain)


def test_a_run_interrupted_in_an_epoch_ends_as_if_it_never_was(tmp_path, pictures):
    class StopError(Exception):
        pass

    def stop(_epoch, step, _loss):
        if step == 6:  # in the second epoch of four steps
            raise StopError

    train(CONFIG, tmp_path / "whole", dataset=pictures)
    with pytest.raises(StopError):
        train(CONFIG, tmp_path / "cut", dataset=pictures, checkpoint_steps=1, progress=stop)
    train(CONFIG, tmp_path / "cut", dataset=pictures)
    for name in ("metrics.jsonl", "result.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    ours, theirs = (
        torch.load(tmp_path / run / "checkpoint.pt", weights_only=True)["model"]
        for run in ("whole", "cut")
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
