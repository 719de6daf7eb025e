"""Values over seeds: scores, tables and bands of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from softmargin.papers import methods as m
from softmargin.papers.charts import banded
from softmargin.papers.core import Result, Scope
from softmargin.papers.grid import Method, Plan, Task
from softmargin.papers.runs import (
    ACCURACY,
    ACCURACY_CURVE,
    CHOSEN,
    CHOSEN_SCALED,
    Runs,
    after_epoch,
    after_share,
)
from softmargin.papers.statistics import summary
from softmargin.papers.tables import MethodTable, ScoreTable

SCOPE = Scope("desk", (0, 1))
METHODS = m.betas(1, 0.1, 5)
TASK = Task("t", "digits", "fcnn", {"epochs": 4}, methods=METHODS)


def runs_of(accuracy):
    """Return runs in which a method has ``accuracy(name, seed)``, reached in four epochs."""
    plan = Plan([(TASK, METHODS)], [])
    names = [method.name for method in METHODS]
    found = []
    for cell in plan.cells(SCOPE):
        last = np.array([accuracy(name, cell.config["seed"]) for name in names])
        curves = last[:, None] * np.array([0.25, 0.5, 0.75, 1.0])
        numbers = {"variants": names, "final": {"accuracy": last.tolist()}}
        found.append((cell, Result(numbers, {"accuracy": curves})))
    return Runs(SCOPE, found[::-1], plan)  # in any order


def test_methods_are_paired_by_seed():
    runs = runs_of(lambda name, seed: 0.5 + 0.1 * seed)
    assert ACCURACY.of(runs, TASK, "β = 0.1") == pytest.approx([50.0, 60.0])
    assert runs.note == "Desk scale, 2 seeds"


def test_the_chosen_method_is_the_best_on_held_out_images_seed_by_seed():
    chosen, scaled = Method("β chosen", scaling=CHOSEN), Method("both", scaling=CHOSEN_SCALED)
    methods = (*METHODS, Method("no β"))  # which is not chosen, however good
    task = replace(TASK, methods=methods)
    plan = Plan([(task, methods)], [], scalings=(chosen, scaled))
    names = [method.name for method in methods]
    held_out = {0: [0.3, 0.1, 0.2, 0.0], 1: [0.3, math.nan, 0.4, 0.0]}  # one diverged
    by_temperature = [0.3, 0.2, 0.1, 0.0]
    found = []
    for cell in plan.cells(SCOPE):
        numbers = {
            "variants": names,
            "final": {"accuracy": [0.1, 0.2, 0.3, 0.9]},
            "scaled": {"temperature": {"accuracy": [0.4, 0.5, 0.6, 0.9]}},
            "held_out": {
                "raw": {"nll": held_out[cell.config["seed"]]},
                "temperature": {"nll": by_temperature},
            },
        }
        found.append((cell, Result(numbers)))
    runs = Runs(SCOPE, found, plan)
    assert ACCURACY.of(runs, task, chosen) == pytest.approx([20.0, 10.0])
    assert ACCURACY.of(runs, task, "β chosen") == pytest.approx([20.0, 10.0])
    assert ACCURACY.of(runs, task, "both") == pytest.approx([60.0, 60.0])


@pytest.mark.parametrize("table", [ScoreTable(ACCURACY), MethodTable("t", [ACCURACY])])
def test_a_value_that_some_seed_lacks_has_no_entry(table):
    def without(name):
        return runs_of(lambda own, seed: math.nan if own == name and seed else 0.9 + 0.01 * seed)

    def methods(entries):
        return [next(n for n in (e.column, e.row) if n.startswith("β")) for e in entries]

    (found,) = table(without("β = 5"))
    assert methods(found.entries) == ["β = 1", "β = 0.1"]
    assert methods(each for each in found.entries if each.comparison) == ["β = 0.1"]
    (found,) = table(without("β = 1"))
    assert methods(found.entries) == ["β = 0.1", "β = 5"]
    assert all(each.comparison is None and each.baseline is None for each in found.entries)


def test_a_curve_is_read_after_an_epoch_or_a_share_of_them():
    runs = runs_of(lambda name, seed: 0.8)
    for score, value in (
        (after_epoch(ACCURACY_CURVE, 3), 60.0),
        (after_share(ACCURACY_CURVE, 0.5), 40.0),
        (after_share(ACCURACY_CURVE, 0.05), 20.0),
        (after_share(ACCURACY_CURVE, 1), 80.0),
    ):
        assert score.of(runs, TASK, "β = 1") == pytest.approx([value] * 2)
    assert after_epoch(ACCURACY_CURVE, 3).title == "after 3 epochs"


def test_bands_are_the_intervals_of_the_mean():
    values = np.array([[1.0, 5.0], [2.0, 7.0], [3.0, 6.0]])
    series = banded("x", [1, 2], values)
    own = summary(values[:, 1])
    assert (series.y[1], series.low[1], series.high[1]) == pytest.approx(
        (own.mean, own.low, own.high), abs=1e-4
    )
    assert banded("x", [1, 2], values[:1]).low == ()
