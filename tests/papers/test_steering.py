"""sm-steering: what is held out by a method itself, scaled and stopped by it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from softmargin.papers.beyond import AFTERWARDS, FEEDBACK, HELD_OUT, STEERED, WITHOUT_THEM
from softmargin.papers.core import Cell, Result, Scope
from softmargin.papers.grid import Method, Plan, Task
from softmargin.papers.images import as_trained, held_out_by, load_part
from softmargin.papers.runs import ACCURACY, NLL, Runs
from softmargin.papers.train import train_many, training_config

TASK = Task(
    "digits",
    "digits",
    "fcnn",
    {
        "model_options": {"widths": [8]},
        "epochs": 3,
        "batch": 50,
        "lr": 0.05,
        "weight_decay": 0.0,
    },
    {"train": 900},
    FEEDBACK,
    ("own held-out",),
)


def test_methods_that_need_no_feedback_train_on_all_images():
    images = load_part("digits", {"train": 900})
    cell = TASK.cell(0)
    for method in cell.config["methods"]:
        config = training_config(cell.config, method)
        kept = held_out_by(images.dataset, config)
        if method["name"] in ("β = 1", "LSR, λ = 0.1", "focal, γ = 3"):
            assert kept is None
            assert len(as_trained(images.dataset, config).train) == 900
        else:
            assert kept is not None
            assert len(kept) == 180
            assert len(as_trained(images.dataset, config).train) == 720
    assert HELD_OUT == 0.2
    assert {task.data for task in STEERED} == {"cifar10", "cifar100", "svhn"}


def test_a_cell_has_the_scores_of_scaling_and_the_curve_to_stop_by(tmp_path):
    result = train_many(TASK.cell(0).config, tmp_path, lambda share: None)
    names = result.numbers["variants"]
    own = names.index(WITHOUT_THEM)
    assert math.isnan(result.numbers["temperature"][names.index("β = 1")])
    assert result.numbers["temperature"][own] > 0
    raw = result.numbers["held_out"]["raw"]["nll"][own]
    assert result.arrays["held_out_nll"][own, -1] == pytest.approx(raw, rel=1e-3)
    assert np.isnan(result.arrays["held_out_nll"][names.index("β = 1")]).all()
    assert np.isfinite(result.arrays["held_out_nll"][own:]).all()


def test_stopping_reads_the_test_score_at_the_best_held_out_epoch():
    own = Method("rest", {"held_out": 0.5})
    stopped = Method("stopped", scaling="stopped", base="rest")
    warm = Method("warm", scaling="temperature", base="rest")
    task = Task("t", "digits", "fcnn", {}, methods=(Method("β = 1"), own))
    plan = Plan([(task, task.methods)], [], scalings=(stopped, warm))
    finished: list[tuple[Cell, Result]] = []
    for seed, best in ((0, 1), (1, 2)):
        held = [[math.nan] * 3, [1.0 - (epoch == best) for epoch in range(3)]]
        numbers = {
            "variants": ["β = 1", "rest"],
            "final": {"nll": [9.0, 9.0]},
            "scaled": {"temperature": {"nll": [math.nan, 5.0 + seed]}},
        }
        arrays = {
            "held_out_nll": np.array(held),
            "nll": np.array([[0.0] * 3, [0.1, 0.2, 0.3]]),
            "accuracy": np.array([[0.0] * 3, [0.5, 0.6, 0.7]]),
        }
        finished.append((task.cell(seed), Result(numbers, arrays)))
    runs = Runs(Scope("desk", (0, 1)), finished, plan)
    assert NLL.of(runs, task, stopped).tolist() == [0.2, 0.3]
    assert ACCURACY.of(runs, task, "stopped").tolist() == [60.0, 70.0]
    assert NLL.of(runs, task, "warm").tolist() == [5.0, 6.0]
    assert [each.base for each in AFTERWARDS] == [WITHOUT_THEM] * 2
