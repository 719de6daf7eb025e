"""Temperature and vector scaling: the true optimum, bounds, files, modules, held-out numbers."""

import json
import math
import warnings

import mpmath
import numpy as np
import pytest
import scipy.optimize
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from softmargin.calibration import _batch, _vector
from softmargin.calibration.scaling import (
    CalibrationWarning,
    TemperatureScaling,
    VectorScaling,
    cross_validated,
    held_out_calibrators,
)

pytestmark = pytest.mark.filterwarnings("error")


def synthetic(rows=2000, classes=10, temperature=1.7, seed=0, bias=None):
    """Return logits and targets for which the best temperature is near the given one."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    truth = logits / temperature + (0 if bias is None else bias)
    target = torch.multinomial(truth.softmax(1), 1, generator=generator).squeeze(1)
    return logits, target


def random_labels(seed=36):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2000, 10, generator=generator)
    return logits, torch.randint(0, 10, (2000,), generator=generator)


def never_occurring():
    logits, target = synthetic()
    return logits, torch.where(target == 3, 4, target)


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


def bisect_temperature(logits, target, weight=None):
    """Return T by bisection on log(1/T) to 1e-13, all rows at once in float64."""
    logits = logits.double().numpy()
    target = target.numpy()
    ahead = logits - logits[np.arange(len(logits)), target][:, None]
    low, high = -40.0, 40.0
    while high - low > 1e-13:
        middle = (low + high) / 2
        p = softmax(math.exp(middle) * ahead, axis=1)
        slope = np.average((p * ahead).sum(1), weights=weight)
        low, high = (low, middle) if slope > 0 else (middle, high)
        if middle in (low, high) and np.nextafter(low, high) >= high:
            break
    return math.exp(-(low + high) / 2)


def nll(logits, target):
    return F.cross_entropy(logits.double(), target).item()


@pytest.fixture(params=["whole Hessian", "conjugate gradients"])
def both_solvers(request, monkeypatch):
    if request.param == "conjugate gradients":
        monkeypatch.setattr(_vector, "DENSE_CLASSES", 0)


# --- temperature ---------------------------------------------------------------------------


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
    assert len(record) == 1
    assert record[0].filename == __file__
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


# --- the traps of public packages ----------------------------------------------------------


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


def lbfgs(parameters, objective, tolerance=1e-10):
    """Minimise by float64 strong-Wolfe LBFGS; return the objective."""
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=1000,
        max_eval=2000,
        tolerance_grad=tolerance,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    optimizer.step(closure)
    return objective().item()


def test_vector_scaling_has_the_bias_that_others_lack():
    bias = torch.linspace(-2, 2, 10)
    logits, target = synthetic(12_000, bias=bias)
    fit, new = slice(0, 10_000), slice(10_000, None)
    scale = torch.ones(10, dtype=torch.float64, requires_grad=True)
    lbfgs([scale], lambda: F.cross_entropy(logits[fit].double() * scale, target[fit]))
    scaler = VectorScaling().fit(logits[fit], target[fit])
    ours = nll(scaler.transform(logits[new]), target[new])
    assert ours < nll(logits[new] * scale.detach(), target[new]) - 0.1
    assert scaler.bias.numpy() == pytest.approx(bias.numpy(), abs=0.4)
    assert scaler.bias.sum().item() == pytest.approx(0, abs=1e-12)


def test_vector_scaling_does_not_overfit_as_matrix_scaling_without_penalty():
    logits, target = synthetic(2400, 30)
    fit, new = slice(0, 900), slice(900, None)
    matrix = torch.eye(30, dtype=torch.float64, requires_grad=True)
    z, c = logits.double(), target
    inside = lbfgs([matrix], lambda: F.cross_entropy(z[fit] @ matrix, c[fit]))
    scaler = VectorScaling().fit(logits[fit], target[fit])
    outside = nll((z @ matrix.detach())[new], c[new])
    assert outside > inside + 1  # it learned the rows, not the classes
    held_out = nll(scaler.transform(logits)[new], c[new])
    assert held_out < outside - 0.5
    assert held_out < nll(scaler.transform(logits)[fit], c[fit]) + 0.2


# --- vector scaling ------------------------------------------------------------------------


def scipy_vector(logits, target):
    """Return scale and bias by scipy's quasi-Newton method in float64."""
    z, c = logits.double().numpy(), target.numpy()
    rows, classes = z.shape
    hot = np.eye(classes)[c]

    def objective(theta):
        scores = z * theta[:classes] + theta[classes:]
        difference = (softmax(scores, axis=1) - hot) / rows
        value = -log_softmax(scores, axis=1)[np.arange(rows), c].mean()
        return value, np.concatenate([(difference * z).sum(0), difference.sum(0)])

    start = np.concatenate([np.ones(classes), np.zeros(classes)])
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-10}
    best = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    bias = torch.from_numpy(best.x[classes:])
    return torch.from_numpy(best.x[:classes]), bias - bias.mean()


