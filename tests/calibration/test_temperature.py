"""Temperature scaling: the true optimum, bounds, and the traps of public packages."""

import mpmath
import numpy as np
import pytest
import scipy.optimize
import torch
import torch.nn.functional as F
from scaling_cases import (
    WITHOUT_WARNINGS,
    bisect_temperature,
    calibration_warnings,
    never_occurring,
    nll,
    random_labels,
    synthetic,
)
from scipy.special import log_softmax

from softmargin.calibration.scaling import (
    CalibrationWarning,
    TemperatureScaling,
)

pytestmark = WITHOUT_WARNINGS


def one_mistake():
    logits, _ = synthetic(500)
    target = logits.argmax(1)
    target[0] = logits[0].topk(2).indices[1]
    return logits, target


def sorted_by_class():
    logits, target = synthetic()
    order = target.argsort()
    return logits[order], target[order]


CASES = {
    "well-behaved": synthetic,
    "100 classes": lambda: synthetic(3000, 100, 1.3),
    "two classes": lambda: synthetic(1000, 2, 2.5),
    "under-confident": lambda: synthetic(temperature=0.3),
    "random labels": random_labels,
    "random labels, T above 500": lambda: random_labels(45),
    "random labels, logits x 100": lambda: (100 * random_labels()[0], random_labels()[1]),
    "logits x 100": lambda: (100 * synthetic()[0], synthetic()[1]),
    "logits / 1000": lambda: (synthetic()[0] / 1000, synthetic()[1]),
    "logits + 1000": lambda: (1000 + synthetic()[0].double(), synthetic()[1]),
    "a class that never occurs": never_occurring,
    "one mistake": one_mistake,
    "three of four": lambda: (torch.tensor([[4.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])),
    "an outlier": lambda: (synthetic()[0].index_fill(0, torch.tensor([5]), 1e12), synthetic()[1]),
    "rows in order of class": sorted_by_class,
    "one row": lambda: (torch.tensor([[3.0, 2.0, -4.0]]), torch.tensor([1])),
    "bfloat16": lambda: (synthetic()[0].bfloat16(), synthetic()[1]),
    "float16": lambda: (synthetic()[0].half(), synthetic()[1]),
    "float64": lambda: (synthetic()[0].double().add(1e-9), synthetic()[1]),
}


@pytest.mark.parametrize("case", CASES)
def test_temperature_is_the_optimum(case):
    logits, target = CASES[case]()
    found = TemperatureScaling().fit(logits, target).temperature.item()
    assert found == pytest.approx(bisect_temperature(logits, target), rel=1e-10)


def test_random_labels_have_a_finite_temperature():
    logits, target = random_labels()
    assert 250 < TemperatureScaling().fit(logits, target).temperature < 350


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_fifty_digits(seed):
    logits, target = synthetic(12, 3, 1.5, seed=seed + 20)
    with mpmath.workdps(50):
        rows = [[mpmath.mpf(x) for x in row] for row in logits.double().tolist()]

        def slope(inverse):
            total = mpmath.mpf(0)
            for row, c in zip(rows, target.tolist(), strict=True):
                e = [mpmath.exp(inverse * x) for x in row]
                total += sum(a * x for a, x in zip(e, row, strict=True)) / sum(e) - row[c]
            return total

        low, high = mpmath.mpf("1e-3"), mpmath.mpf(100)
        while high - low > mpmath.mpf("1e-30"):
            middle = (low + high) / 2
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    found = TemperatureScaling().fit(logits, target).temperature.item()
    assert found == pytest.approx(float(1 / low), rel=1e-12)


@pytest.mark.parametrize("truth", [0.5, 1.0, 1.7, 6.0])
def test_recovers_the_temperature_that_made_the_labels(truth):
    logits, target = synthetic(20_000, 10, truth)
    assert TemperatureScaling().fit(logits, target).temperature == pytest.approx(truth, rel=0.04)


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 100.0, 1e30])
def test_temperature_grows_with_the_logits(factor):
    logits, target = synthetic()
    one = TemperatureScaling().fit(logits.double(), target).temperature
    other = TemperatureScaling().fit(factor * logits.double(), target).temperature
    assert other == pytest.approx(factor * one.item(), rel=1e-12)


def test_temperature_never_changes_the_prediction():
    logits, target = synthetic()
    scaled = TemperatureScaling().fit(logits, target).transform(logits)
    assert torch.equal(scaled.argmax(1), logits.argmax(1))


