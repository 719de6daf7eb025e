"""Intervals hold the truth as often as they say."""

import numpy as np
import pytest
import torch
from calibration_reference import simulate

from softmargin.calibration import CalibrationMetrics, calibration_metrics
from softmargin.calibration.intervals import normal_quantile, wilson_interval
from softmargin.calibration.result import LABELS

DATA_SETS, SAMPLES, CLASSES = 200, 1000, 5
LEVELS = {
    "accuracy": (0.92, 0.98),
    "nll": (0.92, 0.98),
    "brier": (0.92, 0.98),
    "mean_confidence": (0.91, 0.99),
    "overconfidence": (0.91, 0.99),
    "top_k_accuracy": (0.91, 0.99),
}


def coverage(temperature):
    """Return how often each interval holds the value of a million predictions, and the means."""
    settings = {"from_logits": True, "top_k": 2}
    population = CalibrationMetrics(CLASSES, **settings)
    for seed in range(4):
        population.update(*simulate(250_000, CLASSES, 1000 + seed, temperature=temperature))
    truth = population.compute()
    held = dict.fromkeys(LABELS, 0)
    values = {name: [] for name in LABELS}
    for seed in range(DATA_SETS):
        data = simulate(SAMPLES, CLASSES, seed, temperature=temperature)
        result = calibration_metrics(
            *data, **settings, confidence_level=0.95, resamples=200, seed=seed
        )
        for each in result.estimates():
            held[each.name] += each.low <= getattr(truth, each.name) <= each.high
            values[each.name].append(each.value)
    return truth, {name: count / DATA_SETS for name, count in held.items()}, values


@pytest.fixture(scope="module")
def overconfident():
    return coverage(0.5)


@pytest.fixture(scope="module")
def calibrated():
    return coverage(1.0)


@pytest.mark.parametrize("name", LEVELS)
def test_intervals_of_means_cover(overconfident, calibrated, name):
    low, high = LEVELS[name]
    for _, held, _ in (overconfident, calibrated):
        assert low <= held[name] <= high


def test_intervals_of_errors_cover_where_there_is_an_error(overconfident):
    _, held, _ = overconfident
    for name in ("ece", "equal_mass_ece", "ks_error", "rms_error", "debiased_error"):
        assert 0.9 <= held[name] <= 0.99
    assert held["classwise_ece"] >= 0.92
    assert held["brier_reliability"] >= 0.92


def test_the_debiased_error_covers_where_there_is_none(calibrated):
    truth, held, values = calibrated
    assert truth.debiased_error < 0.003
    assert held["debiased_error"] >= 0.92
    assert np.mean(values["debiased_error"]) < 0.015


def test_the_ece_is_biased_as_documented(calibrated):
    """Of a calibrated model it is some hundredths, not 0; the debiased error is near 0."""
    truth, held, values = calibrated
    assert truth.ece < 0.002
    assert 0.015 < np.mean(values["ece"]) < 0.04
    assert held["ece"] < 0.9
    assert np.median(values["debiased_error"]) < 0.5 * np.median(values["ece"])


def test_the_seed_decides():
    data = simulate(500, 6)
    first, same, other = (
        calibration_metrics(*data, from_logits=True, confidence_level=0.9, resamples=40, seed=seed)
        for seed in (3, 3, 4)
    )
    assert first.intervals == same.intervals
    assert first.intervals["ece"] != other.intervals["ece"]
    assert first.ece == other.ece
    torch.manual_seed(0)
    before = torch.get_rng_state()
    calibration_metrics(*data, from_logits=True, confidence_level=0.9, resamples=40)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_number_has_an_interval_that_holds_it():
    result = calibration_metrics(*simulate(500, 6), from_logits=True, confidence_level=0.9)
    assert set(result.intervals) == set(LABELS)
    for each in result.estimates():
        assert each.low <= each.value <= each.high


def test_wider_levels_are_wider():
    data = simulate(1000, 6)
    half, most = (
        calibration_metrics(*data, from_logits=True, confidence_level=level, resamples=100)
        for level in (0.5, 0.99)
    )
    for name in LABELS:
        (low, high), (lower, higher) = half.intervals[name], most.intervals[name]
        assert lower <= low
        assert high <= higher


def test_weights_scale_intervals_by_how_much_they_say():
    logits, target = simulate(1000, 6)
    plain = calibration_metrics(logits, target, from_logits=True, confidence_level=0.95)
    same = calibration_metrics(
        logits,
        target,
        from_logits=True,
        confidence_level=0.95,
        sample_weight=torch.full((1000,), 7),
    )
    for name in LABELS:
        assert same.intervals[name] == pytest.approx(plain.intervals[name], abs=1e-9)
    weight = torch.where(torch.arange(1000) < 100, 1.0, 1e-6)
    few = calibration_metrics(
        logits, target, from_logits=True, confidence_level=0.95, sample_weight=weight
    )
    for name in ("nll", "accuracy", "ece"):
        width, narrow = (np.ptp(each.intervals[name]) for each in (few, plain))
        assert 2 < width / narrow < 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 95}, "confidence_level must be between 0 and 1, such as 0.95"),
        ({"confidence_level": 0.0}, "confidence_level must be between 0 and 1"),
        ({"resamples": 1}, "resamples must be an integer of at least 2, but got 1"),
        ({"seed": -1}, "seed must be an integer of at least 0, but got -1"),
    ],
)
def test_bad_settings_get_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        calibration_metrics(
            *simulate(50, 3), from_logits=True, **{"confidence_level": 0.95, **options}
        )


def test_wilson_interval_has_its_textbook_values():
    low, high = wilson_interval(np.array([1.0, 0.5, 0.0]), np.array([10.0, 10.0, 10.0]))
    assert low == pytest.approx([0.7225, 0.2366, 0.0], abs=1e-4)
    assert high == pytest.approx([1.0, 0.7634, 0.2775], abs=1e-4)


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (1, 1), (3, 7), (37, 40), (999, 1000)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_interval_is_scipys(hits, count, level):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(hits, count).proportion_ci(level, method="wilson")
    low, high = wilson_interval(
        np.array([hits / count]), np.array([float(count)]), normal_quantile(level)
    )
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-7)
