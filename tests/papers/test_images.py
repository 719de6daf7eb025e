"""Which images a cell trains on, tests on, and holds out."""

import torch

from softmargin import data
from softmargin.papers.images import as_trained, load_part, taken
from softmargin.training import TrainingConfig


def test_parts_of_the_images_do_not_overlap_and_are_the_same_for_all_seeds():
    part = {"train": 500, "held_out": 300, "test": 100}
    images = load_part("digits", part)
    assert len(images.dataset.train) == 500
    assert len(images.dataset.test) == 100
    assert images.held_out is not None
    assert len(images.held_out) == 300
    train = {tuple(x.flatten().tolist()) for x in images.dataset.train.x}
    held_out = {tuple(x.flatten().tolist()) for x in images.held_out.x}
    assert not train & held_out
    assert min(images.dataset.train.class_counts(10)) >= 45
    again = load_part("digits", part)
    assert torch.equal(images.dataset.train.x, again.dataset.train.x)


def test_taking_more_than_there_is_takes_all():
    split = data.Split(torch.zeros(6, 1, 2, 2, dtype=torch.uint8), torch.arange(6) % 2)
    assert len(taken(split, 9)[0]) == 6
    some, rest = taken(split, 4)
    assert (len(some), len(rest)) == (4, 2)


def test_images_are_reduced_by_the_mean():
    images = load_part("digits", {"size": 4, "train": 100, "held_out": 100})
    assert images.dataset.train.x.shape[1:] == (1, 4, 4)
    assert images.held_out.x.shape[1:] == (1, 4, 4)
    whole = load_part("digits", {"train": 100, "held_out": 100}).dataset.train.x[0, 0]
    corner = whole[:2, :2].float().mean().round()
    assert images.dataset.train.x[0, 0, 0, 0] == corner


def test_what_training_saw_is_what_the_trainer_would_make():
    dataset = load_part("digits", {"train": 400}).dataset
    config = TrainingConfig("digits", fraction=0.5, pollute=0.3, seed=2)
    seen = as_trained(dataset, config)
    assert len(seen.train) == 200
    clean = dataset.subset(0.5, 2)
    assert int((seen.train.y != clean.train.y).sum()) == 60
    assert torch.equal(seen.train.x, clean.train.x)