WITHOUT_OPTIMUM = {
    "separable": lambda z: z.argmax(1),
    "separable, one row": lambda z: z[:1].argmax(1),
    "anti-correlated": lambda z: z.argmin(1),
    "anti-correlated, one row": lambda z: z[:1].argmin(1),
}


@pytest.mark.parametrize("factor", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("case", WITHOUT_OPTIMUM)
def test_without_an_optimum_there_is_a_bound_and_a_warning(case, factor):
    logits = factor * synthetic()[0]
    target = WITHOUT_OPTIMUM[case](logits)
    logits = logits[: len(target)]
    end = "lower bound" if "separable" in case else "upper bound"
    with pytest.warns(CalibrationWarning, match=f"^TemperatureScaling: .*{end}") as record:
        scaler = TemperatureScaling().fit(logits, target)
    (said,) = calibration_warnings(record)
    assert said.filename == __file__
    assert len(scaler.notes) == 1
    spread = logits.double().var(1, correction=0).mean().sqrt().item()
    expected = min(1, 1e-3 * spread) if "separable" in case else max(1, 1e6 * spread)
    assert scaler.temperature.item() == pytest.approx(expected, rel=1e-9)
    assert scaler.transform(logits).isfinite().all()
    assert nll(scaler.transform(logits), target) <= nll(logits, target)


def test_an_optimum_beyond_the_bound_is_cut_and_warned_of():
    logits = torch.tensor([[1e-6, 0.0, -1.0]] * 4, dtype=torch.float64)
    target = torch.tensor([0, 0, 0, 1])
    assert bisect_temperature(logits, target) < 1e-6
    with pytest.warns(CalibrationWarning, match="lower bound"):
        TemperatureScaling().fit(logits, target)


def test_logits_that_say_nothing_keep_temperature_one():
    with pytest.warns(CalibrationWarning, match="do not differ"):
        scaler = TemperatureScaling().fit(torch.full((5, 3), 2.0), torch.tensor([0, 1, 2, 0, 1]))
    assert scaler.temperature == 1


def test_warnings_do_not_outlive_the_next_fit():
    logits, target = synthetic()
    scaler = TemperatureScaling()
    with pytest.warns(CalibrationWarning):
        scaler.fit(logits, logits.argmax(1))
    assert scaler.fit(logits, target).notes == ()


def test_finite_differences_in_float32_stay_at_one_and_ours_do_not():
    logits, target = synthetic(temperature=2.5)
    z, c = logits.numpy(), target.numpy()

    def objective(temperature):
        return -log_softmax(z / np.float32(temperature[0]), axis=1)[np.arange(len(z)), c].mean()

    trapped = scipy.optimize.minimize(objective, [1.0], method="SLSQP")
    assert trapped.success
    assert trapped.x[0] == 1.0
    assert TemperatureScaling().fit(logits, target).temperature == pytest.approx(2.5, rel=0.05)


def snippet(logits, target, start, **options):
    """Return the temperature of the usual recipe: LBFGS on T itself, without a line search."""
    temperature = torch.full((1,), start, requires_grad=True)
    optimizer = torch.optim.LBFGS([temperature], max_iter=50, **options)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(logits / temperature, target)
        loss.backward()
        return loss

    optimizer.step(closure)
    return temperature.item()


@pytest.mark.parametrize(
    ("scale", "truth", "start", "rate", "wrong"),
    [
        (1, 1.8, 1.5, 0.01, lambda found, best: abs(found / best - 1) > 0.05),
        (1, 0.4, 1.0, 1.0, lambda found, best: found < 0),
        (100, 2.5, 1.5, 0.1, lambda found, best: found < 0.5 * best),
    ],
    ids=["off", "negative", "far off on large logits"],
)
def test_lbfgs_without_a_line_search_is_wrong_and_ours_is_not(scale, truth, start, rate, wrong):
    logits, target = synthetic(temperature=truth)
    logits = scale * logits
    best = bisect_temperature(logits, target)
    assert wrong(snippet(logits, target, start, lr=rate), best)
    assert TemperatureScaling().fit(logits, target).temperature == pytest.approx(best, rel=1e-10)


def test_weighted_temperature_is_the_optimum():
    logits, target = synthetic(3000)
    weight = np.random.default_rng(0).exponential(size=3000)
    found = TemperatureScaling().fit(logits, target, sample_weight=weight).temperature.item()
    assert found == pytest.approx(bisect_temperature(logits, target, weight), rel=1e-10)
