"""MarginClassifier: scikit-learn's own contract, and what users do with it."""

import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin.estimators import MarginClassifier, MarginClassifierCV

IRIS = load_iris(return_X_y=True)


@pytest.mark.slow
@parametrize_with_checks(
    [
        MarginClassifier(epochs=60),
        MarginClassifierCV(
            [1.0, 5.0], estimator=MarginClassifier(epochs=40), grid={}, cv=3, looks=2
        ),
    ]
)
def test_scikit_learn_takes_it_as_one_of_its_own(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return MarginClassifier(beta=2.0, epochs=60, random_state=0).fit(*IRIS)


def test_probabilities_follow_from_the_decision_function(fitted):
    x, y = IRIS
    logits = fitted.decision_function(x)
    assert np.allclose(fitted.predict_proba(x), np.exp(logits) / np.exp(logits).sum(1)[:, None])
    assert np.allclose(np.log(fitted.predict_proba(x)), fitted.predict_log_proba(x))
    assert (fitted.predict(x) == logits.argmax(1)).all()
    assert fitted.score(x, y) > 0.9


def test_two_classes_have_one_number_per_row():
    x, y = load_breast_cancer(return_X_y=True)
    fitted = MarginClassifier(hidden_sizes=(), epochs=20, random_state=0).fit(x, y)
    log_odds = fitted.decision_function(x)
    assert log_odds.shape == (len(x),)
    assert np.allclose(fitted.predict_proba(x)[:, 1], 1 / (1 + np.exp(-log_odds)))


def test_the_same_seed_gives_the_same_classifier(fitted):
    x, y = IRIS
    again = MarginClassifier(beta=2.0, epochs=60, random_state=0).fit(x, y)
    assert (again.decision_function(x) == fitted.decision_function(x)).all()
    other = MarginClassifier(beta=2.0, epochs=60, random_state=1).fit(x, y)
    assert (other.decision_function(x) != fitted.decision_function(x)).any()


def test_sparse_rows_and_frames_give_what_dense_rows_give(fitted):
    pandas = pytest.importorskip("pandas")
    x, y = IRIS
    settings = {"beta": 2.0, "epochs": 60, "random_state": 0}
    thin = MarginClassifier(**settings).fit(sparse.csr_matrix(x), y)
    assert np.allclose(thin.decision_function(x), fitted.decision_function(x))
    names = ["a", "b", "c", "d"]
    frame = pandas.DataFrame(x, columns=names)
    framed = MarginClassifier(**settings).fit(frame, pandas.Series(y).map({0: "x", 1: "y", 2: "z"}))
    assert list(framed.feature_names_in_) == names
    assert set(framed.predict(frame)) == {"x", "y", "z"}


def test_a_pickle_predicts_the_same(fitted):
    x, _ = IRIS
    assert (pickle.loads(pickle.dumps(fitted)).predict_proba(x) == fitted.predict_proba(x)).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "focal", "loss_options": {"gamma": 2.0}},
        {"loss": "regularized_softmax", "loss_options": {"lam": 0.3}},
        {"loss": "max_hinge"},
        {"head": "arcface", "head_options": {"scale": 10.0, "margin": 0.1}},
        {"head": "gaussian"},
        {"optimizer": "sgd", "learning_rate": 0.05},
        {"loss_options": {"compensate": True}, "beta": 5.0},
        {"hidden_sizes": (8,), "learning_rate": 0.03},
    ],
    ids=str,
)
def test_any_loss_head_and_optimiser(settings):
    x, y = IRIS
    fitted = MarginClassifier(epochs=60, random_state=0, **settings).fit(x, y)
    assert fitted.score(x, y) > 0.8


def test_weights_count_like_repeated_rows():
    x, y = IRIS
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    settings = {"epochs": 20, "batch_size": 500, "random_state": 0}
    weighted = MarginClassifier(**settings).fit(x, y, sample_weight=weight)
    repeated = MarginClassifier(**settings).fit(x.repeat(weight, 0), y.repeat(weight))
    assert np.allclose(weighted.decision_function(x), repeated.decision_function(x), rtol=1e-6)


def test_class_weights_move_the_decision():
    rng = np.random.default_rng(0)
    y = (np.arange(400) % 10 == 0).astype(int)  # one in ten
    x = rng.normal(size=(400, 1)) + y[:, None]
    settings = {"hidden_sizes": (), "epochs": 300, "learning_rate": 0.02, "random_state": 0}
    plain = MarginClassifier(**settings).fit(x, y)
    balanced = MarginClassifier(class_weight="balanced", **settings).fit(x, y)
    assert plain.predict_proba(x)[:, 1].mean() == pytest.approx(0.1, abs=0.02)
    assert balanced.predict_proba(x)[:, 1].mean() > 0.3


def test_a_warm_start_goes_on():
    x, y = IRIS
    settings = {"epochs": 10, "random_state": 0, "optimizer": "sgd", "learning_rate": 0.01}
    model = MarginClassifier(warm_start=True, **settings).fit(x, y)
    first = torch.nn.functional.cross_entropy(
        torch.from_numpy(model.decision_function(x)), torch.from_numpy(y)
    )
    model.fit(x, y)
    second = torch.nn.functional.cross_entropy(
        torch.from_numpy(model.decision_function(x)), torch.from_numpy(y)
    )
    assert second < first
    cold = MarginClassifier(**settings).fit(x, y)
    again = cold.decision_function(x)
    assert (cold.fit(x, y).decision_function(x) == again).all()


def test_early_stopping_chooses_a_number_of_epochs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 20)), rng.integers(0, 2, 300)  # nothing to learn
    model = MarginClassifier(epochs=80, early_stopping=True, random_state=0).fit(x, y)
    assert 1 <= model.n_iter_ < 80
    long = MarginClassifier(epochs=80, random_state=0).fit(x, y)
    assert np.abs(model.decision_function(x)).mean() < np.abs(long.decision_function(x)).mean()


def test_it_works_in_cross_validation():
    x, y = IRIS
    scores = cross_val_score(MarginClassifier(random_state=0), x, y, cv=3)
    assert scores.mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": -1.0}, "beta must be"),
        ({"beta": 2.0, "loss": "focal"}, "beta must be left at 1 for the loss 'focal'"),
        ({"loss": "nothing"}, "loss must be"),
        ({"head": "nothing"}, "head must be"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"optimizer": "newton"}, "optimizer must be one of"),
        ({"hidden_sizes": (0,)}, "every number of hidden_sizes must"),
        ({"weight_decay": -1.0}, "weight_decay must be"),
        ({"early_stopping": True, "validation_fraction": 1.5}, "validation_fraction must be"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MarginClassifier(**settings).fit(*IRIS)


def test_weights_are_refused_where_they_cannot_count():
    x, y = IRIS
    with pytest.raises(ValueError, match="sample_weight must be left out .* GaussianHead"):
        MarginClassifier(head="gaussian", epochs=1).fit(x, y, sample_weight=np.arange(150.0))
    with pytest.raises(ValueError, match="at least one non-zero"):
        MarginClassifier(epochs=1).fit(x, y, sample_weight=np.zeros(150))
