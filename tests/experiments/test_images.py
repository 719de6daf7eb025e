"""The experiments on images: all cells are trained for real at smoke scale, then concluded."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from smoke_runs import conclude_all, run_all

from softmargin import data
from softmargin.calibration import calibration_metrics
from softmargin.experiments.experiment import Cell, Result, Setting
from softmargin.experiments.images import (
    EXPERIMENTS,
    ag_accuracy,
    ag_numbers,
    desk,
    dry_run,
    gd_accuracy,
    gd_numbers,
    lm_ablation,
    lm_numbers,
    recipes,
    train_one,
)
from softmargin.experiments.images import methods as m
from softmargin.experiments.images.ag_angles import mean_angles
from softmargin.experiments.images.costs import GIGA_OPERATIONS, SHAPES, gpu_seconds, operations
from softmargin.experiments.images.findings import lies, verdict
from softmargin.experiments.images.measures import scaled, scores, shifted
from softmargin.experiments.images.prepare import as_trained, load_part, taken
from softmargin.experiments.images.runs import ACCURACY, Runs, score_table
from softmargin.experiments.images.tasks import Plan, Task, each, shrunk
from softmargin.experiments.images.training import training_config
from softmargin.experiments.outcome import VERDICTS, Outcome
from softmargin.experiments.registry import experiments
from softmargin.experiments.store import CellStore
from softmargin.experiments.write import read_result, write_result
from softmargin.models import build
from softmargin.training import RunFolder, TrainingConfig, train
from softmargin.training.parts import make_head, make_loss, make_schedules
from softmargin.training.rates import learning_rate

BY_ID = {experiment.id: experiment for experiment in EXPERIMENTS}
OF_SPEC = """
    gd-fig2 gd-fig7 gd-tab1 gd-fig1 gd-fig3 gd-fig4 gd-fig5 gd-tab2 gd-v1-tab2 gd-v1-tab3
    gd-v1-tab4 gd-v1-tab5 gd-tab3 gd-tab4 gd-tab5 gd-tab6 gd-fig6 gd-fig9 gd-fig10 gd-fig11
    gd-fig12 gd-fig13 gd-fig8 lm-fig1 lm-fig4 lm-tab1 lm-tab2 lm-fig3 lm-tab3 lm-tab4 ag-fig1
    ag-tab1 ag-tab4 ag-tab5 ag-fig2 ag-fig3 ag-tab6 ag-fig4 ag-tab7
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return CellStore(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def finished(store):
    return run_all(EXPERIMENTS, store)


@pytest.fixture(scope="module")
def outcomes(finished):
    return conclude_all(EXPERIMENTS, finished)


def keys(name, scale):
    experiment = BY_ID[name]
    return {cell.key for cell in experiment.cells(experiment.setting(scale))}


def paper_cells():
    """Return all cells of paper scale, those that differ in their seed once."""
    found = {}
    for experiment in EXPERIMENTS:
        for cell in experiment.cells(experiment.setting("paper")):
            found.setdefault(json.dumps({**cell.config, "seed": 0}, sort_keys=True), cell)
    return list(found.values())


# --- the list


def test_the_list_of_the_specification_is_complete():
    assert set(experiments()) >= set(OF_SPEC.split())
    assert len(BY_ID) == len(EXPERIMENTS)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.id)
def test_an_experiment_says_what_it_claims_and_where_it_deviates(experiment):
    assert set(experiment.deviations) == {"smoke", "desk", "paper"}
    assert "two cores" in experiment.deviations["desk"]
    assert experiment.seeds["desk"] >= 3
    assert experiment.seeds["paper"] >= 3
    assert experiment.claim.endswith(".")


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_cells_are_plain_values_and_each_is_there_once(scale):
    labels = {}
    for experiment in EXPERIMENTS:
        own = experiment.cells(experiment.setting(scale))
        assert len({cell.key for cell in own}) == len(own)
        for cell in own:
            assert json.loads(json.dumps(cell.config)) == cell.config
            assert cell.needs == (cell.config["data"],)
            assert labels.setdefault(cell.label, cell.key) == cell.key  # a label is one cell's
            if cell.work == "train":
                training_config(cell.config)
            for method in cell.config.get("methods", ()):
                training_config(cell.config, method)


