"""Learning rates against PyTorch's schedulers and the papers' words."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from softmargin.training.rates import learning_rate


def stepped(make, total):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.2)
    scheduler = make(optimizer)
    rates = []
    for _ in range(total):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_one_cycle_is_pytorchs():
    expected = stepped(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=101), 100)
    rate = learning_rate("one_cycle", 0.2, 101)
    assert [rate(step) for step in range(100)] == pytest.approx(expected, rel=1e-9)


def test_step_divides_at_the_places():
    expected = stepped(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [40, 80]), 100)
    rate = learning_rate("step:40%,80%", 0.2, 100)
    assert [rate(step) for step in range(100)] == pytest.approx(expected)


def test_log_linear_goes_in_equal_ratios():
    rate = learning_rate("log_linear", 0.1, 50)
    rates = [rate(step) for step in range(50)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[-1] == pytest.approx(1e-4)
    ratios = [b / a for a, b in pairwise(rates)]
    assert ratios == pytest.approx([ratios[0]] * 49)


@pytest.mark.parametrize("spec", ["step:40", "step:0%", "log_linear:x", "log_linear:-1"])
def test_bad_numbers(spec):
    with pytest.raises(ValueError, match=f"lr_schedule must look like .*, but got '{spec}'"):
        learning_rate(spec, 0.1, 10)


def test_bad_names():
    with pytest.raises(ValueError, match="lr_schedule must be one of constant, step, log_linear"):
        learning_rate("cosine", 0.1, 10)
    with pytest.raises(ValueError, match="takes no numbers, but got 'one_cycle:3'"):
        learning_rate("one_cycle:3", 0.1, 10)
