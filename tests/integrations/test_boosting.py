"""The β loss in XGBoost and LightGBM, against autograd and against their own objectives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softmargin.functional import gradient_decay_loss
from softmargin.integrations import boosting

datasets = pytest.importorskip("sklearn.datasets")
model_selection = pytest.importorskip("sklearn.model_selection")

BETAS = [0.01, 0.5, 1.0, 5.0, np.array([0.1, 1.0, 2.0, 9.0])]
LOADERS = [datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer]
each_set = pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)


def made_up(spread=3.0, classes=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, classes)) * spread, rng.integers(0, classes, 60)


@pytest.mark.parametrize("beta", BETAS, ids=str)
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_gradient_and_hessian_are_those_of_autograd(beta, spread):
    scores, target = made_up(spread)
    as_tensor = torch.as_tensor(beta)

    def loss(z):
        given = as_tensor if as_tensor.ndim else float(as_tensor)
        return gradient_decay_loss(z, torch.tensor(target), beta=given, reduction="sum")

    z = torch.tensor(scores, requires_grad=True)
    gradient, hessian = boosting.gradient_and_hessian(scores, target, beta)
    expected = torch.autograd.grad(loss(z), z)[0].numpy()
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)
    full = torch.autograd.functional.hessian(loss, z.detach()).numpy()
    np.testing.assert_allclose(hessian, np.einsum("ijij->ij", full), rtol=1e-6, atol=1e-8)
    assert (hessian >= 0).all()


@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0, np.array([0.2, 3.0])], ids=str)
def test_one_column_is_two_classes(beta):
    scores, target = made_up(classes=2)
    difference = scores[:, 1] - scores[:, 0]
    one, one_hessian = boosting.gradient_and_hessian(difference, target, beta)
    two, two_hessian = boosting.gradient_and_hessian(scores, target, beta)
    np.testing.assert_allclose(one, two[:, 1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one_hessian, two_hessian[:, 1], rtol=1e-12, atol=1e-15)


def test_extreme_scores_stay_finite():
    scores = np.array([[1e6, 0.0, -1e6], [-1e6, 0.0, 1e6], [0.0, 0.0, 0.0]])
    gradient, hessian = boosting.gradient_and_hessian(scores, [0, 0, 2], 0.1)
    assert np.isfinite(gradient).all()
    assert np.isfinite(hessian).all()
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-12)


def half(load):
    X, y = load(return_X_y=True)
    return model_selection.train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)


@pytest.mark.slow
@each_set
def test_beta_1_is_the_objective_of_xgboost(load):
    xgboost = pytest.importorskip("xgboost")
    X, unseen, y, _ = half(load)
    options = {"n_estimators": 30, "max_depth": 3, "n_jobs": 1}
    own = xgboost.XGBClassifier(**options).fit(X, y)
    ours = boosting.GradientDecayXGBClassifier(**options).fit(X, y)
    np.testing.assert_allclose(
        ours.predict_proba(unseen), own.predict_proba(unseen), rtol=0, atol=1e-6
    )
    assert (ours.predict(unseen) == own.predict(unseen)).all()
    weight = 0.5 + np.arange(len(y)) / len(y)
    own, ours = (model.fit(X, y, sample_weight=weight) for model in (own, ours))
    np.testing.assert_allclose(ours.predict_proba(X), own.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.slow
@each_set
def test_beta_1_is_the_objective_of_lightgbm(load):
    lightgbm = pytest.importorskip("lightgbm")
    X, unseen, y, _ = half(load)
    options = {"n_estimators": 30, "num_leaves": 7, "n_jobs": 1, "verbose": -1}
    own = lightgbm.LGBMClassifier(**options).fit(X, y)
    ours = boosting.GradientDecayLGBMClassifier(**options).fit(X, y)
    np.testing.assert_allclose(
        ours.predict_proba(unseen), own.predict_proba(unseen), rtol=0, atol=1e-6
    )
    assert (ours.predict(unseen) == own.predict(unseen)).all()
    weight = 0.5 + np.arange(len(y)) / len(y)
    own, ours = (model.fit(X, y, sample_weight=weight) for model in (own, ours))
    np.testing.assert_allclose(ours.predict_proba(X), own.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_xgboost_train_takes_the_objective():
    xgboost = pytest.importorskip("xgboost")
    X, unseen, y, _ = half(datasets.load_wine)
    data = xgboost.DMatrix(X, y)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "base_score": 0.5}
    found = []
    for objective in (None, boosting.XGBoostObjective(1.0), boosting.XGBoostObjective(5.0)):
        booster = xgboost.train(params, data, 20, obj=objective)
        found.append(booster.predict(xgboost.DMatrix(unseen)))
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    assert abs(found[2] - found[0]).max() > 0.01


@pytest.mark.slow
def test_lightgbm_train_takes_the_objective():
    lightgbm = pytest.importorskip("lightgbm")
    X, unseen, y, _ = half(datasets.load_wine)
    params = {"num_class": 3, "verbose": -1, "boost_from_average": False, "num_threads": 1}
    found = []
    for objective in ("multiclass", boosting.LightGBMObjective(1.0)):
        data = lightgbm.Dataset(X, y)
        booster = lightgbm.train({**params, "objective": objective}, data, 20)
        found.append(booster.predict(unseen, raw_score=True))
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(boosting.class_probabilities(found[1]).sum(axis=1), 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("GradientDecayXGBClassifier", {"max_depth": 2}),
        ("GradientDecayLGBMClassifier", {"num_leaves": 4, "verbose": -1}),
    ],
)
def test_a_search_over_beta(name, options):
    pytest.importorskip("xgboost" if "XGB" in name else "lightgbm")
    X, unseen, y, _ = half(datasets.load_wine)
    model = getattr(boosting, name)(n_estimators=10, n_jobs=1, **options)
    grid = {"beta": [0.1, 1.0, 5.0]}
    search = model_selection.GridSearchCV(model, grid, scoring="neg_log_loss", cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 3
    best = search.best_estimator_
    assert best.get_params()["beta"] == search.best_params_["beta"]
    assert best.score(unseen, best.predict(unseen)) == 1.0


@pytest.mark.slow
@each_set
def test_early_stopping_in_lightgbm_is_that_of_its_own_objective(load):
    lightgbm = pytest.importorskip("lightgbm")
    X, unseen, y, answers = half(load)
    options = {"n_estimators": 100, "num_leaves": 7, "n_jobs": 1, "verbose": -1}
    name = "binary_logloss" if len(set(y)) == 2 else "multi_logloss"
    models = []
    for kind in (lightgbm.LGBMClassifier, boosting.GradientDecayLGBMClassifier):
        stop = lightgbm.early_stopping(5, verbose=False)
        model = kind(**options).fit(X, y, eval_set=[(unseen, answers)], callbacks=[stop])
        models.append(model)
    own, ours = models
    assert ours.best_iteration_ == own.best_iteration_
    theirs = own.evals_result_["valid_0"][name]
    np.testing.assert_allclose(ours.evals_result_["valid_0"]["nll"], theirs, rtol=1e-6)
    np.testing.assert_allclose(
        ours.predict_proba(unseen), own.predict_proba(unseen), rtol=0, atol=1e-6
    )
    with pytest.raises(ValueError, match="eval_metric must be a function"):
        ours.fit(X, y, eval_set=[(unseen, answers)], eval_metric="multi_logloss")
    with pytest.raises(ValueError, match="init_score must be left out"):
        ours.fit(X, y, init_score=np.zeros(len(y)))


@pytest.mark.slow
@each_set
def test_early_stopping_in_xgboost_is_that_of_its_own_objective(load):
    xgboost = pytest.importorskip("xgboost")
    X, unseen, y, answers = half(load)
    options = {"n_estimators": 100, "max_depth": 3, "n_jobs": 1, "early_stopping_rounds": 5}
    own, ours = (
        kind(**options).fit(X, y, eval_set=[(unseen, answers)], verbose=False)
        for kind in (xgboost.XGBClassifier, boosting.GradientDecayXGBClassifier)
    )
    assert ours.best_iteration == own.best_iteration
    np.testing.assert_allclose(
        ours.predict_proba(unseen), own.predict_proba(unseen), rtol=0, atol=1e-6
    )


@pytest.mark.slow
def test_lightgbm_keeps_the_names_of_classes():
    pytest.importorskip("lightgbm")
    X, _, y, _ = half(datasets.load_breast_cancer)
    names = np.array(["bad", "good"])[y]
    model = boosting.GradientDecayLGBMClassifier(beta=2.0, n_estimators=5, verbose=-1, n_jobs=1)
    model.fit(X, names)
    assert set(model.predict(X)) == {"bad", "good"}
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="beta must be a finite number above 0, but got 0.0"):
        boosting.XGBoostObjective(0.0)
    with pytest.raises(ValueError, match=r"beta must be a number or of shape \(3,\), but got \(2,"):
        boosting.gradient_and_hessian(np.zeros((2, 3)), [0, 1], [1.0, 2.0])
    with pytest.raises(ValueError, match="target must hold classes from 0 to 2, but got 3"):
        boosting.gradient_and_hessian(np.zeros((2, 3)), [0, 3])
    with pytest.raises(ValueError, match=r"scores must have shape \(2, C\), or \(2,\) for two"):
        boosting.gradient_and_hessian(np.zeros((3, 3)), [0, 1])
    with pytest.raises(ValueError, match="some are no whole numbers"):
        boosting.gradient_and_hessian(np.zeros((2, 3)), [0, 0.5])
    pytest.importorskip("lightgbm")
    with pytest.raises(ValueError, match="objective must be left out"):
        boosting.GradientDecayLGBMClassifier(objective="binary")