def test_experiments_share_the_cells_they_can():
    for scale in ("smoke", "desk"):
        assert keys("gd-v1-tab2", scale) < keys("gd-tab2", scale)
        assert keys("gd-v1-tab4", scale) == keys("gd-v1-tab5", scale) == keys("gd-tab4", scale)
        assert keys("gd-fig6", scale) == keys("gd-fig10", scale) == keys("gd-fig11", scale)
        assert keys("gd-fig9", scale) < keys("gd-tab3", scale)
        assert keys("gd-tab6", scale) == keys("gd-fig13", scale)
        assert keys("lm-tab1", scale) == keys("lm-tab2", scale) == keys("lm-fig3", scale)
        assert keys("ag-tab6", scale) < keys("ag-tab7", scale)
        assert keys("ag-fig4", scale) < keys("ag-tab4", scale)
    assert keys("gd-v1-tab3", "paper") < keys("gd-tab2", "paper")
    assert keys("gd-v1-tab4", "paper") == keys("gd-v1-tab5", "paper")
    assert keys("gd-fig6", "paper") & keys("gd-tab2", "paper")
    assert keys("gd-tab5", "paper") == keys("gd-fig12", "paper")
    assert keys("lm-fig3", "paper") < keys("lm-tab2", "paper")
    assert keys("ag-fig4", "paper") < keys("ag-tab6", "paper") < keys("ag-tab4", "paper")


def test_desk_scale_fits_ninety_minutes_and_smoke_three():
    total = {}
    for scale in ("desk", "smoke"):
        cells = {}
        for experiment in EXPERIMENTS:
            if experiment.paper != "SM":  # the papers' tables; those beyond come on top
                cells |= {c.key: c for c in experiment.cells(experiment.setting(scale))}
        # those trained one by one run two at a time
        total[scale] = sum(c.seconds / (1 + (c.work == "train")) for c in cells.values())
    assert total["desk"] < 100 * 60
    assert total["smoke"] < 60


# --- the papers' numbers


def test_transcribed_tables_are_whole():
    assert len(gd_numbers.TABLE_2) == 13
    assert {len(row) for row in gd_numbers.TABLE_2.values()} == {8}
    for task in (*recipes.SVHN, *recipes.CIFAR10, *recipes.CIFAR100, recipes.TINY_34):
        assert task.beside in gd_numbers.TABLE_2
    for table in (gd_numbers.V1_TABLE_2, gd_numbers.V1_TABLE_3, gd_numbers.V1_TABLE_4):
        assert [len(row) for row in table.values()] == [6] * 4
    assert {len(row) for row in lm_numbers.TABLE_1.values()} == {9}
    assert {len(row) for row in lm_numbers.TABLE_3.values()} == {10}
    assert {len(row) for row in ag_numbers.TABLE_7.values()} == {6}


def test_numbers_that_the_papers_print_twice_agree():
    # the first version's SVHN is the second's
    for row, values in gd_numbers.V1_TABLE_3.items():
        assert {name: gd_numbers.TABLE_2[row][name] for name in values} == values
    # β of Tables 3, 4 and 5 are those of Table 2, and each other's
    for network in ("ResNet18", "ResNet34"):
        row = f"CIFAR-100, {network}"
        for name in ("β = 20", "β = 10", "β = 1", "β = 0.1"):
            for table, score in ((gd_numbers.TABLE_3_ECE, "ECE"), (gd_numbers.TABLE_3_MCE, "MCE")):
                assert table[row][name] == gd_numbers.TABLE_4[score][row][name]
        for name in ("β = 5", "β = 1", "β = 0.1"):
            assert gd_numbers.TABLE_4["Top-1 accuracy"][row][name] == gd_numbers.TABLE_2[row][name]
    tiny = "Tiny-ImageNet, ResNet34"
    for name in ("β = 5", "β = 1", "β = 0.1", "β = 0.01"):
        assert gd_numbers.TABLE_5["Top-1 accuracy"][tiny][name] == gd_numbers.TABLE_2[tiny][name]
    for table, network in ((gd_numbers.TABLE_5, "34"), (gd_numbers.TABLE_6, "50")):
        row = f"Tiny-ImageNet, ResNet{network}"
        for name in ("β = 20", "β = 10", "β = 1", "β = 0.1"):
            assert table["ECE"][row][name] == gd_numbers.TABLE_3_ECE[row][name]
            assert table["MCE"][row][name] == gd_numbers.TABLE_3_MCE[row][name]
    ours = lm_numbers.TABLE_2["regularised, λ = 0.3"]
    assert lm_numbers.TABLE_1["D̃(q)"]["λ = 0.3"] == ours


