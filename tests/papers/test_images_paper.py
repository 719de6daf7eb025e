"""The recipes and numbers of the papers' image tables: what is transcribed, and what it costs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from softmargin.papers.images.training import training_config
from torch.utils.flop_counter import FlopCounterMode

from softmargin.models import build
from softmargin.papers.images import (
    EXPERIMENTS,
    ag_accuracy,
    desk,
    recipes,
)
from softmargin.papers.images import methods as m
from softmargin.papers.plan import GIGA_OPERATIONS, SHAPES, gpu_seconds, planned, tried_out
from softmargin.papers.printed import printed
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


def test_tables_have_a_row_for_every_network():
    for task in (*recipes.SVHN, *recipes.CIFAR10, *recipes.CIFAR100, recipes.TINY_34):
        assert task.beside in printed("gd-tab2")


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


@pytest.mark.slow
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
