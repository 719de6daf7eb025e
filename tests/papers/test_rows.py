"""Experiments as rows: what they say, and what follows from numbers."""

import re

import made_up_cells
import pytest
from one_of_each import one_of_each_paper
from smoke_runs import IMAGES

from softmargin.papers import gd, lm
from softmargin.papers.core import Result, Scope, experiments
from softmargin.papers.outcome import VERDICTS, Outcome, Shortfall

BY_ID = {experiment.id: experiment for experiment in IMAGES}
SCOPE = Scope("desk", (0, 1, 2))
OF_SPEC = """
    gd-fig2 gd-fig7 gd-tab1 gd-fig1 gd-fig3 gd-fig4 gd-fig5 gd-tab2 gd-v1-tab2 gd-v1-tab3
    gd-v1-tab4 gd-v1-tab5 gd-tab3 gd-tab4 gd-tab5 gd-tab6 gd-fig6 gd-fig9 gd-fig10 gd-fig11
    gd-fig12 gd-fig13 gd-fig8 lm-fig1 lm-fig4 lm-tab1 lm-tab2 lm-fig3 lm-tab3 lm-tab4 ag-fig1
    ag-tab1 ag-tab4 ag-tab5 ag-fig2 ag-fig3 ag-tab6 ag-fig4 ag-tab7
"""


def test_the_list_of_the_specification_is_complete():
    assert set(experiments()) >= set(OF_SPEC.split())
    assert len(BY_ID) == len(IMAGES)


@pytest.mark.parametrize("experiment", IMAGES, ids=lambda each: each.id)
def test_an_experiment_says_what_it_claims_and_where_it_deviates(experiment):
    assert set(experiment.deviations) == {"smoke", "desk", "paper"}
    assert "two cores" in experiment.deviations["desk"]
    assert experiment.seeds["desk"] >= 3
    assert experiment.seeds["paper"] >= 3
    assert experiment.claim.endswith(".")


@pytest.mark.parametrize("experiment", IMAGES, ids=lambda each: each.id)
def test_a_title_at_desk_scale_names_the_networks_that_were_trained(experiment):
    trained = {cell.config["model"] for cell in experiment.cells(experiment.scope("desk"))}
    title = experiment.title_at("desk")
    words = {"fcnn": "fully connected", "small_resnet": "small residual"}
    assert {name for name, word in words.items() if word in title} == trained
    assert "networks for the paper's" in title
    assert experiment.title_at("paper") == experiment.title


def test_the_same_networks_stand_for_several_of_the_paper():
    titles = [BY_ID[f"gd-fig{number}"].title_at("desk") for number in (6, 10, 11)]
    told = "Reliability diagrams by β, CIFAR-100, "
    assert titles == [
        f"{told}small residual networks for the paper's ResNet18",
        f"{told}small residual networks for the paper's ResNet34",
        f"{told}small residual networks for the paper's VGG16",
    ]


def made_up_results(plan, scope, accuracy):
    """Return results with made-up accuracies, as ``accuracy(task, method, seed)``."""
    found = []
    for cell in plan.cells(scope):
        together = cell.config.get("methods", [{"name": cell.config.get("method")}])
        names = [each["name"] for each in together]
        own = [accuracy(cell.config["task"], name, cell.config["seed"]) for name in names]
        final = dict.fromkeys(("top_k_accuracy", "mean_confidence", "nll", "ece", "mce"), own)
        numbers = {"variants": names, "classes": 10, "final": {**final, "accuracy": own}}
        found.append((cell, Result({**numbers, "train_accuracy": own})))
    return found


