"""Choosing cells, planning them, and saying what they would take."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from softmargin.commands.reproduce import only_pairs
from softmargin.papers import plan
from softmargin.papers.core import Cell, experiments, find
from softmargin.papers.plan import (
    check_means,
    is_for_gpu,
    missing_data,
    planned,
    select,
    tried_out,
)

CELLS = [
    Cell("train", {"model": model, "beta": beta, "seed": 0, "training": {"lr": lr}}, f"{i}")
    for i, (model, beta, lr) in enumerate(
        [("resnet18", 0.1, 0.01), ("resnet18", 1, 0.01), ("vgg16", 0.1, 0.1), ("vgg16", 5.0, 0.1)]
    )
] + [Cell("together", {"model": "fcnn", "augment": True, "betas": [0.1, 1]}, "4")]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("beta=0.1", "02"),
        ("beta=1e-1", "02"),
        ("beta=1.0", "1"),
        ("beta=0.1,beta=5", "023"),
        ("beta=0.1, model=resnet18", "0"),
        ("lr=0.10", "23"),
        ("training.lr=0.01", "01"),
        ("augment=true", "4"),
        ("seed=0", "0123"),
    ],
)
def test_only_keeps_cells_with_these_values(text: str, labels: str) -> None:
    assert "".join(cell.label for cell in select(CELLS, only_pairs(text))) == labels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gamma=1", "one of model, beta, seed, lr, augment, but got 'gamma'"),
        ("betas=1", "must name a key"),
        ("beta=3", "beta must be one that cells have, one of 0.1, 1, 5, but got '3'"),
        ("beta=small", "but got 'small'"),
        ("model=resnet", "one of resnet18, vgg16, fcnn, but got 'resnet'"),
        ("beta=1,model=vgg16", "none has beta=1, model=vgg16"),
    ],
)
def test_only_says_what_there_is(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="^argument --only: ") as caught:
        select(CELLS, only_pairs(text))
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["beta", "", "beta=", "beta=1,,"])
def test_only_is_pairs(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be pairs such as"):
        only_pairs(text)


def test_long_lists_of_values_are_cut() -> None:
    many = [Cell("x", {"seed": seed}, "") for seed in range(30)]
    with pytest.raises(ValueError, match="such as 0, 1, 2, .* and 18 more, but got '99'"):
        select(many, {"seed": ["99"]})


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_every_cell_of_every_experiment_can_be_planned(scale: str) -> None:
    for experiment in experiments().values():
        for cell in experiment.cells(experiment.scope(scale)):
            found = planned(cell)
            assert found.cell is cell
            assert cell.seconds > 0
            assert not (is_for_gpu(cell) and scale != "paper")
            if cell.work != "nothing":
                assert found.models >= 1
                assert found.steps >= 1
                assert cell.config["data"] in found.what


def test_plans_count_steps_as_training_takes_them() -> None:
    def first(name: str, scale: str) -> Any:
        experiment = find(name)
        return planned(experiment.cells(experiment.scope(scale))[0])

    table = first("gd-tab1", "desk")
    assert (table.models, table.steps) == (6 * 4, 6 * 600)
    told = "6 variants × 4 seeds: fcnn widths 8-6 on mnist, 6 epochs"
    assert table.what.startswith(told)
    assert first("gd-tab1", "smoke").steps == 8 * 17  # 1617 digits in batches of 100
    folds = first("ag-tab1", "smoke")  # 100 of 150 rows in batches of 32
    assert (folds.models, folds.steps) == (10 * 2 * 3, 5 * 4)
    assert first("gd-fig2", "desk").steps == 0


@pytest.mark.slow
def test_a_dry_run_builds_a_paper_cell() -> None:
    experiment = find("gd-tab2")
    cells = experiment.cells(experiment.scope("paper"))
    cell = next(each for each in cells if each.config["model"] == "mobilenet_v1")
    found = tried_out(cell)
    assert found.parameters is not None
    assert found.parameters > 1e6
    assert found.steps == planned(cell).steps
    (theory,) = find("gd-fig2").cells(find("gd-fig2").scope("paper"))
    assert tried_out(theory).parameters is None


def test_what_paper_scale_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMARGIN_DATA", str(tmp_path))
    monkeypatch.setenv("SOFTMARGIN_CACHE", str(tmp_path / "cache"))
    experiment = find("gd-tab2")
    cells = experiment.cells(experiment.scope("paper"))
    needed = sorted({name for cell in cells for name in cell.needs})
    assert missing_data(cells) == needed

    def sentence(of: Sequence[Cell], gpu: bool) -> str:
        monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
        try:
            check_means(of)
        except ValueError as error:
            return str(error)
        return ""

    hours = sum(cell.seconds for cell in cells) / 3600
    for words in (
        f"{len(cells)} cells",
        f"{hours:,.1f} GPU hours",
        f"no GPU here and {', '.join(needed)} must be fetched",
        "--yes",
    ):
        assert words in sentence(cells, gpu=False)
    assert "GPU here" not in sentence(cells, gpu=True)
    (theory,) = find("gd-fig2").cells(find("gd-fig2").scope("paper"))
    assert sentence([theory], gpu=False) == ""
    monkeypatch.setattr(plan, "missing_data", lambda cells: [])
    assert sentence(cells, gpu=True) == ""
