"""The papers' recipes and methods: as printed, and all of them can be built."""

import json
from pathlib import Path

import pytest
import torch
from paper_cells import paper_cells
from smoke_runs import IMAGES

from softmargin.models import build
from softmargin.papers import ag, methods, recipes
from softmargin.papers.plan import shape_of
from softmargin.papers.printed import printed
from softmargin.papers.train import training_config
from softmargin.training import TrainingConfig
from softmargin.training.parts import make_head, make_loss, make_schedules
from softmargin.training.rates import learning_rate

RESULTS = Path(__file__).parents[2] / "results"
BY_ID = {experiment.id: experiment for experiment in IMAGES}


def test_tables_have_a_row_for_every_network():
    for task in (*recipes.SVHN, *recipes.CIFAR10, *recipes.CIFAR100, recipes.TINY_34):
        assert task.paper_row in printed("gd-tab2")


def test_the_recipes_are_as_printed():
    config = training_config(recipes.CIFAR10[0].cells(methods.betas(0.1), [2])[0].config)
    expected = TrainingConfig(
        "cifar10",
        "resnet18",
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
        "resnet34",
        160,
        0.01,
    )
    assert [t.training["epochs"] for t, _ in ag.TABLE_7.plan.paper] == [10, 20, 40, 90]


def test_every_cell_of_paper_scale_can_be_built():
    networks = {}
    cells = paper_cells()
    assert len(cells) > 300
    for cell in cells:
        config = training_config(cell.config)
        shape, options = shape_of(config.data), json.dumps(dict(config.model_options))
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
