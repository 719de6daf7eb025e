"""Vector scaling: the true optimum, and what the data leaves open."""

import math
import warnings

import numpy as np
import pytest
import scipy.optimize
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import (
    WITHOUT_WARNINGS,
    calibration_warnings,
    never_occurring,
    nll,
    random_labels,
    synthetic,
)
from scipy.special import log_softmax, softmax

from softmargin.calibration import _vector
from softmargin.calibration.scaling import (
    CalibrationWarning,
    TemperatureScaling,
    VectorScaling,
)

pytestmark = WITHOUT_WARNINGS


@pytest.fixture(params=["whole Hessian", "conjugate gradients"])
def both_solvers(request, monkeypatch):
    if request.param == "conjugate gradients":
        monkeypatch.setattr(_vector, "DENSE_CLASSES", 0)


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


@pytest.mark.slow
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
    assert len(calibration_warnings(record)) == 1
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
    assert len(calibration_warnings(record)) == 1
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


@settings(max_examples=60)
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


@pytest.mark.parametrize("ridge", [0.0, -1.0, math.nan, 1e-13])
def test_a_ridge_that_holds_nothing_is_refused(ridge):
    with pytest.raises(ValueError, match="ridge must be a finite number of at least 1e-12"):
        VectorScaling(ridge=ridge)
