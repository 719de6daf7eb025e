"""What paper scale costs, and a trial of it."""

from dataclasses import replace

import pytest
import torch
from paper_cells import paper_cells
from torch.utils.flop_counter import FlopCounterMode

from softmargin.models import build
from softmargin.papers import desk, recipes
from softmargin.papers import methods as m
from softmargin.papers.plan import GIGA_OPERATIONS, gpu_seconds, planned, tried_out


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
    assert found.parameters == parameters


@pytest.mark.slow
def test_a_trial_is_made_once_for_all_seeds():
    cells = recipes.CIFAR10[3].cells(m.betas(5), [0, 1])
    assert cells[0].key != cells[1].key
    assert tried_out(cells[0]).losses is tried_out(cells[1]).losses


def test_a_trial_is_of_one_network():
    (cell,) = desk.CIFAR10.cells(m.betas(1), [0])
    assert tried_out(cell) == planned(cell)


@pytest.mark.slow
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
    half, whole = smaller.cells([m.fewer(m.SOFTMAX, 0.5), m.SOFTMAX], [0])
    assert half.seconds == pytest.approx(whole.seconds / 2, rel=0.01)