def test_transcribed_numbers_are_possible():
    for table in (
        gd_numbers.TABLE_2,
        gd_numbers.V1_TABLE_4,
        lm_numbers.TABLE_4,
        ag_numbers.TABLE_7,
    ):
        for row in table.values():
            assert all(0 < value < 100 for value in row.values())
    for row, values in gd_numbers.TABLE_3_ECE.items():
        largest = gd_numbers.TABLE_3_MCE[row]
        assert all(value < largest[name] < 1 for name, value in values.items())
    for top_1, top_5 in (
        (gd_numbers.V1_TABLE_4, gd_numbers.V1_TABLE_5),
        (ag_numbers.TABLE_5_TOP_1, ag_numbers.TABLE_5_TOP_5),
        (gd_numbers.TABLE_5["Top-1 accuracy"], gd_numbers.TABLE_5["Top-5 accuracy"]),
    ):
        for row in top_1:
            assert all(top_1[row][name] < top_5[row][name] for name in top_1[row])
    assert all(0 < value < math.pi for row in ag_numbers.TABLE_6.values() for value in row.values())
    # fewer images and more wrong labels are harder
    for row in lm_numbers.TABLE_3.values():
        means = [mean for mean, _ in row.values()]
        assert means[:5] == sorted(means[:5])
        assert means[5:] == sorted(means[5:])


# --- smoke scale, for real


@pytest.mark.parametrize("name", BY_ID)
def test_every_experiment_concludes_at_smoke_scale(name, outcomes, tmp_path):
    outcome = outcomes[name]
    assert outcome.verdict.word == "path only"
    assert outcome.tables
    assert Outcome.from_dict(outcome.as_dict()).as_dict() == outcome.as_dict()
    for table in outcome.tables:
        places = [(entry.row, entry.column) for entry in table.entries]
        assert len(set(places)) == len(places) > 0
        assert all(entry.paper is None for entry in table.entries)  # other data: nothing beside
        assert all(len(entry.values) == 2 for entry in table.entries)
    assert any(entry.comparison for table in outcome.tables for entry in table.entries)
    assert all(
        each.kind in ("points", "line", "bars", "reliability", "histogram")
        for each in outcome.charts
    )
    assert all("digits" in line for line in outcome.setup.values())


def test_a_result_is_written_and_read_back(outcomes, tmp_path):
    for name in ("gd-fig6", "lm-tab1", "ag-fig4"):
        experiment = BY_ID[name]
        write_result(experiment, experiment.setting("smoke"), outcomes[name], tmp_path / name)
        meta, outcome = read_result(tmp_path / name)
        assert meta["id"] == name
        assert outcome.verdict.word == "path only"
        assert all((tmp_path / name / f"{chart.name}.svg").exists() for chart in outcome.charts)


def test_scores_are_those_of_the_stored_logits(finished):
    for _, result in finished["gd-tab2"]:
        logits = torch.from_numpy(result.arrays["test_logits"]).float()
        y = torch.from_numpy(result.arrays["test_labels"]).long()
        for place in range(len(logits)):
            again = calibration_metrics(logits[place], y, from_logits=True, classwise=False)
            for name in ("accuracy", "ece", "mce", "nll"):
                stored = result.numbers["final"][name][place]
                assert stored == pytest.approx(getattr(again, name), abs=1e-9)


