"""The same numbers as other packages, where those are right."""

import importlib

import numpy as np
import pytest
import torch
from calibration_reference import simulate, slow_classwise, slow_equal_mass

from softmargin.calibration import (
    calibration_metrics,
    classwise_calibration_error,
    equal_mass_calibration_error,
    smooth_calibration_error,
    top_label,
)

pytestmark = pytest.mark.slow

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
BINS = pytest.mark.parametrize("bins", [10, 15])


def predictions(dtype):
    """Return 10,000 × 100 logits of a precision, targets, and the probabilities they mean."""
    logits, target = simulate(10_000, 100, dtype=dtype)
    return logits, target, logits.double().softmax(1)


@BINS
@DTYPES
def test_binned_errors_are_torchmetrics(dtype, bins):
    peer = importlib.import_module("torchmetrics.functional.classification")
    logits, target, probabilities = predictions(dtype)
    result = calibration_metrics(logits, target, from_logits=True, bins=bins)
    for norm, ours in (("l1", result.ece), ("max", result.mce), ("l2", result.rms_error)):
        theirs = peer.multiclass_calibration_error(probabilities, target, 100, bins, norm)
        assert ours == pytest.approx(theirs.item(), abs=1e-6)


@BINS
@DTYPES
def test_binned_errors_are_netcals(dtype, bins):
    peer = importlib.import_module("netcal.metrics")
    logits, target, probabilities = predictions(dtype)
    result = calibration_metrics(logits, target, from_logits=True, bins=bins)
    for metric, ours in ((peer.ECE, result.ece), (peer.MCE, result.mce)):
        theirs = metric(bins).measure(probabilities.numpy(), target.numpy())
        assert ours == pytest.approx(theirs, abs=1e-9)


@DTYPES
def test_the_brier_score_is_scikit_learns(dtype):
    peer = importlib.import_module("sklearn.metrics")
    logits, target, probabilities = predictions(dtype)
    theirs = peer.brier_score_loss(target.numpy(), probabilities.numpy(), scale_by_half=False)
    for given, from_logits in ((logits, True), (probabilities, False)):
        ours = calibration_metrics(given, target, from_logits=from_logits).brier
        assert ours == pytest.approx(theirs, abs=1e-12)


@DTYPES
def test_the_nll_is_torchs_in_float64(dtype):
    logits, target, probabilities = predictions(dtype)
    theirs = torch.nn.functional.cross_entropy(logits.double(), target).item()
    for given, from_logits in ((logits, True), (probabilities, False)):
        ours = calibration_metrics(given, target, from_logits=from_logits).nll
        assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(
    ("samples", "spread", "temperature"),
    [(10_000, 3.0, 0.7), (10_000, 3.0, 1.0), (1000, 8.0, 0.2), (300, 1.0, 3.0), (5000, 2.0, 1.05)],
)
@DTYPES
def test_the_smooth_error_is_relplots(samples, spread, temperature, dtype):
    peer = importlib.import_module("relplot")
    logits, target = simulate(
        samples, 10, spread=spread, temperature=temperature, dtype=dtype, seed=samples
    )
    confidence, correct = top_label(logits, target, from_logits=True)
    theirs = peer.smECE(confidence.numpy(), correct.double().numpy())
    assert smooth_calibration_error(confidence, correct) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.9])
def test_the_smooth_error_is_relplots_from_no_to_nearly_all_error(gap):
    peer = importlib.import_module("relplot")
    generator = np.random.default_rng(0)
    confidence = np.linspace(0.0, 1.0, 20_001)
    correct = generator.random(20_001) < np.clip(confidence - gap, 0, 1)
    theirs = peer.smECE(confidence, correct.astype(float))
    assert smooth_calibration_error(confidence, correct) == pytest.approx(theirs, abs=1e-6)


@BINS
@DTYPES
def test_equal_mass_and_classwise_are_slow_references(dtype, bins):
    logits, target, probabilities = predictions(dtype)
    confidence, correct = top_label(logits, target, from_logits=True)
    slow = slow_equal_mass(confidence.tolist(), correct.tolist(), bins)
    assert equal_mass_calibration_error(confidence, correct, bins) == pytest.approx(slow, abs=1e-9)
    columns = slice(0, 100, 9)  # the loop is slow
    slow = slow_classwise(probabilities[:, columns].tolist(), (target / 9).tolist(), bins)
    result = calibration_metrics(logits, target, from_logits=True, bins=bins)
    assert result.classwise_errors[columns].tolist() == pytest.approx(slow, abs=1e-9)
    mean = classwise_calibration_error(logits, target, from_logits=True, bins=bins)
    assert mean == pytest.approx(result.classwise_errors.mean().item(), abs=1e-12)
