"""The traps that public packages fall into, each on the input that shows it."""

import importlib
import math

import numpy as np
import pytest
import torch
from calibration_reference import simulate, slow_ece
from torch.utils._python_dispatch import TorchDispatchMode

from softmargin.calibration import (
    CalibrationMetrics,
    bin_statistics,
    calibration_metrics,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    top_label,
)


def test_a_confidence_of_one_shares_the_last_bin():
    confidence = torch.tensor([0.95, 1.0, 1.0, 0.95])
    correct = torch.tensor([0, 1, 1, 0])
    for closed in ("right", "left"):
        statistics = bin_statistics(confidence, correct, closed=closed)
        assert statistics.counts.tolist() == [0] * 9 + [4]
        assert statistics.maximum_calibration_error() == pytest.approx(0.475, abs=1e-7)
        assert statistics.expected_calibration_error() == pytest.approx(0.475, abs=1e-7)
    predictions = torch.stack([confidence, 1 - confidence], 1)
    result = calibration_metrics(predictions, 1 - correct, from_logits=False, bins=3)
    assert result.bins.counts.tolist() == [0, 0, 4]
    assert result.mce == pytest.approx(0.475, abs=1e-7)

    peer = importlib.import_module("torchmetrics.functional.classification")
    theirs = peer.binary_calibration_error(confidence, correct, n_bins=10, norm="max")
    assert theirs.item() == pytest.approx(0.95)


def test_logits_between_zero_and_one_are_still_logits():
    generator = torch.Generator().manual_seed(0)
    logits = torch.rand(5000, 20, generator=generator)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    confidence, correct = top_label(logits, target, from_logits=True)
    ours = expected_calibration_error(confidence, correct, 15)
    assert ours == pytest.approx(slow_ece(confidence.tolist(), correct.tolist(), 15), abs=1e-12)
    assert ours < 0.01  # the labels were drawn from these very probabilities
    with pytest.raises(ValueError, match="with a sum of 1 in every row"):
        top_label(logits, target, from_logits=False)

    peer = importlib.import_module("torchmetrics.functional.classification")
    theirs = peer.multiclass_calibration_error(logits, target, 20, n_bins=15)
    assert theirs.item() > 0.8


def test_sums_hold_for_millions_of_samples():
    value = float(np.float32(0.9))
    confidence = torch.full((2_000_000,), 0.9, dtype=torch.float32)
    error = expected_calibration_error(confidence, torch.ones(2_000_000))
    assert error == pytest.approx(1 - value, abs=1e-12)
    metrics = CalibrationMetrics(2, from_logits=False, classwise=False)
    batch = torch.tensor([[0.9, 0.1]]).expand(500_000, 2)
    for _ in range(4):
        metrics.update(batch, torch.zeros(500_000, dtype=torch.int64))
    assert metrics.compute().ece == pytest.approx(1 - value, abs=1e-12)

    peer = importlib.import_module("torchmetrics.functional.classification")
    ones = torch.ones(2_000_000, dtype=torch.int64)
    theirs = peer.binary_calibration_error(confidence, ones, n_bins=10).item()
    assert abs(theirs - (1 - value)) > 1e-6


def test_the_nll_is_not_clipped():
    logits, target = simulate(2000, 10, spread=15.0, temperature=0.1)
    expected = torch.nn.functional.cross_entropy(logits.double(), target).item()
    ours = negative_log_likelihood(logits, target, from_logits=True)
    assert ours == pytest.approx(expected, abs=1e-12)
    far = torch.tensor([[0.0, 300.0]])
    assert negative_log_likelihood(far, torch.tensor([0]), from_logits=True) == 300.0

    peer = importlib.import_module("sklearn.metrics")
    theirs = peer.log_loss(target.numpy(), logits.softmax(1).numpy(), labels=range(10))
    assert abs(theirs - expected) > 1e-3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("classes", [4, 40])
def test_what_is_not_finite_is_refused_by_row(value, classes):
    logits, target = simulate(3000, classes)
    logits[2345, 2] = value
    metrics = CalibrationMetrics(classes, from_logits=True)
    with pytest.raises(ValueError, match=f"but got {value} in row 2345"):
        metrics.update(logits, target)
    with pytest.raises(ValueError, match="there is none"):
        metrics.compute()  # nothing of the refused batch was counted
    with pytest.raises(ValueError, match="but got nan in row 1"):
        maximum_calibration_error(torch.tensor([0.5, math.nan]), torch.tensor([1, 1]))


class _Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_classwise_is_no_loop_over_classes():
    """The number of operations does not grow with the classes."""
    counts = []
    for classes in (50, 100, 200):
        logits, target = simulate(200, classes)
        probabilities = logits.double().softmax(1)
        loop = sum(
            expected_calibration_error(probabilities[:, k], target == k) for k in range(classes)
        )
        with _Operations() as operations:
            ours = classwise_calibration_error(logits, target, from_logits=True)
        assert ours == pytest.approx(loop / classes, abs=1e-12)
        counts.append(operations.count)
    assert counts[0] == counts[1] == counts[2]
