"""The theory figures: curves against independent closed forms, verdicts that can fail."""

import json
import math

import numpy as np
import pytest
import torch

pytest.importorskip("altair")
pytest.importorskip("scipy")

from scipy.special import expit

from softmargin import functional, theory
from softmargin.charts.vega import specification
from softmargin.papers.core import SCALES, find_work
from softmargin.papers.theory import BETAS, EXPERIMENTS
from softmargin.papers.theory_figures import (
    crossing,
    embedded_bias,
    equal,
    level_loss,
    verdict_of,
)

BY_ID = {experiment.id: experiment for experiment in EXPERIMENTS}
ids = pytest.mark.parametrize("name", BY_ID)


def concluded(name, scale="desk"):
    experiment = BY_ID[name]
    return experiment.conclude(experiment.scope(scale), [])


def curves(name, chart):
    (found,) = [each for each in concluded(name).charts if each.name == chart]
    return {each.name: (np.array(each.x), np.array(each.y)) for each in found.series}


def test_all_four_are_there():
    assert list(BY_ID) == ["gd-fig2", "gd-fig7", "lm-fig1", "lm-fig4"]


@ids
def test_every_check_is_passed_and_named(name):
    verdict = concluded(name).verdict
    assert verdict.word == "shown"
    assert verdict.remark == "Checked numerically, equalities to 1e-9."
    assert len(verdict.findings) >= 5
    assert all(each.agrees for each in verdict.findings)


@ids
def test_all_scales_are_one_cell_without_work_and_the_same(name, tmp_path):
    experiment = BY_ID[name]
    keys = set()
    for scale in SCALES:
        setting = experiment.scope(scale)
        assert setting.seeds == (0,)
        (cell,) = experiment.cells(setting)
        keys.add(cell.key)
        assert find_work(cell.work)(cell.config, tmp_path, lambda share: None).numbers == {}
        assert concluded(name, scale) == concluded(name)
    assert len(keys) == 1
    assert not experiment.spread


def test_cells_of_different_figures_are_different():
    cells = [e.cells(e.scope("desk"))[0] for e in EXPERIMENTS]
    assert len({cell.key for cell in cells}) == 4


@ids
def test_charts_can_be_drawn_and_stored(name):
    for chart in concluded(name).charts:
        assert chart.x_label
        assert chart.y_label
        json.dumps(chart.as_dict(), allow_nan=False)
        assert specification(chart)["datasets"]


@pytest.mark.parametrize("beta", BETAS)
def test_gradient_by_confidence_is_the_quotient(beta):
    p, y = curves("gd-fig2", "gradient-by-confidence")[f"β = {beta:g}"]
    assert p[0] == 0
    assert p[-1] == 1
    assert (np.diff(p) > 0).all()
    np.testing.assert_allclose(y, (1 - p) / (1 + (beta - 1) * p), rtol=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_gradient_by_logit_is_a_shifted_sigmoid(beta):
    z, y = curves("gd-fig7", "gradient-by-logit")[f"β = {beta:g}"]
    p = np.exp(z) / (np.exp(z) + 9 * np.exp(-z / 9))
    np.testing.assert_allclose(y, (1 - p) / (1 + (beta - 1) * p), rtol=1e-6, atol=1e-12)
    _, confidence = curves("gd-fig7", "confidence-by-logit")["every β"]
    np.testing.assert_allclose(confidence, p, rtol=1e-12)


def test_training_by_gradient_descent_follows_the_drawn_path():
    logits = torch.zeros(1, 10, dtype=torch.float64, requires_grad=True)
    for _ in range(50):
        loss = functional.gradient_decay_loss(logits, torch.tensor([3]), beta=0.1)
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - 0.5 * gradient).detach().requires_grad_()
    z = logits[0, 3].item()
    others = logits.detach()[0, [0, 1, 2, 4, 5, 6, 7, 8, 9]].numpy()
    np.testing.assert_allclose(others, -z / 9, atol=1e-12)
    expected = theory.gradient_magnitude_path(z, 0.1)
    loss = functional.gradient_decay_loss(logits, torch.tensor([3]), beta=0.1)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert -gradient[0, 3].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["gd-fig2", "gd-fig7"])
