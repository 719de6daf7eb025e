"""A configuration is checked by type, once, wherever it comes from."""

from __future__ import annotations

import dataclasses
import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch

from softmargin.cli import main
from softmargin.training import TrainingConfig
from softmargin.training.config import OptionError

FIELDS = [field.name for field in dataclasses.fields(TrainingConfig)]
TEXT = ["data", "model", "head", "loss", "lr_schedule", "target"]
OPTIONS = ["model_options", "head_options", "loss_options"]
COUNTS = ["epochs", "batch", "seed"]
FLAGS = ["augment", "record"]
NUMBERS = ["center", "lr", "momentum", "weight_decay", "clip", "fraction", "pollute", "held_out"]
OPTIONAL = ["clip", "fraction"]
WRONG = {
    **dict.fromkeys(TEXT, (None, 1, 1.5, True, ["digits"], {"a": 1}, b"digits")),
    **dict.fromkeys(OPTIONS, (None, 1, True, "beta", ["beta"], {1: 2}, {"a": object()})),
    **dict.fromkeys(COUNTS, (None, 1.5, 2.0, "2", True, [2], {"a": 2}, -1, float("nan"))),
    **dict.fromkeys(FLAGS, (None, 0, 1, 1.0, "maybe", "true", [True], {})),
    **dict.fromkeys(NUMBERS, ("much", True, [0.1], {"a": 0.1}, float("nan"), "inf", -0.1)),
    "schedules": (None, 1, True, {"beta": "linear"}, [1], [None]),
    "optimizer": (None, 1, True, "SGD!", ["sgd"]),
    "precision": (None, 8, 64.0, True, "double", ["32"]),
}
WRONG |= {name: (*WRONG[name], None) for name in NUMBERS if name not in OPTIONAL}


def test_every_option_has_a_row_in_the_table_and_in_the_docstring() -> None:
    assert set(FIELDS) == set(WRONG)
    for name in FIELDS:
        assert f"\n    {name}: " in str(TrainingConfig.__doc__)


@pytest.mark.parametrize("name", FIELDS)
def test_wrong_types_are_refused_by_the_name_of_the_option(name: str) -> None:
    for value in WRONG[name]:
        for make in (lambda v: TrainingConfig(**v), TrainingConfig.from_dict):
            with pytest.raises(OptionError, match=name) as caught:
                make({name: value})
            assert caught.value.option == name
            assert str(caught.value).count("\n") == 0
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.option, str(again)) == (name, str(caught.value))


def test_what_can_only_mean_one_thing_is_converted() -> None:
    config = TrainingConfig.from_dict(
        {
            "precision": 64,
            "lr": "1e-3",
            "clip": 3,
            "seed": np.int64(7),
            "weight_decay": np.float32(0.5),
            "schedules": "beta=linear:0.1:1:30%",
            "model_options": {"widths": (8, np.int64(4))},
        }
    )
    assert config.precision == "64"
    assert (config.lr, config.clip, config.seed, config.weight_decay) == (1e-3, 3.0, 7, 0.5)
    assert [type(value) for value in (config.clip, config.seed)] == [float, int]
    assert config.schedules == ("beta=linear:0.1:1:30%",)
    assert config.model_options == {"widths": [8, 4]}
    assert TrainingConfig.from_dict(config.as_dict()) == config


@pytest.mark.slow
def test_yaml_of_64_bits_trains_in_float64(tmp_path) -> None:
    (tmp_path / "a.yaml").write_text("data: iris\nmodel: mlp\nepochs: 1\nprecision: 64\n")
    run = tmp_path / "run"
    assert main(["train", "--config", str(tmp_path / "a.yaml"), "--out", str(run)]) == 0
    state = torch.load(run / "checkpoint.pt", weights_only=True)["model"]
    assert all(value.dtype == torch.float64 for value in state.values() if value.ndim)


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefghi"))
YAML = {
    "wrong type": ("augment: maybe", "augment in 'a.yaml' must be true or false, but got 'maybe'"),
    "unknown": ("epoch: 3", "epoch in 'a.yaml': every option must be one of"),
    "no name": ("3: 3", "every option must be one of"),
    "nested": ("loss_options: " + "[" * 30_000, "nested more than 10 deep"),
    "nested mappings": ("{a: " * 15_000, "nested more than 10 deep"),
    "aliases": (BOMB, "it refers to itself with *a"),
    "itself": ("loss_options: &a\n  beta: *a", "it refers to itself with *a"),
    "huge": ("# " + "x" * 200_000, "it has more than 65536 bytes"),
    "long number": ("epochs: " + "9" * 20_000, "config must be a readable YAML file"),
    "large number": ("epochs: " + "9" * 400, "at most"),
    "control": ("data: \x07", "config must be a readable YAML file"),
    "not text": ("data: \udcff", "config must be a readable YAML file"),
    "list": ("- a", "config must hold names and values"),
    "date": ("data: 2020-01-01", "data in 'a.yaml' must be text"),
}


@pytest.mark.parametrize("name", YAML)
def test_bad_yaml_gets_one_sentence(tmp_path, monkeypatch, capsys, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    text, message = YAML[name]
    (tmp_path / "a.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["train", "--config", "a.yaml", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 700
    assert not (tmp_path / "run").exists()
