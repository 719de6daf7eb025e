"""Schedules that are refused when they are made or loaded, in one sentence each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import softmargin
from schedule_cases import Head, in_loss
from softmargin import GradientDecayLoss
from softmargin.schedules import (
    Constant,
    Cosine,
    Geometric,
    InversePower,
    Linear,
    Piecewise,
    l_softmax_annealing,
    lgm_annealing,
)

LOSS, BETA = GradientDecayLoss(beta=0.7), "beta must be a finite number above 0, but got"
BAD_SCHEDULES = {
    "missing": (
        lambda: Linear(LOSS, "bta", 0.1, 1.0, 10),
        AttributeError,
        "name must be a numeric attribute of GradientDecayLoss, one of beta, tau, "
        "label_smoothing, but got 'bta'",
    ),
    "text": (lambda: Constant(LOSS, "reduction", 1.0), ValueError, "one of beta, .*'reduction'"),
    "switch": (lambda: Constant(LOSS, "floored", 1.0), ValueError, "one of beta, .*'floored'"),
    "structure": (lambda: Constant(LOSS, "ignore_index", 1.0), ValueError, "but got 'ignore_ind"),
    "none at all": (
        lambda: Constant(nn.Sequential(), "beta", 1.0),
        AttributeError,
        "numeric attribute of Sequential, of which it has none, but got 'beta'",
    ),
    "no module": (lambda: Constant(3, "beta", 1.0), TypeError, "must be an nn.Module, but got int"),
    "learned": (
        lambda: Constant(GradientDecayLoss(nn.Parameter(torch.tensor(1.0))), "beta", 1.0),
        ValueError,
        r"name must be a number that is not learned, but GradientDecayLoss\.beta is",
    ),
    "per class": (
        lambda: Constant(GradientDecayLoss(beta=torch.ones(3)), "beta", 1.0),
        ValueError,
        r"name must be a single number, but GradientDecayLoss\.beta has shape \(3,\)",
    ),
    "weights": (
        lambda: Constant(nn.BatchNorm1d(3), "running_mean", 1.0),
        ValueError,
        "one of .*momentum, but got 'running_mean'",
    ),
    "start": (lambda: Linear(LOSS, "beta", 0, 1, 10), ValueError, f"{BETA} 0"),
    "end": (lambda: Linear(LOSS, "beta", 1, -2, 10), ValueError, f"{BETA} -2"),
    "not finite": (lambda: Cosine(LOSS, "beta", 1, math.inf, 10), ValueError, f"{BETA} inf"),
    "constant": (lambda: Constant(LOSS, "beta", math.nan), ValueError, f"{BETA} nan"),
    "a late point": (
        lambda: Piecewise(LOSS, "beta", [(0, 1.0), (5000, 0.0)]),
        ValueError,
        f"{BETA} 0.0",
    ),
    "floor": (lambda: InversePower(LOSS, "beta", 1, 0.1, floor=0), ValueError, f"{BETA} 0"),
    "base": (lambda: InversePower(LOSS, "beta", -1, 0.1, floor=1), ValueError, f"{BETA} -1"),
    "the attribute's own rule": (
        lambda: Linear(Head(), "margin", 0.1, 1.5, 10),
        ValueError,
        "margin must be at most 1, but got 1.5",
    ),
    "string": (
        lambda: Linear(LOSS, "beta", "0.1", 1, 10),
        TypeError,
        "beta must be a number or a tensor, but got '0.1'",
    ),
    "plain": (
        lambda: Linear(LOSS, "label_smoothing", math.nan, 1, 10),
        ValueError,
        "label_smoothing must be a finite number, but got nan",
    ),
    "tensor": (
        lambda: Linear(LOSS, "beta", torch.ones(3), 1, 10),
        TypeError,
        r"start must be one number, but got shape \(3,\)",
    ),
    "steps": (
        lambda: Linear(LOSS, "beta", 0.1, 1, 0),
        ValueError,
        "steps must be a finite number of at least 1, but got 0",
    ),
    "geometric start": (
        lambda: Geometric(LOSS, "tau", 0.0, 1.0, 10),
        ValueError,
        "start must be a finite number above 0, but got 0.0",
    ),
    "geometric end": (
        lambda: Geometric(softmargin.SoftMarginSoftmaxLoss(1.0), "margin", 1.0, -1.0, 10),
        ValueError,
        "end must be a finite number above 0, but got -1.0",
    ),
    "unsorted": (
        lambda: Piecewise(LOSS, "beta", [(0, 1.0), (9, 2.0), (5, 1.0)]),
        ValueError,
        "points must have increasing steps, but got 5 after 9",
    ),
    "twice": (lambda: Piecewise(LOSS, "beta", [(3, 1.0), (3, 2.0)]), ValueError, "3 after 3"),
    "negative step": (
        lambda: Piecewise(LOSS, "beta", [(-1, 1.0)]),
        ValueError,
        "step of a point must be a finite number of at least 0, but got -1",
    ),
    "no pair": (
        lambda: Piecewise(LOSS, "beta", [0.1, 0.2]),
        ValueError,
        r"points must hold \(step, value\) pairs, but got 0.1",
    ),
    "no points": (lambda: Piecewise(LOSS, "beta", []), ValueError, "at least one .* but got none"),
    "gamma": (
        lambda: InversePower(LOSS, "beta", 1, 0.0),
        ValueError,
        "gamma must be a finite number above 0, but got 0.0",
    ),
    "power": (lambda: InversePower(LOSS, "beta", 1, 1, -1), ValueError, "power must be .* got -1"),
    "factor": (
        lambda: lgm_annealing(Head(), factor=1.0),
        ValueError,
        "factor must be a finite number above 1, but got 1.0",
    ),
    "maximum": (
        lambda: lgm_annealing(Head(), maximum=0.05),
        ValueError,
        "maximum must be a finite number of at least 0.1, but got 0.05",
    ),
    "no anneal": (
        lambda: l_softmax_annealing(LOSS),
        AttributeError,
        "one of beta, tau, label_smoothing, but got 'anneal'",
    ),
    "plot": (
        lambda: in_loss(Constant, 0.1).plot(steps=0),
        ValueError,
        "steps must be a finite number of at least 1, but got 0",
    ),
}


@pytest.mark.parametrize("bad", BAD_SCHEDULES)
def test_bad_schedules_are_refused_when_made(bad):
    make, error, message = BAD_SCHEDULES[bad]
    with pytest.raises(error, match=message) as raised:
        make()
    assert str(raised.value).count("\n") == 0
    assert LOSS.beta.item() == 0.7  # a refused schedule leaves the attribute alone
    assert LOSS.tau == 1.0


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"name": "lam", "steps_taken": 3}, "schedule over 'beta', but got one over 'lam'"),
        ({"name": "beta"}, "state_dict must hold name and steps_taken, but got name"),
        ({"name": "beta", "steps_taken": -1}, "steps_taken must be an int of at least 0, .* -1"),
        ({"name": "beta", "steps_taken": 1.5}, "steps_taken must be an int of at least 0, .*1.5"),
    ],
)
def test_bad_states(state, message):
    schedule = in_loss(Linear, 0.1, 1.0, 10)
    with pytest.raises(ValueError, match=message):
        schedule.load_state_dict(state)
    assert schedule.steps_taken == 0
