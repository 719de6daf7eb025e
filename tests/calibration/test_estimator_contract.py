"""Calibrators as scikit-learn's tools use them, and the display of reliability."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from softmargin.calibration import (
    ReliabilityDisplay,
    TemperatureScaling,
    VectorScaling,
    calibration_metrics,
)

mpl.use("agg")
GENERATOR = torch.Generator().manual_seed(0)
LOGITS = (4 * torch.randn(600, 3, generator=GENERATOR)).double().numpy()
LABELS = (
    torch.multinomial(torch.tensor(LOGITS / 2).softmax(1), 1, generator=GENERATOR)
    .squeeze(1)
    .numpy()
)
BOTH = pytest.mark.parametrize("scaler", [TemperatureScaling(), VectorScaling(ridge=0.01)])


@BOTH
def test_cloned_set_and_tagged(scaler):
    fitted = clone(scaler).fit(LOGITS, LABELS)
    again = clone(fitted)
    assert type(again) is type(scaler)
    assert again.get_params() == fitted.get_params() == scaler.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(again)
    check_is_fitted(fitted)
    assert not hasattr(again, "classes_")
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert is_classifier(fitted)
    assert get_tags(fitted).target_tags.required
    with pytest.raises(ValueError, match="params must be of .*Scaling, which has .*'ridges'"):
        again.set_params(ridges=1.0)
    assert isinstance(fitted, torch.nn.Module)


def test_parameters():
    assert TemperatureScaling().get_params() == {}
    scaler = VectorScaling(ridge=0.25)
    assert scaler.get_params() == {"ridge": 0.25}
    assert scaler.set_params(ridge=0.5) is scaler
    assert float(scaler.ridge) == 0.5
    with pytest.raises(ValueError, match="ridge must be"):
        scaler.set_params(ridge=-1.0)


@BOTH
def test_probabilities_classes_and_score(scaler):
    fitted = clone(scaler).fit(LOGITS, LABELS)
    p = fitted.predict_proba(LOGITS)
    np.testing.assert_allclose(p.sum(1), 1)
    tensor = fitted.predict_proba(torch.tensor(LOGITS))
    np.testing.assert_allclose(tensor, p)
    assert fitted.predict(LOGITS).tolist() == p.argmax(1).tolist()
    assert fitted.predict(torch.tensor(LOGITS)).tolist() == p.argmax(1).tolist()
    assert fitted.score(LOGITS, LABELS) == pytest.approx(-log_loss(LABELS, p), rel=1e-9)
    weight = np.arange(600.0)
    expected = -log_loss(LABELS, p, sample_weight=weight)
    assert fitted.score(LOGITS, LABELS, weight) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="like probabilities; pass their logarithm instead"):
        clone(scaler).fit(p, LABELS)


def test_in_a_search_and_a_pipeline():
    search = GridSearchCV(VectorScaling(), {"ridge": [1e-6, 1.0, 100.0]}, cv=3)
    search.fit(LOGITS, LABELS)
    assert search.best_params_["ridge"] in (1e-6, 1.0, 100.0)
    held_out = cross_val_predict(TemperatureScaling(), LOGITS, LABELS, cv=3, method="predict_proba")
    raw = torch.tensor(LOGITS).softmax(1).numpy()
    assert log_loss(LABELS, held_out) < log_loss(LABELS, raw)
    both = make_pipeline(TemperatureScaling(), LogisticRegression()).fit(LOGITS, LABELS)
    assert both.predict_proba(LOGITS).shape == (600, 3)


@pytest.mark.slow
def test_scikit_learn_is_not_needed():
    code = (
        "import sys; sys.modules['sklearn'] = None; import torch; "
        "from softmargin.calibration import VectorScaling; s = VectorScaling(ridge=0.1); "
        "s.fit(3 * torch.eye(3).repeat(3, 1), torch.tensor([0, 1, 2, 0, 1, 1, 0, 0, 2])); "
        "s.set_params(**s.get_params()); s.predict_proba(torch.eye(3))"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)


def test_display_of_predictions():
    p = torch.tensor(LOGITS).softmax(1)
    expected = calibration_metrics(p, torch.tensor(LABELS), from_logits=False).ece
    for labels, values, options in (
        (LABELS, p, {}),
        (LABELS, LOGITS, {"from_logits": True}),
        (np.array(["a", "b", "c"])[LABELS], p.numpy(), {}),
        (np.array(["x", "y", "z"])[LABELS], p.tolist(), {"labels": ["x", "y", "z"]}),
    ):
        display = ReliabilityDisplay.from_predictions(labels, values, name="net", **options)
        found = display.statistics.expected_calibration_error()
        assert float(found) == pytest.approx(expected, rel=1e-6)
        assert display.ax_.get_title("left") == "net"
        assert display.figure_ is display.ax_.figure
    own = mpl.figure.Figure().add_subplot()
    assert display.plot(ax=own, name="other") is display
    assert display.ax_ is own
    assert own.get_title("left") == "other"


def test_display_of_one_score_and_of_estimators():
    y, p = [0, 1, 1, 0], [0.1, 0.9, 0.6, 0.7]
    one = ReliabilityDisplay.from_predictions(y, p)
    two = ReliabilityDisplay.from_predictions(y, np.stack([1 - np.array(p), p], 1))
    assert one.statistics.counts.tolist() == two.statistics.counts.tolist()
    texts = np.array(["b", "a", "c"])[LABELS]
    model = LogisticRegression().fit(LOGITS, texts)
    display = ReliabilityDisplay.from_estimator(model, LOGITS, texts)
    assert display.ax_.get_title("left") == "LogisticRegression"
    correct = (model.predict(LOGITS) == texts).mean()
    mass, accuracy = display.statistics.mass, display.statistics.accuracy.nan_to_num(0)
    assert float((mass * accuracy).sum() / mass.sum()) == pytest.approx(correct)
    ReliabilityDisplay.from_estimator(TemperatureScaling().fit(LOGITS, LABELS), LOGITS, LABELS)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, 1], [[0.5, 0.5]]), ValueError, r"y_true must have shape \(1,\)"),
        (([0, 3], [[0.5, 0.5], [0.2, 0.8]]), ValueError, "classes of labels, but got 3"),
        ((["a", "b", "c"], [0.1, 0.2, 0.3]), ValueError, "name the 2 columns of y_pred"),
        (([0], [["a"]]), ValueError, "y_pred must hold numbers"),
        (([0], [[0.9, 0.3]]), ValueError, "sum of 1"),
    ],
)
def test_display_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        ReliabilityDisplay.from_predictions(*arguments)
    with pytest.raises(TypeError, match="must have a method predict_proba, but int has none"):
        ReliabilityDisplay.from_estimator(3, [[1]], [0])


def test_results_in_a_notebook():
    result = calibration_metrics(torch.tensor(LOGITS), torch.tensor(LABELS), from_logits=True)
    page = result._repr_html_()
    assert page.count("<tr>") == len(list(result.estimates()))
    assert f"<td>{result.ece:.4f}</td>" in page
