"""AdaFocal: the loss and its updates against a slow reference, in the trainer and together."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from softmargin import data
from softmargin.functional import adaptive_focal_loss, focal_loss
from softmargin.losses import AdaFocalLoss
from softmargin.training import RunFolder, TrainingConfig, train, train_together
from softmargin.training.config import OptionError

CONFIG = TrainingConfig(epochs=3, batch=50, lr=0.05, held_out=0.1, loss="adafocal", seed=3)


def probabilities(row):
    top = max(row)
    total = sum(math.exp(z - top) for z in row)
    return [math.exp(z - top) / total for z in row]


def slow_loss(row, c, gammas, edges):
    p = probabilities(row)[c]
    gamma = gammas[sum(p > edge for edge in edges)]
    factor = (1 - p) ** gamma if gamma >= 0 else (1 + p) ** -gamma
    return -factor * math.log(p)


def slow_update(gammas, logits, target, rate, lowest, highest, switch):
    """Return the new γ and ends of ranges, by loops over Python floats."""
    rows = []
    for row, c in zip(logits.tolist(), target.tolist(), strict=True):
        p = probabilities(row)
        best = max(range(len(p)), key=p.__getitem__)
        rows.append((p[best], best == c))
    rows.sort(key=lambda pair: pair[0])
    bins, found, ends, start = len(gammas), [], [], 0
    for place, gamma in enumerate(gammas):
        size = len(rows) // bins + (place < len(rows) % bins)
        own = rows[start : start + size]
        start += size
        over = sum(p for p, _ in own) / size - sum(right for _, right in own) / size
        if gamma > 0:
            new = gamma * math.exp(rate * over)
            new = -switch if new < switch else min(new, highest)
        else:
            new = gamma * math.exp(-rate * over)
            new = switch if -new < switch else max(new, lowest)
        found.append(new)
        ends.append(own[-1][0])
    return found, ends[:-1]


def some_rows(rows=211, classes=4, sharpness=3.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return sharpness * logits, target


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_loss_is_that_of_a_slow_reference(dtype):
    logits, target = some_rows()
    gammas, edges = [3.0, 0.5, -0.2, -2.0], [0.2, 0.5, 0.9]
    found = adaptive_focal_loss(logits.to(dtype), target, gammas, edges, reduction="none")
    pairs = zip(logits.to(dtype).tolist(), target.tolist(), strict=True)
    expected = [slow_loss(row, c, gammas, edges) for row, c in pairs]
    torch.testing.assert_close(found, torch.tensor(expected).to(dtype), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_the_loss_within_a_range():
    logits, target = some_rows(20)
    gammas, edges = [2.0, -1.5], [0.4321]
    inputs = (logits.requires_grad_(),)
    torch.autograd.gradcheck(lambda z: adaptive_focal_loss(z, target, gammas, edges), inputs)
    torch.autograd.gradgradcheck(lambda z: adaptive_focal_loss(z, target, gammas, edges), inputs)


def test_one_gamma_is_focal_loss():
    logits, target = some_rows()
    found = adaptive_focal_loss(logits, target, [2.0, 2.0], [0.5])
    torch.testing.assert_close(found, focal_loss(logits, target, 2.0))


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 6.0])
@pytest.mark.parametrize("rate", [1.0, 8.0])
def test_updates_are_those_of_a_slow_reference(sharpness, rate):
    criterion = AdaFocalLoss(7, rate)
    gammas = [1.0] * 7
    for step in range(12):
        logits, target = some_rows(sharpness=sharpness, seed=step)
        criterion.update(logits, target)
        gammas, edges = slow_update(gammas, logits, target, rate, -2.0, 20.0, 0.2)
        torch.testing.assert_close(criterion.gammas, torch.tensor(gammas, dtype=torch.float64))
        torch.testing.assert_close(criterion.edges, torch.tensor(edges, dtype=torch.float64))


def test_over_confidence_raises_gamma_and_under_confidence_makes_it_inverse():
    over, under = AdaFocalLoss(5), AdaFocalLoss(5)
    assert over.update(*some_rows(1000, sharpness=6.0)) > 0.1
    assert (over.gammas > 1).sum() >= 4
    for _ in range(40):
        assert under.update(*some_rows(1000, sharpness=0.2)) < -0.1
    assert (under.gammas < 0).any()
    assert under.gammas.min() >= -2


def test_state_survives_and_copies_are_apart():
    criterion = AdaFocalLoss(5)
    criterion.update(*some_rows())
    other = AdaFocalLoss(5)
    other.load_state_dict(criterion.state_dict())
    assert torch.equal(other.gammas, criterion.gammas)
    assert torch.equal(other.edges, criterion.edges)
    before = copy.deepcopy(criterion)
    criterion.update(*some_rows(sharpness=6.0))
    assert not torch.equal(before.gammas, criterion.gammas)
    assert "bins=5, rate=1, gammas=<5 values from" in repr(criterion)


def test_bad_input_is_refused():
    for options, message in (
        ({"bins": 1}, "bins must be at least 2"),
        ({"rate": 0.0}, "rate must be a finite number above 0"),
        ({"switch": 1.0}, "switch must be a finite number above 0 and below 1"),
        ({"highest": 0.5}, "highest must be a finite number of at least 1"),
        ({"lowest": 0.0}, "lowest must be a finite number below -0.2"),
    ):
        with pytest.raises(ValueError, match=message):
            AdaFocalLoss(**options)
    criterion = AdaFocalLoss()
    logits, target = some_rows()
    with pytest.raises(ValueError, match="at least 100 held-out rows to steer by, but got 50"):
        criterion.update(logits[:50], target[:50])
    with pytest.raises(ValueError, match=r"\(N, C\) and target \(N,\), but got"):
        criterion.update(logits, target[:50])
    with pytest.raises(ValueError, match="training diverged"):
        criterion.update(logits * math.nan, target)
    with pytest.raises(ValueError, match="gammas must hold one value more than edges, 2, but got"):
        adaptive_focal_loss(logits, target, [1.0], [0.5])


def test_the_trainer_updates_it_once_per_epoch(tmp_path):
    train(CONFIG, tmp_path / "a")
    state = RunFolder(tmp_path / "a").load()
    assert "controller" not in state
    assert not torch.equal(state["loss"]["gammas"], torch.ones(15))
    with pytest.raises(OptionError, match="to steer the loss adafocal by, but got 0.01"):
        train(replace(CONFIG, held_out=0.01), tmp_path / "b")
    with pytest.raises(OptionError, match="held_out must keep at least 100"):
        train(replace(CONFIG, held_out=0.0), tmp_path / "b")
    with pytest.raises(OptionError, match="a loss whose beta is one number"):
        train(replace(CONFIG, schedules=("beta=calibrated",)), tmp_path / "b")


def test_together_as_alone(tmp_path):
    configs = [replace(CONFIG, seed=seed, precision="64") for seed in (0, 1)]
    steered = {"loss": "gradient_decay", "schedules": ("beta=calibrated",)}
    configs += [replace(configs[0], **steered), replace(configs[0], loss="gradient_decay")]
    digits = data.load("digits", seed=0)
    found = train_together(configs, dataset=digits, threads=1)
    for number, config in enumerate(configs):
        alone = train(config, tmp_path / str(number), dataset=digits)
        assert float(found.final("nll")[number]) == pytest.approx(alone["nll"], rel=1e-9)
