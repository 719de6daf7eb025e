"""Cells: what they are made of, and which experiments share them."""

import json

import pytest
from smoke_runs import IMAGES, MNIST

from softmargin.papers import desk, recipes
from softmargin.papers import methods as m
from softmargin.papers.gd_curves import CURVES, GROUP_PANELS
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


def seconds_of(experiments, scale):
    """Return how long some experiments take; cells trained one by one run two at a time."""
    cells = {}
    for experiment in experiments:
        cells |= {c.key: c for c in experiment.cells(experiment.scope(scale))}
    return sum(c.seconds / (1 + (c.work == "train")) for c in cells.values())


def test_desk_scale_takes_two_hours_in_all_and_smoke_a_minute():
    shorter = [experiment for experiment in IMAGES if experiment.id != "sm-headline"]
    assert seconds_of(shorter, "desk") < 130 * 60
    assert seconds_of(IMAGES, "smoke") < 60
    # networks of useful accuracy, three seeds of up to seven β and two rivals
    assert seconds_of([IMAGES_BY_ID["sm-headline"]], "desk") < 2.2 * 3600


def test_betas_can_be_chosen_by_their_value():
    cells = IMAGES_BY_ID["gd-fig6"].cells(IMAGES_BY_ID["gd-fig6"].scope("paper"))
    assert {cell.config["beta"] for cell in cells} == {20, 10, 5, 1, 0.1, 0.01}
    assert {cell.config["model"] for cell in cells} == {"resnet18"}


def test_a_task_knows_what_it_stands_for():
    plan = Plan([(desk.CIFAR10, m.betas(1)), (desk.RESIDUAL, m.betas(1))], [])
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
        (shared,) = {tuple(keys[name]) for name in ("gd-fig3", "gd-fig4", "gd-fig5")}
        assert tuple(keys["gd-tab1"][: len(shared)]) == shared  # the first epochs are its own
        assert not set(keys["gd-fig1"]) & set(keys["gd-tab1"])
        assert len(set(keys["gd-tab1"])) == len(keys["gd-tab1"]) >= 2


def test_desk_is_the_papers_full_size():
    experiment = MNIST_BY_ID["gd-tab1"]
    at_desk, paper = (experiment.cells(experiment.scope(scale)) for scale in ("desk", "paper"))
    assert [cell.key for cell in at_desk] == [cell.key for cell in paper]
    config = at_desk[0].config
    assert [cell.config["epochs"] for cell in at_desk] == [100] * 8 + [desk.EARLY_EPOCHS] * 8
    assert at_desk[0].needs == ("mnist",)
    assert (config["epochs"], config["batch"], config["lr"]) == (100, 100, 1e-3)
    assert (config["weight_decay"], config["momentum"], config["widths"]) == (1e-4, 0.9, [50, 20])
    wanted = {each.short_name for each in (*IN_PRINT, *GROUP_PANELS, *CURVES)}
    assert set(config["variants"]) >= wanted
    assert json.loads(json.dumps(config)) == config


def test_smoke_cells_need_bundled_data_only_and_say_that_they_are_short():
    for experiment in MNIST:
        for cell in experiment.cells(experiment.scope("smoke")):
            assert cell.needs == ("digits",)
            assert cell.seconds < 2
        assert set(experiment.deviations) == {"smoke", "desk", "paper"}
