"""Odd calls give what ``F.cross_entropy`` gives, except where docs/losses.md says otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import softmargin
from loss_cases import OLDER
from test_pytorch_samples import LOSSES, make, operator, value_and_gradient

pytestmark = pytest.mark.usefixtures("either_path")

INF, NAN = math.inf, math.nan
LOWEST = torch.finfo(torch.float32).min
GENERATOR = torch.Generator().manual_seed(0)
X, X3 = (torch.randn(shape, generator=GENERATOR) for shape in ((4, 3), (4, 3, 2)))
P = torch.rand(4, 3, generator=GENERATOR).softmax(1)
T = torch.tensor([0, 1, 2, 0])
W = torch.tensor([1.0, 2.0, 3.0])
ONE, IGNORED = torch.tensor([0]), torch.tensor([-100, 1])


def row(*values):
    return torch.tensor([values], dtype=torch.float32)


def byte(*values):
    return torch.tensor(values, dtype=torch.uint8)


each_loss = pytest.mark.parametrize("name", LOSSES)


def outcome(function, input, target, options):
    """Return the value and the gradient, or the type of the exception."""
    if isinstance(input, torch.Tensor):
        input = input.clone()
    try:
        if isinstance(input, torch.Tensor) and input.is_floating_point():
            input.requires_grad_()
        value = function(input, target, **options)
    except Exception as error:
        return type(error)
    value.sum().backward()
    return value.detach(), input.grad


SAME = {
    **{f"{d} target": (X, T.to(d), {}) for d in (torch.uint8, torch.int32, torch.bool)},
    **{f"{d} target": (X, T.to(d), {}) for d in (torch.int16, torch.float32, torch.complex64)},
    **{f"{d} probabilities": (X, P.to(d), {}) for d in (torch.float64, torch.bfloat16)},
    "integers of the input's shape": (X, P.long(), {}),
    **{f"{d} input": (X.to(d), T, {}) for d in (torch.int64, torch.bool, torch.complex64)},
    "smoothed float64 probabilities": (X, P.double(), {"label_smoothing": 0.1}),
    **{f"weight {w}": (X, T, {"weight": w}) for w in (W * -1, W * 0, W * NAN, W * INF)},
    "no weight at all, smoothed": (X, T, {"weight": W * 0, "label_smoothing": 0.1}),
    "weights by list": (X, T, {"weight": [1.0, 2.0, 3.0]}),
    "too few weights": (X, T, {"weight": W[:2]}),
    "too few weights, probabilities": (X, P, {"weight": W[:2]}),
    "too few weights, smoothed": (X, T, {"weight": W[:2], "label_smoothing": 0.1}),
    "one weight": (X, T, {"weight": torch.tensor(1.0)}),
    "weights in a row": (X, T, {"weight": W[None]}),
    **{
        f"empty {kind} {r} {more}": (X[:0], t[:0], {"reduction": r, **more})
        for kind, t in (("classes", T), ("probabilities", P))
        for r in ("none", "mean", "sum")
        for more in ({}, {"weight": W}, {"label_smoothing": 0.1})
    },
    "no pixels": (X3[..., :0], torch.zeros(4, 0).long(), {}),
    "one sample, smoothed": (X[0], T[0], {"label_smoothing": 0.1, "reduction": "none"}),
    "one sample, probabilities": (X[0], P[0], {"reduction": "none"}),
    "one sample, ignored": (X[0], IGNORED[0], {}),
    "batch of one, no batch of targets": (X[:1], T[0], {}),
    "target with a column": (X, T[:, None], {}),
    "target in a row": (X, T[None], {}),
    "target too short": (X, T[:3], {}),
    "target too short, smoothed": (X, T[:3], {"label_smoothing": 0.2}),
    "target too short, smoothed too much": (X, T[:3], {"label_smoothing": 1.2}),
    "classes for no batch": (X[0], T[:3].long(), {}),
    "pixels without targets": (X3, T, {}),
    "pixels, other sizes": (X3, torch.zeros(4, 3).long(), {}),
    "pixels, other batch": (X3, torch.zeros(5, 2).long(), {}),
    "pixels, one more dimension": (X3, torch.zeros(4, 2, 1).long(), {}),
    "probabilities of one more class": (X, torch.rand(4, 4), {}),
    "probabilities of one more sample": (X, torch.rand(5, 3), {}),
    "probabilities of one sample": (X, P[0], {}),
    "class below 0": (X, T - 1, {}),
    "class below 0, smoothed": (X, T - 1, {"label_smoothing": 0.1}),
    "class too large": (X, T + 1, {}),
    "class too large, weighted": (X, T + 1, {"weight": W}),
    "ignored class below 0": (X, T - 1, {"ignore_index": -1}),
    "ignored class too large": (X, T + 1, {"ignore_index": 3, "label_smoothing": 0.1, "weight": W}),
    "ignored byte": (X, byte(0, 1, 255, 2), {"ignore_index": 255}),
    "byte that is -100": (torch.eye(4, 200), byte(0, 1, 156, 2), {}),
    **{f"ignore {v!r}": (X, T, {"ignore_index": v}) for v in (None, 1.0, True, "1", 2**62)},
    **{f"ignore {v!r}": (X, T, {"ignore_index": v}) for v in (np.int64(1), torch.tensor(1))},
    "ignored probabilities": (X, P, {"ignore_index": 0}),
    "ignored probabilities below 0": (X, P, {"ignore_index": -5}),
    **{f"smoothing {v}": (X, T, {"label_smoothing": v}) for v in (0, 1, 1.5, INF)},
    **{f"smoothing {v}": (X, T, {"label_smoothing": v}) for v in (True, "0.1", None)},
    **{f"smoothing {v}, probabilities": (X, P, {"label_smoothing": v}) for v in (1.0, 1.5)},
    **{f"reduction {v!r}": (X, T, {"reduction": v}) for v in ("avg", None, "NONE")},
    "probabilities just below 0": (X, P * 0 - 1e-6, {}),
    "probabilities above 1": (X, P * 5, {}),
    "probabilities of NaN": (X, P * NAN, {}),
    "another class masked": (row(1, -INF, 0), ONE, {}),
    "all others masked": (row(1, -INF, -INF), ONE, {}),
    "target masked": (row(-INF, 1, 0), ONE, {}),
    "another class infinite": (row(0, INF, 0), ONE, {}),
    "two classes infinite": (row(INF, INF, 0), ONE, {}),
    "masked, smoothed": (row(1, -INF, 0), ONE, {"label_smoothing": 0.1}),
    "masked, probable": (row(1, -INF, 0), row(0.5, 0.1, 0.4), {}),
    "lowest number": (row(1, LOWEST, 0), ONE, {}),
    "lowest number, smoothed": (row(1, LOWEST, 0), ONE, {"label_smoothing": 0.1}),
    "from the lowest to the highest": (row(LOWEST, -LOWEST, 0), ONE, {}),
    "NaN": (row(NAN, 1, 0), ONE, {}),
    "NaN, ignored": (torch.cat([row(NAN, NAN, NAN), row(1, 2, 3)]), IGNORED, {}),
    "no tensor": ([[1.0, 2.0]], ONE, {}),
    "target is no tensor": (X, 0, {}),
    "no class dimension": (torch.tensor(1.0), torch.tensor(0), {}),
    "target on another device": (X, T.to("meta"), {}),
}


@each_loss
@pytest.mark.parametrize("call", SAME)
def test_odd_calls_give_what_torch_gives(name, call):
    input, target, options = SAME[call]
    theirs = outcome(nn.functional.cross_entropy, input, target, options)
    ours = outcome(operator(name).op, input, target, options)
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs or (OLDER and issubclass(ours, theirs))
    else:
        assert_close(ours, theirs, equal_nan=True, rtol=1e-5, atol=1e-6)


REFUSED = {
    "one class": (X[:, :1], T * 0, {}, ValueError),
    "one class, no batch": (X[0, :1], T[0] * 0, {}, ValueError),
    "one class, probabilities": (X[:, :1], P[:, :1], {}, ValueError),
    "no class": (X[:, :0], P[:, :0], {}, ValueError),
    "negative probabilities": (X, P - 0.5, {}, ValueError),
    "negative smoothing": (X, T, {"label_smoothing": -0.1}, RuntimeError),
    "negative smoothing, probabilities": (X, P, {"label_smoothing": -0.1}, RuntimeError),
    "smoothing by NaN": (X, T, {"label_smoothing": NAN}, RuntimeError),
    "size_average": (X, T, {"size_average": False}, TypeError),
    "reduce": (X, T, {"reduce": False}, TypeError),
    "elementwise_mean": (X, T, {"reduction": "elementwise_mean"}, ValueError),
}


@each_loss
@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_what_torch_accepts_and_we_refuse(name, call):
    input, target, options, error = REFUSED[call]
    assert not isinstance(outcome(nn.functional.cross_entropy, input, target, options), type)
    with pytest.raises(error):
        operator(name).op(input, target, **options)


ACCEPTED = {
    "float64 weights": ((X, T, {"weight": W.double()}), (X, T, {"weight": W})),
    "whole weights, smoothed": (
        (X, T, {"weight": W.long(), "label_smoothing": 0.1}),
        (X, T, {"weight": W, "label_smoothing": 0.1}),
    ),
    "byte target of pixels": (
        (X3, torch.zeros(4, 2).byte(), {}),
        (X3, torch.zeros(4, 2).long(), {}),
    ),
    "byte target, weighted and smoothed": (
        (X, T.byte(), {"weight": W, "label_smoothing": 0.1}),
        (X, T, {"weight": W, "label_smoothing": 0.1}),
    ),
    "no batch, target in a row, smoothed": (
        (X[0], T[:1], {"label_smoothing": 0.1}),
        (X[0], T[0], {"label_smoothing": 0.1}),
    ),
}


@each_loss
@pytest.mark.parametrize("call", ACCEPTED)
def test_what_torch_refuses_and_we_accept(name, call):
    odd, plain = ACCEPTED[call]
    assert outcome(nn.functional.cross_entropy, *odd) is RuntimeError
    assert_close(outcome(operator(name).op, *odd), outcome(nn.functional.cross_entropy, *plain))


@each_loss
def test_weights_may_be_learned(name):
    weight = W.clone().requires_grad_()
    operator(name).op(X, T, weight=weight).backward()
    assert weight.grad.abs().sum() > 0


FINITE = {
    "certain target": (row(INF, 1, 0), ONE, 0.0),
    "masked class without probability": (row(1, -INF, 0), row(0.5, 0, 0.5), 0.81326),
    "ignored sample with every class masked": (
        torch.cat([row(-INF, -INF, -INF), row(1, 2, 3)]),
        IGNORED,
        1.40761,
    ),
}


@each_loss
@pytest.mark.parametrize("call", FINITE)
def test_finite_where_torch_has_nan(name, call):
    input, target, expected = FINITE[call]
    theirs = outcome(nn.functional.cross_entropy, input, target, {})
    assert any(part.isnan().any() for part in theirs)
    value, gradient = outcome(operator(name).op, input, target, {})
    assert_close(value, torch.tensor(expected), rtol=1e-4, atol=1e-6)
    assert gradient.isfinite().all()


@each_loss
def test_infinite_where_every_class_is_masked(name):
    call = row(-INF, -INF, -INF), ONE
    assert nn.functional.cross_entropy(*call).isnan()
    assert operator(name).op(*call) == INF


@each_loss
def test_confident_samples_keep_their_loss(name):
    call = row(40, 0, 0), ONE
    assert nn.functional.cross_entropy(*call) == 0
    expected = torch.tensor(2 * math.exp(-40))
    assert_close(operator(name).op(*call), expected, rtol=1e-5, atol=0)


@each_loss
def test_shape_of_a_target_in_a_row(name):
    if not OLDER:  # which refuses it
        assert nn.functional.cross_entropy(X[0], T[:1], reduction="none").shape == ()
    assert operator(name).op(X[0], T[:1], reduction="none").shape == (1,)


def test_checkpoints_go_one_way():
    theirs, ours = nn.CrossEntropyLoss(weight=W), softmargin.GradientDecayLoss(weight=W)
    ours.load_state_dict(theirs.state_dict())
    with pytest.raises(RuntimeError, match="beta"):
        theirs.load_state_dict(ours.state_dict())


@each_loss
@pytest.mark.parametrize("dimensions", range(5))
def test_any_number_of_dimensions(name, dimensions):
    """One-hot probabilities are classes, unit weights are none, smoothing is of probabilities."""
    sizes = (2, 3, 2, 4)[:dimensions]
    logits, target = torch.randn(5, 4, *sizes), torch.randint(0, 4, (5, *sizes))
    one_hot = nn.functional.one_hot(target, 4).movedim(-1, 1).float()
    for reduction in ("none", "mean", "sum"):
        by_class = make(name, {"reduction": reduction})
        smoothed = make(name, {"reduction": reduction, "label_smoothing": 0.15})
        unit = make(name, {"reduction": reduction, "weight": torch.ones(4)})
        expected = value_and_gradient(by_class, logits, target)
        assert_close(value_and_gradient(by_class, logits, one_hot), expected)
        assert_close(value_and_gradient(unit, logits, target), expected)
        assert_close(value_and_gradient(unit, logits, one_hot), expected)
        spread = one_hot * 0.85 + 0.15 / 4
        expected = value_and_gradient(smoothed, logits, target)
        assert_close(value_and_gradient(by_class, logits, spread), expected)
        assert_close(value_and_gradient(smoothed, logits, one_hot), expected)
