"""The random crop for training on pictures, against a slow reference and its own statistics."""

import math

import numpy as np
import pytest
import torch

from softmargin.data import FolderSplit, RandomResizedCrop
from softmargin.data.readers import pictures

Image = pytest.importorskip("PIL.Image")

SIZES = [(60, 40), (33, 71), (20, 20), (90, 20), (41, 56), (7, 64)]


@pytest.fixture
def split(tmp_path):
    random = np.random.default_rng(0)
    paths = []
    for i, (width, height) in enumerate(SIZES):
        paths.append(tmp_path / f"{i}.png")
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(paths[-1])
    return FolderSplit(paths, torch.arange(len(SIZES)), size=24)


def slow_bilinear(pixels, size):
    """Scale an (H, W, 3) array weight by weight, without rounding in between.

    A pixel of the result is a mean weighted by a triangle that reaches one of its own steps to
    either side, or one pixel of the source where that is more.
    """

    def along_rows(source):
        length = source.shape[1]
        scale = length / size
        reach = max(scale, 1.0)
        result = np.empty((source.shape[0], size, 3))
        for place in range(size):
            middle = (place + 0.5) * scale
            weights = np.clip(1 - np.abs(np.arange(length) + 0.5 - middle) / reach, 0, None)
            result[:, place] = (source * weights[:, None]).sum(1) / weights.sum()
        return result

    return along_rows(along_rows(pixels).transpose(1, 0, 2)).transpose(1, 0, 2)


def slow_crop(path, window, flipped, size):
    """Copy a window pixel by pixel, let Pillow scale it, mirror it pixel by pixel."""
    picture = Image.open(path)
    left, top, right, bottom = window
    part = Image.new("RGB", (right - left, bottom - top))
    for x in range(left, right):
        for y in range(top, bottom):
            part.putpixel((x - left, y - top), picture.getpixel((x, y)))
    scaled = part.resize((size, size), Image.Resampling.BILINEAR)
    columns = [size - 1 - x if flipped else x for x in range(size)]
    rows = [[scaled.getpixel((x, y)) for x in columns] for y in range(size)]
    return np.array(rows, np.uint8), np.asarray(part)


@pytest.mark.parametrize("seed", range(4))
def test_equals_a_slow_reference_pixel_for_pixel(split, seed):
    images, y = split.random_batch(torch.arange(len(SIZES)), seed)
    assert images.shape == (len(SIZES), 3, 24, 24)
    assert images.dtype == torch.uint8
    assert y.tolist() == list(range(len(SIZES)))
    for i, path in enumerate(split.paths):
        window, flipped = RandomResizedCrop().draw(*SIZES[i], seed=seed, index=i)
        expected, part = slow_crop(path, window, flipped, 24)
        image = images[i].permute(1, 2, 0).numpy()
        assert np.array_equal(image, expected)
        # and what Pillow means by bilinear; it rounds twice, in an order that varies by release
        exact = slow_bilinear(part, 24)
        assert np.abs((image[:, ::-1] if flipped else image) - exact).max() < 1.01


def test_what_is_drawn_follows_from_seed_and_index_alone(split, monkeypatch):
    every = torch.arange(len(SIZES))
    whole, _ = split.random_batch(every, 7)
    again, _ = split.random_batch(every, 7)
    other, _ = split.random_batch(every, 8)
    assert torch.equal(whole, again)
    assert not torch.equal(whole, other)
    shuffled = torch.tensor([3, 0, 5])
    assert torch.equal(split.random_batch(shuffled, 7)[0], whole[shuffled])
    parts = [split.random_batch(every[rank::2], 7)[0] for rank in range(2)]
    assert torch.equal(torch.stack(parts, 1).flatten(0, 1), whole)
    monkeypatch.setattr(pictures, "THREADS", 1)
    assert torch.equal(split.random_batch(every, 7)[0], whole)


def test_evaluation_is_the_middle_and_never_random(split):
    one, _ = split.batch(torch.arange(3))
    two, _ = split.batch(torch.arange(3))
    assert torch.equal(one, two)
    scaled = Image.open(split.paths[0]).resize((40, 27), Image.Resampling.BILINEAR)
    expected = np.asarray(scaled.crop((8, 1, 32, 25)))
    assert np.array_equal(one[0].permute(1, 2, 0).numpy(), expected)


def draws(crop, width, height, count):
    found = [crop.draw(width, height, seed=1, index=i) for i in range(count)]
    return np.array([window for window, _ in found]), np.array([flipped for _, flipped in found])


def test_areas_shapes_and_places_are_distributed_as_stated():
    """On a square picture large enough that rounding and fitting hardly matter."""
    from scipy.stats import kstest

    crop = RandomResizedCrop(area=(0.08, 0.5))  # all of these fit, so none is drawn again
    windows, flipped = draws(crop, 2000, 2000, 3000)
    width, height = windows[:, 2] - windows[:, 0], windows[:, 3] - windows[:, 1]
    share, shape = width * height / 2000**2, np.log(width / height)
    assert kstest((share - 0.08) / 0.42, "uniform").pvalue > 0.001
    low, high = math.log(3 / 4), math.log(4 / 3)
    assert kstest((shape - low) / (high - low), "uniform").pvalue > 0.001
    assert abs(np.corrcoef(share, shape)[0, 1]) < 0.06
    for start, length in ((windows[:, 0], width), (windows[:, 1], height)):
        assert kstest(start / (2000 - length), "uniform").pvalue > 0.001
    assert abs(flipped.mean() - 0.5) < 0.03


def test_the_usual_crop_stays_inside_and_within_its_ranges():
    for width, height in [(500, 375), (375, 500), (64, 64), (1, 1), (3, 200)]:
        windows, _ = draws(RandomResizedCrop(), width, height, 500)
        assert (windows[:, :2] >= 0).all()
        assert (windows[:, 2] <= width).all()
        assert (windows[:, 3] <= height).all()
        assert (windows[:, 2:] > windows[:, :2]).all()
    windows, _ = draws(RandomResizedCrop(), 500, 375, 2000)
    across, down = windows[:, 2] - windows[:, 0], windows[:, 3] - windows[:, 1]
    share = across * down / (500 * 375)
    assert share.min() > 0.078
    assert share.min() < 0.1
    assert share.max() > 0.9
    assert (across / down).min() > 0.73
    assert (across / down).max() < 1.37


def test_where_nothing_fits_it_is_the_middle():
    crop = RandomResizedCrop(area=(0.9, 1.0), flip=False)
    assert crop.draw(1000, 100, seed=0, index=0) == ((433, 0, 566, 100), False)
    assert crop.draw(100, 1000, seed=0, index=0) == ((0, 433, 100, 566), False)
    assert not any(crop.draw(64, 64, seed=0, index=i)[1] for i in range(50))


@pytest.mark.parametrize("bad", [{"area": (0, 1)}, {"area": (0.5, 0.2)}, {"ratio": (0, 1)}])
def test_bad_ranges_are_refused(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be a range"):
        RandomResizedCrop(**bad)
