"""Properties that hold for any logits and any β."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

import softmargin.functional as F


@st.composite
def problems(draw, bound=50.0):
    """Logits of a few samples, targets, and β over sixteen decades."""
    classes = draw(st.integers(2, 7))
    number = st.floats(-bound, bound, allow_nan=False, width=64)
    row = st.lists(number, min_size=classes, max_size=classes)
    logits = draw(st.lists(row, min_size=1, max_size=4))
    target = draw(st.lists(st.integers(0, classes - 1), min_size=len(logits), max_size=len(logits)))
    beta = math.exp(draw(st.floats(math.log(1e-8), math.log(1e8))))
    return torch.tensor(logits, dtype=torch.float64), torch.tensor(target), beta


def values(logits, target, beta):
    return F.gradient_decay_loss(logits, target, beta, reduction="none")


def gradient(logits, target, beta):
    return torch.func.grad(lambda z: values(z, target, beta).sum())(logits)


@given(problems(), st.floats(-1e3, 1e3))
def test_a_shift_of_all_logits_changes_nothing(problem, shift):
    logits, target, beta = problem
    torch.testing.assert_close(
        values(logits + shift, target, beta), values(logits, target, beta), rtol=0, atol=1e-9
    )


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_classes_changes_nothing(problem, random):
    logits, target, beta = problem
    order = list(range(logits.shape[1]))
    random.shuffle(order)
    place = torch.tensor(order).argsort()
    torch.testing.assert_close(
        values(logits[:, order], place[target], beta),
        values(logits, target, beta),
        rtol=1e-12,
        atol=1e-12,
    )


@given(problems())
def test_gradient_magnitude_lies_between_zero_and_one(problem):
    logits, target, beta = problem
    slope = gradient(logits, target, beta)
    own = -slope.gather(1, target[:, None])[:, 0]
    assert (own > 0).all()
    assert (own <= 1).all()  # 1 itself only by rounding
    others = slope.scatter(1, target[:, None], 0.0)
    assert (others >= 0).all()
    torch.testing.assert_close(others.sum(1), own, rtol=1e-12, atol=0)


@given(problems(bound=20.0), st.floats(0.01, 5.0), st.data())
def test_the_loss_falls_with_the_target_and_rises_with_the_others(problem, step, data):
    logits, target, beta = problem
    moved = data.draw(st.integers(0, logits.shape[1] - 1))
    raised = logits.clone()
    raised[:, moved] += step
    difference = F.gradient_decay_loss(
        raised, target, beta, floored=True, reduction="none"
    ) - F.gradient_decay_loss(logits, target, beta, floored=True, reduction="none")
    is_target = target == moved
    assert (difference[is_target] < 0).all()
    assert (difference[~is_target] >= 0).all()


@given(problems())
def test_bounds(problem):
    """max(ξ, log β) ≤ J ≤ max(ξ, log β) + log 2, with J → ξ for β → 0 and J → log β for β → ∞."""
    logits, target, beta = problem
    xi = F.log_odds(logits, target)
    loss = values(logits, target, beta)
    larger = xi.clamp(min=math.log(beta))
    assert (loss >= larger - 1e-12).all()
    assert (loss <= larger + math.log(2) + 1e-12).all()
    torch.testing.assert_close(values(logits, target, 1e-300), xi, rtol=1e-12, atol=1e-12)
    limit = torch.full_like(xi, math.log(1e300))
    torch.testing.assert_close(values(logits, target, 1e300), limit, rtol=1e-12, atol=0)
