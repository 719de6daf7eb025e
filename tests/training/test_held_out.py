"""Rows held out of training, and the β that is steered by them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from softmargin import data
from softmargin.losses import GradientDecayLoss
from softmargin.training import RunFolder, TrainingConfig, train, train_together
from softmargin.training.config import OptionError
from softmargin.training.held_out import hold_out, is_due, make_controller

CONFIG = TrainingConfig(
    epochs=3, batch=50, lr=0.05, held_out=0.1, schedules=("beta=calibrated",), seed=3
)


SLOW = pytest.mark.slow


class Killed(Exception):
    """What ends a run in the middle of a step."""


def epochs_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_held_out_rows_are_stratified_seeded_and_not_trained_on():
    y = data.load("digits").train.y
    train_rows, held = hold_out(y, 0.1, seed=0)
    assert sorted([*train_rows.tolist(), *held.tolist()]) == list(range(len(y)))
    assert len(held) == round(0.1 * len(y))
    counts = torch.bincount(y[held]) / torch.bincount(y)
    assert counts.min() > 0.09
    assert counts.max() < 0.11
    assert torch.equal(held, hold_out(y, 0.1, seed=0)[1])
    assert not torch.equal(held, hold_out(y, 0.1, seed=1)[1])
    assert len(hold_out(y, 0.0, seed=0)[1]) == 0


@pytest.mark.parametrize(("steps", "updates"), [(1, 1), (4, 4), (5, 5), (15, 5), (73, 4), (600, 5)])
def test_about_five_updates_per_epoch_from_the_start(steps, updates):
    due = [is_due(step, steps) for step in range(1, steps + 1)]
    assert abs(sum(due) - updates) <= 1
    assert any(due[: max(1, steps // 4)])


def test_a_run_notes_beta_and_what_it_holds_out(tmp_path):
    train(CONFIG, tmp_path)
    epochs = epochs_of(tmp_path)
    assert all(epoch["beta"] >= 1 for epoch in epochs)
    assert {"held_out_accuracy", "held_out_nll", "held_out_ece"} < epochs[-1].keys()
    state = RunFolder(tmp_path).load()
    assert state["controller"]["updates"] == 3 * 5
    with np.load(tmp_path / "held_out.npz") as kept:
        right = (kept["logits"].argmax(1) == kept["labels"]).mean()
        assert len(kept["labels"]) == 162
    assert right == pytest.approx(epochs[-1]["held_out_accuracy"])


def test_held_out_rows_alone_steer_nothing(tmp_path):
    """Without a schedule they are measured, and training is that of the other rows."""
    config = replace(CONFIG, schedules=())
    train(config, tmp_path / "a")
    assert "beta" not in epochs_of(tmp_path / "a")[-1]
    digits = data.load("digits", seed=3)
    rows, _ = hold_out(digits.train.y, 0.1, seed=3)
    others = replace(digits, train=digits.train.select(rows))
    train(replace(config, held_out=0.0), tmp_path / "b", dataset=others)
    assert epochs_of(tmp_path / "a")[-1]["nll"] == epochs_of(tmp_path / "b")[-1]["nll"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Return the folder of a run that nothing has stopped."""
    folder = tmp_path_factory.mktemp("straight")
    train(CONFIG, folder, checkpoint_steps=1)
    return folder


@pytest.mark.parametrize("at", [7, *(pytest.param(at, marks=SLOW) for at in (2, 29, 30, 31, 75))])
def test_the_controller_survives_a_resume_bit_for_bit(tmp_path, straight, at):
    """Killed within an epoch, between updates and right after one."""

    def die(_, step, __):
        if step == at:
            raise Killed

    with pytest.raises(Killed):
        train(CONFIG, tmp_path / "killed", checkpoint_steps=1, progress=die)
    train(CONFIG, tmp_path / "killed", checkpoint_steps=1)
    for name in ("metrics.jsonl", "result.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (straight / name).read_bytes()
    ours, theirs = (RunFolder(each).load() for each in (straight, tmp_path / "killed"))
    assert torch.equal(ours["controller"]["log_beta"], theirs["controller"]["log_beta"])
    assert ours["controller"]["updates"] == theirs["controller"]["updates"]


@pytest.mark.slow
def test_together_as_alone(tmp_path):
    """Models trained together are steered as each would be alone."""
    configs = [replace(CONFIG, seed=seed, precision="64") for seed in (0, 1)]
    configs += [replace(configs[0], schedules=()), replace(configs[0], schedules=(), held_out=0.0)]
    digits = data.load("digits", seed=0)
    found = train_together(configs, dataset=digits, threads=1)
    for number, config in enumerate(configs):
        alone = train(config, tmp_path / str(number), dataset=digits)
        assert float(found.final("nll")[number]) == pytest.approx(alone["nll"], rel=1e-9)


def test_together_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("softmargin.training.ensemble.run.SAVE_EVERY", -1.0)
    straight = train_together([CONFIG], threads=1)

    def die(done, _):
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        train_together([CONFIG], threads=1, out=tmp_path, progress=die)
    again = train_together([CONFIG], threads=1, out=tmp_path)
    assert torch.equal(straight.history("nll"), again.history("nll"))


REFUSED = {
    "few": ({"held_out": 0.01}, "held_out must keep at least 100 of the 1617 training rows"),
    "enough": ({"held_out": 0.01}, "which keeps 16; 0.07 would be enough."),
    "no beta": ({"loss": "focal"}, "a loss whose beta is one number, such as gradient_decay"),
    "numbers": ({"schedules": ("beta=calibrated:1:2",)}, "beta=calibrated:GAIN:LOWEST:HIGHEST"),
    "text": ({"schedules": ("beta=calibrated:x",)}, "beta=calibrated:GAIN:LOWEST:HIGHEST"),
    "gain": ({"schedules": ("beta=calibrated:-1",)}, "gain must be a finite number above 0"),
    "bounds": ({"schedules": ("beta=calibrated:1:5:2",)}, "highest must be a finite number above"),
    "other": ({"schedules": ("tau=calibrated",)}, "schedule must be beta=calibrated, of the loss"),
    "twice": ({"schedules": ("beta=calibrated", "beta=constant:1")}, "must move beta once"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_steered_is_refused(tmp_path, name):
    change, message = REFUSED[name]
    with pytest.raises(OptionError, match=message.replace(".", r"\.")):
        train(replace(CONFIG, **change), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OptionError, match=message.replace(".", r"\.")):
        train_together([replace(CONFIG, **change)])


def test_without_held_out_rows_it_is_refused_at_once():
    with pytest.raises(OptionError, match=r"held_out must be above 0, such as 0\.1"):
        replace(CONFIG, held_out=0.0)


def test_gain_and_bounds_are_numbers_of_the_schedule():
    config = replace(CONFIG, schedules=("loss.beta=calibrated:3:0.5:20",))
    controller = make_controller(config, GradientDecayLoss(), held=100, rows=1000)
    assert (controller.gain, controller.lowest, controller.highest) == (3.0, 0.5, 20.0)
    assert make_controller(replace(CONFIG, schedules=()), GradientDecayLoss(), 100, 1000) is None
    plain = make_controller(CONFIG, GradientDecayLoss(), held=100, rows=1000)
    assert (plain.gain, plain.lowest, plain.highest) == (3.0, 1.0, 1e4)


@pytest.mark.slow
def test_small_data_are_learned_with_the_defaults(tmp_path):
    """β must not follow the under-confidence of the first epochs."""
    config = TrainingConfig(held_out=0.1, schedules=("beta=calibrated",), fraction=0.7, epochs=20)
    assert train(config, tmp_path)["accuracy"] > 0.95
