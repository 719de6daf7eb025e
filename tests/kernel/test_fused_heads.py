"""Heads by the fused kernel against PyTorch's operations in float64, copy by copy."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from softmargin import heads
from softmargin._kernel import library
from softmargin.functional import _fused
from softmargin.heads.cosine import BEYOND

HEADS = {
    "cosine": (heads.CosineHead, {"scale": 5.0}),
    "CosFace": (heads.CosFaceHead, {"scale": 5.0, "margin": 0.2}),
    **{f"ArcFace-{b}": (heads.ArcFaceHead, {"scale": 5.0, "beyond": b}) for b in BEYOND},
    "ArcGrad": (heads.ArcGradHead, {"scale": 3.0}),
    "A-Softmax": (heads.ASoftmaxHead, {"k": 4, "anneal": 0.5}),
    "A-Softmax-1": (heads.ASoftmaxHead, {"k": 1}),
    "Gaussian": (heads.GaussianHead, {"margin": 0.3}),
}
SHAPES = [(1, 2, 3), (7, 3, 5), (65, 129, 33), (70, 257, 16)]
each_head = pytest.mark.parametrize("name", HEADS)


@pytest.fixture
def calls(kernel):
    """Count the kernel's calls for heads that were done."""
    found = []

    def counted(function):
        def call(packed):
            status = function(packed)
            found.append(status)
            return status

        return call

    replaced = {name: counted(getattr(kernel, name)) for name in ("directions", "gaussian")}
    with _fused.using(dataclasses.replace(kernel, **replaced), kernel.instructions):
        yield found


def problem(name, shape, close=0.0):
    kind, options = HEADS[name]
    samples, classes, size = shape
    head = kind(size, classes, **options)
    if hasattr(head, "log_variance"):
        torch.nn.init.normal_(head.log_variance, std=0.3)
    target = torch.randint(0, classes, (samples,))
    x = torch.randn(samples, size)
    if close:
        x = 2 * head.weight.detach()[target] + close * x
    return head, x, target


def run(head, x, target):
    """Return the logits and all gradients for one gradient of the logits."""
    head.zero_grad()
    x = x.detach().clone().requires_grad_()
    logits = head(x, target)
    generator = torch.Generator().manual_seed(3)
    grad = torch.randn(logits.shape, generator=generator, dtype=torch.float64)
    logits.backward(grad.to(logits.dtype))
    return [logits.detach(), x.grad, *(p.grad.clone() for p in head.parameters())]


def compare(head, x, target, bound=1e-5):
    found = run(head, x, target)
    with _fused.using(None):
        wide = run(head.double(), x.double(), target)
    head.float()
    for ours, exact in zip(found, wide, strict=True):
        size = max(1.0, exact.abs().max().item())
        assert ours.dtype == torch.float32
        assert_close(ours.double(), exact, rtol=bound, atol=bound * size)


@each_head
@pytest.mark.parametrize("copy", range(3), ids=library.INSTRUCTIONS)
def test_equals_float64(name, copy, kernel):
    if copy > kernel.instructions:
        pytest.skip("this CPU has no such instructions")
    with _fused.using(kernel, copy):
        for shape in SHAPES:
            compare(*problem(name, shape))


@each_head
def test_features_next_to_their_class(name, calls):
    compare(*problem(name, (20, 5, 8), close=0.05), bound=2e-5)
    assert calls
    assert 1 not in calls  # declined


@each_head
def test_threads_change_nothing(name, kernel):
    head, x, target = problem(name, (300, 257, 33))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            with _fused.using(kernel, kernel.instructions):
                found.append(head(x, target))
    finally:
        torch.set_num_threads(before)
    # the products are PyTorch's own
    for other in found[1:]:
        assert_close(other, found[0], rtol=1e-6, atol=1e-6)


@each_head
def test_ignored_and_byte_targets(name, calls):
    head, x, target = problem(name, (6, 4, 5))
    assert torch.equal(head(x, target.byte()), head(x, target))
    some = target.clone()
    some[2] = -100
    others = [0, 1, 3, 4, 5]
    assert torch.equal(head(x, some)[others], head(x, target)[others])
    assert calls == [0] * len(calls)


@each_head
def test_mistakes_are_refused_in_the_same_words(name, kernel):
    head, x, target = problem(name, (6, 4, 5))
    target[1] = 4
    messages = []
    for wanted in (kernel, None):
        with _fused.using(wanted), pytest.raises((IndexError, ValueError, RuntimeError)) as error:
            head(x, target)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@each_head
def test_changed_targets_are_noticed(name, calls):
    head, x, target = problem(name, (6, 4, 5))
    logits = head(x, target)
    target.fill_(10**9)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logits.sum().backward()


@each_head
def test_only_what_learns_gets_a_gradient(name, calls):
    head, x, target = problem(name, (6, 4, 5))
    full = run(head, x, target)
    head.requires_grad_(False).zero_grad()
    x = x.requires_grad_()
    logits = head(x, target)
    generator = torch.Generator().manual_seed(3)
    grad = torch.randn(logits.shape, generator=generator, dtype=torch.float64).float()
    for _ in range(2):  # over a graph that is kept, too
        x.grad = None
        logits.backward(grad, retain_graph=True)
        assert_close(x.grad, full[1])
    assert all(p.grad is None for p in head.parameters())


@each_head
def test_second_derivatives(name, kernel):
    head, x, target = problem(name, (4, 3, 5))
    found = []
    for wanted in (kernel, None):
        with _fused.using(wanted):
            z = x.clone().requires_grad_()
            loss = F.cross_entropy(head(z, target), target)
            (first,) = torch.autograd.grad(loss, z, create_graph=True)
            found.append(torch.autograd.grad(first.square().sum(), z)[0])
    assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@each_head
def test_odd_lengths_and_other_defaults(name, kernel):
    head, x, target = problem(name, (6, 4, 5))
    x[0], x[1] = 0.0, 1e-20 * x[1]
    compare(head, x, target, bound=1e-4)
    torch.set_default_dtype(torch.float64)
    try:
        compare(head, torch.randn(6, 5, dtype=torch.float32), target)
    finally:
        torch.set_default_dtype(torch.float32)


def test_heads_of_others_are_left_alone(calls):
    class Halved(heads.CosFaceHead):
        def training_logits(self, features, index):
            return super().training_logits(features, index) / 2

    head, target = Halved(4, 3), torch.tensor([0, 1])
    x = torch.randn(2, 4)
    assert_close(head(x, target), heads.CosFaceHead.training_logits(head, x, target[:, None]) / 2)
