"""The work of cells: those of images are trained for real at smoke scale, then concluded."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from smoke_runs import IMAGES, conclude_all, run_all

from softmargin.calibration import calibration_metrics
from softmargin.papers import desk
from softmargin.papers import methods as m
from softmargin.papers.ag import mean_angles
from softmargin.papers.core import Cell
from softmargin.papers.grid import shrunk
from softmargin.papers.images import load_part
from softmargin.papers.outcome import Outcome
from softmargin.papers.store import CellStore
from softmargin.papers.train import train_one, training_config
from softmargin.papers.write import read_result, write_result
from softmargin.training import RunFolder, train

BY_ID = {experiment.id: experiment for experiment in IMAGES}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return CellStore(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def finished(store):
    return run_all(IMAGES, store)


@pytest.fixture(scope="module")
def outcomes(finished):
    return conclude_all(IMAGES, finished)


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


@pytest.mark.slow
def test_a_result_is_written_and_read_back(outcomes, tmp_path):
    for name in ("gd-fig6", "lm-tab1", "ag-fig4"):
        experiment = BY_ID[name]
        write_result(experiment, experiment.scope("smoke"), outcomes[name], tmp_path / name)
        meta, outcome = read_result(tmp_path / name)
        assert meta["id"] == name
        assert outcome.verdict.word == "path only"
        assert all((tmp_path / name / f"{chart.name}.svg").exists() for chart in outcome.charts)


@pytest.mark.slow
def test_scores_are_those_of_the_stored_logits(finished):
    for _, result in finished["gd-tab2"]:
        logits = torch.from_numpy(result.arrays["test_logits"]).float()
        y = torch.from_numpy(result.arrays["test_labels"]).long()
        for place in range(len(logits)):
            again = calibration_metrics(logits[place], y, from_logits=True, classwise=False)
            for name in ("accuracy", "ece", "mce", "nll"):
                stored = result.numbers["final"][name][place]
                assert stored == pytest.approx(getattr(again, name), abs=1e-9)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_last_epoch_of_the_curves_is_the_final_score(finished):
    # curves are of the precision that is trained with, bfloat16 in the second: a few images differ
    for name, allowed in (("gd-v1-tab2", 1e-6), ("ag-tab4", 0.05)):
        for _, result in finished[name]:
            last = result.arrays["accuracy"][:, -1]
            assert np.allclose(last, result.numbers["final"]["accuracy"], atol=allowed)


@pytest.mark.slow
def test_methods_trained_together_start_alike_and_differ_in_the_end(finished):
    cell, result = finished["gd-v1-tab2"][0]
    assert len({tuple(row) for row in result.arrays["nll"].tolist()}) == len(cell.config["methods"])


@pytest.fixture
def one(tmp_path) -> tuple[Cell, Path]:
    task = shrunk(desk.ARC_10)
    task = replace(task, training={**task.training, "precision": "32"})
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


@pytest.mark.slow
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
