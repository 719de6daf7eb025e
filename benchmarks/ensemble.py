"""Many small networks at once against the same ones trained one after the other.

Iris, 100 folds times 7 methods: 700 networks 4-32-32-3, batch 32, Adam. One after the other is
timed on 21 of them, three of each method, and taken times 700/21.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from sklearn.neural_network import MLPClassifier

from softmargin import data, models
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
        for chosen in order.split(BATCH):
            optimizer.zero_grad()
            features = network(x[chosen])
            loss = criterion(head(features, y[chosen]), y[chosen])
            if center is not None:
                loss = loss + center(features, y[chosen])
            loss.backward()
            optimizer.step()


def scikit_learn(fold: Fold, seed: int) -> None:
    """Train one softmax network with scikit-learn."""
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
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops after so many epochs is what is asked for
        model.fit(x.numpy(), y.numpy())


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def many_methods() -> None:
    """Print how much faster 700 models of 7 methods are together."""
    configs, folds = members(METHODS, 100)
    few = range(0, 21)  # three of each method
    together, one_by_one = [], []
    for _ in range(3):
        together.append(timed(lambda: train_together(configs, folds=folds, evaluate_every=None)))
        before = torch.get_num_threads()
        torch.set_num_threads(1)  # two threads are slower than one on networks this small
        one_by_one.append(timed(lambda: [alone(configs[i], folds[i]) for i in few]))
        torch.set_num_threads(before)
    peer, ours = min(one_by_one) / len(few) * len(configs), min(together)
    show("700 models of 7 methods, PyTorch one by one", peer, ours, 25)


def softmax_alone() -> None:
    """Print how much faster the softmax networks are than scikit-learn's."""
    configs, folds = members({"softmax": {}}, 100)
    together, peers = [], []
    for _ in range(3):
        together.append(timed(lambda: train_together(configs, folds=folds, evaluate_every=None)))
        peers.append(timed(lambda: [scikit_learn(folds[i], i) for i in range(20)]))
    show("100 softmax models, scikit-learn", min(peers) / 20 * 100, min(together), 10)


def growth() -> None:
    """Print the cost of a model's step as more are trained together."""
    print(f"{'models':>8}{'µs per model-step':>20}")
    for count in (1, 10, 100, 1000):
        configs, folds = members({"softmax": {}}, count)
        work = functools.partial(train_together, configs, folds=folds, evaluate_every=None)
        best = min(timed(work) for _ in range(2))
        print(f"{count:8}{best / (count * EPOCHS * 5) * 1e6:20.1f}")


def show(what: str, peer: float, ours: float, bound: float) -> None:
    """Print one comparison."""
    verdict = "ok" if peer / ours >= bound else "BELOW"
    print(f"{what:46}{peer:8.1f} s{ours:8.2f} s  {peer / ours:6.1f}× of {bound}×  {verdict}")


def main() -> None:
    """Print all comparisons."""
    print(f"\nNetworks trained together, {EPOCHS} epochs, batch {BATCH}, width {WIDTH}")
    many_methods()
    softmax_alone()
    growth()


if __name__ == "__main__":
    main()
