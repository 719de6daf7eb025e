"""Augmentation against a slow reference, pixel for pixel."""

import pytest
import torch

from softmargin.data import Augment, Normalize, channel_statistics, random_crop, random_flip

DTYPES = (torch.uint8, torch.float32, torch.float64)
SHAPES = ((17, 3, 32, 32), (5, 1, 28, 28), (4, 2, 5, 9), (1, 3, 8, 8), (0, 3, 8, 8))


def batch(shape, dtype=torch.uint8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8).to(dtype)


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def slow_crop(images, padding, random):
    """Pixel by pixel, with Python's indices."""
    n, _, height, width = images.shape
    top, left = torch.randint(2 * padding + 1, (2, n), generator=random).tolist()
    result = torch.zeros_like(images)
    for b in range(n):
        for i in range(height):
            for j in range(width):
                row, column = i + top[b] - padding, j + left[b] - padding
                if 0 <= row < height and 0 <= column < width:
                    result[b, :, i, j] = images[b, :, row, column]
    return result


def slow_flip(images, random):
    result = images.clone()
    for b, chosen in enumerate(torch.randint(2, (len(images),), generator=random).tolist()):
        if chosen:
            for j in range(images.shape[-1]):
                result[b, :, :, j] = images[b, :, :, -1 - j]
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("padding", [1, 4])
def test_crop_then_flip_equals_the_slow_reference(shape, dtype, padding):
    images = batch(shape, dtype)
    before = images.clone()
    random = generator()
    expected = slow_flip(slow_crop(images, padding, random), random)
    result = Augment(padding)(images, generator())
    assert result.dtype == dtype
    assert result.shape == images.shape
    assert torch.equal(result, expected)
    assert torch.equal(images, before)


def test_every_place_and_both_sides_occur():
    image = torch.arange(1, 65, dtype=torch.uint8).view(1, 1, 8, 8).expand(4000, 1, 8, 8)
    cropped = random_crop(image, 2, generator=generator())
    assert len(cropped.flatten(1).unique(dim=0)) == 25
    flipped = random_flip(image, generator=generator())
    share = (flipped[:, 0, 0, 0] == 8).double().mean().item()
    assert abs(share - 0.5) < 4 * 0.5 / 4000**0.5


def test_same_generator_state_same_pixels_and_no_global_state():
    images = batch((9, 3, 32, 32))
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = Augment()(images, generator(7))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first, Augment()(images, generator(7)))
    assert not torch.equal(first, Augment()(images, generator(8)))


def test_no_padding_and_no_flip_change_nothing():
    images = batch((3, 3, 8, 8))
    assert torch.equal(Augment(0, flip=False)(images, generator()), images)


@pytest.mark.parametrize("dtype", DTYPES)
def test_z_score_equals_the_slow_reference(dtype):
    images = batch((6, 3, 7, 5), dtype)
    before = images.clone()
    scale = 255 if dtype == torch.uint8 else 1
    pixels = images.double() / scale
    mean = [pixels[:, c].mean().item() for c in range(3)]
    std = [pixels[:, c].std(correction=0).item() for c in range(3)]
    got_mean, got_std = channel_statistics(images)
    torch.testing.assert_close(got_mean, torch.tensor(mean).double(), rtol=1e-7, atol=0)
    torch.testing.assert_close(got_std, torch.tensor(std).double(), rtol=1e-7, atol=0)
    expected = torch.empty(6, 3, 7, 5, dtype=torch.float64)
    for c in range(3):
        expected[:, c] = (pixels[:, c] - mean[c]) / std[c]
    result = Normalize.of(images)(images)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(images, before)


def test_given_statistics_and_tables():
    images = torch.full((2, 3, 2, 2), 255, dtype=torch.uint8)
    result = Normalize((0.5, 0.0, 1.0), (0.5, 0.25, 2.0))(images)
    assert result[0, :, 0, 0].tolist() == [1.0, 4.0, 0.0]
    table = torch.tensor([[1.0, 7.0], [3.0, 7.0]], dtype=torch.float64)
    assert Normalize.of(table)(table).tolist() == [[-1.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_crop(torch.zeros(3, 8, 8), generator=generator()), "images (3, 8, 8)"),
        (lambda: random_flip([1], generator=generator()), "images list"),
        (lambda: random_crop(batch((1, 1, 4, 4)), -1, generator=generator()), "padding -1"),
        (lambda: Normalize((0.0,), (0.0,)), "std above 0 (0.0,)"),
        (lambda: Normalize((0.0,), (1.0, 1.0)), "std 1 2"),
        (lambda: Normalize((0.0,), (1.0,))(batch((1, 3, 4, 4))), "batch (1, 3, 4, 4)"),
        (lambda: channel_statistics(torch.zeros(0, 3)), "x (0, 3)"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    for word in words.split(" "):
        assert word in str(caught.value)
    assert str(caught.value).endswith(".")
