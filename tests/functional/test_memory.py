"""No more memory than cross-entropy, and no integer tensor of the logits' size."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import softmargin.functional as F
from softmargin.functional import _chunks, _fused
from softmargin.heads import ArcFaceHead, ArcGradHead, CosineHead
from softmargin.losses import GradientDecayLoss

pytestmark = pytest.mark.usefixtures("either_path")

SAMPLES, CLASSES = 64, 2000


def peak_bytes(loss, logits, target):
    """Return the peak of what forward and backward allocate beyond their inputs."""
    logits = logits.clone().requires_grad_()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        loss(logits, target).backward()
    events = record.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    total = peak = 0
    for _, change in sorted(changes, key=lambda event: event[0]):
        total += change
        peak = max(peak, total)
    return peak


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"beta": 0.1}, {"beta": 5.0, "floored": True}], ids=str)
def test_peak_memory_is_at_most_cross_entropys(dtype, options):
    logits, target = torch.randn(SAMPLES, CLASSES, dtype=dtype), torch.arange(SAMPLES)
    theirs = peak_bytes(torch.nn.functional.cross_entropy, logits, target)
    ours = peak_bytes(lambda z, t: F.gradient_decay_loss(z, t, **options), logits, target)
    one = logits.numel() * logits.element_size()
    assert theirs >= 3 * one  # the measurement sees what it should
    assert ours <= theirs + 0.02 * one  # a few numbers per sample are not counted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_kernel_needs_one_buffer(kernel, dtype, smoothing):
    logits, target = torch.randn(SAMPLES, CLASSES, dtype=dtype), torch.arange(SAMPLES)

    def loss(logits, target):
        return F.gradient_decay_loss(logits, target, 0.1, label_smoothing=smoothing)

    one = logits.numel() * logits.element_size()
    with _fused.using(kernel, kernel.instructions):
        assert peak_bytes(loss, logits, target) <= 1.02 * one
        with torch.no_grad(), profile(profile_memory=True) as record:
            loss(logits, target)
    events = record.profiler.kineto_results.events()
    assert sum(abs(e.nbytes()) for e in events if e.name() == "[memory]") <= 0.02 * one


MANY = {
    "linear": lambda x, w, t: F.linear_gradient_decay_loss(x, w, t, 0.1),
    "smoothed": lambda x, w, t: F.linear_gradient_decay_loss(x, w, t, 0.1, label_smoothing=0.1),
    "cosine": lambda x, w, t: head_loss(CosineHead, x, w, t),
    "arcface": lambda x, w, t: head_loss(ArcFaceHead, x, w, t),
    "arcgrad": lambda x, w, t: head_loss(ArcGradHead, x, w, t),
}


def head_loss(kind, features, weight, target):
    head = kind(features.shape[1], len(weight))
    head.weight = weight
    return head.loss(features, target, GradientDecayLoss(0.1))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rows", "classes"])
@pytest.mark.parametrize("name", MANY)
def test_many_classes_need_a_fraction_of_the_logits(name, by, monkeypatch):
    """Their gradients, all included: those of the weight alone are 1/64 of the logits."""
    if by == "classes":
        monkeypatch.setattr(_chunks, "MOST_LOGITS", 400_000)
    features = torch.randn(2048, 32, requires_grad=True)
    weight = torch.nn.Parameter(torch.randn(20_000, 32))
    target = torch.randint(0, 20_000, (2048,))
    peak = peak_bytes(lambda x, t: MANY[name](x, weight, t), features, target)
    assert peak <= 0.25 * 4 * 2048 * 20_000


def test_soft_targets_need_memory_linear_in_the_classes():
    """O(N·C): a matrix of classes by classes would be a thousand times more."""
    logits = torch.randn(SAMPLES, CLASSES)
    target = torch.rand(SAMPLES, CLASSES).softmax(1)
    peak = peak_bytes(lambda z, t: F.gradient_decay_loss(z, t, 0.1), logits, target)
    assert peak <= 12 * logits.numel() * logits.element_size()


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.seen += [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        return result


LOSSES = [n for n in F.__all__ if n.endswith("_loss") and not n.startswith("linear_")]


@pytest.mark.parametrize("name", LOSSES)
def test_no_one_hot(name):
    logits = torch.randn(SAMPLES, CLASSES, requires_grad=True)
    options = {"margin": 1.0} if name == "soft_margin_softmax_loss" else {}
    with _Recorder() as recorder:
        getattr(F, name)(logits, torch.arange(SAMPLES), **options).backward()
    large = [t for t in recorder.seen if t.numel() >= logits.numel()]
    assert large
    assert all(t.is_floating_point() or t.dtype == torch.bool for t in large)