def test_results_hold_what_tables_need(finished):
    for name, own in finished.items():
        for cell, result in own:
            count = len(cell.config.get("methods", [None]))
            epochs = cell.config["training"]["epochs"]
            assert len(result.numbers["variants"]) == count
            assert all(len(values) == count for values in result.numbers["final"].values())
            assert result.arrays["accuracy"].shape == (count, epochs)
            assert all(0 <= value <= 1 for value in result.numbers["train_accuracy"])
            if "bias" in cell.config["measures"]:
                assert result.arrays["mean_bias"].shape == (count, epochs), name
                assert (result.arrays["mean_bias"] <= math.log(9) + 1e-6).all()
            if "scaling" in cell.config["measures"]:
                assert set(result.numbers["scaled"]) == {"temperature", "vector"}
            if "angles by epoch" in cell.config["measures"]:
                assert result.arrays["angle_counts"].shape == (1, epochs + 1, 45)


def test_the_last_epoch_of_the_curves_is_the_final_score(finished):
    for _, result in finished["ag-tab4"]:
        last = result.arrays["accuracy"][:, -1]
        assert np.allclose(last, result.numbers["final"]["accuracy"], atol=1e-6)


def test_methods_trained_together_start_alike_and_differ_in_the_end(finished):
    cell, result = finished["gd-v1-tab2"][0]
    assert len({tuple(row) for row in result.arrays["nll"].tolist()}) == len(cell.config["methods"])


# --- the work


@pytest.fixture
def one(tmp_path) -> tuple[Cell, Path]:
    task = shrunk(desk.ARC_10_PLUS)
    (cell,) = task.cells([m.ARC_GRAD], [1])
    return cell, tmp_path


def test_a_network_by_itself_is_the_trainers(one):
    cell, folder = one
    result = train_one(cell.config, folder, lambda share: None)
    images = load_part(cell.config["data"], cell.config["part"], 1)
    alone = train(training_config(cell.config), folder / "alone", dataset=images.dataset)
    assert result.numbers["final"]["accuracy"] == [pytest.approx(alone["accuracy"])]
    assert result.numbers["final"]["ece"] == [pytest.approx(alone["ece"], abs=1e-3)]
    history = [epoch["accuracy"] for epoch in RunFolder(folder / "alone").metrics()]
    assert result.arrays["accuracy"].tolist() == [history]


def test_a_stopped_run_goes_on_and_gives_the_same_numbers(one, monkeypatch):
    cell, folder = one
    whole = train_one(cell.config, folder / "a", lambda share: None)

    def stop(share):
        if share > 0.6:  # in the second of two epochs
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_one(cell.config, folder / "b", stop)
    again = train_one(cell.config, folder / "b", lambda share: None)
    assert again.numbers == whole.numbers
    for name, values in whole.arrays.items():
        assert np.array_equal(values, again.arrays[name]), name


