"""Metrics of predictions against independent slow implementations, and at the edges."""

import inspect
import math

import numpy as np
import pytest
import torch
from calibration_reference import (
    simulate,
    slow_classwise,
)

from softmargin import calibration
from softmargin.calibration import (
    accuracy,
    bin_statistics,
    brier_decomposition,
    brier_score,
    calibration_metrics,
    classwise_calibration_error,
    expected_calibration_error,
    negative_log_likelihood,
    top_k_accuracy,
    top_label,
)

CLOSED = pytest.mark.parametrize("closed", ["right", "left"])


@CLOSED
@pytest.mark.parametrize("classes", [2, 7, 40])
def test_classwise_agrees_with_a_slow_reference(classes, closed):
    logits, target = simulate(300, classes)
    probabilities = logits.double().softmax(1)
    for bins in (1, 4, 15):
        slow = slow_classwise(probabilities.tolist(), target.tolist(), bins, closed)
        for predictions, from_logits in ((logits, True), (probabilities, False)):
            settings = {"from_logits": from_logits, "bins": bins, "closed": closed}
            ours = classwise_calibration_error(predictions, target, **settings)
            assert ours == pytest.approx(sum(slow) / classes, abs=1e-12)
            result = calibration_metrics(predictions, target, **settings)
            assert result.classwise_errors.tolist() == pytest.approx(slow, abs=1e-12)


def test_a_class_that_never_occurs_counts_in_the_classwise_error():
    p = torch.tensor([[0.5, 0.3, 0.2]] * 10)
    error = classwise_calibration_error(p, torch.tensor([0, 1] * 5), from_logits=False)
    assert error == pytest.approx((0.0 + 0.2 + 0.2) / 3, abs=1e-7)


def test_brier_parts_are_murphys_where_bins_hold_one_value():
    generator = torch.Generator().manual_seed(0)
    kinds = torch.tensor([[0.05, 0.15, 0.8], [0.35, 0.25, 0.4], [0.65, 0.05, 0.3]]).double()
    kind = torch.randint(0, 3, (400,), generator=generator)
    target = torch.randint(0, 3, (400,), generator=generator)
    parts = brier_decomposition(kinds[kind], target, from_logits=False)
    reliability = resolution = uncertainty = 0.0
    for k in range(3):
        share = float((target == k).double().mean())
        uncertainty += share * (1 - share)
        for p in kinds[:, k].unique():
            inside = kinds[kind][:, k] == p
            there = float((target[inside] == k).double().mean())
            reliability += float(inside.double().mean()) * (float(p) - there) ** 2
            resolution += float(inside.double().mean()) * (there - share) ** 2
    assert parts == pytest.approx((reliability, resolution, uncertainty), abs=1e-12)


def test_brier_parts_add_up():
    logits, target = simulate(500, 8)
    parts = brier_decomposition(logits, target, from_logits=True)
    total = parts.reliability - parts.resolution + parts.uncertainty
    assert total == pytest.approx(brier_score(logits, target, from_logits=True), abs=1e-12)
    assert min(parts) > 0


def test_ties_go_to_the_first_class():
    predictions = torch.tensor([[1.0, 1.0, 0.0, 1.0]] * 4)
    target = torch.arange(4)
    assert top_label(predictions, target, from_logits=True).correct.tolist() == [1, 0, 0, 0]
    shares = [top_k_accuracy(predictions, target, k) for k in (1, 2, 3, 4)]
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert accuracy(predictions, target) == 0.25


@pytest.mark.parametrize("classes", [3, 50])
def test_top_k_is_torchs(classes):
    logits, target = simulate(400, classes)
    for k in (1, 2, 5):
        if k <= classes:
            expected = (logits.topk(k).indices == target.unsqueeze(1)).any(1).double().mean()
            assert top_k_accuracy(logits, target, k) == pytest.approx(float(expected))
    assert top_k_accuracy(logits, target, 1000) == 1.0


def test_a_probability_of_zero_makes_the_nll_infinite():
    p = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    assert negative_log_likelihood(p, torch.tensor([1, 0]), from_logits=False) == math.inf
    result = calibration_metrics(p, torch.tensor([1, 0]), from_logits=False, bins=2)
    assert result.nll == math.inf
    assert result.as_dict()["metrics"]["nll"] is None


def test_arrays_do_as_well_as_tensors():
    logits, target = simulate(100, 4)
    expected = calibration_metrics(logits, target, from_logits=True)
    ours = calibration_metrics(logits.numpy(), target.numpy().astype(np.int32), from_logits=True)
    assert repr(ours) == repr(expected)
    confidence, correct = top_label(logits.numpy(), target.numpy(), from_logits=True)
    ece = expected_calibration_error(confidence.numpy(), correct.numpy())
    assert ece == pytest.approx(expected.ece, abs=1e-15)


@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_one_weight_for_all_rows_does_as_well_as_written_out(weight):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, 5, generator=generator)
    target = torch.randint(0, 5, (400,), generator=generator)
    one = torch.tensor(weight, dtype=torch.float64).expand(400)
    found, expected = (
        calibration_metrics(
            logits, target, from_logits=True, sample_weight=each, confidence_level=0.9
        )
        for each in (one, one.clone(memory_format=torch.contiguous_format))
    )
    for name in ("ece", "mce", "nll", "brier", "accuracy", "top_k_accuracy", "debiased_error"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12), name
    assert found.intervals.keys() == expected.intervals.keys()
    for name, interval in found.intervals.items():
        assert interval == pytest.approx(expected.intervals[name], rel=1e-9), name


def test_nothing_is_left_on_the_graph():
    logits, target = simulate(100, 4)
    logits.requires_grad_()
    confidence, _ = top_label(logits, target, from_logits=True)
    assert not confidence.requires_grad
    assert logits.grad is None


def test_everything_public_is_documented():
    for name in calibration.__all__:
        assert getattr(calibration, name).__doc__
    for parameter in inspect.signature(calibration_metrics).parameters:
        assert f"\n    {parameter}: " in calibration_metrics.__doc__


def test_anything_but_a_tensor_or_array_is_refused():
    with pytest.raises(TypeError, match="confidence must be a Tensor or a NumPy array"):
        bin_statistics([0.5], torch.tensor([1]))
    with pytest.raises(ValueError, match="confidence must hold real numbers"):
        bin_statistics(torch.tensor([0.5 + 0j]), torch.tensor([1]))
    with pytest.raises(ValueError, match="k must be an integer of at least 1, but got 0"):
        top_k_accuracy(torch.ones(1, 2), torch.tensor([0]), k=0)
