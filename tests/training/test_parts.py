"""Published annealing, by its name in a configuration."""

from __future__ import annotations

import pytest
import torch

from softmargin import heads, schedules
from softmargin.losses import GradientDecayLoss
from softmargin.training import TrainingConfig, train, train_together
from softmargin.training.config import OptionError
from softmargin.training.parts import make_schedules

RECIPES = {
    "l_softmax": ("anneal", heads.LSoftmaxHead, schedules.l_softmax_annealing),
    "a_softmax": ("anneal", heads.ASoftmaxHead, schedules.a_softmax_annealing),
    "lgm": ("margin", heads.GaussianHead, schedules.lgm_annealing),
}


@pytest.mark.parametrize("name", RECIPES)
def test_it_is_its_authors_schedule(name: str) -> None:
    setting, module, annealing = RECIPES[name]
    for spec in (f"{setting}={name}", f"head.{setting}={name}"):
        (made,) = make_schedules([spec], GradientDecayLoss(), module(8, 3), total=100)
        expected = annealing(module(8, 3))
        assert type(made) is type(expected)
        for step in (0, 1, 100, 1700, 2720, 5000, 9999, 10_000, 50_000):
            assert made.value_at(step) == expected.value_at(step)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("spec", ["beta={}", "loss.{setting}={}", "{setting}={}:3"])
def test_another_setting_is_refused(name: str, spec: str) -> None:
    setting, module, _ = RECIPES[name]
    text = spec.format(name, setting=setting)
    with pytest.raises(OptionError, match=f"schedule must be {setting}={name}, but got"):
        make_schedules([text], GradientDecayLoss(), module(8, 3), total=100)


def test_a_head_without_the_setting_is_refused() -> None:
    with pytest.raises(OptionError, match="anneal=l_softmax"):
        make_schedules(["anneal=l_softmax"], GradientDecayLoss(), heads.LinearHead(8, 3), 100)


@pytest.mark.parametrize("name", RECIPES)
def test_alone_and_together_it_trains_the_same(tmp_path, name: str) -> None:
    setting, module, annealing = RECIPES[name]
    config = TrainingConfig(
        *("iris", "mlp", module.__name__),
        **{"epochs": 3, "batch": 45, "precision": "64", "schedules": (f"{setting}={name}",)},
    )
    alone = train(config, tmp_path / "run", device="cpu")
    state = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    expected = annealing(module(8, 3)).value_at(9)
    assert float(state["model"][f"head.{setting}"]) == pytest.approx(expected, rel=1e-12)
    together = train_together([config], threads=1)
    assert float(together.final("nll")[0]) == pytest.approx(alone["nll"], rel=1e-9)
