"""MarginClassifierCV: the choice is the best candidate, judged on rows it was not fitted on."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from softmargin.estimators import MarginClassifier, MarginClassifierCV

IRIS = load_iris(return_X_y=True)
FAST = MarginClassifier(epochs=40, hidden_sizes=(16,))


@pytest.fixture(scope="module")
def noisy():
    """Return rows whose classes overlap, so that long training is over-confident."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 6))
    y = (x[:, 0] + 1.5 * rng.normal(size=240) > 0).astype(int)
    return x, y


@pytest.fixture(scope="module")
def search(noisy):
    return MarginClassifierCV(
        [1.0, 10.0], estimator=FAST, grid={}, cv=4, seeds=2, looks=4, random_state=0
    ).fit(*noisy)


def test_every_candidate_is_in_the_results(search):
    results = search.cv_results_
    assert len(results["params"]) == 2 * 4 * 2  # β, looks, with and without a temperature
    assert set(results["param_epochs"]) == {10, 20, 30, 40}
    assert results["rank_test"][search.best_index_] == 1
    assert search.best_score_ == results["mean_test_nll"].min()
    assert search.best_params_ == results["params"][search.best_index_]


def test_scores_are_those_of_classifiers_trained_one_by_one(noisy):
    x, y = noisy
    folds = list(StratifiedKFold(3, shuffle=True, random_state=1).split(x, y))
    base = MarginClassifier(epochs=20, hidden_sizes=(8,), random_state=0)
    search = MarginClassifierCV(
        [3.0], estimator=base, grid={}, cv=folds, looks=1, temperature=False, random_state=0
    ).fit(x, y)
    losses, sizes = [], []
    for train, test in folds:
        alone = MarginClassifier(3.0, epochs=20, hidden_sizes=(8,), random_state=0)
        alone.fit(x[train], y[train])
        losses.append(log_loss(y[test], alone.predict_proba(x[test])))
        sizes.append(len(test))
    assert search.best_score_ == pytest.approx(np.average(losses, weights=sizes), rel=1e-4)


def test_a_temperature_is_fitted_on_other_folds(search):
    results = search.cv_results_
    same = (results["param_epochs"] == 40) & (results["param_beta"] == 1.0)
    raw, scaled = results["mean_test_nll"][same]
    assert list(results["param_scaling"][same]) == ["none", "temperature"]
    assert 0 < abs(raw - scaled) < 0.1


def test_the_chosen_temperature_is_applied(noisy):
    x, y = noisy
    search = MarginClassifierCV(
        [1.0], estimator=MarginClassifier(epochs=300), grid={}, cv=3, looks=1, random_state=0
    ).fit(x, y)
    assert search.best_params_["scaling"] == "temperature"
    assert search.temperature_ > 1
    raw = search.best_estimator_.decision_function(x)
    assert np.allclose(search.decision_function(x), raw / search.temperature_)
    assert np.allclose(search.predict_proba(x)[:, 1], 1 / (1 + np.exp(-raw / search.temperature_)))
    assert (search.predict(x) == search.best_estimator_.predict(x)).all()


def test_one_standard_error_takes_the_plainest_candidate_that_is_good_enough(noisy):
    x, y = noisy
    settings = {"estimator": FAST, "grid": {}, "cv": 4, "looks": 4, "random_state": 0}
    best = MarginClassifierCV([0.1, 1.0, 10.0], **settings).fit(x, y)
    plain = MarginClassifierCV([0.1, 1.0, 10.0], one_standard_error=True, **settings).fit(x, y)
    chosen, top = plain.candidates_[plain.best_index_], best.candidates_[best.best_index_]
    assert chosen.mean["nll"] <= top.mean["nll"] + top.error("nll")
    assert chosen.scaling == "none"
    assert abs(np.log(chosen.settings["beta"])) <= abs(np.log(top.settings["beta"]))


def test_other_settings_and_compensation_are_tried_too(noisy):
    x, y = noisy
    search = MarginClassifierCV(
        [1.0, 5.0],
        estimator=MarginClassifier(epochs=10),
        grid={"hidden_sizes": [(), (8,)], "weight_decay": [0.0, 0.1]},
        compensate=True,
        temperature=False,
        cv=3,
        looks=1,
        random_state=0,
    ).fit(x, y)
    assert len(search.candidates_) == 3 * 4  # β = 1 compensated is β = 1
    assert {len(each["hidden_sizes"]) for each in search.cv_results_["params"]} == {0, 1}


def test_the_plot_has_one_point_for_every_beta(noisy):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    search = MarginClassifierCV(
        [1.0, 10.0], estimator=FAST, grid={"weight_decay": [0.0, 0.1]}, cv=3, looks=2
    ).fit(*noisy)
    ax = search.plot(pyplot.subplots()[1])
    for container in ax.containers:
        line = container[0]
        assert list(line.get_xdata()) == [1.0, 10.0]
        assert min(line.get_ydata()) >= search.best_score_
    pyplot.close("all")


@pytest.mark.parametrize("scoring", ["brier", "accuracy"])
def test_other_scores(noisy, scoring):
    search = MarginClassifierCV(
        [1.0, 10.0], estimator=FAST, grid={}, cv=3, looks=2, scoring=scoring, random_state=0
    ).fit(*noisy)
    best = search.cv_results_[f"mean_test_{scoring}"]
    assert search.best_score_ == (best.max() if scoring == "accuracy" else best.min())


def test_the_choice_is_explained(search):
    text = search.summary()
    assert text.splitlines()[0].startswith("| β |")
    assert len(text.splitlines()) == 2 + 4
    assert "**" in text
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = search.plot(pyplot.subplots()[1])
    assert [each.get_text() for each in ax.get_legend().get_texts()] == [
        "as trained",
        "with a temperature",
    ]
    pyplot.close("all")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scoring": "ece"}, "scoring must be one of nll, brier, accuracy, but got 'ece'"),
        ({"betas": []}, "betas must hold at least one value"),
        ({"cv": 1}, "cv must be at least 2"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"looks": 0}, "looks must be at least 1"),
        ({"temperature": "yes"}, "temperature must be True or False"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MarginClassifierCV(**settings).fit(*IRIS)


def test_classes_with_a_row_each_cannot_be_split():
    with pytest.raises(ValueError, match="y must hold a class with at least two rows"):
        MarginClassifierCV([1.0]).fit(np.eye(3), [0, 1, 2])
