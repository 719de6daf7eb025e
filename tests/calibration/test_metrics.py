"""Calibration metrics against an independent slow implementation, and at the edges."""

import math

import numpy as np
import pytest
import torch

from softmargin.calibration import (
    bin_statistics,
    expected_calibration_error,
    maximum_calibration_error,
)


def slow_gaps(confidence, correct, bins):
    """Return (count, gap) per bin by comparing every value with every pair of edges."""
    edges = np.linspace(0, 1, bins + 1)
    result = []
    for m in range(bins):
        inside = [
            i
            for i, c in enumerate(confidence)
            if edges[m] < c <= edges[m + 1] or (m == 0 and c == 0)
        ]
        if inside:
            mean = math.fsum(confidence[i] for i in inside) / len(inside)
            accuracy = sum(bool(correct[i]) for i in inside) / len(inside)
            result.append((len(inside), abs(mean - accuracy)))
        else:
            result.append((0, 0.0))
    return result


@pytest.mark.parametrize("bins", [1, 2, 7, 10, 15, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_agrees_with_a_slow_loop(bins, dtype):
    generator = torch.Generator().manual_seed(bins)
    confidence = torch.rand(500, generator=generator, dtype=torch.float64).to(dtype)
    correct = torch.rand(500, generator=generator) < confidence
    expected = slow_gaps(confidence.double().tolist(), correct.tolist(), bins)
    statistics = bin_statistics(confidence, correct, bins)
    assert statistics.counts.tolist() == [count for count, _ in expected]
    ece = sum(count * gap for count, gap in expected) / 500
    assert expected_calibration_error(confidence, correct, bins) == pytest.approx(ece, abs=1e-12)
    mce = max(gap for _, gap in expected)
    assert maximum_calibration_error(confidence, correct, bins) == pytest.approx(mce, abs=1e-12)


def test_values_on_the_edges_belong_to_the_bin_on_their_left():
    edges = torch.linspace(0, 1, 11, dtype=torch.float64)
    statistics = bin_statistics(edges, torch.ones(11), 10)
    assert statistics.counts.tolist() == [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]  # 0 joins 0.1
    just_above = edges[:-1] + 1e-12
    assert bin_statistics(just_above, torch.ones(10), 10).counts.tolist() == [1] * 10


def test_a_confidence_of_one_shares_the_last_bin():
    confidence = torch.tensor([0.95, 1.0, 1.0, 0.95])
    correct = torch.tensor([0, 1, 1, 0])
    assert bin_statistics(confidence, correct).counts.tolist() == [0] * 9 + [4]
    assert maximum_calibration_error(confidence, correct) == pytest.approx(0.475, abs=1e-7)
    assert expected_calibration_error(confidence, correct) == pytest.approx(0.475, abs=1e-7)


def test_empty_bins_are_nan_and_count_for_nothing():
    statistics = bin_statistics(torch.tensor([0.75]), torch.tensor([True]), 4)
    assert statistics.accuracy.isnan().tolist() == [True, True, False, True]
    assert statistics.gaps[2].item() == pytest.approx(-0.25)
    assert statistics.expected_calibration_error() == pytest.approx(0.25)


def test_sums_are_exact_enough_for_many_samples():
    confidence = torch.full((2_000_000,), 0.9, dtype=torch.float32)
    error = expected_calibration_error(confidence, torch.ones(2_000_000))
    assert error == pytest.approx(1 - float(np.float32(0.9)), abs=1e-9)


@pytest.mark.parametrize(
    ("confidence", "correct", "bins", "message"),
    [
        ([], [], 10, "confidence must hold at least one value"),
        ([0.5, math.nan], [1, 0], 10, "from 0 to 1, but got nan"),
        ([0.5, 1.01], [1, 0], 10, "from 0 to 1, but got 1.01"),
        ([-0.1, 0.2], [1, 0], 10, "from 0 to 1, but got -0.1"),
        ([0.5, math.inf], [1, 0], 10, "from 0 to 1, but got inf"),
        ([0.5], [2], 10, "correct must hold 0 and 1"),
        ([0.5], [math.nan], 10, "correct must hold 0 and 1"),
        ([0.5], [1, 0], 10, "both have shape"),
        ([[0.5]], [[1]], 10, "both have shape"),
        ([0.5], [1], 0, "bins must be an integer of at least 1, but got 0"),
        ([0.5], [1], 2.5, "bins must be an integer of at least 1, but got 2.5"),
        ([0.5], [1], True, "bins must be an integer of at least 1, but got True"),
    ],
)
def test_bad_input_gets_one_sentence(confidence, correct, bins, message):
    with pytest.raises(ValueError, match=message) as caught:
        bin_statistics(torch.tensor(confidence), torch.tensor(correct), bins)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_anything_but_a_tensor_is_refused():
    with pytest.raises(TypeError, match="confidence must be a Tensor, but got list"):
        bin_statistics([0.5], torch.tensor([1]))
    with pytest.raises(ValueError, match="confidence must hold real numbers"):
        bin_statistics(torch.tensor([0.5 + 0j]), torch.tensor([1]))