VECTOR_CASES = {
    "well-behaved": lambda: synthetic(4000),
    "biased": lambda: synthetic(4000, bias=torch.linspace(-2, 2, 10)),
    "two classes": lambda: synthetic(2000, 2),
    "random labels": random_labels,
    "50 classes": lambda: synthetic(6000, 50),
    "bfloat16": lambda: (synthetic(3000)[0].bfloat16(), synthetic(3000)[1]),
}


@pytest.mark.usefixtures("both_solvers")
@pytest.mark.parametrize("case", VECTOR_CASES)
def test_vector_scaling_is_the_optimum(case):
    logits, target = VECTOR_CASES[case]()
    half = len(logits) // 2
    scale, bias = scipy_vector(logits[:half], target[:half])
    scaler = VectorScaling().fit(logits[:half], target[:half])
    torch.testing.assert_close(scaler.scale, scale, rtol=0, atol=1e-4)
    torch.testing.assert_close(scaler.bias, bias, rtol=0, atol=1e-4)
    for rows in (slice(0, half), slice(half, None)):
        theirs = nll(logits[rows].double() * scale + bias, target[rows])
        ours = nll(scaler.transform(logits[rows].double()), target[rows])
        assert ours == pytest.approx(theirs, abs=1e-7)


def test_vector_scaling_of_many_classes_is_the_strong_wolfe_optimum():
    logits, target = synthetic(6000, 150)
    assert len(target[:4500].unique()) == 150
    fit, new = slice(0, 4500), slice(4500, None)
    scale = torch.full((150,), 0.6, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(150, dtype=torch.float64, requires_grad=True)
    z = logits.double()
    lbfgs([scale, bias], lambda: F.cross_entropy(z[fit] * scale + bias, target[fit]), 1e-6)
    scaler = VectorScaling().fit(logits[fit], target[fit])
    theirs = nll((z * scale + bias).detach()[new], target[new])
    assert nll(scaler.transform(logits[new].double()), target[new]) == pytest.approx(
        theirs, abs=1e-6
    )


@pytest.mark.usefixtures("both_solvers")
def test_the_gradient_vanishes_at_vector_scalings_optimum():
    logits, target = synthetic()
    scaler = VectorScaling().fit(100 * logits, target)
    scale, bias = scaler.scale.clone().requires_grad_(), scaler.bias.clone().requires_grad_()
    F.cross_entropy(100 * logits.double() * scale + bias, target).backward()
    assert scale.grad.abs().max() / 300 < 1e-9
    assert bias.grad.abs().max() < 1e-9


@pytest.mark.usefixtures("both_solvers")
def test_a_class_that_never_occurs_is_warned_of_and_the_others_are_optimal():
    logits, target = never_occurring()
    with pytest.warns(CalibrationWarning, match="never holds class 3:") as record:
        scaler = VectorScaling().fit(logits, target)
    assert len(record) == 1
    assert scaler.transform(logits).softmax(1)[:, 3].max() < 1e-6
    assert -30 < scaler.bias[3] < -10
    others = [0, 1, 2, 4, 5, 6, 7, 8, 9]
    alone = VectorScaling().fit(logits[:, others], torch.where(target > 3, target - 1, target))
    torch.testing.assert_close(scaler.scale[others], alone.scale, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("both_solvers")
def test_many_missing_classes_are_named_briefly():
    logits, target = synthetic(1000, 20)
    with pytest.warns(CalibrationWarning, match="never holds classes 3, 4, 5, 6, 7 and 12 more:"):
        VectorScaling().fit(logits, target % 3)


@pytest.mark.usefixtures("both_solvers")
def test_one_class_only_is_warned_of():
    logits, _ = synthetic(100, 3)
    with pytest.warns(CalibrationWarning, match="never holds classes 0, 2:"):
        scaler = VectorScaling().fit(logits, torch.ones(100, dtype=torch.int64))
    assert (scaler.transform(logits).argmax(1) == 1).all()


@pytest.mark.usefixtures("both_solvers")
def test_a_class_that_is_never_mistaken_is_warned_of():
    logits, target = synthetic(600, 4)
    logits[:, 2] = torch.where(target == 2, 12.0, -12.0) + 0.1 * logits[:, 2]
    with pytest.warns(CalibrationWarning, match="pin down the scale and bias of class 2,"):
        scaler = VectorScaling().fit(logits, target)
    assert scaler.transform(logits).isfinite().all()


def test_separable_data_stop_vector_scaling_at_the_temperatures_bound():
    logits, _ = synthetic()
    with pytest.warns(CalibrationWarning, match="lower bound") as record:
        scaler = VectorScaling().fit(logits, logits.argmax(1))
    assert len(record) == 1
    with pytest.warns(CalibrationWarning):
        temperature = TemperatureScaling().fit(logits, logits.argmax(1)).temperature
    assert torch.equal(scaler.scale, (1 / temperature).repeat(10))
    assert not scaler.bias.any()


def test_vector_scaling_turns_anti_correlated_logits_round():
    logits, _ = synthetic()
    target = torch.multinomial((-logits).softmax(1), 1).squeeze(1)
    scaler = VectorScaling().fit(logits, target)
    assert scaler.scale.numpy() == pytest.approx(-np.ones(10), abs=0.2)


@pytest.mark.usefixtures("both_solvers")
def test_a_logit_that_never_changes_keeps_the_temperatures_scale():
    logits, target = synthetic(bias=torch.linspace(-1, 1, 10))
    logits[:, 4] = 1.5
    scaler = VectorScaling().fit(logits, target)
    temperature = TemperatureScaling().fit(logits, target).temperature
    assert scaler.scale[4].item() == pytest.approx(1 / temperature.item(), rel=1e-6)


def test_a_strong_ridge_is_temperature_scaling_and_needs_no_warning():
    logits, target = synthetic(60, 10)
    temperature = TemperatureScaling().fit(logits, target).temperature.item()
    scaler = VectorScaling(ridge=1e6).fit(logits, target)
    assert (1 / scaler.scale).numpy() == pytest.approx(np.full(10, temperature), rel=1e-4)
    assert scaler.bias.abs().max() < 1e-4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(2, 5), st.sampled_from([0.01, 1, 50]))
def test_fitted_rows_are_never_worse_off(seed, rows, classes, scale):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    target = torch.randint(0, classes, (rows,), generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        temperature = TemperatureScaling().fit(logits, target)
        vector = VectorScaling().fit(logits, target)
    assert not any("converged" in note for note in vector.notes)
    after = nll(temperature.transform(logits), target)
    assert after <= nll(logits, target) + 1e-12
    assert nll(vector.transform(logits), target) <= after + 1e-12


# --- what both share: inputs ---------------------------------------------------------------

BOTH = pytest.mark.parametrize("scaler_class", [TemperatureScaling, VectorScaling])


def numbers(scaler):
    return torch.cat([value.flatten() for value in scaler.buffers()])


@BOTH
def test_the_size_of_chunks_does_not_matter(scaler_class, monkeypatch):
    logits, target = synthetic()
    whole = numbers(scaler_class().fit(logits, target))
    for size in (1, 170, 10**9):
        monkeypatch.setattr(_batch, "CHUNK_SIZE", size)
        parts = numbers(scaler_class().fit(logits, target))
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)


class LargestFloat64(TorchDispatchMode):
    """Remember the largest float64 tensor that was made."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        made = [t.numel() for t in tree_leaves(result) if getattr(t, "dtype", 0) == torch.float64]
        self.size = max([self.size, *made])
        return result


@BOTH
def test_there_is_never_a_float64_copy_of_the_logits(scaler_class):
    logits, target = synthetic(50_000)
    with LargestFloat64() as largest:
        scaler_class().fit(logits, target)
    assert 1000 < largest.size <= 2 * _batch.CHUNK_SIZE


@BOTH
def test_the_input_is_not_changed(scaler_class):
    logits, target = synthetic()
    logits = logits.double()
    before = logits.clone()
    scaler_class().fit(logits, target).transform(logits)
    assert torch.equal(logits, before)


@BOTH
def test_whole_weights_are_repetitions(scaler_class):
    logits, target = synthetic(600, 4)
    weight = torch.arange(600) % 4
    weighted = scaler_class().fit(logits, target, sample_weight=weight)
    repeated = scaler_class().fit(
        logits.repeat_interleave(weight, 0), target.repeat_interleave(weight)
    )
    torch.testing.assert_close(numbers(weighted), numbers(repeated), rtol=1e-9, atol=1e-9)
    huge = scaler_class().fit(logits, target, sample_weight=1e307 * weight.double())
    torch.testing.assert_close(numbers(huge), numbers(repeated), rtol=1e-9, atol=1e-9)


def test_weighted_temperature_is_the_optimum():
    logits, target = synthetic(3000)
    weight = np.random.default_rng(0).exponential(size=3000)
    found = TemperatureScaling().fit(logits, target, sample_weight=weight).temperature.item()
    assert found == pytest.approx(bisect_temperature(logits, target, weight), rel=1e-10)


@BOTH
def test_ignored_rows_do_not_count_whatever_they_hold(scaler_class):
    logits, target = synthetic(1000)
    kept = torch.arange(1000) % 3 > 0
    target[~kept] = -100
    logits[0] = torch.nan
    with_all = scaler_class().fit(logits, target, ignore_index=-100)
    with_some = scaler_class().fit(logits[kept], target[kept])
    torch.testing.assert_close(numbers(with_all), numbers(with_some), rtol=1e-12, atol=1e-12)


@BOTH
def test_numpy_arrays_are_answered_in_kind(scaler_class, tmp_path):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    np.save(tmp_path / "logits.npy", logits.numpy())
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    for array in (mapped, logits.numpy()[::-1], logits.numpy().astype(">f4")):
        order = -1 if array.strides[0] < 0 else 1
        for kind in (np.int32, np.uint8, np.int64):
            classes = target.numpy()[::order].astype(kind)
            again = scaler_class().fit(array, classes)
            torch.testing.assert_close(numbers(again), numbers(scaler), rtol=1e-9, atol=1e-9)
    result = scaler.transform(logits.numpy())
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    assert np.array_equal(result, scaler.transform(logits).numpy())


@BOTH
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_transform_keeps_at_least_float32(scaler_class, dtype, result):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    scaled = scaler.transform(logits.to(dtype))
    assert scaled.dtype == result
    torch.testing.assert_close(
        scaled.double(), scaler.transform(logits.to(dtype).double()), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(scaler.transform(logits[0].to(dtype)), scaled[0])


GOOD = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [2.0, 1.0, 1.5]])
LABELS = torch.tensor([0, 2, 1])
NAN, INFINITE = GOOD.clone(), GOOD.double()
NAN[1, 2], INFINITE[2, 0] = torch.nan, -torch.inf


@BOTH
@pytest.mark.parametrize(
    ("logits", "target", "options", "message"),
    [
        ([[1.0, 2.0]], LABELS, {}, "logits must be a Tensor or a NumPy array, but got list."),
        (GOOD, [0, 1, 2], {}, "target must be a Tensor or a NumPy array, but got list."),
        (GOOD.long(), LABELS, {}, "logits must be floating-point numbers, but got torch.int64."),
        (np.array(["a"]), LABELS, {}, "logits must hold numbers, but got <U1."),
        (GOOD[0], LABELS, {}, r"logits must have shape \(N, C\) with at least one .* got \(3,\)."),
        (GOOD[:0], LABELS[:0], {}, r"at least one row, but got \(0, 3\)."),
        (GOOD[:, :1], LABELS, {}, r"logits must hold at least 2 classes .* got shape \(3, 1\)."),
        (GOOD, LABELS[:2], {}, r"target must have shape \(3,\) for these .*, but got \(2,\)."),
        (GOOD, LABELS.float(), {}, "target must hold integer class indices, but got torch.float"),
        (GOOD, LABELS + 1, {}, "target must hold classes from 0 to 2, but got 3 in row 1."),
        (GOOD, LABELS - 1, {}, "target must hold classes from 0 to 2, but got -1 in row 0."),
        (GOOD, LABELS - 1, {"ignore_index": 0}, "0 to 2 or ignore_index 0, but got -1 in row 0."),
        (GOOD, LABELS * 0, {"ignore_index": 0}, "at least one class, but all are ignore_index 0."),
        (GOOD, LABELS, {"ignore_index": 0.5}, "ignore_index must be an integer or None, .* 0.5."),
        (NAN, LABELS, {}, "logits must be finite numbers .*, but row 1 holds nan."),
        (NAN, LABELS, {"ignore_index": 0}, "logits must be finite .*, but row 1 holds nan."),
        (INFINITE, LABELS, {}, "logits must be finite numbers .*, but row 2 holds -inf."),
        (1e200 * GOOD.double(), LABELS, {}, r"up to 1e\+100, but row 0 holds 1e\+200."),
        (GOOD, LABELS, {"sample_weight": GOOD}, r"numbers of shape \(3,\), .* \(3, 3\)."),
        (GOOD, LABELS, {"sample_weight": -GOOD[0]}, "of at least 0, but got -1 in row 0."),
        (GOOD, LABELS, {"sample_weight": NAN[1]}, "finite numbers .*, but got nan in row 2."),
        (GOOD, LABELS, {"sample_weight": 0 * GOOD[0]}, "sample_weight must be above 0 in a row"),
    ],
)
def test_bad_input_gets_one_sentence(scaler_class, logits, target, options, message):
    scaler = scaler_class()
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        scaler.fit(logits, target, **options)
    assert "\n" not in str(caught.value)
    assert not scaler.fitted


@BOTH
def test_transform_says_what_it_needs(scaler_class):
    with pytest.raises(RuntimeError, match="must be fitted first: call fit"):
        scaler_class().transform(GOOD)
    with pytest.raises(RuntimeError, match="must be fitted before it is saved"):
        scaler_class().save("nowhere.json")
    scaler = scaler_class().fit(*synthetic(500, 3))
    with pytest.raises(ValueError, match=r"shape \(N, 3\) or \(3,\) for .*, but got \(3, 2\)"):
        scaler.transform(GOOD[:, :2])
    with pytest.raises(ValueError, match=r"but got \(1, 3, 3\)"):
        scaler.transform(GOOD[None])
    with pytest.raises(TypeError, match=r"floating-point numbers, but got torch\.int64"):
        scaler.transform(GOOD.long())
    with pytest.raises(TypeError, match="but got list"):
        scaler.transform([[1.0, 2.0, 3.0]])
    assert scaler.transform(NAN)[1].isnan().any()


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_bad_number_among_many_is_found(scaler_class, dtype, value):
    logits, target = synthetic(5000)
    logits[4321, 7] = value
    with pytest.raises(ValueError, match=f"but row 4321 holds {value:g}"):
        scaler_class().fit(logits.to(dtype), target)


@pytest.mark.parametrize("ridge", [0.0, -1.0, math.nan, 1e-13])
def test_a_ridge_that_holds_nothing_is_refused(ridge):
    with pytest.raises(ValueError, match="ridge must be a finite number of at least 1e-12"):
        VectorScaling(ridge=ridge)


def test_a_failed_fit_leaves_the_old_one():
    scaler = TemperatureScaling().fit(*synthetic(500, 3))
    before = scaler.temperature.clone()
    with pytest.raises(ValueError):
        scaler.fit(NAN, LABELS)
    assert scaler.temperature == before


LIKE_PROBABILITIES = "every row holds numbers of at least 0 with a sum of 1, like probabilities"
FITS = {
    "temperature": lambda z, y, **o: TemperatureScaling().fit(z, y, **o),
    "vector": lambda z, y, **o: VectorScaling().fit(z, y, **o),
    "cross_validated": lambda z, y, **o: cross_validated(TemperatureScaling, z, y, **o),
    "in sample, your own": lambda z, y, **o: cross_validated(Doubling, z, y, in_sample=True, **o),
    "held out, your own": lambda z, y, **o: list(held_out_calibrators(Doubling, z, y, **o)),
}


class Doubling:
    def fit(self, logits, target, *, sample_weight=None, ignore_index=None):
        return self

    def transform(self, logits):
        return 2 * logits


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_probabilities_are_not_fitted_as_logits(fit, dtype):
    logits, target = synthetic(600, 5)
    probabilities = logits.softmax(1).to(dtype)
    for rows in (probabilities, torch.eye(5, dtype=dtype)[target]):
        with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
            fit(rows, target)
        if dtype != torch.bfloat16:
            with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
                fit(rows.numpy(), target.numpy())
    ignored = target.clone()
    ignored[0] = -100
    probabilities[0] = 7.0  # a row that does not count does not make logits of the others
    with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
        fit(probabilities, ignored, ignore_index=-100)


def test_logits_that_only_resemble_probabilities_are_fitted():
    logits, target = synthetic(600, 5)
    probabilities = logits.softmax(1)
    one_other = probabilities.clone()
    one_other[599] *= 2
    TemperatureScaling().fit(one_other, target)
    fitted = TemperatureScaling().fit(probabilities.log(), target)
    direct = TemperatureScaling().fit(logits, target)
    assert fitted.temperature.item() == pytest.approx(direct.temperature.item(), rel=1e-5)
    deliberate = TemperatureScaling().fit(1 + probabilities, target)  # as the sentence says
    assert deliberate.temperature < 0.5
    TemperatureScaling().fit(0.9 * probabilities, target)  # from 0 to 1, with another sum
    assert direct.transform(probabilities).shape == (600, 5)  # transform looks at no values


def test_a_fold_may_look_like_probabilities():
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]])
    target = torch.tensor([0, 1, 0])
    with pytest.warns(CalibrationWarning):  # three rows have no best temperature, but are no error
        result = cross_validated(TemperatureScaling, logits, target, folds=3)
    assert result.logits.shape == (3, 2)
    with pytest.raises(ValueError, match=LIKE_PROBABILITIES):
        TemperatureScaling().fit(logits[[0, 2]], target[[0, 2]])


def test_calibrators_are_found_where_the_metrics_are():
    import softmargin.calibration

    for name in ("TemperatureScaling", "VectorScaling", "cross_validated", "CalibrationWarning"):
        assert getattr(softmargin.calibration, name) is getattr(
            softmargin.calibration.scaling, name
        )
        assert name in softmargin.calibration.__all__


# --- files ---------------------------------------------------------------------------------


@BOTH
def test_a_file_brings_back_every_bit(scaler_class, tmp_path):
    path = tmp_path / "calibrator.json"
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    path.write_text("something older")
    scaler.save(str(path))
    loaded = scaler_class.load(path)
    assert torch.equal(numbers(loaded), numbers(scaler))
    assert numbers(loaded).dtype == torch.float64
    assert loaded.num_classes == 10
    assert torch.equal(loaded.transform(logits), scaler.transform(logits))
    content = json.loads(path.read_text())
    assert (content["version"], content["kind"]) == (1, scaler.kind)
    assert [p.name for p in tmp_path.iterdir()] == ["calibrator.json"]


def test_a_file_keeps_the_warning(tmp_path):
    logits, _ = synthetic()
    with pytest.warns(CalibrationWarning):
        scaler = TemperatureScaling().fit(logits, logits.argmax(1))
    scaler.save(tmp_path / "calibrator.json")
    assert TemperatureScaling.load(tmp_path / "calibrator.json").notes == scaler.notes


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "calibrator.json"
    scaler = TemperatureScaling().fit(*synthetic())
    scaler.save(path)
    before = path.read_text()

    def full_disk(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        scaler.save(path)
    assert path.read_text() == before
    assert len(list(tmp_path.iterdir())) == 1


def damaged(**changes):
    content = {"format": "softmargin calibrator", "version": 1, "kind": "temperature"}
    content |= {"num_classes": 3, "parameters": {"temperature": 1.5}} | changes
    return json.dumps({key: value for key, value in content.items() if value != "gone"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged: it cannot be read as JSON"),
        (damaged()[:-5], "is damaged: it cannot be read as JSON"),
        (b"\xff\xfe\x00", "is damaged: it cannot be read as JSON"),
        ("[1, 2]", "is damaged: it holds no names and values"),
        (damaged(format="other"), "that a calibrator's save has written, but .* is not"),
        (damaged(sha257="00"), "is damaged: it holds an unknown 'sha257'"),
        (damaged(version=2), "of version 1, but .* is of version 2"),
        (damaged(kind="vector"), "of kind 'temperature' for TemperatureScaling, but .* 'vector'"),
        (damaged(parameters="gone"), "has no parameters"),
        (damaged(parameters={}), "is damaged: 'temperature'"),
        (damaged(parameters=[1]), "is damaged"),
        (damaged(parameters={"temperature": -1}), "temperature must be a finite number above 0"),
        (damaged(parameters={"temperature": math.nan}), "is damaged: temperature must be a finite"),
        (damaged(parameters={"temperature": "hot"}), "is damaged"),
        (damaged(parameters={"temperature": [1.0]}), r"is damaged: temperature must have shape"),
    ],
)
def test_a_file_that_is_no_calibrator_gets_one_sentence(text, message, tmp_path):
    path = tmp_path / "calibrator.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as caught:
        TemperatureScaling.load(path)
    assert "\n" not in str(caught.value)
    assert "calibrator.json" in str(caught.value)


@BOTH
def test_a_file_with_any_byte_changed_or_cut_off_is_refused(scaler_class, tmp_path):
    """Whatever is damaged, loading gives one sentence, or the very numbers that were saved."""
    path = tmp_path / "calibrator.json"
    scaler = scaler_class().fit(*synthetic(500, 3))
    scaler.save(path)
    whole, refusals = path.read_bytes(), []
    flipped = [
        whole[:i] + bytes([whole[i] ^ 1 << i % 7]) + whole[i + 1 :] for i in range(len(whole))
    ]
    for content in (*flipped, *(whole[:length] for length in range(0, len(whole), 7))):
        path.write_bytes(content)
        try:
            again = scaler_class.load(path)
        except ValueError as error:
            refusals.append(str(error))
        else:
            assert torch.equal(numbers(again), numbers(scaler))
    assert len(refusals) > 0.9 * len(flipped)  # all but blanks between the entries
    assert all("calibrator.json" in each and "\n" not in each for each in refusals)


def test_files_of_vector_scaling_are_checked_too(tmp_path):
    path = tmp_path / "calibrator.json"
    path.write_text(damaged(kind="vector", parameters={"scale": [1, 2], "bias": [0, 0]}))
    with pytest.raises(ValueError, match="scale must hold 3 numbers, but got 2"):
        VectorScaling.load(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        VectorScaling.load(tmp_path / "missing.json")


# --- modules -------------------------------------------------------------------------------


@BOTH
def test_it_stands_behind_a_model_and_in_its_state_dict(scaler_class, tmp_path):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    model = torch.nn.Sequential(torch.nn.Linear(4, 10), scaler)
    x = torch.randn(5, 4)
    torch.testing.assert_close(model(x), scaler.transform(model[0](x)))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    for start in (scaler_class(), scaler_class().fit(*synthetic(500, 3))):
        fresh = torch.nn.Sequential(torch.nn.Linear(4, 10), start)
        fresh.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
        assert torch.equal(fresh(x), model(x))
        assert torch.equal(numbers(fresh[1]), numbers(scaler))
        assert fresh[1].num_classes == 10
    assert not list(scaler.parameters())


@BOTH
def test_half_precision_models_do_not_round_the_calibrator(scaler_class):
    scaler = scaler_class().fit(*synthetic())
    before = numbers(scaler)
    assert torch.equal(numbers(scaler.half()), before)
    assert torch.equal(numbers(scaler.to(torch.bfloat16)), before)


@BOTH
def test_gradients_flow_to_the_logits(scaler_class):
    scaler = scaler_class().fit(*synthetic(500, 3))
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(scaler, logits)


@BOTH
def test_a_fit_in_inference_mode_can_be_used_in_training(scaler_class):
    with torch.inference_mode():
        scaler = scaler_class().fit(*synthetic(500, 3))
    logits = torch.randn(4, 3, requires_grad=True)
    scaler(logits).sum().backward()
    assert logits.grad is not None


@BOTH
def test_transform_compiles_whole(scaler_class):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    for function in (scaler, scaler.transform):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(logits), scaler.transform(logits))
        torch.testing.assert_close(compiled(logits.half()), scaler.transform(logits.half()))
    mapped = torch.func.vmap(scaler)(logits)
    torch.testing.assert_close(mapped, scaler.transform(logits))


def test_repr_shows_the_numbers():
    assert repr(TemperatureScaling()) == "TemperatureScaling(not fitted)"
    scaler = VectorScaling().fit(*synthetic())
    assert repr(scaler).startswith("VectorScaling(scale=<10 values from 0.")
    scaler = TemperatureScaling()
    scaler.temperature = 2.0
    assert scaler.transform(GOOD).equal(GOOD / 2)
    with pytest.raises(ValueError, match="temperature must be a finite number above 0"):
        scaler.temperature = -2.0


# --- held-out numbers ----------------------------------------------------------------------


class Memoriser:
    """A calibrator that knows every label it was shown, and nothing else."""

    def fit(self, logits, target, *, sample_weight=None, ignore_index=None):
        used = target != (-100 if ignore_index is None else ignore_index)
        rows, labels = logits[used].tolist(), target[used].tolist()
        self.known = {tuple(row): label for row, label in zip(rows, labels, strict=True)}
        return self

    def transform(self, logits):
        result = torch.zeros_like(logits)
        for number, row in enumerate(logits.tolist()):
            if tuple(row) in self.known:
                result[number, self.known[tuple(row)]] = 50.0
        return result


def test_no_label_leaks_into_its_own_row():
    logits, target = synthetic(300, 7)
    honest = cross_validated(Memoriser, logits, target)
    assert not honest.in_sample
    assert nll(honest.logits, target) == pytest.approx(math.log(7))
    cheating = cross_validated(Memoriser, logits, target, in_sample=True)
    assert cheating.in_sample
    assert nll(cheating.logits, target) < 1e-9
    assert len(honest.calibrator.known) == 300


@BOTH
def test_each_fold_is_fitted_on_the_others_only(scaler_class):
    logits, target = synthetic(1500, 4)
    result = cross_validated(scaler_class, logits, target, folds=3)
    assert torch.equal(numbers(result.calibrator), numbers(scaler_class().fit(logits, target)))
    for number, scaler in enumerate(result.fold_calibrators):
        held_out = result.fold == number
        alone = scaler_class().fit(logits[~held_out], target[~held_out])
        torch.testing.assert_close(numbers(scaler), numbers(alone), rtol=1e-9, atol=1e-9)
        assert torch.equal(result.logits[held_out], scaler.transform(logits[held_out]))


def test_held_out_numbers_are_worse_than_those_in_sample():
    logits, target = synthetic(600, 10)
    honest = cross_validated(VectorScaling, logits, target)
    inside = cross_validated(VectorScaling, logits, target, in_sample=True)
    new_logits, new_target = synthetic(20_000, 10, seed=1)
    truth = nll(honest.calibrator.transform(new_logits), new_target)
    assert nll(inside.logits, target) < nll(honest.logits, target) - 0.02
    assert inside.fold is None
    assert nll(logits / 1.7, target) < nll(honest.logits, target)
    assert truth > nll(new_logits / 1.7, new_target)


def test_folds_are_balanced_seeded_and_cover_every_row_once():
    logits, target = synthetic(503, 4)
    first = cross_validated(TemperatureScaling, logits, target, seed=3)
    again = cross_validated(TemperatureScaling, logits, target, seed=3)
    other = cross_validated(TemperatureScaling, logits, target, seed=4)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.fold, again.fold)
    assert not torch.equal(first.fold, other.fold)
    for label in range(4):
        counts = first.fold[target == label].bincount(minlength=5)
        assert counts.max() - counts.min() <= 1
    assert sorted(first.fold.bincount().tolist()) == [100, 100, 101, 101, 101]
    rows = [rows for rows, _ in held_out_calibrators(TemperatureScaling, logits, target)]
    assert torch.cat(rows).sort().values.equal(torch.arange(503))


def test_the_global_generator_is_left_alone():
    state = torch.random.get_rng_state()
    cross_validated(TemperatureScaling, *synthetic(100, 3))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_ignored_rows_are_transformed_but_never_fitted():
    logits, target = synthetic(400, 3)
    target[::4] = 1
    result = cross_validated(TemperatureScaling, logits, target, ignore_index=1)
    kept = target != 1
    assert result.logits.isfinite().all()
    alone = TemperatureScaling().fit(logits[kept], target[kept]).temperature.item()
    assert result.calibrator.temperature.item() == pytest.approx(alone, rel=1e-12)


def test_cross_validation_of_numpy_half_and_weights():
    logits, target = synthetic(400, 3)
    result = cross_validated(
        TemperatureScaling,
        logits.numpy().astype(np.float16),
        target.numpy(),
        sample_weight=np.ones(400),
    )
    assert isinstance(result.logits, np.ndarray)
    assert result.logits.dtype == np.float32
    plain = cross_validated(TemperatureScaling, logits.half(), target)
    assert np.allclose(result.logits, plain.logits.numpy(), rtol=1e-6)


def test_folds_warn_once_and_only_if_the_fit_on_all_did_not():
    logits, target = synthetic(300, 5)
    with pytest.warns(CalibrationWarning) as record:
        cross_validated(TemperatureScaling, logits, logits.argmax(1))
    assert len(record) == 1
    rare = torch.where(target == 4, 3, target)
    rare[0] = 4
    with pytest.warns(CalibrationWarning, match="VectorScaling") as record:
        cross_validated(VectorScaling, logits, rare)
    assert len(record) == 1


@pytest.mark.parametrize("folds", [1, 0, 4, 2.0, True, "5"])
def test_folds_must_fit_the_rows(folds):
    with pytest.raises(ValueError, match=r"folds must be an integer from 2 to .* that count, 3"):
        cross_validated(TemperatureScaling, GOOD, LABELS, folds=folds)


def test_cross_validation_checks_its_input():
    with pytest.raises(ValueError, match="but got 3 in row 1"):
        cross_validated(TemperatureScaling, GOOD, LABELS + 1, folds=2)
    with pytest.raises(TypeError, match="integer class indices"):
        next(held_out_calibrators(TemperatureScaling, GOOD, LABELS.float(), folds=2))
    with pytest.raises(ValueError, match="but got -1 in row 0"):
        next(held_out_calibrators(TemperatureScaling, GOOD, LABELS - 1, folds=2))
