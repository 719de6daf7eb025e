"""Temperatures of many models at once are those that TemperatureScaling finds one by one."""

import pytest
import torch

from softmargin.calibration._held_out import cross_fitted, fold_temperatures, one_temperature
from softmargin.calibration._many_temperatures import temperatures_without


def made(models, rows, classes, size, seed=0):
    """Return logits of better and worse models, and classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (rows,), generator=generator)
    logits = size * torch.randn(models, rows, classes, generator=generator, dtype=torch.float64)
    hot = torch.nn.functional.one_hot(y, classes)
    return logits + size * torch.linspace(0, 3, models)[:, None, None] * hot, y


def one_by_one(logits, y, fold_of, fold):
    kept = fold_of != fold
    return [one_temperature(each[None, kept], y[kept]) for each in logits]


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("size", [1e-3, 1.0, 50.0])
def test_all_are_those_found_one_by_one(classes, size):
    logits, y = made(6, 120, classes, size)
    fold_of = torch.arange(120) % 4
    found = temperatures_without(logits, y, fold_of)
    each = [one_by_one(logits, y, fold_of, fold) for fold in range(4)]
    expected = torch.tensor(each, dtype=torch.float64).T
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0.0)


def test_where_there_is_no_optimum_the_bound_is_that_of_temperature_scaling():
    logits, y = made(4, 90, 3, 2.0)
    hot = torch.nn.functional.one_hot(y, 3)
    logits[0] += 100 * hot  # separable
    logits[1] -= 100 * hot  # against the labels
    logits[2] = 1.0  # no difference between classes
    fold_of = torch.arange(90) % 3
    found = temperatures_without(logits, y, fold_of)
    for fold in range(3):
        expected = torch.tensor(one_by_one(logits, y, fold_of, fold), dtype=torch.float64)
        torch.testing.assert_close(found[:, fold], expected, rtol=1e-9, atol=0.0)
    assert found[2].tolist() == [1.0] * 3


def test_a_model_that_diverged_is_left_as_it_is():
    logits, y = made(3, 60, 3, 2.0)
    logits[1, 5, 0] = torch.nan
    fold_of = torch.arange(60) % 3
    found = fold_temperatures(logits[:, None], y, fold_of)
    assert found[1, 0] == found[1, 1] == 1.0  # row 5 is in fold 2, which alone leaves it out
    assert found[1, 2] != 1.0
    assert bool(found.isfinite().all())


def test_each_fold_is_divided_by_the_temperature_of_the_others():
    logits, y = made(2, 60, 3, 2.0)  # two seeds, fitted together
    fold_of = torch.arange(60) % 3
    found = cross_fitted(logits, y, fold_of)
    for fold in range(3):
        kept = fold_of != fold
        expected = logits[:, ~kept] / one_temperature(logits[:, kept], y[kept])
        torch.testing.assert_close(found[:, ~kept], expected)
