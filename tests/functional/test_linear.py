"""A linear layer and its loss in one, against the two one after the other."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

import softmargin
from softmargin import functional as F
from softmargin.functional import _chunks, _class_chunks

pytestmark = pytest.mark.usefixtures("either_path")
N, D, C = 70, 6, 9
OPTIONS = {
    "plain": {},
    "decay": {"beta": 0.1, "tau": 0.7},
    "floored": {"beta": 5.0, "floored": True},
    "per class": {"beta": torch.linspace(0.1, 3.0, C, dtype=torch.float64)},
    "smoothed": {"beta": 0.3, "label_smoothing": 0.1},
    "regularised": {"lam": 0.3, "divergence": "uniform_to_logits", "beta": 2.0},
    "levelled": {"lam": 0.3, "divergence": "logits_to_uniform", "tau": 0.5},
    "all": {"lam": 0.2, "tau": 2.0, "label_smoothing": 0.3},
    "only smoothed": {"beta": 4.0, "label_smoothing": 1.0, "tau": 3.0},
}


@pytest.fixture(autouse=True, params=["rows", "classes"])
def _small_steps(request, monkeypatch):
    monkeypatch.setattr(_chunks, "LEAST_LOGITS", 1)  # 32 rows at a time
    if request.param == "classes":  # 6 of 40 rows at a time
        monkeypatch.setattr(_chunks, "MOST_LOGITS", 250)
        monkeypatch.setattr(_class_chunks, "MOST_ROWS", 40)


def problem(dtype=torch.float64, soft=False):
    input, weight, bias = (torch.randn(shape, dtype=dtype) for shape in ((N, D), (C, D), (C,)))
    target = torch.randint(0, C, (N,))
    target[3] = -100
    if soft:
        target = torch.randn(N, C, dtype=dtype).softmax(1)
    return [x.requires_grad_() for x in (input, weight, bias)], target


def separately(input, matrix, bias, target, lam=0.0, divergence="symmetric", **options):
    logits = torch.nn.functional.linear(input, matrix, bias)
    if lam:
        return F.regularized_softmax_loss(logits, target, lam, divergence, **options)
    return F.gradient_decay_loss(logits, target, **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("soft", [False, True], ids=["classes", "probabilities"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_one_after_the_other(options, reduction, soft, weighted):
    leaves, target = problem(soft=soft)
    shared = {**options, "reduction": reduction}
    shared["weight"] = torch.rand(C, dtype=torch.float64) if weighted else None
    ours = F.linear_gradient_decay_loss(
        leaves[0], leaves[1], target, linear_bias=leaves[2], **shared
    )
    theirs = separately(*leaves, target, **shared)
    assert_close(ours, theirs)
    upstream = torch.randn_like(theirs)
    expected = torch.autograd.grad(theirs, leaves, upstream)
    for _ in range(2):  # also for a second backward pass
        assert_close(torch.autograd.grad(ours, leaves, upstream, retain_graph=True), expected)


@pytest.mark.parametrize("place", [0, 20, 31, 69])
@pytest.mark.parametrize("soft", [False, True], ids=["classes", "probabilities"])
@pytest.mark.parametrize("options", ["smoothed", "levelled"])
def test_rows_that_are_done_before_the_kernel_declines_are_done_again(place, soft, options):
    """Gradients take the place of the logits: those are lost, and have to be computed once more."""
    (input, weight, bias), target = problem(soft=soft)
    with torch.no_grad():
        input[place] *= 1e35  # a loss that the kernel leaves to others, after the rows before it
    ours = F.linear_gradient_decay_loss(
        input, weight, target, linear_bias=bias, reduction="sum", **OPTIONS[options]
    )
    theirs = separately(input, weight, bias, target, reduction="sum", **OPTIONS[options])
    assert_close(ours, theirs)
    leaves = input, bias  # in the weight's gradient the one sample hides the others
    assert_close(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves))


@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (0, 2)])
def test_only_what_is_asked_for(needed):
    leaves, target = problem()
    leaves = [x.detach().requires_grad_(i in needed) for i, x in enumerate(leaves)]
    asked = [leaves[i] for i in needed]
    ours = F.linear_gradient_decay_loss(leaves[0], leaves[1], target, linear_bias=leaves[2])
    theirs = separately(*leaves, target)
    assert_close(torch.autograd.grad(ours, asked), torch.autograd.grad(theirs, asked))


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_derivatives_of_both_orders(reduction):
    input, weight = (torch.randn(n, 3, dtype=torch.float64) for n in (35, 4))
    target = torch.randint(0, 4, (35,))

    def loss(*leaves):
        return F.linear_gradient_decay_loss(*leaves, target, 0.3, reduction=reduction).sum()

    leaves = input.requires_grad_(), weight.requires_grad_()
    assert gradcheck(loss, leaves)
    assert gradgradcheck(loss, leaves)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_precision(dtype):
    leaves, target = problem(dtype)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    ours = F.linear_gradient_decay_loss(leaves[0], leaves[1], target, 0.5, linear_bias=leaves[2])
    theirs = separately(*wide, target, beta=0.5)
    bound = 8 * torch.finfo(dtype).eps
    assert ours.dtype == dtype
    assert_close(ours.double(), theirs, rtol=bound, atol=bound)
    for own, other in zip(
        torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, wide), strict=True
    ):
        assert own.dtype == dtype
        assert_close(own.double(), other, rtol=bound, atol=bound)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("lead", [20.0, 60.0])
def test_tails(lead, smoothing):
    """Also where the target, or another class, leads by far."""
    input, target = torch.eye(4, dtype=torch.float32), torch.tensor([0, 1, 3, 0])
    weight = lead * torch.eye(C, 4) + 0.1 * torch.randn(C, 4)
    leaves = [x.requires_grad_() for x in (input, weight)]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    shared = {"label_smoothing": smoothing, "reduction": "none"}
    ours = F.linear_gradient_decay_loss(*leaves, target, 0.5, floored=True, **shared)
    theirs = separately(*wide, None, target, beta=0.5, floored=True, **shared)
    assert_close(ours.double(), theirs, rtol=1e-5, atol=0)
    upstream = torch.ones(4)
    found = torch.autograd.grad(ours, leaves[1], upstream)[0].double()
    (expected,) = torch.autograd.grad(theirs, wide[1], upstream.double())
    assert_close(found, expected, rtol=1e-5, atol=0)


def test_one_sample_no_sample_and_a_learned_setting():
    leaves, target = problem()
    one = F.linear_gradient_decay_loss(leaves[0][0], leaves[1], target[0])
    assert_close(one, F.linear_gradient_decay_loss(leaves[0][:1], leaves[1], target[:1]))
    assert F.linear_gradient_decay_loss(leaves[0][:0], leaves[1], target[:0]).isnan()
    beta = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    F.linear_gradient_decay_loss(leaves[0], leaves[1], target, beta).backward()
    assert beta.grad is not None


def test_transforms_and_compilers():
    (input, weight, _), target = problem()
    expected = F.linear_gradient_decay_loss(input, weight, target)
    gradient = torch.func.grad(F.linear_gradient_decay_loss)(input, weight, target)
    assert_close(gradient, torch.autograd.grad(expected, input)[0])
    compiled = torch.compile(F.linear_gradient_decay_loss, backend="eager", fullgraph=True)
    assert_close(compiled(input, weight, target), expected)


def test_the_logits_never_exist():
    seen = []

    class Recorder(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and not result.is_meta:
                seen.append(result.numel())
            return result

    (input, weight, _), target = problem()
    with Recorder():
        F.linear_gradient_decay_loss(input, weight, target).backward()
    assert max(seen) < N * C
    assert any(n > N for n in seen)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"linear_weight": torch.zeros(C)}, ValueError, "linear_weight must have shape"),
        ({"linear_weight": torch.zeros(C, 2)}, ValueError, "input must have shape"),
        ({"linear_weight": torch.zeros(C, D).half()}, TypeError, "linear_weight must be torch"),
        ({"linear_bias": torch.zeros(2)}, ValueError, r"linear_bias must have shape \(9,\)"),
        ({"target": torch.zeros(4, 4)}, ValueError, "target must have shape"),
        ({"beta": -1.0}, ValueError, "beta must be a finite number above 0"),
        ({"lam": 0.1, "floored": True}, ValueError, "floored must be False"),
        ({"reduction": "all"}, ValueError, "reduction must be one of"),
    ],
)
def test_bad_input(change, error, message):
    (input, weight, _), target = problem(torch.float32)
    arguments = {"input": input, "linear_weight": weight, "target": target} | change
    with pytest.raises(error, match=message):
        F.linear_gradient_decay_loss(**arguments)


def test_the_module():
    torch.manual_seed(0)
    module = softmargin.losses.LinearGradientDecayLoss(D, C, beta=0.1, bias=True)
    (input, _, _), target = problem(torch.float32)
    loss = module(input, target)
    assert_close(loss, F.gradient_decay_loss(module.linear(input), target, 0.1))
    loss.backward()
    assert module.linear.weight.grad is not None
    module.beta = 1.0
    expected = torch.nn.functional.cross_entropy(module.linear(input), target)
    assert_close(module(input, target), expected)
    assert "beta=1" in repr(module)
    again = softmargin.losses.LinearGradientDecayLoss(D, C, bias=True)
    again.load_state_dict(module.state_dict())
    assert_close(again(input, target), expected)
