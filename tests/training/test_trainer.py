"""Runs that are exact, that go on after anything, and that several processes share."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from launching import launch
from torch import Tensor, nn

from softmargin import data
from softmargin.cli import main
from softmargin.training import RunFolder, TrainingConfig, train
from softmargin.training.batches import Batches

CONFIG = TrainingConfig(
    data="digits",
    model="fcnn",
    epochs=4,
    batch=50,
    lr=0.05,
    clip=3.0,
    weight_decay=1e-4,
    lr_schedule="step",
    loss_options={"beta": 0.1},
    schedules=("beta=linear:0.1:1:50%",),
)


def weights(folder):
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    return state["model"]


def assert_same_run(a, b):
    """Compare two folders to the last bit."""
    assert (a / "metrics.jsonl").read_bytes() == (b / "metrics.jsonl").read_bytes()
    assert (a / "result.json").read_bytes() == (b / "result.json").read_bytes()
    ours, theirs = weights(a), weights(b)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_equals_a_bare_loop(tmp_path):
    """The trainer is a plain loop, with nothing added to the mathematics."""
    result = train(CONFIG, tmp_path / "run")
    dataset = data.load("digits", seed=0)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 20), nn.ReLU()
    )
    head = nn.Linear(20, 10)
    ours = weights(tmp_path / "run")
    batches = Batches(
        dataset.train, data.Normalize.of(dataset.train.x), 50, device=torch.device("cpu")
    )
    # the first weights are the trainer's own, whatever order they are drawn in
    start = train(
        TrainingConfig(**{**CONFIG.as_dict(), "epochs": 1, "lr": 1e-30, "weight_decay": 0.0}),
        tmp_path / "start",
    )
    assert start["epoch"] == 1
    first = list(weights(tmp_path / "start").values())
    parameters = [*network.parameters(), *head.parameters()]
    used = [value for value in first if value.ndim]
    with torch.no_grad():
        for parameter, value in zip(parameters, used, strict=True):
            parameter.copy_(value)
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4)
    total, step = 4 * len(batches), 0
    from softmargin.functional import gradient_decay_loss

    for epoch in range(4):
        for x, y, _ in batches.of_epoch(epoch):
            for group in optimizer.param_groups:
                group["lr"] = 0.05 * 0.1 ** ((step >= 0.5 * total) + (step >= 0.75 * total))
            beta = 0.1 + 0.9 * min(1.0, step / round(0.5 * total))
            optimizer.zero_grad()
            gradient_decay_loss(head(network(x)), y, beta).backward()
            nn.utils.clip_grad_norm_(parameters, 3.0)
            optimizer.step()
            step += 1
    for parameter, value in zip(parameters, [v for v in ours.values() if v.ndim], strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-5, atol=1e-6)
    assert result["accuracy"] > 0.9


def test_a_finished_run_is_not_run_again(tmp_path):
    first = train(CONFIG, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert train(CONFIG, tmp_path) == first
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    before.pop(".lock"), after.pop(".lock")
    assert before == after


def test_two_processes_cannot_share_a_folder(tmp_path):
    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(ValueError, match="out must be a folder that no other run is working in"),
    ):
        train(CONFIG, tmp_path)


WORKER = """
import json, sys, torch
from pathlib import Path
torch.set_num_threads(1)
from softmargin.training import TrainingConfig, train
losses = []
config = TrainingConfig.from_dict(json.loads(sys.argv[1]))
result = train(config, Path(sys.argv[2]), progress=lambda e, s, loss: losses.append(float(loss)))
import os
rank = os.environ.get("RANK", "0")
Path(sys.argv[2], f"losses{rank}.json").write_text(json.dumps([losses, result]))
"""


@pytest.mark.slow
def test_two_processes_follow_one(tmp_path):
    """Half the batch each: the same weights, the same metrics, over more than 50 steps."""
    config = TrainingConfig(**{**CONFIG.as_dict(), "epochs": 2, "clip": 3.0})
    text = json.dumps(config.as_dict())
    subprocess.run([sys.executable, "-c", WORKER, text, str(tmp_path / "one")], check=True)
    (tmp_path / "worker.py").write_text(WORKER)
    launch(tmp_path / "worker.py", [text, str(tmp_path / "two")], tmp_path / "two")
    alone, result = json.loads((tmp_path / "one" / "losses0.json").read_text())
    parts = [json.loads((tmp_path / "two" / f"losses{r}.json").read_text()) for r in range(2)]
    assert len(alone) > 50
    size = len(data.load("digits", seed=0).train) % 50
    for step, values in enumerate(zip(alone, parts[0][0], parts[1][0], strict=True)):
        last = (step + 1) % (len(alone) // 2) == 0 and size % 2
        if not last:  # halves of equal size: the mean of the means is the mean
            assert sum(values[1:]) / 2 == pytest.approx(values[0], rel=1e-5)
    for metric in ("accuracy", "nll", "ece"):
        assert parts[0][1][metric] == pytest.approx(result[metric], rel=1e-4)
        assert parts[0][1][metric] == parts[1][1][metric]
    for name, value in weights(tmp_path / "one").items():
        torch.testing.assert_close(value, weights(tmp_path / "two")[name], rtol=1e-4, atol=1e-5)


def test_the_command_trains_evaluates_and_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text("data: digits\nepochs: 2\nlr: 0.05\nhead: arcface\n")
    arguments = ["train", "--config", "run.yaml", "--out", "run", "--scale", "10", "--beta", "2"]
    assert main(arguments) == 0
    trained = capsys.readouterr().out
    assert main(["evaluate", "run"]) == 0
    scored = capsys.readouterr().out
    assert scored.strip() == trained.split("\n\nRun:")[0].strip()
    assert main(["evaluate", "run", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    for name, value in again.items():
        assert value == pytest.approx(result[name], rel=1e-9)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["head_options"] == {"scale": 10.0}
    assert main(arguments) == 0
    assert "was finished before; nothing was run" in capsys.readouterr().out
    assert main([*arguments, "--epochs", "3"]) == 2
    error = capsys.readouterr().err
    assert "epochs must be as when the run in 'run' began, epochs 2, but got 3" in error
    assert main(["calibrate", "run/predictions.npz", "--scaling", "none"]) == 0


MISTAKES = {
    "data": (["--data", "digitz"], "such as digits"),
    "model": (["--model", "fccn"], "fcnn"),
    "head": (["--head", "arcfac"], "head must be a name such as arcface"),
    "loss": (["--loss", "focall"], "loss must be a name such as focal"),
    "schedule": (["--schedule", "beta=linear:1"], "schedule must have 3 numbers after linear"),
    "schedule kind": (["--schedule", "beta=lin:1:2:3"], "kind of a schedule must be one of"),
    "schedule name": (["--schedule", "bta=linear:1:2:30%"], "beta"),
    "schedule value": (["--schedule", "beta=linear:0:2:30%"], "beta must be a finite number"),
    "option": (["--head", "linear", "--margin", "1"], "an option of head LinearHead must be one"),
    "simplex": (["--model", "fcnn_2d", "--head", "simplex"], "at least 9 for a simplex of 10"),
    "batch": (["--batch", "9999"], "batch must be at most the"),
    "fraction": (["--fraction", "1.5"], "fraction must be a finite number above 0"),
    "lr": (["--lr", "0"], "lr must be a finite number above 0, but got 0.0"),
    "device": (["--device", "abacus"], "device must be auto, cpu, or one that is here"),
    "yaml": (["--config", "no.yaml"], "config must be a readable YAML file, but got 'no.yaml'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_sentence(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    options, message = MISTAKES[name]
    assert main(["train", "--out", "run", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run" / "config.json").exists()


def test_an_unwritable_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["train", "--out", str(tmp_path / "file" / "run")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_confidence_is_recorded(tmp_path):
    import numpy as np

    train(TrainingConfig(**{**CONFIG.as_dict(), "epochs": 2, "record": True}), tmp_path)
    first, second = (np.load(tmp_path / "confidence" / f"000{i}.npy") for i in (1, 2))
    assert first.shape == (len(data.load("digits", seed=0).train),)
    assert second.mean() > first.mean()


def test_tensorboard_gets_the_metrics(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = train(TrainingConfig(epochs=2), tmp_path, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("nll")] == [1, 2]
    assert events.Scalars("nll")[-1].value == pytest.approx(result["nll"], rel=1e-6)


def test_pollution_and_fraction(tmp_path):
    config = TrainingConfig(**{**CONFIG.as_dict(), "epochs": 1, "pollute": 0.5, "fraction": 0.5})
    worse = train(config, tmp_path / "polluted")
    better = train(TrainingConfig(**{**CONFIG.as_dict(), "epochs": 1}), tmp_path / "clean")
    assert worse["accuracy"] < better["accuracy"]


def test_pictures_that_stay_on_disk(tmp_path):
    """A folder of pictures is decoded batch by batch."""
    from PIL import Image

    for part, count in (("train", 12), ("val", 4)):
        for name, colour in {"a": (250, 0, 0), "b": (0, 0, 250)}.items():
            folder = tmp_path / "imagenet" / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (40 + i, 40), colour).save(folder / f"{i}.png")
    pictures = data.load("imagenet", root=tmp_path, image_size=32)
    config = TrainingConfig(data="imagenet", model="small_resnet", epochs=3, batch=8, lr=0.05)
    assert train(config, tmp_path / "run", dataset=pictures)["accuracy"] == 1


@pytest.mark.parametrize("precision", ["bf16"])
def test_autocast_trains(tmp_path, precision):
    config = TrainingConfig(**{**CONFIG.as_dict(), "precision": precision, "epochs": 3})
    assert train(config, tmp_path)["accuracy"] > 0.8


def test_several_processes_augment_as_one_would() -> None:
    digits = data.load("digits").train

    def batches(rank: int, world: int) -> list[tuple[Tensor, Tensor]]:
        made = Batches(
            digits,
            data.Normalize.of(digits.x),
            50,
            augment=data.Augment(),
            device=torch.device("cpu"),
            rank=rank,
            world=world,
        )
        return [(x, y) for x, y, _ in made.of_epoch(0)]

    parts = [batches(rank, 2) for rank in range(2)]
    for step, (x, y) in enumerate(batches(0, 1)):
        for rank in range(2):
            assert torch.equal(parts[rank][step][0], x[rank::2])
            assert torch.equal(parts[rank][step][1], y[rank::2])
