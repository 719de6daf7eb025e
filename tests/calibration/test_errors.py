"""Calibration errors from confidences against independent slow implementations."""

import math

import numpy as np
import pytest
import torch
from calibration_reference import (
    simulate,
    slow_bins,
    slow_ece,
    slow_equal_mass,
    slow_ks,
)

from softmargin.calibration import (
    bin_statistics,
    calibration_error,
    debiased_calibration_error,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    overconfidence,
    rms_calibration_error,
    smooth_calibration_error,
    top_label,
)

CLOSED = pytest.mark.parametrize("closed", ["right", "left"])


@CLOSED
@pytest.mark.parametrize("bins", [1, 2, 7, 10, 15, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_binned_errors_agree_with_a_slow_loop(bins, dtype, closed):
    generator = torch.Generator().manual_seed(bins)
    confidence = torch.rand(500, generator=generator, dtype=torch.float64).to(dtype)
    correct = torch.rand(500, generator=generator) < confidence
    filled = slow_bins(confidence.double().tolist(), correct.tolist(), bins, closed=closed)
    gaps = [abs(c - a) for _, c, a in filled]
    squared = math.fsum(n * gap**2 for (n, _, _), gap in zip(filled, gaps, strict=True)) / 500
    noise = math.fsum(n * a * (1 - a) / (n - 1) for n, _, a in filled if n > 1) / 500
    lone = math.fsum(gap**2 for (n, _, _), gap in zip(filled, gaps, strict=True) if n == 1) / 500
    for function, expected in (
        (expected_calibration_error, slow_ece(confidence.tolist(), correct, bins, closed=closed)),
        (maximum_calibration_error, max(gaps)),
        (rms_calibration_error, math.sqrt(squared)),
        (debiased_calibration_error, math.sqrt(max(squared - noise - lone, 0.0))),
    ):
        assert function(confidence, correct, bins, closed=closed) == pytest.approx(
            expected, abs=1e-12
        )


def test_every_norm_is_that_of_its_function_and_of_the_bins():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(200, generator=generator, dtype=torch.float64)
    correct = torch.rand(200, generator=generator) < confidence
    weight = torch.rand(200, generator=generator)
    statistics = bin_statistics(confidence, correct, 7, sample_weight=weight, closed="left")
    for norm, function in (
        ("l1", expected_calibration_error),
        ("l2", rms_calibration_error),
        ("max", maximum_calibration_error),
        ("debiased_l2", debiased_calibration_error),
    ):
        settings = {"sample_weight": weight, "closed": "left"}
        value = calibration_error(confidence, correct, 7, norm=norm, **settings)
        assert value == function(confidence, correct, 7, **settings)
        assert value == statistics.calibration_error(norm)
    with pytest.raises(ValueError, match="norm must be one of l1, l2, max, debiased_l2, but got 2"):
        calibration_error(confidence, correct, norm=2)


def test_sample_weights_are_repetitions():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(300, generator=generator, dtype=torch.float64)
    correct = torch.rand(300, generator=generator) < confidence
    weight = torch.randint(0, 4, (300,), generator=generator)
    repeated = confidence.repeat_interleave(weight), correct.repeat_interleave(weight)
    for function in (
        expected_calibration_error,
        maximum_calibration_error,
        rms_calibration_error,
        equal_mass_calibration_error,
        ks_calibration_error,
        smooth_calibration_error,
        overconfidence,
    ):
        ours = function(confidence, correct, sample_weight=weight)
        assert ours == pytest.approx(function(*repeated), abs=1e-12)
        scaled = function(confidence, correct, sample_weight=weight * 0.125)
        assert scaled == pytest.approx(ours, abs=1e-12)


@pytest.mark.parametrize("bins", [1, 3, 10, 15])
def test_equal_mass_agrees_with_a_slow_reference(bins):
    confidence, correct = top_label(*simulate(997, 10), from_logits=True)
    expected = slow_equal_mass(confidence.tolist(), correct.tolist(), bins)
    ours = equal_mass_calibration_error(confidence, correct, bins)
    assert ours == pytest.approx(expected, abs=1e-12)
    # with ties, of which none comes first whatever the order
    tied = (confidence * 8).round() / 8
    expected = slow_equal_mass(tied.tolist(), correct.tolist(), bins)
    for order in (torch.arange(997), torch.randperm(997)):
        ours = equal_mass_calibration_error(tied[order], correct[order], bins)
        assert ours == pytest.approx(expected, abs=1e-12)


def test_equal_mass_is_sort_and_split_where_that_is_defined():
    confidence, correct = top_label(*simulate(1000, 10), from_logits=True)
    parts = np.array_split((confidence - correct.double())[confidence.argsort()].numpy(), 10)
    expected = sum(abs(part.sum()) for part in parts) / 1000
    assert equal_mass_calibration_error(confidence, correct) == pytest.approx(expected, abs=1e-12)


def test_ks_agrees_with_a_slow_reference():
    confidence, correct = top_label(*simulate(500, 5), from_logits=True)
    for each in (confidence, (confidence * 8).round() / 8):
        expected = slow_ks(each.tolist(), correct.tolist())
        assert ks_calibration_error(each, correct) == pytest.approx(expected, abs=1e-12)
