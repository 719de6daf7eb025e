"""Compiled against eager: values and gradients of every loss and head, by inductor.

A graph takes seconds to compile, so that the suite takes one number of classes for each loss and
kind of target, all numbers in turn; ``pytest tests/test_compiled.py --all-classes`` takes every
number from 2 to 10 for each of them.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import head_cases
import loss_cases
import softmargin
from inductor import needs_inductor
from softmargin import functional as F

pytestmark = [pytest.mark.slow, needs_inductor]

CLASSES = range(2, 11)
UNROLLED = (5, 4, 6, 7)  # sums this short are written out by inductor, which has gone wrong
KINDS = {
    "index": {},
    "smoothed": {"label_smoothing": 0.1},
    "probability": {},
    "smoothed-probability": {"label_smoothing": 0.1},
}
LOSSES = {
    name: loss_cases.EVERY_OPTION[name]
    for name in (  # every formula once
        "GradientDecayLoss-1",
        "GradientDecayLoss-2",
        "GradientDecayLoss-3",
        "GradientDecayLoss-4",
        "SoftMarginSoftmaxLoss-1",
        "RegularizedSoftmaxLoss-0",
        "RegularizedSoftmaxLoss-1",
        "RegularizedSoftmaxLoss-2",
        "MeanHingeLoss-0",
        "MaxHingeLoss-0",
        "HardBiasSoftmaxLoss-0",
        "FocalLoss-0",
        "AdaFocalLoss-0",
    )
} | {"compensated": (loss_cases.EVERY_LOSS["GradientDecayLoss"], {"beta": 5.0, "compensate": True})}
HEADS = {name: row for name, row in head_cases.EVERY_OPTION.items() if name.endswith("-0")} | {
    "ArcFaceHead-1": head_cases.EVERY_OPTION["ArcFaceHead-1"],
    "ArcFaceHead-2": head_cases.EVERY_OPTION["ArcFaceHead-2"],
    "AdaCosHead-dynamic": (head_cases.EVERY_HEAD["AdaCosHead"], {"dynamic": True}),
}


def test_every_loss_has_a_row():
    named = {name.split("-")[0] for name in LOSSES} | {"ModifiedSoftmaxLoss"}  # soft margin's other
    assert named - {"compensated"} == set(loss_cases.EVERY_LOSS)


def pytest_generate_tests(metafunc):
    rows = {"loss": list(itertools.product(LOSSES, KINDS)), "head": [(name,) for name in HEADS]}
    for argument, choices in rows.items():
        if argument not in metafunc.fixturenames:
            continue
        every = metafunc.config.getoption("--all-classes")
        cases = [
            (*choice, classes)
            for number, choice in enumerate(choices)
            for classes in (CLASSES if every else [in_turn(number)])
        ]
        names = [argument, "kind", "classes"] if argument == "loss" else [argument, "classes"]
        metafunc.parametrize(names, cases)


def in_turn(number: int) -> int:
    """Return a number of classes for a row: mostly one that inductor unrolls, all in the end."""
    if number % 3:
        return UNROLLED[(number // 3 + number) % len(UNROLLED)]
    return CLASSES[(number // 3) % len(CLASSES)]


def sized(options, classes):
    """Return options with one value per class for that many classes."""
    return {
        name: torch.linspace(0.1, 3.0, classes, dtype=value.dtype)
        if isinstance(value, torch.Tensor) and value.ndim
        else value
        for name, value in options.items()
    }


def values_and_gradients(function, *tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    value = function(*leaves)
    return value.detach(), *torch.autograd.grad(value.sum(), leaves)


def assert_equal(compiled, eager):
    for ours, theirs in zip(compiled, eager, strict=True):
        # an element near 0 has the rounding of the largest: a few units in its last place
        near_zero = max(1e-6, 3e-7 * theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=near_zero)
        # no tolerance hides a vector that is wrong as a whole
        assert (ours - theirs).norm() <= 1e-5 * theirs.norm() + 1e-7


def test_losses(loss, kind, classes):
    torch.compiler.reset()
    case, options = LOSSES[loss]
    options = sized(options, classes) | KINDS[kind]
    logits = torch.randn(6, classes) * 2
    target = torch.randint(0, classes, (6,))
    if "probability" in kind:
        target = torch.rand(6, classes).softmax(1)

    def function(z):
        return case.function(z, target, **options)

    compiled = torch.compile(function, fullgraph=True)
    assert_equal(values_and_gradients(compiled, logits), values_and_gradients(function, logits))


def test_heads(head, classes):
    torch.compiler.reset()
    case, options = HEADS[head]
    module = case.module(12, max(classes, case.module.least_classes), **options)
    features, target = torch.randn(6, 12), torch.randint(0, classes, (6,))
    parameters = dict(module.named_parameters())

    def function(x, *values):
        replaced = dict(zip(parameters, values, strict=True))
        logits = torch.func.functional_call(module, replaced, (x, target))
        return torch.nn.functional.cross_entropy(logits, target)

    state = {name: value.clone() for name, value in module.state_dict().items()}
    eager = values_and_gradients(function, features, *parameters.values())
    module.load_state_dict(state)  # AdaCos has moved its scale
    compiled = torch.compile(function, fullgraph=head != "AdaCosHead-dynamic")
    assert_equal(values_and_gradients(compiled, features, *parameters.values()), eager)


def test_per_class_beta_compiles_with_dynamic_shapes():
    torch.compiler.reset()
    for classes in (5, 8):
        beta = torch.linspace(0.1, 3.0, classes)
        logits, target = torch.randn(6, classes), torch.randint(0, classes, (6,))

        def function(z, target=target, beta=beta):
            return F.gradient_decay_loss(z, target, beta=beta, label_smoothing=0.1)

        compiled = torch.compile(function, fullgraph=True, dynamic=True)
        assert_equal(values_and_gradients(compiled, logits), values_and_gradients(function, logits))


def test_modules_compile_with_dynamic_shapes_and_changing_batches():
    torch.compiler.reset()
    criterion = softmargin.GradientDecayLoss(beta=torch.tensor([0.5, 1.0, 2.0, 5.0]))
    compiled = torch.compile(criterion, fullgraph=True, dynamic=True)
    for size in (3, 7, 1):
        logits, target = torch.randn(size, 4), torch.randint(0, 4, (size,))
        ours = values_and_gradients(lambda z, t=target: compiled(z, t), logits)
        assert_equal(ours, values_and_gradients(lambda z, t=target: criterion(z, t), logits))
