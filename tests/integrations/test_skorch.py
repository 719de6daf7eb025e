"""skorch: searches over β, margin heads, probabilities, schedules."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

skorch = pytest.importorskip("skorch")
datasets = pytest.importorskip("sklearn.datasets")
model_selection = pytest.importorskip("sklearn.model_selection")

from softmargin import FocalLoss, GradientDecayLoss, heads  # noqa: E402
from softmargin.integrations.skorch import (  # noqa: E402
    HeadModule,
    MarginNetClassifier,
    MoveSettings,
)
from softmargin.models import FCNN  # noqa: E402
from softmargin.schedules import Linear  # noqa: E402

EVERY_HEAD = [name for name in heads.__all__ if name != "Head"]


def iris():
    X, y = datasets.load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X.astype("float32"), y.astype("int64")


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


OPTIONS = {"max_epochs": 20, "lr": 0.1, "verbose": 0, "batch_size": 32, "train_split": None}


def test_a_plain_net_knows_that_outputs_are_logits():
    X, y = iris()
    net = skorch.NeuralNetClassifier(network, criterion=GradientDecayLoss, **OPTIONS).fit(X, y)
    probabilities = net.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    with torch.no_grad():
        expected = net.module_(torch.from_numpy(X)).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)
    assert net.score(X, y) > 0.8


def test_probabilities_are_those_of_the_temperature():
    X, y = iris()
    net = MarginNetClassifier(network, criterion=GradientDecayLoss, criterion__tau=0.25, **OPTIONS)
    net.fit(X, y)
    with torch.no_grad():
        logits = net.module_(torch.from_numpy(X))
    expected = (logits / 0.25).softmax(1).numpy()
    np.testing.assert_allclose(net.predict_proba(X), expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", [skorch.NeuralNetClassifier, MarginNetClassifier])
def test_a_search_over_beta(kind):
    X, y = iris()
    torch.manual_seed(0)
    net = kind(network, criterion=GradientDecayLoss, **OPTIONS)
    grid = {"criterion__beta": [0.1, 1.0, 10.0]}
    search = model_selection.GridSearchCV(net, grid, cv=3, scoring="neg_log_loss").fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) == 3
    assert search.best_estimator_.criterion_.beta == search.best_params_["criterion__beta"]
    assert search.best_estimator_.score(X, y) > 0.8


@pytest.mark.parametrize("head", EVERY_HEAD)
def test_every_head_trains_by_its_name(head):
    X, y = iris()
    options = {**OPTIONS, "max_epochs": 40}
    own = {}
    if head in ("CosFaceHead", "ArcFaceHead", "CosineHead"):
        own = {"module__scale": 8.0}
    if head in ("LSoftmaxHead", "ASoftmaxHead"):  # hard from the start, so authors anneal
        own = {"module__k": 2, "module__anneal": 5.0}
    net = MarginNetClassifier(
        HeadModule,
        module__features=nn.Sequential(nn.Linear(4, 8), nn.Tanh()),
        module__num_classes=3,
        module__head=head,
        **own,
        **options,
    ).fit(X, y)
    assert net.score(X, y) > 0.8
    np.testing.assert_allclose(net.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    other = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(other.predict_proba(X), net.predict_proba(X))


def test_a_search_over_margins_and_heads():
    X, y = iris()
    net = MarginNetClassifier(
        HeadModule,
        module__features=partial(FCNN, 4, (8,)),
        module__num_classes=3,
        module__scale=8.0,
        **OPTIONS,
    )
    grid = {"module__head": ["CosFaceHead", "ArcFaceHead"], "module__margin": [0.0, 0.3]}
    search = model_selection.GridSearchCV(net, grid, cv=2, scoring="neg_log_loss").fit(X, y)
    best = search.best_estimator_.module_.head
    assert type(best).__name__ == search.best_params_["module__head"]
    assert best.margin == search.best_params_["module__margin"]


def test_the_target_and_the_likelihood_reach_the_head():
    X, y = iris()
    torch.manual_seed(0)
    start = HeadModule(nn.Linear(4, 8), 3, "gaussian", likelihood=0.1)
    options = {**OPTIONS, "max_epochs": 1, "batch_size": 150, "lr": 0.1}
    net = MarginNetClassifier(copy.deepcopy(start), criterion=FocalLoss, **options)
    net.initialize()
    before = net.module_.head.weight.detach().clone()
    net.partial_fit(X, y)
    x, target = torch.from_numpy(X), torch.from_numpy(y)
    features = start.features(x)
    head = start.head
    loss = FocalLoss()(head(features, target), target) + head.added_loss(features, target)
    (gradient,) = torch.autograd.grad(loss, head.weight)
    torch.testing.assert_close(net.module_.head.weight, before - 0.1 * gradient)


def test_schedules_move_with_batches_and_go_on():
    X, y = iris()
    net = MarginNetClassifier(
        network,
        callbacks=[
            MoveSettings(lambda net: Linear(net.criterion_, "beta", start=0.1, end=1.1, steps=20))
        ],
        **{**OPTIONS, "max_epochs": 1},
    )
    net.fit(X, y)  # 5 batches an epoch
    assert float(net.criterion_.beta) == pytest.approx(0.35)
    net.partial_fit(X, y)
    assert float(net.criterion_.beta) == pytest.approx(0.6)
    net.fit(X, y)  # from the start
    assert float(net.criterion_.beta) == pytest.approx(0.35)


def test_a_learned_beta_is_learned():
    X, y = iris()
    net = MarginNetClassifier(network, criterion__learn_beta=True, criterion__beta=2.0, **OPTIONS)
    net.fit(X, y)
    assert net.criterion_.beta != 2


class WithoutTarget(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = heads.CosFaceHead(4, 3)

    def forward(self, x):
        return self.head(x)


def test_mistakes_are_named():
    X, y = iris()
    with pytest.raises(ValueError, match=r"forward for its head, a CosFaceHead, but has none: for"):
        MarginNetClassifier(WithoutTarget, **OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match="in_features must be given"):
        HeadModule(nn.ReLU(), 3)
    with pytest.raises(ValueError, match="head must be a name such as"):
        HeadModule(nn.Linear(4, 8), 3, "nonesuch")
