"""The experiments on images: all cells are trained for real at smoke scale, then concluded."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from smoke_runs import conclude_all, run_all
from softmargin.papers.images.ag_angles import mean_angles
from softmargin.papers.images.measures import scaled, scores, shifted
from softmargin.papers.images.prepare import as_trained, load_part, taken
from softmargin.papers.images.tasks import shrunk
from softmargin.papers.images.training import training_config

from softmargin import data
from softmargin.calibration import calibration_metrics
from softmargin.papers.core import Cell, experiments
from softmargin.papers.images import (
    EXPERIMENTS,
    desk,
    train_one,
)
from softmargin.papers.images import methods as m
from softmargin.papers.outcome import Outcome
from softmargin.papers.store import CellStore
from softmargin.papers.write import read_result, write_result
from softmargin.training import RunFolder, TrainingConfig, train

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
    return {cell.key for cell in experiment.cells(experiment.scope(scale))}


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
        own = experiment.cells(experiment.scope(scale))
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


def test_desk_scale_takes_two_hours_in_all_and_smoke_a_minute():
    total = {}
    for scale in ("desk", "smoke"):
        cells = {}
        for experiment in EXPERIMENTS:
            cells |= {c.key: c for c in experiment.cells(experiment.scope(scale))}
        # those trained one by one run two at a time
        total[scale] = sum(c.seconds / (1 + (c.work == "train")) for c in cells.values())
    assert total["desk"] < 130 * 60
    assert total["smoke"] < 60


# --- smoke scale, for real


@pytest.mark.slow
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
        write_result(experiment, experiment.scope("smoke"), outcomes[name], tmp_path / name)
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