def test_progress_goes_up_to_one(one):
    cell, folder = one
    told = []
    train_one(cell.config, folder, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_the_first_histogram_of_angles_is_before_training(one):
    cell, folder = one
    counts = train_one(cell.config, folder, lambda share: None).arrays["angle_counts"][0]
    assert (counts.sum(1) == 400).all()
    assert abs(mean_angles(counts[0].astype(float)) - math.pi / 2) < 0.4
    assert not np.array_equal(counts[0], counts[-1])


# --- the parts


def test_parts_of_the_images_do_not_overlap_and_are_the_same_for_all_seeds():
    part = {"train": 500, "held_out": 300, "test": 100}
    images = load_part("digits", part)
    assert len(images.dataset.train) == 500
    assert len(images.dataset.test) == 100
    assert images.held_out is not None
    assert len(images.held_out) == 300
    train = {tuple(x.flatten().tolist()) for x in images.dataset.train.x}
    held_out = {tuple(x.flatten().tolist()) for x in images.held_out.x}
    assert not train & held_out
    assert min(images.dataset.train.class_counts(10)) >= 45
    again = load_part("digits", part)
    assert torch.equal(images.dataset.train.x, again.dataset.train.x)


def test_taking_more_than_there_is_takes_all():
    split = data.Split(torch.zeros(6, 1, 2, 2, dtype=torch.uint8), torch.arange(6) % 2)
    assert len(taken(split, 9)[0]) == 6
    some, rest = taken(split, 4)
    assert (len(some), len(rest)) == (4, 2)


def test_images_are_reduced_by_the_mean():
    images = load_part("digits", {"size": 4, "train": 100, "held_out": 100})
    assert images.dataset.train.x.shape[1:] == (1, 4, 4)
    assert images.held_out.x.shape[1:] == (1, 4, 4)
    whole = load_part("digits", {"train": 100, "held_out": 100}).dataset.train.x[0, 0]
    corner = whole[:2, :2].float().mean().round()
    assert images.dataset.train.x[0, 0, 0, 0] == corner


def test_what_training_saw_is_what_the_trainer_would_make():
    dataset = load_part("digits", {"train": 400}).dataset
    config = TrainingConfig("digits", fraction=0.5, pollute=0.3, seed=2)
    seen = as_trained(dataset, config)
    assert len(seen.train) == 200
    clean = dataset.subset(0.5, 2)
    assert int((seen.train.y != clean.train.y).sum()) == 60
    assert torch.equal(seen.train.x, clean.train.x)


def test_shifting_logits_keeps_every_probability_and_close_calls():
    torch.manual_seed(0)
    logits = 300 + 3 * torch.randn(200, 10)
    logits[:, 0] = logits[:, 1:].amax(1) + 1e-3
    stored = shifted(logits).float()
    assert torch.equal(stored.argmax(1), logits.argmax(1))
    assert torch.allclose(stored.softmax(1), logits.softmax(1), atol=2e-3)


def test_a_network_that_diverged_has_no_scores():
    logits = torch.full((4, 3), float("nan"))
    y = torch.tensor([0, 1, 2, 0])
    assert all(math.isnan(value) for value in scores(shifted(logits), y).values())
    after = scaled(logits, y, logits, y)
    assert math.isnan(after["temperature"]["ece"])


def test_scaling_is_fitted_on_held_out_images_only():
    torch.manual_seed(0)
    y = torch.randint(0, 5, (4000,))
    logits = torch.randn(4000, 5)
    logits[torch.arange(4000), y] += 1.5
    sure = 8 * logits
    found = scaled(sure[:2000], y[:2000], sure[2000:], y[2000:])
    before = scores(shifted(sure[2000:]), y[2000:])
    assert found["temperature"]["ece"] < 0.05 < before["ece"]
    assert found["temperature"]["accuracy"] == pytest.approx(before["accuracy"])
    assert found["vector"]["ece"] < 0.05


# --- verdicts

SETTING = Setting("desk", (0, 1, 2))


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
    assert verdict(Setting("smoke", (0,)), found).word == "path only"
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
    setting = experiment.setting(scale)
    results = [(cell, fabricated(cell)) for cell in experiment.cells(setting)]
    outcome = experiment.conclude(setting, results)
    assert outcome.verdict.word in ("holds", "holds in part", "does not hold")
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
    setting = experiment.setting("paper")
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


# --- paper scale


def test_the_recipes_are_as_printed():
    config = training_config(recipes.CIFAR10[0].cells(m.betas(0.1), [2])[0].config)
    expected = TrainingConfig(
        *("cifar10", "resnet18"),
        loss_options={"beta": 0.1},
        epochs=200,
        batch=100,
        lr=0.01,
        lr_schedule="step",
        weight_decay=1e-4,
        clip=3.0,
        augment=True,
        seed=2,
    )
    assert config == expected
    assert recipes.SVHN[0].training["epochs"] == 100
    assert "augment" not in recipes.CIFAR10_PLAIN[0].training
    tiny = recipes.TINY_34.training
    assert (tiny["lr"], tiny["batch"], tiny["lr_schedule"]) == (0.05, 256, "step:40%,80%")
    lm = recipes.ABLATION.training
    assert (lm["batch"], lm["lr"], lm["lr_schedule"], lm["epochs"]) == (128, 0.1, "log_linear", 50)
    arc = recipes.ARC_10.training
    assert (arc["optimizer"], arc["batch"], arc["lr"], arc["epochs"]) == ("adam", 256, 0.1, 120)
    hundred = recipes.ARC_100_PLUS
    assert (hundred.model, hundred.training["epochs"], hundred.training["lr"]) == (
        *("resnet34", 160, 0.01),
    )
    assert [t.training["epochs"] for t, _ in ag_accuracy.TABLE_7.plan.paper] == [10, 20, 40, 90]


def test_every_cell_of_paper_scale_can_be_built():
    networks = {}
    cells = paper_cells()
    assert len(cells) > 300
    for cell in cells:
        config = training_config(cell.config)
        shape, options = SHAPES[config.data], json.dumps(dict(config.model_options))
        if (config.model, options, shape) not in networks:
            with torch.device("meta"):
                network = build(config.model, shape, **config.model_options)
            networks[config.model, options, shape] = network.out_features
        features = networks[config.model, options, shape]
        classes = {"cifar100": 100, "tiny_imagenet": 200, "imagenet": 1000, "places365": 365}
        head = make_head(config.head, features, classes.get(config.data, 10), config.head_options)
        loss = make_loss(config.loss, config.loss_options)
        make_schedules(config.schedules, loss, head, 1000).step()
        learning_rate(config.lr_schedule, config.lr, 1000)(999)


def tried(data_name, model, method=None):
    return next(
        cell
        for cell in paper_cells()
        if (cell.config["data"], cell.config["model"]) == (data_name, model)
        and method in (None, cell.config["method"])
    )


@pytest.mark.parametrize(
    ("data_name", "model", "method", "parameters", "steps"),
    [
        ("cifar10", "mobilenet_v1", "β = 5", 3_217_226, 100_000),
        ("cifar10", "mobilenet_v1", "warm-up, β = 0.1→1", 3_217_226, 100_000),
        ("svhn", "mobilenet_v1", "A-Softmax", 3_217_216, 73_300),
        ("cifar100", "mobilenet_v1", "center loss", 3_309_476, 100_000),
        ("cifar10", "resnet18", "ArcGrad", 11_173_952, 23_520),
        ("cifar100", "convnet13", "super-symmetry", 4_443_904, 19_550),
        ("cifar100", "convnet13", "regularised, λ = 1, 0.5 polluted", 4_444_132, 19_550),
        ("cifar100", "convnet13", "softmax, 0.5 of the images", 4_444_132, 9_800),
        ("cifar100", "vgg16_bn", "β = 20", 14_774_436, 100_000),
        ("tiny_imagenet", "resnet34", "β = 1", 21_379_592, 78_200),
        ("imagenet", "mobilenet_v1", "LGM", 5_254_976, 450_450),
    ],
)
def test_two_steps_of_paper_scale(data_name, model, method, parameters, steps):
    cell = tried(data_name, model, method)
    found = dry_run(cell)
    assert found.steps == steps
    assert len(found.losses) == 2
    assert found.seconds > 0
    assert found.gpu_hours == pytest.approx(cell.seconds / 3600)
    assert found.parameters == parameters


def test_a_trial_is_made_once_for_all_seeds():
    cells = recipes.CIFAR10[3].cells(m.betas(5), [0, 1])
    assert cells[0].key != cells[1].key
    assert dry_run(cells[0]).seconds == dry_run(cells[1]).seconds


def test_a_trial_is_of_one_network():
    (cell,) = desk.CIFAR10.cells(m.betas(1), [0])
    with pytest.raises(ValueError, match=re.escape("cell must be the training of one network")):
        dry_run(cell)


@pytest.mark.parametrize(("model", "size"), GIGA_OPERATIONS)
def test_stored_operations_are_those_that_pytorch_counts(model, size):
    options = {"images": "imagenet"} if size == 224 and model != "vgg16_mod" else {}
    counted = operations(model, (3, size, size), options)
    assert 1e9 * GIGA_OPERATIONS[model, size] == pytest.approx(counted, rel=2e-3)


def test_the_rule_of_thumb_is_linear_in_epochs():
    assert gpu_seconds("cifar10", "resnet18", 200) == 2 * gpu_seconds("cifar10", "resnet18", 100)
    smaller = replace(recipes.ABLATION, name="x")
    half, whole = smaller.cells([desk.fewer(m.SOFTMAX, 0.5), m.SOFTMAX], [0])
    assert half.seconds == pytest.approx(whole.seconds / 2, rel=0.01)


def test_betas_can_be_chosen_by_their_value():
    cells = BY_ID["gd-fig6"].cells(BY_ID["gd-fig6"].setting("paper"))
    assert {cell.config["beta"] for cell in cells} == {20, 10, 5, 1, 0.1, 0.01}
    assert {cell.config["model"] for cell in cells} == {"resnet18"}
