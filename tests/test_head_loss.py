"""A head's loss without its logits, against criterion(head(features, target), target)."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.testing import assert_close

from head_cases import EVERY_OPTION
from softmargin import functional, heads, losses
from softmargin.functional import _chunks, _class_chunks

N, D, C = 45, 7, 6
CRITERIA = {
    "cross-entropy": nn.CrossEntropyLoss,
    "decay": lambda **shared: losses.GradientDecayLoss(0.1, 0.7, **shared),
    "floored": lambda **shared: losses.GradientDecayLoss(
        beta=torch.linspace(0.5, 3, C, dtype=torch.float64), floored=True, **shared
    ),
    "soft margin": lambda **shared: losses.SoftMarginSoftmaxLoss(0.5, **shared),
    "modified": losses.ModifiedSoftmaxLoss,
    "regularised": losses.RegularizedSoftmaxLoss,
    "focal": losses.FocalLoss,
    "hinge": losses.MeanHingeLoss,
}
SHARED = {
    "plain": {},
    "weighted": {"weight": torch.rand(C, dtype=torch.float64)},
    "smoothed": {"label_smoothing": 0.1},
    "both": {"label_smoothing": 0.2, "weight": torch.rand(C, dtype=torch.float64)},
    "ignoring": {"ignore_index": 2},
}
MAIN = ["CosineHead-1", "CosFaceHead-1", "ArcFaceHead-1", "ArcGradHead-0"]


@pytest.fixture(params=["rows", "classes"], autouse=True)
def _small_steps(request, monkeypatch):
    monkeypatch.setattr(_chunks, "LEAST_LOGITS", 1)  # 32 rows at a time
    if request.param == "classes":
        monkeypatch.setattr(_chunks, "MOST_LOGITS", 100)
        monkeypatch.setattr(_class_chunks, "MOST_ROWS", 30)


def problem(name, dtype=torch.float64):
    case, options = EVERY_OPTION[name]
    head = case.module(D, C, **options, dtype=dtype)
    features = torch.randn(N, D, dtype=dtype)
    target = torch.randint(0, C, (N,))
    features[0] = 2 * head.weight.detach()[target[0]] + 0.01 * features[0]  # a small angle
    target[3] = -100
    return head, features.requires_grad_(), target


def both_ways(head, features, target, criterion, context=nullcontext):
    """Return losses and gradients: without logits, then with them."""
    upstream = None
    leaves = [features, *head.parameters()]
    results = []
    for way in (
        lambda: head.loss(features, target, criterion),
        lambda: criterion(head(features, target), target),
    ):
        with context():
            loss = way()
        if upstream is None:
            upstream = torch.randn_like(loss)
        gradients = torch.autograd.grad(loss, leaves, upstream, materialize_grads=True)
        results.append((loss.detach(), *gradients))
    return results


@pytest.mark.parametrize("name", EVERY_OPTION)
@pytest.mark.parametrize("criterion", ["cross-entropy", "decay", "focal"])
def test_every_head(name, criterion):
    ours, theirs = both_ways(*problem(name), CRITERIA[criterion]())
    assert_close(ours, theirs)


@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_table(name, criterion, shared, reduction):
    head, features, target = problem(name)
    if shared == "ignoring":
        target[3] = 2
    made = CRITERIA[criterion](**SHARED[shared], reduction=reduction)
    ours, theirs = both_ways(head, features, target, made)
    assert_close(ours, theirs)


@pytest.mark.parametrize("name", MAIN)
def test_derivatives(name):
    case, options = EVERY_OPTION[name]
    head = case.module(3, 4, **options, dtype=torch.float64)
    features = torch.randn(34, 3, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, 4, (34,))
    criterion = losses.GradientDecayLoss(0.5)

    def loss(features, weight):
        del head.weight
        head.weight = weight
        return head.loss(features, target, criterion)

    weight = head.weight.detach().requires_grad_()
    head.register_parameter("weight", None)
    assert gradcheck(loss, (features, weight))


@pytest.mark.parametrize("name", MAIN)
def test_gradients_of_higher_order(name):
    head, features, target = problem(name)
    features = features.detach()[1:].requires_grad_()
    criterion, target = losses.GradientDecayLoss(0.5), target[1:]
    seconds = []
    for loss in (
        head.loss(features, target, criterion),
        criterion(head(features, target), target),
    ):
        (first,) = torch.autograd.grad(loss, features, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), [features, head.weight]))
    assert_close(*seconds)


@pytest.mark.parametrize("name", EVERY_OPTION)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_lower_precision(name, dtype):
    head, features, target = problem(name, dtype)
    ours, theirs = both_ways(head, features, target, losses.GradientDecayLoss(0.5))
    bound = 4 * torch.finfo(dtype).eps
    if dtype == torch.float32:
        bound *= 10
    for own, other in zip(ours, theirs, strict=True):
        assert own.dtype == other.dtype
        size = max(1.0, other.abs().max().item())
        assert_close(own, other, rtol=bound, atol=bound * size)


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_empty_batch_and_autocast(name):
    head, features, target = problem(name, torch.float32)
    criterion = losses.GradientDecayLoss(0.5, reduction="sum")
    loss = head.loss(features[:0], target[:0], criterion)
    loss.backward()
    assert loss == 0
    context = partial(torch.autocast, "cpu", torch.bfloat16)
    ours, theirs = both_ways(head, features, target, criterion, context)
    for own, other in zip(ours, theirs, strict=True):
        assert own.dtype == other.dtype
        assert_close(own, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_probabilities(name):
    head, features, _ = problem(name)
    target = torch.randn(N, C, dtype=torch.float64).softmax(1)
    ours, theirs = both_ways(head, features, target, losses.GradientDecayLoss(0.5))
    assert_close(ours, theirs)


def decay_and_size(input, target, **options):
    loss = functional.gradient_decay_loss(input, target, **options)
    return loss + 0.01 * input.square().sum()


def size_and_decay(input, target, **options):
    size = 0.01 * input.square().sum()
    return size + functional.gradient_decay_loss(input, target, **options)


@pytest.mark.parametrize("function", [decay_and_size, size_and_decay])
def test_a_loss_of_your_own_may_read_the_logits_again(function):
    """Then the gradient must not take their place."""

    class Own(losses.LogitLoss):
        pass

    Own.function = Own._unwrapped = staticmethod(function)
    head, features, target = problem("LinearHead-0", torch.float32)
    ours, theirs = both_ways(head, features, target, Own({}, None, -100, "sum", 0.0))
    assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_learned_settings_have_gradients():
    head = heads.ArcFaceHead(D, C, scale=nn.Parameter(torch.tensor(8.0)))
    criterion = losses.GradientDecayLoss(0.5, learn_beta=True)
    features, target = torch.randn(N, D), torch.randint(0, C, (N,))
    head.loss(features, target, losses.GradientDecayLoss(0.5)).backward()
    found, head.scale.grad = head.scale.grad, None
    head.loss(features, target, criterion).backward()
    assert criterion.log_beta.grad is not None
    assert_close(head.scale.grad, found)
    head = heads.ArcGradHead(D, C, scale=nn.Parameter(torch.tensor(8.0)))
    head.loss(features, target, criterion).backward()
    assert head.scale.grad is not None


@pytest.mark.parametrize("name", MAIN)
def test_the_logits_never_exist(name):
    head, features, target = problem(name)
    criterion = losses.GradientDecayLoss(0.5)
    seen = []

    class Recorder(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                seen.append(result.shape)
            return result

    with Recorder():
        head.loss(features, target, criterion).backward()
    assert (N, C) not in seen
    assert any(len(shape) == 2 and shape[1] in range(3, C + 1) for shape in seen)


def test_what_cannot():
    features, target = torch.randn(N, D), torch.randint(0, C, (N,))
    head = heads.CosineHead(D, C)

    class Own(heads.Head):
        def inference_logits(self, features):
            return features @ self.weight.T

    with pytest.raises(RuntimeError, match="Own has no loss without logits"):
        Own(D, C).loss(features, target, nn.CrossEntropyLoss())
    with pytest.raises(RuntimeError, match="AdaCosHead.dynamic=True. sets its scale from all"):
        heads.AdaCosHead(D, C).loss(features, target, nn.CrossEntropyLoss())
    with pytest.raises(TypeError, match="criterion must be an nn.CrossEntropyLoss or a loss of"):
        head.loss(features, target, nn.NLLLoss())
    with pytest.raises(ValueError, match="criterion must have compensate=False"):
        head.loss(features, target, losses.GradientDecayLoss(5.0, compensate=True))
    with pytest.raises(ValueError, match="features must have shape"):
        head.loss(features[:, 1:], target, nn.CrossEntropyLoss())
    with pytest.raises(IndexError, match="target must hold classes from 0 to 5"):
        head.loss(features, target + C, nn.CrossEntropyLoss())


def test_transforms_and_compilers_see_the_logits():
    head, features, target = problem("ArcFaceHead-1")
    criterion = losses.GradientDecayLoss(0.5)

    def loss(features):
        return head.loss(features, target, criterion)

    expected = torch.autograd.grad(loss(features), features)[0]
    assert_close(torch.func.grad(loss)(features), expected)
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    assert_close(compiled(features), loss(features))
