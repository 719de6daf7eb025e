"""A bounded part of the fuzz, and what the long one has found.

``python -m tests.fuzz --calls 100000`` makes the long run.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from fuzz import command, odd
from softmargin import functional as F
from softmargin import heads, theory

CALLS = {"losses": 700, "heads": 900, "metrics": 100}
CALLEES = {c.name: c for c in odd.CALLEES}


@pytest.mark.slow
@pytest.mark.parametrize("area", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_random_calls_give_what_an_independent_reference_gives(area):
    found = command.run(CALLS[area], seed=0, area=area)
    assert not found, found[0]


@pytest.mark.slow
@pytest.mark.parametrize("callee", CALLEES.values(), ids=CALLEES)
def test_an_odd_argument_works_or_is_refused_in_one_sentence_that_names_it(callee):
    wrong = [odd.check(callee, {name: shown}) for name in callee.arguments for shown in odd.BAG]
    assert not any(wrong), next(filter(None, wrong))


def test_the_command_ends_with_1_and_says_how_to_repeat_a_finding(monkeypatch, capsys):
    monkeypatch.setitem(command.AREAS, "odd", lambda rng: "wrong" if rng.random() < 0.5 else None)
    assert command.main(["--calls", "20", "--area", "odd"]) == 1
    again = capsys.readouterr().out.split("again: python -m tests.fuzz ")[1].splitlines()[0]
    assert command.main(again.split()) == 1
    assert "wrong" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_at_the_lowest_number_count_like_any_others(dtype):
    logits = torch.full((2, 3), torch.finfo(dtype).min, dtype=dtype, requires_grad=True)
    target = torch.tensor([0, 1])
    loss = F.gradient_decay_loss(logits, target)
    torch.testing.assert_close(loss.double(), torch.tensor(math.log(3)).double(), atol=1e-2, rtol=0)
    loss.backward()
    torch.testing.assert_close(logits.grad.sum(1), torch.zeros(2, dtype=dtype), atol=1e-3, rtol=0)
    assert F.mean_hinge_loss(logits, target).item() == 1.0


def test_a_class_without_weight_adds_nothing_even_if_it_is_masked():
    logits = torch.tensor([[-math.inf, 1.0, 2.0], [0.5, 1.0, 2.0]])
    target, weight = torch.tensor([0, 1]), torch.tensor([0.0, 1.0, 1.0])
    plain = F.gradient_decay_loss(logits, target, weight=weight)
    assert plain == F.gradient_decay_loss(logits[1:], target[1:])
    smooth = F.gradient_decay_loss(logits, target, weight=weight, label_smoothing=0.1)
    assert smooth.isfinite()
    assert F.gradient_decay_loss(logits[:1], target[:1], label_smoothing=1.0) == math.inf


@pytest.mark.parametrize("probabilities", [False, True])
def test_a_masked_class_and_a_large_factor_leave_the_divergence_a_gradient(probabilities):
    lowest = torch.finfo(torch.float32).min
    logits = torch.tensor([[lowest, 1.0, 2.0, 0.5]], requires_grad=True)
    target = torch.tensor([1])
    if probabilities:
        target = torch.nn.functional.one_hot(target, 4).float()
    loss = F.regularized_softmax_loss(logits, target, lam=0.3, divergence="logits_to_uniform")
    (loss * 65536).backward()  # what mixed precision does
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", [F.soft_margin_softmax_loss, F.regularized_softmax_loss])
def test_gradients_of_several_terms_are_rounded_to_half_precision_once(loss):
    logits = torch.randn(20, 7, dtype=torch.bfloat16)
    options = {"margin": 1.0} if loss is F.soft_margin_softmax_loss else {"lam": 0.5}
    gradients = []
    for dtype in (torch.bfloat16, torch.float64):
        x = logits.to(dtype, copy=True).requires_grad_()
        loss(x, torch.arange(20) % 7, **options, label_smoothing=0.3).backward()
        gradients.append(x.grad.double())
    torch.testing.assert_close(*gradients, rtol=2**-8, atol=1e-7)


def test_compensation_of_a_large_beta_is_finite_in_half_precision():
    logits = torch.tensor([[2.0, 0.0, -1.0]], dtype=torch.float16, requires_grad=True)
    F.gradient_decay_loss(logits, torch.tensor([1]), beta=1e12, compensate=True).backward()
    exact = logits.detach().double().requires_grad_()
    F.gradient_decay_loss(exact, torch.tensor([1]), beta=1e12, compensate=True).backward()
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=2e-3, atol=1e-7)


def test_a_lead_that_overflows_has_a_gradient():
    most = torch.finfo(torch.float32).max
    logits = torch.tensor([[most, -most]], requires_grad=True)
    F.gradient_decay_loss(logits, torch.tensor([[1.0, 0.0]])).backward()
    assert logits.grad.tolist() == [[0.0, 0.0]]


def test_the_mean_hinge_of_large_logits_does_not_overflow_on_the_way():
    logits = torch.linspace(-3e38, -1e38, 150).unsqueeze(0)
    target = torch.full((1, 150), 1 / 150)
    expected = F.mean_hinge_loss(logits.double(), target).item()
    assert F.mean_hinge_loss(logits, target).item() == pytest.approx(expected, rel=1e-5)


def test_the_mean_hinge_of_a_masked_target_is_infinite_also_with_other_masked_classes():
    logits = torch.tensor([[-math.inf, -math.inf, 1.0]])
    assert F.mean_hinge_loss(logits, torch.tensor([0])) == math.inf


def test_a_divergence_that_overflows_vanishes_with_lam_0():
    lowest = torch.finfo(torch.float64).min
    logits = torch.tensor([[0.0, lowest, lowest, lowest]], dtype=torch.float64)
    options = {"divergence": "uniform_to_logits", "label_smoothing": 0.2}
    loss = F.regularized_softmax_loss(logits, torch.tensor([1]), lam=0.0, **options)
    assert loss == F.gradient_decay_loss(logits, torch.tensor([1]), label_smoothing=0.2)


@pytest.mark.parametrize("kind", [heads.ArcGradHead, heads.GaussianHead])
def test_gradients_of_features_are_rounded_to_half_precision_once(kind):
    head = kind(8, 3)
    features = torch.randn(1, 50, 8, dtype=torch.bfloat16)
    target, weights = torch.arange(50).unsqueeze(0) % 3, torch.randn(1, 50, 3)
    gradients = []
    for dtype in (torch.bfloat16, torch.float32):
        x = features.to(dtype, copy=True).requires_grad_()
        (head(x, target) * weights).sum().backward()
        gradients.append(x.grad.float())
    torch.testing.assert_close(*gradients, rtol=2**-7, atol=1e-5)


def test_theory_says_which_shapes_do_not_fit():
    with pytest.raises(ValueError, match=r"p and beta must have shapes that broadcast, but got"):
        theory.gradient_magnitude(torch.rand(3), torch.ones(4))


@pytest.mark.parametrize("length", [1e-20, 1e-25, 1e20])
def test_short_and_long_vectors_have_directions_and_gradients(length):
    features, weight = torch.randn(4, 6), torch.randn(3, 6)
    expected = F.cosine_logits(features, weight)
    short = (weight * length).requires_grad_()
    cosine = F.cosine_logits(features * length, short)
    torch.testing.assert_close(cosine, expected, rtol=1e-5, atol=1e-6)
    cosine.sum().backward()
    weight.requires_grad_()
    F.cosine_logits(features, weight).sum().backward()
    torch.testing.assert_close(short.grad * length, weight.grad, rtol=1e-4, atol=1e-5)


def test_l_softmax_of_two_short_vectors_has_a_gradient():
    head = heads.LSoftmaxHead(3, 2, k=3)
    with torch.no_grad():
        head.weight.mul_(1e-20)
    features = (torch.randn(5, 3) * 1e-20).requires_grad_()
    head(features, torch.tensor([0, 1, 0, 1, 0])).sum().backward()
    assert features.grad.isfinite().all()
    assert head.weight.grad.isfinite().all()


def test_the_hessian_of_nan_has_the_eigenvalue_nan():
    logits = torch.tensor([[math.nan, 0.0, 0.0], [0.0, 0.0, 0.0]])
    values = theory.hessian_max_eigenvalue(logits, torch.tensor([0, 0]))
    assert values.isnan().tolist() == [True, False]


def test_masked_logits_are_those_of_cross_entropy():
    logits = torch.tensor([[1.0, -math.inf, 0.5, -math.inf]], dtype=torch.float64)
    target = torch.tensor([0])
    assert F.gradient_decay_loss(logits, target).item() == pytest.approx(
        cross_entropy(logits, target).item(), rel=1e-14
    )
