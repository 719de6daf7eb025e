"""CONTRIBUTING's steps for a new loss and a new head, followed to the letter."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import head_cases
import loss_cases
import softmargin.functional.softmax
import softmargin.heads.base
import test_heads
import test_losses
from softmargin import catalogue, functional, heads, losses
from softmargin._settings import Setting
from softmargin.cli import main
from softmargin.functional.margins import at_least_float32
from softmargin.training import TrainingConfig, train, train_together

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
CONFIG = TrainingConfig("iris", "mlp", epochs=3, batch=45, precision="64")


def blocks() -> list[str]:
    """Return the Python code of the section."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## Adding a loss or a head")[1].split("\n## ")[0]
    return [textwrap.dedent(each) for each in re.findall(r"```python\n(.*?)```", section, re.S)]


def placed(code: str, module: Any, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    """Run code as if it stood in a module; return its names, and the values of its rows."""
    names = {**vars(module), **more}
    rows = []
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            rows.append(eval(compile(ast.Expression(statement.value), str(PAGE), "eval"), names))
        else:
            exec(compile(ast.Module([statement], []), str(PAGE), "exec"), names)
    return names, rows


@pytest.fixture
def new_loss(monkeypatch):
    function, module, case, entry, _ = blocks()
    names, _ = placed(function, softmargin.functional.softmax)
    monkeypatch.setattr(functional, "squared_log_loss", names["squared_log_loss"], raising=False)
    names, _ = placed(module, losses)
    monkeypatch.setattr(losses, "SquaredLogLoss", names["SquaredLogLoss"], raising=False)
    (row,) = placed(entry, catalogue)[1]
    monkeypatch.setattr(catalogue, "LOSSES", [*catalogue.LOSSES, row])
    monkeypatch.setitem(catalogue.SECTIONS, "Losses on logits", catalogue.LOSSES)
    return placed(case, loss_cases)[1][0]


@pytest.fixture
def new_head(monkeypatch):
    *_, code = blocks()
    more = {"Setting": Setting, "Head": heads.Head, "at_least_float32": at_least_float32}
    module = code.split("def distance")[0]
    head = placed(module, softmargin.heads.base, **more)[0]["DistanceHead"]
    monkeypatch.setattr(heads, "DistanceHead", head, raising=False)
    both = {**vars(head_cases), "Entry": catalogue.Entry}
    case, row = placed("def distance" + code.split("def distance")[1], catalogue, **both)[1]
    monkeypatch.setattr(catalogue, "HEADS", [*catalogue.HEADS, row])
    monkeypatch.setitem(catalogue.SECTIONS, "Heads, from features to logits", catalogue.HEADS)
    return case


def test_the_rows_test_the_loss_and_the_head(new_loss, new_head):
    for options in new_loss.options:
        test_losses.test_equals_a_slow_reference(new_loss, options, "index", 0.2, True)
        test_losses.test_gradients(new_loss, options, "probability")
    test_losses.test_vmap_over_modules_with_stacked_state(new_loss)
    test_losses.test_own_bad_arguments(new_loss)
    for options in new_head.options:
        test_heads.test_logits_equal_a_slow_reference(new_head, options)
        test_heads.test_gradients(new_head, options)
    test_heads.test_vmap_over_models_equals_a_loop(new_head)


def test_the_catalogue_shows_them(new_loss, new_head, capsys):
    for name in ("SquaredLogLoss", "DistanceHead"):
        assert main(["losses", name]) == 0
        assert capsys.readouterr().out.startswith(f"{name}(scale=1.0")
        assert f"| `{name}` |" in catalogue.as_markdown()


def test_alone_together_and_by_command_they_train_the_same(new_loss, new_head, tmp_path):
    changes: list[dict[str, Any]] = [
        {"loss": "squared_log", "loss_options": {"scale": 0.5}},
        {"loss": "squared_log", "schedules": ("loss.scale=linear:0.1:1:50%",)},
        {"head": "distance", "head_options": {"scale": 2.0}},
        {"head": "distance", "loss": "SquaredLogLoss", "schedules": ("head.scale=cosine:1:3:4",)},
    ]
    configs = [TrainingConfig(**{**CONFIG.as_dict(), **change}) for change in changes]
    together = train_together(configs)
    for number, config in enumerate(configs):
        alone = train(config, tmp_path / str(number), device="cpu")
        assert float(together.final("nll")[number]) == pytest.approx(alone["nll"], rel=1e-9)
    options = ["--data", "iris", "--model", "mlp", "--epochs", "3", "--batch", "45"]
    options += ["--precision", "64", "--device", "cpu"]
    options += ["--head", "distance", "--loss", "squared_log", "--scale", "2"]
    assert main(["train", "--out", str(tmp_path / "run"), *options]) == 0
    state = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert float(state["model"]["head.scale"]) == 2.0
