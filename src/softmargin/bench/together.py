"""Many small networks at once beside the same ones trained one after the other.

Iris, 100 folds times 7 methods: 700 networks 4-32-32-3, batch 32, Adam. One after the other is
timed on three of each method, scikit-learn on 20 softmax networks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from softmargin import data, models
from softmargin.bench.measure import Contenders
from softmargin.bench.peers import Case, found
from softmargin.data.sampling import stratified_folds
from softmargin.training import Fold, TrainingConfig, train_together
from softmargin.training.parts import make_center, make_head, make_loss

EPOCHS, BATCH, WIDTH, LR = 40, 32, 32, 0.01
METHODS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "center loss": {"center": 0.02},
    "soft margin": {"loss": "soft_margin_softmax", "loss_options": {"margin": 0.5}},
    "ArcFace": {"head": "arcface", "head_options": {"scale": 20.0, "margin": 0.1}},
    "AdaCos": {"head": "adacos"},
    "ArcGrad 30": {"head": "arcgrad", "head_options": {"scale": 30.0}},
    "ArcGrad 5": {"head": "arcgrad", "head_options": {"scale": 5.0}},
}


def members(methods: dict[str, Any], count: int) -> tuple[list[TrainingConfig], list[Fold]]:
    """Return configurations and folds of the methods on so many folds."""
    y = data.load_table("iris").whole.y
    configs, folds = [], []
    for number in range(count):
        parts = stratified_folds(y, 10, seed=number // 10)
        test = parts == number % 10
        fold = Fold((~test).nonzero()[:, 0], test.nonzero()[:, 0])
        for method in methods.values():
            options = {"model_options": {"width": WIDTH}, "seed": number, **method}
            configs.append(
                TrainingConfig(
                    "iris", "mlp", epochs=EPOCHS, batch=BATCH, lr=LR, optimizer="adam", **options
                )
            )
            folds.append(fold)
    return configs, folds


def alone(config: TrainingConfig, fold: Fold) -> None:
    """Train one model as anyone would write it in PyTorch."""
    whole = data.load_table("iris").whole
    x, y = whole.x[fold.train].float(), whole.y[fold.train]
    x = (x - x.mean(0)) / x.std(0, correction=0)
    torch.manual_seed(config.seed)
    network = models.MLP(4, WIDTH)
    head = make_head(config.head, WIDTH, 3, config.head_options)
    criterion = make_loss(config.loss, config.loss_options)
    center = make_center(config.center, WIDTH, 3)
    optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=config.lr)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for chosen in torch.split(order, BATCH):
            optimizer.zero_grad()
            features = network(x[chosen])
            loss = criterion(head(features, y[chosen]), y[chosen])
            if center is not None:
                loss = loss + center(features, y[chosen])
            loss.backward()
            optimizer.step()


def scikit_learn(fold: Fold, seed: int) -> None:
    """Train one softmax network with scikit-learn."""
    from sklearn.neural_network import MLPClassifier

    whole = data.load_table("iris").whole
    x, y = whole.x[fold.train], whole.y[fold.train]
    x = (x - x.mean(0)) / x.std(0, correction=0)
    model = MLPClassifier(
        (WIDTH, WIDTH),
        alpha=0.0,
        batch_size=BATCH,
        learning_rate_init=LR,
        max_iter=EPOCHS,
        n_iter_no_change=EPOCHS,
        tol=0.0,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops after so many epochs is what is asked for
        model.fit(x.numpy(), y.numpy())


def several(configs: list[TrainingConfig], folds: list[Fold]) -> Callable[[], object]:
    """Return the training of many models together."""
    return partial(train_together, configs, folds=folds, evaluate_every=None)


def one_by_one(configs: list[TrainingConfig], folds: list[Fold], count: int) -> None:
    """Train the first models one after the other, on one thread, which is quicker so small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for config, fold in zip(configs[:count], folds[:count], strict=True):
            alone(config, fold)
    finally:
        torch.set_num_threads(before)


def of_together(quick: bool) -> Iterator[Case]:
    """Give networks trained together beside networks trained one after the other."""
    folds, few = (1, 2) if quick else (100, 21)
    many = members({"softmax": {}, "AdaCos": METHODS["AdaCos"]} if quick else METHODS, folds)
    contenders: Contenders = {
        "one after the other": partial(one_by_one, *many, few),
        "together": several(*many),
    }
    count = len(many[0])
    bounds = {} if quick else {"together": 1 / 60}
    shares = {"one after the other": few / count}
    yield Case(
        "together",
        f"{count} models of {count // folds} methods",
        contenders,
        bounds,
        shares,
        long=True,
    )
    if not found("sklearn"):
        return
    same = members({"softmax": {}}, folds)
    few = min(20, folds)

    def peer() -> None:
        for number in range(few):
            scikit_learn(same[1][number], number)

    contenders = {"scikit-learn": peer, "together": several(*same)}
    bounds = {} if quick else {"together": 1 / 15}
    shares = {"scikit-learn": few / folds}
    yield Case("together", f"{folds} softmax models", contenders, bounds, shares, long=True)
