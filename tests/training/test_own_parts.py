"""Heads and losses of a user's own: alone, together and by command they train the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin import data
from softmargin._settings import Setting
from softmargin.cli import main
from softmargin.heads import Head
from softmargin.losses import GradientDecayLoss
from softmargin.training import TrainingConfig, train, train_together
from softmargin.training.config import OptionError
from softmargin.training.ensemble.kinds import kinds_of


class PowerLoss(nn.Module):
    """A plain module with a number, nothing of ours in it."""

    def __init__(self, power: float = 1.0) -> None:
        super().__init__()
        self.power = power

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return (F.cross_entropy(logits, target, reduction="none") + 1).pow(self.power).mean()


class LookingLoss(PowerLoss):
    """Looks at values, which vmap cannot."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        loss = super().forward(logits, target)
        return loss * 2 if loss.item() > 1.5 else loss


class LearningLoss(nn.Module):
    """Has a random parameter, and a buffer that every batch moves."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        loss = F.cross_entropy(logits * self.weight, target)
        self.mean = 0.9 * self.mean + 0.1 * loss.detach()
        return loss / (1 + self.mean)


class DeepHead(Head):
    """Two layers with batch normalisation between them, and a margin that moves."""

    margin = Setting(inclusive=True)
    needs_target = True

    def __init__(self, in_features: int, num_classes: int, *, margin: float = 0.1) -> None:
        super().__init__(in_features, num_classes)
        # a bias before the normalisation has no gradient but rounding, which Adam would blow up
        linear = nn.Linear(in_features, in_features, bias=False)
        self.before = nn.Sequential(linear, nn.BatchNorm1d(in_features))
        self.margin = margin

    def inference_logits(self, features: Tensor) -> Tensor:
        return F.linear(self.before(features), self.weight)

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        logits = self.inference_logits(features)
        return logits.scatter(-1, index, logits.gather(-1, index) - self.current("margin"))


class RandomHead(DeepHead):
    """Draws random numbers in training."""

    def inference_logits(self, features: Tensor) -> Tensor:
        return F.dropout(super().inference_logits(features), 0.5, self.training)


IRIS = data.load_table("iris")
BASE = TrainingConfig("iris", "mlp", epochs=4, batch=40, precision="64", clip=1.0, lr=0.01)
KINDS: list[dict[str, Any]] = [
    {"loss": PowerLoss},
    {"loss": PowerLoss, "loss_options": {"power": 2.0}},
    {"loss": PowerLoss, "schedules": ("power=linear:1:3:50%",)},
    {"loss": LookingLoss, "loss_options": {"power": 0.5}},
    {"loss": LookingLoss, "loss_options": {"power": 1.5}},
    {"loss": LearningLoss},
    {"loss": nn.CrossEntropyLoss, "loss_options": {"label_smoothing": 0.1}},
    {"loss": GradientDecayLoss, "loss_options": {"learn_beta": True, "beta": 0.5}},
    {"loss": "focal", "loss_options": {"label_smoothing": 0.1, "gamma": 1.0}},
    {"loss": "max_hinge", "loss_options": {"reduction": "sum"}, "lr": 1e-4},
    {"head": DeepHead},
    {"head": DeepHead, "head_options": {"margin": 0.5}, "loss": LookingLoss},
    {"head": DeepHead, "schedules": ("head.margin=linear:0:1:50%",), "loss": PowerLoss},
]


@pytest.mark.slow
def test_each_is_the_one_trained_alone(tmp_path):
    for optimizer in ("sgd", "adam"):
        base = dataclasses.replace(BASE, optimizer=optimizer)
        configs = [dataclasses.replace(base, **kind, seed=s) for kind in KINDS for s in range(2)]
        together = train_together(configs, dataset=IRIS)
        for number, config in enumerate(configs):
            out = tmp_path / optimizer / str(number)
            alone = train(config, out, device="cpu", dataset=IRIS)
            # the trainer leaves a loss's own parameters in float32
            bound = 1e-5 if "learn_beta" in config.loss_options else 1e-8
            assert float(together.final("nll")[number]) == pytest.approx(alone["nll"], rel=bound)
            stored = torch.load(out / "checkpoint.pt", weights_only=True)["model"]
            for name, value in together.classifier(number).state_dict().items():
                torch.testing.assert_close(value, stored[name], rtol=10 * bound, atol=bound)


def test_recorded_confidences_and_a_resume(tmp_path):
    configs = [
        dataclasses.replace(BASE, loss=LearningLoss, head=DeepHead, record=True, seed=seed)
        for seed in range(3)
    ]
    expected = train_together(configs, record=True)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("softmargin.training.ensemble.run.SAVE_EVERY", -1.0)
        with pytest.raises(KeyboardInterrupt):
            train_together(configs, record=True, out=tmp_path / "run", progress=stop)
        found = train_together(configs, record=True, out=tmp_path / "run")
    assert torch.equal(expected.history("nll"), found.history("nll"))
    for number in range(3):
        ours, place = found.recorder(number)
        theirs, _ = expected.recorder(number)
        assert torch.equal(
            ours.confidence[place].nan_to_num(-1), theirs.confidence[place].nan_to_num(-1)
        )


def test_numbers_that_differ_do_not_split_a_kind():
    numbers = [1.0, 1.5, 2.0]
    for changes in (
        [{"loss": PowerLoss, "loss_options": {"power": n}} for n in numbers],
        [{"head": DeepHead, "head_options": {"margin": n}} for n in numbers],
        [{"loss_options": {"beta": n}} for n in numbers],
        [{"loss": "focal", "loss_options": {"gamma": n}} for n in numbers],
    ):
        configs = [dataclasses.replace(BASE, **change) for change in changes]
        kinds, order = kinds_of(configs, 8, 3)
        assert len(kinds) == 1
        assert order == [0, 1, 2]


def test_the_command_takes_a_class_by_its_path(tmp_path, capsys):
    options = ["--data", "iris", "--model", "mlp", "--epochs", "4", "--batch", "40", "--clip", "1"]
    options += ["--lr", "0.01", "--precision", "64", "--device", "cpu"]
    options += ["--head", f"{__name__}:DeepHead", "--margin", "0.3"]
    command = ["train", "--out", str(tmp_path / "run"), *options, "--loss", f"{__name__}:PowerLoss"]
    assert main(command) == 0
    config = dataclasses.replace(BASE, head=DeepHead, head_options={"margin": 0.3}, loss=PowerLoss)
    same = train(config, tmp_path / "run", device="cpu")  # what is there is of this configuration
    assert float(train_together([config]).final("nll")[0]) == pytest.approx(same["nll"], rel=1e-9)
    for loss, message in (
        ("no.such:Loss", "--loss must be package.module:Class, a subclass of Module"),
        (f"{__name__}:NoLoss", "--loss must be package.module:Class"),
        ("math:sqrt", "--loss must be package.module:Class"),
    ):
        assert main(["train", "--out", str(tmp_path / "other"), *options, "--loss", loss]) == 2
        assert message in capsys.readouterr().err


def test_what_cannot_be_trained_is_refused(tmp_path):
    class Hidden(PowerLoss):
        pass

    with pytest.raises(OptionError, match="loss must be a class at the top of its module"):
        dataclasses.replace(BASE, loss=Hidden)
    with pytest.raises(OptionError, match="head must be package.module:Class, a subclass of Head"):
        train_together([dataclasses.replace(BASE, head=PowerLoss)])
    with pytest.raises(ValueError, match="must not draw random numbers .* but RandomHead does"):
        train_together([dataclasses.replace(BASE, head=RandomHead)])
    config = dataclasses.replace(BASE, loss=PowerLoss, loss_options={"powr": 1.0})
    with pytest.raises(OptionError, match="must be one of power, but got 'powr'"):
        train_together([config])
    config = dataclasses.replace(BASE, loss_options={"reduction": "none"})
    for run in (lambda: train_together([config]), lambda: train(config, tmp_path / "run")):
        with pytest.raises(ValueError, match="loss must be one number for a batch"):
            run()