@pytest.mark.parametrize("scale", ["desk", "paper"])
@pytest.mark.parametrize("name", list(one_of_each_paper(BY_ID)))
def test_larger_scales_conclude_from_what_cells_give(name, scale):
    experiment = BY_ID[name]
    scope = experiment.scope(scale)
    outcome = experiment.conclude(scope, made_up_cells.finished(experiment.cells(scope)))
    assert outcome.verdict.word in list(VERDICTS)[:4]
    assert len(outcome.charts) >= 1
    printed = [entry for table in outcome.tables for entry in table.entries if entry.paper]
    if "tab" in experiment.id:
        assert printed
        if scale == "paper":  # every number of the paper's own row stands beside one of ours
            assert all("compare directions" not in table.note for table in outcome.tables)
    for chart in outcome.charts:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", chart.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    {
        "gd-tab2": 104,
        "gd-v1-tab5": 24,
        "gd-tab3": 72,
        "gd-tab4": 36,
        "gd-tab6": 30,
        "lm-tab1": 30,
        "lm-tab2": 7,
        "lm-tab3": 40,
        "lm-tab4": 34,
        "ag-tab4": 12,
        "ag-tab5": 12,
        "ag-tab6": 18,
        "ag-tab7": 24,
    }.items(),
)
def test_all_printed_numbers_stand_beside_ours_at_paper_scale(name, count, monkeypatch):
    monkeypatch.setattr(made_up_cells, "DIVERGED", ())  # what diverged has no entry
    experiment = BY_ID[name]
    scope = experiment.scope("paper")
    tables = experiment.conclude(scope, made_up_cells.finished(experiment.cells(scope))).tables
    assert sum(entry.paper is not None for table in tables for entry in table.entries) == count


@pytest.mark.parametrize(("slope", "word"), [(-1, "holds"), (1, "does not hold")])
def test_the_rule_of_a_table_of_accuracy(slope, word):
    """On CIFAR-10 small β and the warm-up are claimed to be above β = 1, and β = 5 below."""
    (row,) = (each for each in gd.ROWS if each.id == "gd-v1-tab2")

    def accuracy(task, method, seed):
        order = ["β = 5", "β = 2", "β = 1", "β = 0.1", "β = 0.01", "warm-up, β = 0.1→1"]
        place = order.index(method) if method in order else 0
        return 0.5 - slope * 0.01 * place + 0.001 * seed * (place + 1)

    outcome = row.conclude(SCOPE, made_up_results(row.plan, SCOPE, accuracy))
    assert outcome.verdict.word == word
    (accuracies, _) = outcome.tables
    entry = next(each for each in accuracies.entries if each.column == "β = 0.1")
    assert entry.paper == 84.4
    assert entry.mean == pytest.approx(100 * (0.5 - slope * 0.03 + 0.004))
    assert "compare directions" in accuracies.note


@pytest.mark.parametrize(("level", "is_far"), [(0.35, True), (0.45, False)])
def test_a_verdict_says_where_networks_have_less_than_half_of_the_papers_accuracy(level, is_far):
    row = lm.TABLE_1  # whose softmax has 28.62 % errors
    outcome = row.conclude(SCOPE, made_up_results(row.plan, SCOPE, lambda *_: level))
    tasks = ["CIFAR-100, residual network, ablation", "CIFAR-100, ablation, fully connected"]
    expected = [Shortfall(task, 100 * level, pytest.approx(71.38)) for task in tasks if is_far]
    assert outcome.verdict.shortfalls == expected
    assert outcome.verdict.told.endswith("accuracy") is is_far
    assert Outcome.from_dict(outcome.as_dict()).verdict.level == outcome.verdict.level
    for task in tasks:
        assert (f"{task}: 35.0 of 71.4 %" in outcome.verdict.level) is is_far


def test_a_divergence_is_compared_with_plain_softmax():
    def accuracy(task, method, seed):
        return 0.2 + 0.001 * seed + (0.0 if method == "softmax" else 0.02)

    row = lm.TABLE_1
    outcome = row.conclude(SCOPE, made_up_results(row.plan, SCOPE, accuracy))
    residual, connected = outcome.tables
    assert "residual" in residual.title
    assert "connected" in connected.title
    for table in outcome.tables:
        by_place = {(entry.row, entry.column): entry for entry in table.entries}
        assert by_place["D(u‖q)", "λ = 0"].comparison is None
        assert by_place["D(u‖q)", "λ = 0.3"].comparison.difference == pytest.approx(-2.0)
        assert by_place["D(u‖q)", "λ = 0.3"].paper_sd == 0.34
