"""Intervals hold the truth as often as they say."""

import numpy as np
import pytest
import torch
from calibration_reference import simulate

from softmargin.calibration import CalibrationMetrics, calibration_metrics
from softmargin.calibration.intervals import normal_quantile, student_quantile, wilson_interval
from softmargin.calibration.result import LABELS

CLASSES = 5
MEANS = ("nll", "brier", "mean_confidence", "overconfidence")
# those whose noise only adds: they cover the truth at least as often as they say
ERRORS = tuple(name for name in LABELS if name not in (*MEANS, "accuracy", "top_k_accuracy"))


def covered(truth, data_sets, samples, temperature, spread, **options):
    """Return how often each interval holds the truth, and the values."""
    held = dict.fromkeys(LABELS, 0)
    values = {name: [] for name in LABELS}
    for seed in range(data_sets):
        data = simulate(samples, CLASSES, seed, temperature=temperature, spread=spread)
        result = calibration_metrics(
            *data, from_logits=True, top_k=2, confidence_level=0.95, seed=seed, **options
        )
        for each in result.estimates():
            assert_possible(each)
            held[each.name] += each.low <= getattr(truth, each.name) <= each.high
            values[each.name].append(each.value)
    return {name: count / data_sets for name, count in held.items()}, values


def population(temperature, spread):
    """Return the metrics of a million predictions."""
    metrics = CalibrationMetrics(CLASSES, from_logits=True, top_k=2)
    for seed in range(4):
        data = simulate(250_000, CLASSES, 10_000 + seed, temperature=temperature, spread=spread)
        metrics.update(*data)
    return metrics.compute()


def limits(name, classes):
    """Return between what a metric can be."""
    least = 1 / classes
    return {
        "nll": (0.0, np.inf),
        "brier": (0.0, 2.0),
        "brier_reliability": (0.0, 2.0),
        "brier_resolution": (0.0, 1 - least),
        "brier_uncertainty": (0.0, 1 - least),
        "mean_confidence": (least, 1.0),
        "overconfidence": (least - 1, 1.0),
    }.get(name, (0.0, 1.0))


def assert_possible(each, classes=CLASSES):
    """Check that an interval is within what can be, and holds its value, not as an end."""
    lowest, highest = limits(each.name, classes)
    if each.name == "brier_resolution" and each.value < 0:
        lowest = -1.0  # within bins, probabilities may go against what happens
    assert lowest <= each.low <= each.value <= each.high <= highest + 1e-12, each
    if not any(each.value == pytest.approx(limit, abs=1e-12) for limit in (lowest, highest)):
        assert each.low < each.value < each.high, each


@pytest.fixture(scope="module", params=[0.5, 1.0], ids=["over-confident", "calibrated"])
def model(request):
    return request.param, population(request.param, 3.0)


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "data_sets"), [(180, 600), (2000, 200)])
def test_intervals_of_shares_and_means_cover(model, samples, data_sets):
    """95 %, within three standard errors of that many data sets, rounded."""
    temperature, truth = model
    held, _ = covered(truth, data_sets, samples, temperature, 3.0, classwise=False, resamples=2)
    for name in ("accuracy", "top_k_accuracy", *MEANS):
        assert abs(held[name] - 0.95) <= 3 * np.sqrt(0.95 * 0.05 / data_sets), name


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_intervals_of_skewed_means_cover(temperature):
    """Nine of ten predictions are right and their NLL is next to nothing; the tenth's is large."""
    truth = population(temperature, 9.0)
    assert truth.accuracy > 0.7
    held, _ = covered(truth, 600, 180, temperature, 9.0, classwise=False, resamples=2)
    for name in MEANS:
        assert 0.93 <= held[name] <= 0.975, name


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "data_sets"), [(180, 150), (2000, 60)])
def test_intervals_of_errors_cover(model, samples, data_sets):
    """At least 95 %, within two standard errors, whether or not there is an error."""
    temperature, truth = model
    held, values = covered(truth, data_sets, samples, temperature, 3.0, resamples=200)
    for name in ERRORS:
        assert held[name] >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / data_sets), name
    if temperature == 1.0:  # the ECE is biased as documented; the debiased error is near 0
        assert truth.ece < 0.002
        assert truth.debiased_error < 0.003
        assert np.mean(values["ece"]) > 0.6 / np.sqrt(samples)
        assert np.median(values["debiased_error"]) < 0.5 * np.median(values["ece"])


def odd(name):
    """Return probabilities and targets that leave little to see."""
    rng = np.random.default_rng(0)
    sure, even = np.eye(4)[rng.integers(0, 4, 60)], np.full((60, 4), 0.25)
    same = np.tile([0.7, 0.1, 0.1, 0.1], (60, 1))
    labels = rng.integers(0, 4, 60)
    return {
        "certain and right": (sure, sure.argmax(1)),
        "certain and wrong": (sure, (sure.argmax(1) + 1) % 4),
        "all even": (even, labels),
        "all even, one class": (even, np.zeros(60, int)),
        "all the same": (same, labels),
        "all the same and right": (same, np.zeros(60, int)),
        "all the same and wrong": (same, np.ones(60, int)),
        "equal classes": (same, np.arange(60) % 4),
        "one wrong": (same, np.arange(60) // 59),
        "two": (same[:2], np.array([0, 1])),
    }[name]


ODD = (
    *("certain and right", "certain and wrong", "all even", "all even, one class"),
    *("all the same", "all the same and right", "all the same and wrong", "equal classes"),
    *("one wrong", "two"),
)


@pytest.mark.filterwarnings("ignore:.*say little about calibration")
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_stay_within_what_is_possible(name, level):
    predictions, target = odd(name)
    if name == "certain and wrong":  # or its NLL would be infinite
        predictions = 0.999 * predictions + 0.00025
    result = calibration_metrics(
        predictions, target, from_logits=False, confidence_level=level, resamples=100
    )
    for each in result.estimates():
        assert_possible(each, 4)


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
        assert_possible(each, 6)


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


@pytest.mark.parametrize("freedom", [3, 10, 179, 1e6])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_students_quantile_is_scipys(freedom, level):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.t.ppf(0.5 + level / 2, freedom)
    assert student_quantile(level, freedom) == pytest.approx(expected, rel=0.01)


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
