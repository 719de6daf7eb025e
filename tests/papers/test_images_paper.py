"""The recipes and numbers of the papers' image tables: what is transcribed, and what it costs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from softmargin.models import build
from softmargin.papers.images import (
    EXPERIMENTS,
    ag_accuracy,
    ag_numbers,
    desk,
    gd_numbers,
    lm_numbers,
    recipes,
)
from softmargin.papers.images import methods as m
from softmargin.papers.images.training import training_config
from softmargin.papers.plan import GIGA_OPERATIONS, SHAPES, gpu_seconds, planned, tried_out
from softmargin.training import TrainingConfig
from softmargin.training.parts import make_head, make_loss, make_schedules
from softmargin.training.rates import learning_rate

RESULTS = Path(__file__).parents[2] / "results"
BY_ID = {experiment.id: experiment for experiment in EXPERIMENTS}


def paper_cells():
    """Return all cells of paper scale, those that differ in their seed once."""
    found = {}
    for experiment in EXPERIMENTS:
        for cell in experiment.cells(experiment.scope("paper")):
            found.setdefault(json.dumps({**cell.config, "seed": 0}, sort_keys=True), cell)
    return list(found.values())


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
        ("imagenet", "mobilenet_v1", "L-Softmax", 4_230_976, 450_450),
    ],
)
def test_two_steps_of_paper_scale(data_name, model, method, parameters, steps):
    cell = tried(data_name, model, method)
    found = tried_out(cell)
    assert found.steps == steps
    assert len(found.losses) == 2
    assert found.seconds == cell.seconds
    assert found.parameters == parameters


def test_large_margins_are_annealed_as_their_authors_do():
    schedules = {
        scale: {
            method["name"]: tuple(method.get("schedules", ()))
            for cell in BY_ID["lm-tab4"].cells(BY_ID["lm-tab4"].scope(scale))
            for method in cell.config.get("methods", [])
            or [{"name": cell.config["method"], **cell.config["training"]}]
            if method["name"] in ("LGM", "L-Softmax")
        }
        for scale in ("desk", "paper")
    }
    assert schedules == {
        "desk": {
            "LGM": ("head.margin=linear:0.1:0.3:50%",),
            "L-Softmax": ("head.anneal=geometric:1000:5:30%",),
        },
        "paper": {"LGM": ("head.margin=lgm",), "L-Softmax": ("head.anneal=l_softmax",)},
    }
    assert "as their authors do" in BY_ID["lm-tab4"].deviations["paper"]
    assert "over the first half" in BY_ID["lm-tab4"].deviations["desk"]


@pytest.mark.parametrize("name", [name for name in BY_ID if name.startswith("gd-")])
def test_pages_say_how_weight_clipping_was_read(name):
    experiment = BY_ID[name]
    cells = experiment.cells(experiment.scope("paper"))
    tiny = [cell for cell in cells if cell.config.get("data") == "tiny_imagenet"]
    assert all(cell.config["training"]["clip"] == 3.0 for cell in tiny)
    page = (RESULTS / name / "README.md").read_text(encoding="utf-8")
    for text in (experiment.deviations.get("paper", ""), page):
        assert ("weight clipping" in text) is bool(tiny)


def test_a_trial_is_made_once_for_all_seeds():
    cells = recipes.CIFAR10[3].cells(m.betas(5), [0, 1])
    assert cells[0].key != cells[1].key
    assert tried_out(cells[0]).losses is tried_out(cells[1]).losses


def test_a_trial_is_of_one_network():
    (cell,) = desk.CIFAR10.cells(m.betas(1), [0])
    assert tried_out(cell) == planned(cell)


@pytest.mark.parametrize(("model", "size"), GIGA_OPERATIONS)
def test_stored_operations_are_those_that_pytorch_counts(model, size):
    options = {"images": "imagenet"} if size == 224 and model != "vgg16_mod" else {}
    with torch.device("meta"):  # no memory for weights
        network = build(model, (3, size, size), **options).eval()
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, 3, size, size))
    counted = counter.get_total_flops()
    assert 1e9 * GIGA_OPERATIONS[model, size] == pytest.approx(counted, rel=2e-3)


def test_the_rule_of_thumb_is_linear_in_epochs():
    assert gpu_seconds("cifar10", "resnet18", 200) == 2 * gpu_seconds("cifar10", "resnet18", 100)
    smaller = replace(recipes.ABLATION, name="x")
    half, whole = smaller.cells([desk.fewer(m.SOFTMAX, 0.5), m.SOFTMAX], [0])
    assert half.seconds == pytest.approx(whole.seconds / 2, rel=0.01)


def test_betas_can_be_chosen_by_their_value():
    cells = BY_ID["gd-fig6"].cells(BY_ID["gd-fig6"].scope("paper"))
    assert {cell.config["beta"] for cell in cells} == {20, 10, 5, 1, 0.1, 0.01}
    assert {cell.config["model"] for cell in cells} == {"resnet18"}
