"""From numbers of the image experiments to tables and verdicts."""

import math
import re

import numpy as np
import pytest
from softmargin.papers.images.findings import lies, verdict
from softmargin.papers.images.runs import ACCURACY, Runs, score_table
from softmargin.papers.images.tasks import Plan, Task, each

from softmargin.papers.core import Result, Scope
from softmargin.papers.images import (
    EXPERIMENTS,
    gd_accuracy,
    lm_ablation,
)
from softmargin.papers.images import methods as m
from softmargin.papers.outcome import VERDICTS

BY_ID = {experiment.id: experiment for experiment in EXPERIMENTS}


SETTING = Scope("desk", (0, 1, 2))


def test_a_finding_needs_all_three_seeds_on_one_side():
    base = np.array([70.0, 71.0, 72.0])
    clear, unclear = (base + np.array(d) for d in ([0.1, 0.2, 0.3], [0.3, 0.2, -0.1]))
    values = {"a": clear, "b": base, "c": unclear}
    assert lies("x", values, ("a", "b"), 1).agrees is True
    assert lies("x", values, ("a", "b"), -1).agrees is False
    assert lies("x", values, ("c", "b"), 1).agrees is None
    assert "paired difference +0.20" in lies("x", values, ("a", "b"), 1).text
    assert lies("x", {"a": clear, "b": base * np.nan}, ("a", "b"), 1).agrees is None


def test_a_verdict_at_desk_scale_is_about_directions():
    values = {"a": np.array([1.0, 2.0, 3.0]), "b": np.zeros(3)}
    found = [lies("x", values, ("a", "b"), sign) for sign in (1, -1)]
    assert verdict(SETTING, found[:1]).word == "holds"
    assert verdict(SETTING, found).word == "holds in part"
    assert verdict(SETTING, found[1:]).word == "does not hold"
    assert verdict(SETTING, found).sentence.startswith("Of directions at this scale only.")
    assert verdict(Scope("smoke", (0,)), found).word == "path only"
    assert {verdict(SETTING, found[:n]).word for n in (1, 2)} <= set(VERDICTS)


def made_up_results(plan, setting, accuracy):
    """Return results with made-up accuracies, as ``accuracy(task, method, seed)``."""
    found = []
    for cell in plan.cells(setting):
        names = [each["name"] for each in cell.config["methods"]]
        own = [accuracy(cell.config["task"], name, cell.config["seed"]) for name in names]
        final = dict.fromkeys(("top_k_accuracy", "mean_confidence", "nll", "ece", "mce"), own)
        numbers = {"variants": names, "classes": 10, "final": {**final, "accuracy": own}}
        found.append((cell, Result({**numbers, "train_accuracy": own})))
    return found


def fabricated(cell):
    """Return a result of the right form with random numbers, as if a cell had been run."""
    generator = np.random.default_rng(int(cell.key, 16))
    names = [each["name"] for each in cell.config.get("methods", ())]
    names = names or [cell.config["method"]]
    count, epochs = len(names), cell.config["training"]["epochs"]
    final = {
        name: generator.uniform(0.2, 0.9, count).tolist()
        for name in ("accuracy", "top_k_accuracy", "mean_confidence", "nll", "ece", "mce")
    }
    numbers = {
        **{"variants": names, "classes": 10, "samples": 100, "final": final},
        **{"train_accuracy": final["accuracy"], "angles": {}},
        "scaled": {kind: final for kind in ("temperature", "vector")},
    }
    for name in ("wc_intra", "w_inter", "c_inter"):
        numbers["angles"][name] = generator.uniform(0.2, 2, count).tolist()
    arrays = {
        "accuracy": generator.uniform(size=(count, epochs)),
        "mean_bias": generator.uniform(size=(count, epochs)),
        "angle_counts": generator.integers(1, 9, (count, epochs + 1, 45)),
        "test_logits": generator.normal(size=(count, 30, 10)).astype(np.float16),
        "test_labels": generator.integers(0, 10, 30),
    }
    return Result(numbers, arrays)


