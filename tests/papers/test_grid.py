"""Cells: what they are made of, and which experiments share them."""

import json

import pytest
from smoke_runs import IMAGES, MNIST

from softmargin.papers import desk, gd_mnist, recipes
from softmargin.papers import methods as m
from softmargin.papers.gd_curves import CURVES
from softmargin.papers.gd_mnist import IN_PRINT
from softmargin.papers.grid import Plan
from softmargin.papers.train import training_config

IMAGES_BY_ID = {experiment.id: experiment for experiment in IMAGES}
MNIST_BY_ID = {experiment.id: experiment for experiment in MNIST}


def keys(name, scale):
    experiment = IMAGES_BY_ID[name]
    return {cell.key for cell in experiment.cells(experiment.scope(scale))}


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_cells_are_plain_values_and_each_is_there_once(scale):
    labels = {}
    for experiment in IMAGES:
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
        assert keys("gd-v1-tab3", scale) < keys("gd-tab2", scale)
        assert keys("gd-v1-tab4", scale) == keys("gd-v1-tab5", scale)
        assert keys("gd-fig10", scale) <= keys("gd-tab4", scale)
        assert keys("gd-fig6", scale) & keys("gd-tab4", scale)
        assert keys("gd-fig9", scale) & keys("gd-tab2", scale)
        assert keys("gd-tab6", scale) == keys("gd-fig13", scale)
        assert keys("lm-fig3", scale) < keys("lm-tab2", scale)
        assert keys("ag-tab6", scale) < keys("ag-tab7", scale)
        assert keys("ag-fig4", scale) < keys("ag-tab4", scale)
    assert keys("gd-fig11", "desk") < keys("gd-tab4", "desk")
    assert keys("gd-v1-tab3", "paper") < keys("gd-tab2", "paper")
    assert keys("gd-v1-tab4", "paper") == keys("gd-v1-tab5", "paper")
    assert keys("gd-fig6", "paper") & keys("gd-tab2", "paper")
    assert keys("gd-tab5", "paper") == keys("gd-fig12", "paper")
    assert keys("lm-fig3", "paper") < keys("lm-tab2", "paper")
    assert keys("ag-fig4", "paper") < keys("ag-tab6", "paper") < keys("ag-tab4", "paper")


def seconds_of(experiments, scale):
    """Return how long some experiments take; cells trained one by one run two at a time."""
    cells = {}
    for experiment in experiments:
        cells |= {c.key: c for c in experiment.cells(experiment.scope(scale))}
    return sum(c.seconds / (1 + (c.work == "train")) for c in cells.values())


def test_desk_scale_takes_hours_at_most_and_smoke_a_minute():
    def is_residual(experiment):
        return any(cell.work == "train" for cell in experiment.cells(experiment.scope("desk")))

    useful = [experiment for experiment in IMAGES if is_residual(experiment)]
    connected = [experiment for experiment in IMAGES if experiment not in useful]
    assert seconds_of(connected, "desk") < 2 * 3600
    assert seconds_of(IMAGES, "smoke") < 60
    assert seconds_of(useful, "desk") < 11 * 3600


def test_an_experiment_has_as_many_seeds_as_its_largest_task():
    seeds = {name: experiment.seeds["desk"] for name, experiment in IMAGES_BY_ID.items()}
    assert seeds["gd-v1-tab3"] == seeds["gd-tab2"] == 12, "fully connected ones are many"
    assert seeds["gd-tab4"] == seeds["gd-fig8"] == seeds["ag-tab4"] == 5
    assert seeds["ag-tab5"] == seeds["ag-fig3"] == 3
    assert {IMAGES_BY_ID[name].seeds["paper"] for name in ("gd-tab4", "ag-tab4")} == {3, 5}


def test_betas_can_be_chosen_by_their_value():
    cells = IMAGES_BY_ID["gd-fig6"].cells(IMAGES_BY_ID["gd-fig6"].scope("paper"))
    assert {cell.config["beta"] for cell in cells} == {20, 10, 5, 1, 0.1, 0.01}
    assert {cell.config["model"] for cell in cells} == {"resnet18"}


def test_a_task_knows_what_it_stands_for():
    plan = Plan([(desk.CIFAR10, m.betas(1)), (desk.USEFUL_100, m.betas(1))], [])
    assert desk.CIFAR10.paper_row == recipes.CIFAR10[0].paper_row == "CIFAR-10, ResNet18"
    assert plan.stand_ins == "fully connected and small residual networks for the paper's ResNet18"
    assert not recipes.CIFAR10[0].is_stand_in
    assert Plan([(desk.CONFIDENCES, m.betas(1))], []).stand_ins == ""


def test_the_experiments_of_confidence_share_their_cells_and_the_features_have_others():
    for scale in ("smoke", "desk", "paper"):
        keys = {
            name: [cell.key for cell in each.cells(each.scope(scale))]
            for name, each in MNIST_BY_ID.items()
        }
        assert keys["gd-fig3"] == keys["gd-tab1"]
        assert set(keys["gd-fig5"]) <= set(keys["gd-tab1"])  # the paper's own network
        for name in ("gd-fig1", "gd-fig4"):
            assert not set(keys[name]) & set(keys["gd-tab1"])
        assert len(set(keys["gd-tab1"])) == len(keys["gd-tab1"]) >= 2


def test_the_papers_network_on_mnist_has_the_papers_recipe_at_paper_scale():
    for name, seeds in (("gd-tab1", 16), ("gd-fig4", 12)):
        experiment = MNIST_BY_ID[name]
        scope = experiment.scope("paper")
        assert len(scope.seeds) == seeds
        config = next(
            cell.config for cell in experiment.cells(scope) if cell.config["widths"] == [50, 20]
        )
        assert (config["epochs"], config["batch"], config["lr"]) == (100, 100, 1e-3)
        assert (config["weight_decay"], config["momentum"]) == (1e-4, 0.9)
        assert json.loads(json.dumps(config)) == config
        wanted = {each.short_name for each in (*IN_PRINT, *(CURVES if name == "gd-fig4" else ()))}
        assert set(config["variants"]) >= wanted
    shared, again = (
        [cell.key for cell in MNIST_BY_ID["gd-fig4"].cells(MNIST_BY_ID["gd-fig4"].scope(scale))]
        for scale in ("desk", "paper")
    )
    assert shared == again


def test_a_cell_of_mnist_holds_several_seeds():
    task = next(own for own, _ in gd_mnist.TABLE_1.plan.grid("desk"))
    cells = task.cells([], range(8))
    assert [cell.config["seeds"] for cell in cells] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    places = task.places(m.beta(0.1), range(6))
    assert [variant for _, variant in places] == [f"0.1, seed {seed}" for seed in range(6)]
    assert places[3][0].key == cells[0].key
    assert places[4][0].config["seeds"] == [4, 5]


def test_smoke_cells_need_bundled_data_only_and_say_that_they_are_short():
    for experiment in MNIST:
        for cell in experiment.cells(experiment.scope("smoke")):
            assert cell.needs == ("digits",)
            assert cell.seconds < 2
        assert set(experiment.deviations) == {"smoke", "desk", "paper"}


def test_a_number_that_is_written_in_two_ways_is_one_cell():
    key = desk.USEFUL_10.cell(0, m.beta(20)).key
    assert desk.USEFUL_10.cell(0, m.beta(20.0)).key == key
    assert desk.USEFUL_10.cell(0, m.beta(20.5)).key != key