def test_half_of_the_gradient_is_left_where_the_formula_says(name):
    (table,) = concluded(name).tables
    for entry in table.entries:
        beta = float(entry.row)
        place = 1 / (1 + beta) if name == "gd-fig2" else 0.9 * math.log(9 / beta)
        assert entry.mean == pytest.approx(place, abs=1e-9)
        assert entry.paper == pytest.approx(place, abs=1e-12)


def test_losses_of_a_biased_margin():
    losses = curves("lm-fig1", "losses")
    xi, hinge = losses["hinge, max(0, ξ)"]
    np.testing.assert_allclose(hinge, (np.abs(xi) + xi) / 2, atol=1e-15)
    np.testing.assert_allclose(losses["softplus, log(1 + exp ξ)"][1], -np.log(expit(-xi)))
    biased = curves("lm-fig1", "losses-with-bias")
    for classes in (2, 10, 100):
        x, y = biased[f"softmax, {classes} classes"]
        np.testing.assert_allclose(y, np.log1p((classes - 1) * np.exp(x)), rtol=1e-12)
    np.testing.assert_allclose(biased["hinge, ρ = 1"][1], np.maximum(0, x + 1))


def test_bias_of_softmax():
    found = curves("lm-fig1", "embedded-bias")
    for classes in (3, 10, 100):
        lead, bias = found[f"softmax, {classes} classes"]
        np.testing.assert_allclose(bias, np.log1p((classes - 2) * np.exp(-lead)), rtol=1e-12)
    (table,) = concluded("lm-fig1").tables
    leads = {entry.row: entry.mean for entry in table.entries}
    assert leads == {
        "10": pytest.approx(math.log(8 / (math.e - 1)), abs=1e-9),
        "100": pytest.approx(math.log(98 / (math.e - 1)), abs=1e-9),
    }


def test_divergences_of_two_categories():
    from scipy.stats import entropy

    found = list(curves("lm-fig4", "divergences").values())
    q = found[0][0]
    both, level = np.stack([q, 1 - q]), np.full((2, len(q)), 0.5)
    forward, backward = entropy(level, both), entropy(both, level)
    expected = [forward, (forward + backward) / 2, backward]
    for (_, y), right in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, right, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gd-fig2", "gradient_magnitude"),
        ("gd-fig7", "gradient_magnitude_path"),
        ("gd-fig7", "confidence_path"),
        ("lm-fig1", "softplus"),
        ("lm-fig1", "hinge"),
        ("lm-fig4", "two_category_divergence"),
    ],
)
def test_a_wrong_formula_is_found_out(monkeypatch, name, formula):
    right = getattr(theory, formula)
    monkeypatch.setattr(theory, formula, lambda *args: right(*args) * (1 + 1e-6) + 1e-8)
    verdict = concluded(name).verdict
    assert verdict.word == "does not hold"
    assert "unlike the claim, " in verdict.sentence.lower()


@pytest.mark.parametrize("name", BY_ID)
def test_a_wrong_loss_is_found_out(monkeypatch, name):
    for each in ("gradient_decay_loss", "logit_divergence"):
        right = getattr(functional, each)

        def wrong(*args, right=right, **kwargs):
            return 1.000001 * right(*args, **kwargs)

        monkeypatch.setattr(functional, each, wrong)
    assert concluded(name).verdict.word == "does not hold"


def test_nan_equals_nothing():
    assert not equal([math.nan], [math.nan])
    assert not equal([0.0, math.nan], [0.0, 1.0])
    assert equal([0.0], [1e-10])


def test_a_verdict_names_all_that_fails():
    verdict = verdict_of({"a": True, "b": [True, False], "c": False})
    assert verdict.groups["unlike the claim"] == ["b", "c"]


def test_crossing_finds_the_value():
    found = crossing(lambda x: np.exp(-x * np.array([1.0, 2.0])), 0, 50, value=0.1)
    np.testing.assert_allclose(found, [math.log(10), math.log(10) / 2], rtol=1e-12)


def test_margin_helpers_are_what_they_say():
    margin = np.array([-0.5])
    assert level_loss(functional.max_hinge_loss, margin, 3, margin=1.0) == pytest.approx(0.5)
    entropy = level_loss(functional.gradient_decay_loss, margin, 3, beta=1.0)
    assert entropy == pytest.approx(math.log1p(2 * math.exp(-0.5)))
    assert embedded_bias(np.array([0.0]), 5) == pytest.approx(math.log(4))