@pytest.mark.parametrize("scale", ["desk", "paper"])
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.id)
def test_larger_scales_conclude_from_what_cells_give(experiment, scale):
    setting = experiment.scope(scale)
    results = [(cell, fabricated(cell)) for cell in experiment.cells(setting)]
    outcome = experiment.conclude(setting, results)
    assert outcome.verdict.word in list(VERDICTS)[:4]
    assert len(outcome.charts) >= 1
    printed = [entry for table in outcome.tables for entry in table.entries if entry.paper]
    if "tab" in experiment.id:
        assert printed
        if scale == "paper":  # every number of the paper's own row stands beside one of ours
            assert all("compare directions" not in table.note for table in outcome.tables)
    for chart in outcome.charts:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", chart.name)


@pytest.mark.parametrize(
    ("name", "count"),
    {
        **{"gd-tab2": 104, "gd-v1-tab5": 24, "gd-tab3": 72, "gd-tab4": 36, "gd-tab6": 30},
        **{"lm-tab1": 30, "lm-tab2": 7, "lm-tab3": 40, "lm-tab4": 34},
        **{"ag-tab4": 12, "ag-tab5": 12, "ag-tab6": 18, "ag-tab7": 24},
    }.items(),
)
def test_all_printed_numbers_stand_beside_ours_at_paper_scale(name, count):
    experiment = BY_ID[name]
    setting = experiment.scope("paper")
    results = [(cell, fabricated(cell)) for cell in experiment.cells(setting)]
    tables = experiment.conclude(setting, results).tables
    assert sum(entry.paper is not None for table in tables for entry in table.entries) == count


@pytest.mark.parametrize(("slope", "word"), [(-1, "holds"), (1, "does not hold")])
def test_the_rule_of_a_table_of_accuracy(slope, word):
    """On CIFAR-10 small β and the warm-up are claimed to be above β = 1, and β = 5 below."""
    table = gd_accuracy.TABLES["gd-v1-tab2"]

    def accuracy(task, method, seed):
        order = ["β = 5", "β = 2", "β = 1", "β = 0.1", "β = 0.01", "warm-up, β = 0.1→1"]
        place = order.index(method) if method in order else 0
        return 0.5 - slope * 0.01 * place + 0.001 * seed * (place + 1)

    outcome = table.conclude(SETTING, made_up_results(table.plan, SETTING, accuracy))
    assert outcome.verdict.word == word
    (accuracies, _) = outcome.tables
    entry = next(each for each in accuracies.entries if each.column == "β = 0.1")
    assert entry.paper == 84.4
    assert entry.mean == pytest.approx(100 * (0.5 - slope * 0.03 + 0.004))
    assert "compare directions" in accuracies.note


def test_a_divergence_is_compared_with_plain_softmax():
    def accuracy(task, method, seed):
        return 0.2 + 0.001 * seed + (0.0 if method == "softmax" else 0.02)

    plan = lm_ablation.PLAN_1
    outcome = lm_ablation.conclude_divergences(SETTING, made_up_results(plan, SETTING, accuracy))
    (table,) = outcome.tables
    by_place = {(entry.row, entry.column): entry for entry in table.entries}
    assert by_place["D(u‖q)", "λ = 0"].comparison is None
    assert by_place["D(u‖q)", "λ = 0.3"].comparison.difference == pytest.approx(-2.0)
    assert by_place["D(u‖q)", "λ = 0.3"].paper_sd == 0.34


def test_a_method_that_diverged_has_no_entry():
    task = Task("t", "digits", "fcnn", {"epochs": 1}, methods=m.betas(1, 0.1, 5))
    plan = Plan(each([task], m.betas(1, 0.1, 5)), [])

    def accuracy(task, method, seed):
        return math.nan if method == "β = 5" else 0.9

    results = made_up_results(plan, SETTING, accuracy)
    table = score_table(Runs(SETTING, results, plan), ACCURACY, "β = 1")
    assert [entry.column for entry in table.entries] == ["β = 1", "β = 0.1"]
