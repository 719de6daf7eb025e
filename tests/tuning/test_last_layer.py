"""β chosen on cached features, all last layers trained together."""

import numpy as np
import pytest
import torch

from softmargin import tune_last_layer
from softmargin.estimators import MarginClassifier, MarginClassifierCV
from softmargin.functional import gradient_decay_loss


def features(rows=300, seed=0, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(rows) % 3
    x = torch.randn(rows, 6, generator=generator) + spread * torch.eye(3, 6)[target]
    return x, target


def test_candidates_are_judged_as_the_classifier_judges_them():
    x, y = features()
    found = tune_last_layer(x, y, [1.0, 10.0], seeds=1, epochs=30, folds=3)
    from softmargin.calibration.scaling import fold_numbers

    fold_of = fold_numbers(y, 3).numpy()
    folds = [(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(3)]
    search = MarginClassifierCV(
        [1.0, 10.0],
        estimator=MarginClassifier(hidden_sizes=(), epochs=30),
        grid={},
        cv=folds,
        looks=1,
        random_state=0,
    ).fit(x.numpy(), y.numpy())
    by_beta = {(c.settings["beta"], c.scaling): c.mean["nll"] for c in search.candidates_}
    names = {False: "none", True: "temperature"}
    for each in found.candidates:
        key = each.beta, names[each.temperature is not None]
        assert each.score["nll"] == pytest.approx(by_beta[key], abs=0.02)  # another seed


def test_over_confident_features_ask_for_more_than_cross_entropy():
    x, y = features(150, spread=0.3)
    wide = torch.cat([x, torch.randn(150, 80, generator=torch.Generator().manual_seed(1))], 1)
    found = tune_last_layer(wide, y, [0.1, 1.0, 20.0], seeds=2, epochs=150)
    scores = {each.beta: each.score["nll"] for each in found.candidates[:3]}
    assert scores[20.0] < scores[1.0] < scores[0.1]
    assert found.best_beta == 20 or found.best_temperature is not None


def optimum(x, y, other, classes, beta, decay):
    """Return the held-out NLL of the last layer with the lowest decayed loss on the other rows."""
    weight = torch.zeros(3, x.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    x, other = (torch.nn.functional.pad(e.double(), (0, 1), value=1.0) for e in (x, other))
    optimizer = torch.optim.LBFGS([weight], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = gradient_decay_loss(x @ weight.T, y, beta) + decay / 2 * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return torch.nn.functional.cross_entropy(other @ weight.detach().T, classes).item()


def test_held_out_features_judge_layers_trained_on_the_others_as_they_are():
    x, y = features(300)
    other, classes = features(120, seed=1)
    x, other = 3 * x + 1, 3 * other + 1  # a z-score would change the effect of the decay
    found = tune_last_layer(
        x, y, [1.0, 10.0], held_out=(other, classes), seeds=1, weight_decay=0.1, epochs=150
    )
    assert found.rows == 120
    for each in found.candidates[:2]:
        expected = optimum(x, y, other, classes, each.beta, 0.1)
        assert each.score["nll"] == pytest.approx(expected, rel=0.02)
    assert found.candidates[2].temperature is not None


BAD_PAIRS = {
    "no pair": (torch.zeros(100, 6), "a pair of features and classes, but got a Tensor."),
    "one alone": ((torch.zeros(100, 6),), "features and classes, but got a tuple of 1."),
    "few": ((torch.zeros(50, 6), torch.arange(50) % 2), "held_out: features must have at least"),
    "other width": ((torch.zeros(100, 5), torch.arange(100) % 2), "features of shape (M, 6)"),
    "new class": ((torch.zeros(100, 6), torch.arange(100) % 4), "but got [3]"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_bad_held_out_features_are_refused(case):
    given, expected = BAD_PAIRS[case]
    with pytest.raises(ValueError) as caught:
        tune_last_layer(*features(), held_out=given)
    assert expected in str(caught.value)


def test_heads_are_tried_beside_each_other():
    x, y = features()
    found = tune_last_layer(x, y, [1.0, 5.0], heads=["linear", "cosine"], seeds=1, epochs=5)
    assert [(e.beta, e.head) for e in found.candidates if e.temperature is None] == [
        (1.0, "linear"),
        (5.0, "linear"),
        (1.0, "cosine"),
        (5.0, "cosine"),
    ]
    headings, _ = found.cells()
    assert headings[1] == "head"
    assert len(found.plot().get_lines()) >= 4


def test_arrays_and_the_same_choice_again():
    x, y = features()
    first = tune_last_layer(x, y, [1.0, 5.0], seeds=1, epochs=5)
    torch.manual_seed(3)
    assert tune_last_layer(x.numpy(), y.numpy(), [1.0, 5.0], seeds=1, epochs=5) == first


BAD = {
    "one axis": ((torch.zeros(100), torch.arange(100) % 2), "features must have shape (N, D)"),
    "other rows": ((torch.zeros(100, 2), torch.arange(99) % 2), "target must have shape (100,)"),
    "nan": ((torch.full((100, 2), torch.nan), torch.arange(100) % 2), "features must be finite"),
    "few": ((torch.zeros(50, 2), torch.arange(50) % 2), "at least 100 rows, but got 50"),
    "one class": ((torch.zeros(100, 2), torch.zeros(100).long()), "at least two classes"),
    "floats": ((torch.zeros(100, 2), torch.zeros(100)), "class numbers from 0 on, but got float32"),
    "negative": ((torch.zeros(100, 2), torch.arange(100) % 2 - 1), "from 0 on, but got -1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_features_are_refused(case):
    given, expected = BAD[case]
    with pytest.raises(ValueError) as caught:
        tune_last_layer(*given)
    assert expected in str(caught.value)


def test_bad_options_are_refused():
    x, y = features()
    for options, message in (
        ({"heads": []}, "heads must hold at least one"),
        ({"heads": ["arcfac"]}, "arcface"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"folds": 301}, "folds must be at most the number of rows, 300"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            tune_last_layer(x, y, **options)
