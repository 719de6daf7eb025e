"""The Triton kernels in Triton's interpreter, on the CPU, against PyTorch's operations.

``TRITON_INTERPRET=1 python -m pytest tests/kernel/triton_interpreted.py``; a test starts it so.
"""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from softmargin import functional as F
from softmargin.functional import _fused, _triton

pytest.importorskip("triton")

C = 7
LOSSES = {
    "decay": (F.gradient_decay_loss, {"beta": 0.1, "tau": 0.7}),
    "per class": (F.gradient_decay_loss, {"beta": torch.linspace(0.2, 4.0, C)}),
    "floored": (F.gradient_decay_loss, {"beta": 5.0, "floored": True}),
    "compensated": (F.gradient_decay_loss, {"beta": 5.0, "compensate": True}),
    "tensors": (F.gradient_decay_loss, {"beta": torch.tensor(0.3), "tau": torch.tensor(2.0)}),
    "soft margin": (F.soft_margin_softmax_loss, {"margin": 0.5}),
    "modified": (F.modified_softmax_loss, {}),
    "focal": (F.focal_loss, {"gamma": 2.0}),
    "focal below 1": (F.focal_loss, {"gamma": torch.tensor(0.5), "tau": 2.0}),
}
REGULARIZED = {
    "symmetric": {"tau": 0.7},
    "uniform_to_logits": {"beta": torch.linspace(0.2, 4.0, C)},
    "logits_to_uniform": {"lam": torch.tensor(1.5), "beta": 5.0},
}
SHARED = {
    "plain": {},
    "weighted": {"weight": torch.rand(C)},
    "smoothed": {"label_smoothing": 0.1},
    "both": {"label_smoothing": 0.3, "weight": torch.rand(C), "ignore_index": 2},
}


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Use the kernels on the CPU; what is yielded counts their rows."""
    seen = []
    losses = _triton.Call.losses

    def counted(call, logits):
        seen.append(len(logits))
        return losses(call, logits)

    monkeypatch.setattr(_triton, "DEVICES", {"cpu"})
    monkeypatch.setattr(_triton, "MOST_CLASSES_AT_A_TIME", 4)
    monkeypatch.setattr(_triton.Call, "losses", counted)
    with _fused.using(None):
        yield seen


def problem(dtype=torch.float32, rows=5):
    logits = (3 * torch.randn(rows, C, dtype=torch.float64)).to(dtype)
    target = torch.randint(0, C, (rows,))
    target[1] = -100
    return logits, target


def one_of_each(logits):
    """Probabilities: of the smallest logit alone, of the largest alone, and of all."""
    target = torch.randn(len(logits), C).softmax(1)
    target[0] = torch.eye(C)[int(logits[0].argmin())]
    target[1] = torch.eye(C)[int(logits[1].argmax())]
    return target


def run(function, logits, target, upstream=None, **options):
    logits = logits.detach().requires_grad_()
    loss = function(logits, target, **options)
    upstream = torch.randn_like(loss) if upstream is None else upstream.to(loss.dtype)
    return loss.detach(), torch.autograd.grad(loss, logits, upstream)[0], upstream


def compare(function, logits, target, calls, bound=1e-5, **options):
    """Run the kernels in the logits' dtype and PyTorch's operations in float64."""
    loss, gradient, upstream = run(function, logits, target, **options)
    assert calls.pop() == len(logits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_triton, "DEVICES", set())
        wide, expected, _ = run(function, logits.double(), target, upstream, **options)
    soft = target.dtype if target.is_floating_point() else logits.dtype
    assert loss.dtype == torch.promote_types(logits.dtype, soft)
    assert gradient.dtype == logits.dtype
    assert_close(loss.double(), wide, rtol=bound, atol=bound / 5)
    assert_close(gradient.double(), expected, rtol=bound, atol=bound / 5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_equals_the_other_path(name, shared, reduction, calls):
    function, options = LOSSES[name]
    logits, target = problem()
    options = {**options, **SHARED[shared], "reduction": reduction}
    if "ignore_index" in options:
        target[1] = 2
    compare(function, logits, target, calls, **options)


@pytest.mark.parametrize("divergence", REGULARIZED)
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("soft", [False, True], ids=["classes", "probabilities"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_divergences(divergence, shared, soft, reduction, calls):
    logits, target = problem()
    options = {**REGULARIZED[divergence], **SHARED[shared], "reduction": reduction}
    if "ignore_index" in options:
        target[1] = options["ignore_index"]
    if soft:
        options.pop("ignore_index", None)
        target = one_of_each(logits)
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-9), (torch.bfloat16, 0.016)):
        function, own = F.regularized_softmax_loss, logits.to(dtype)
        bound = max(bound, 1e-7 if soft else 0)  # the probabilities are float32
        compare(function, own, target, calls, bound, divergence=divergence, **options)


@pytest.mark.parametrize("divergence", REGULARIZED)
@pytest.mark.parametrize("lead", [0.0, 30.0, 90.0])
def test_divergences_of_every_class_in_the_tails(divergence, lead, calls):
    logits = torch.randn(6, C)
    logits[range(6), range(6)] += torch.tensor([lead, -lead] * 3)
    logits[0, 3] = logits[0, 0]  # level with the largest
    logits[1, 5] += lead
    options = {"divergence": divergence, "reduction": "none", "lam": 0.7, "tau": 0.9}
    function, classes = F.regularized_softmax_loss, torch.arange(6)
    compare(function, logits, classes, calls, label_smoothing=0.2, **options)
    compare(function, logits, classes, calls, label_smoothing=1.0, **options)
    compare(function, logits, one_of_each(logits), calls, **options)


@pytest.mark.parametrize("divergence", REGULARIZED)
def test_divergences_with_masked_classes_and_of_two_classes(divergence, calls):
    logits, target = problem()
    masked = logits.clone()
    masked[:, 3] = masked[0, 4] = -torch.inf
    kept = target.where(target != 3, 2)
    options = {"divergence": divergence, "reduction": "none"}
    assert run(F.regularized_softmax_loss, masked, kept, **options)[1].isfinite().all()
    loss, gradient, upstream = run(F.regularized_softmax_loss, masked, kept, **options)
    calls.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_triton, "DEVICES", set())
        expected = run(F.regularized_softmax_loss, masked, kept, upstream, **options)
    assert calls == []
    assert_close((loss, gradient), expected[:2], rtol=1e-5, atol=2e-6)
    for smoothing in (0.0, 0.3):
        pairs = logits[:, :2], target.clamp(max=1)
        shared = {"reduction": "none", "label_smoothing": smoothing}
        ours = run(F.regularized_softmax_loss, *pairs, divergence=divergence, **shared)
        plain = run(F.gradient_decay_loss, *pairs, ours[2], **shared)
        assert_close(ours[:2], plain[:2])
    # shares of the classes that are there
    shares = masked.softmax(1)
    loss, gradient, upstream = run(F.regularized_softmax_loss, masked, shares, **options)
    assert calls.pop() == len(masked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_triton, "DEVICES", set())
        expected = run(F.regularized_softmax_loss, masked, shares, upstream, **options)
    assert_close((loss, gradient), expected[:2], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shared", ["plain", "weighted", "smoothed"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_class_probabilities(name, shared, reduction, calls):
    function, options = LOSSES[name]
    logits, _ = problem()
    target = one_of_each(logits)
    options = {**options, **SHARED[shared], "reduction": reduction}
    compare(function, logits, target, calls, **options)
    compare(function, logits, target.T.contiguous().T.half(), calls, 2e-3, **options)


def test_class_probabilities_of_other_dtypes_and_in_the_tails(calls):
    logits, _ = problem(torch.float64)
    target = torch.randn(len(logits), C).softmax(1)
    compare(F.gradient_decay_loss, logits, target.double(), calls, 1e-9, beta=0.1)
    loss = F.gradient_decay_loss(logits.bfloat16(), target, beta=0.1)
    assert loss.dtype == torch.float32
    assert calls.pop() == len(logits)
    compare(F.gradient_decay_loss, logits.float(), target.double(), calls)
    compare(F.gradient_decay_loss, logits.bfloat16(), target.double(), calls, 0.016)
    compare(F.gradient_decay_loss, logits, target, calls, 1e-7, ignore_index=-5)
    with pytest.raises(RuntimeError, match="ignore_index must be negative"):
        F.gradient_decay_loss(logits, target, ignore_index=5)
    assert calls == []
    lead = torch.tensor(
        [[80.0, 0.0, -torch.inf], [-torch.inf, 1.0, 2.0], [-torch.inf, 0.0, -torch.inf]]
    )
    sure = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0]])
    loss, gradient, upstream = run(F.gradient_decay_loss, lead, sure, beta=2.0, reduction="none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_triton, "DEVICES", set())
        expected = run(
            F.gradient_decay_loss,
            lead.double(),
            sure.double(),
            upstream,
            beta=2.0,
            reduction="none",
        )
    assert_close((loss.double(), gradient.double()), expected[:2], rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_dtypes_and_strides(dtype, smoothing, calls):
    logits, target = problem(dtype)
    bound = max(1e-9, 2 * torch.finfo(dtype).eps)
    for laid_out in (logits, logits.T.contiguous().T, logits.repeat(1, 2)[:, :C]):
        shared = {"beta": 0.5, "label_smoothing": smoothing}
        compare(F.gradient_decay_loss, laid_out, target, calls, bound, **shared)
    compare(F.gradient_decay_loss, logits, target.clamp_min(0).byte(), calls, bound)


@pytest.mark.parametrize("lead", [18.0, 80.0, 200.0])
@pytest.mark.parametrize("options", [{}, {"beta": 5.0, "floored": True}, {"label_smoothing": 0.2}])
def test_tails(lead, options, calls):
    logits = torch.tensor([[lead, 0.0, 1.0, -1.0], [1.0, lead, 0.0, 0.5], [0.0, lead, 2.0, 1.0]])
    target = torch.tensor([0, 1, 2])
    loss, gradient, upstream = run(F.gradient_decay_loss, logits, target, **options)
    assert calls == [3]
    with _fused.using(None), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_triton, "DEVICES", set())
        wide = run(F.gradient_decay_loss, logits.double(), target, upstream, **options)
    assert_close(loss.double(), wide[0], rtol=1e-5, atol=1e-30)
    assert_close(gradient.double(), wide[1], rtol=1e-5, atol=1e-30)


def test_masked_classes_and_classes_that_do_not_exist(calls):
    logits, target = torch.zeros(2, 3), torch.tensor([0, 1])
    logits[:, 2] = -torch.inf
    loss = F.gradient_decay_loss(logits, target, reduction="none")
    assert_close(loss, torch.full((2,), 0.6931472))
    assert F.gradient_decay_loss(logits, target + 5).isnan()
    assert calls == [2, 2]


def test_derivatives_of_both_orders(calls):
    logits, target = problem(torch.float64)
    logits.requires_grad_()

    def loss(logits):
        return F.gradient_decay_loss(logits, target, 0.3)

    assert gradcheck(loss, logits)
    (first,) = torch.autograd.grad(loss(logits), logits, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), logits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_triton, "DEVICES", set())
        (first,) = torch.autograd.grad(loss(logits), logits, create_graph=True)
        assert_close(second, torch.autograd.grad(first.square().sum(), logits)[0])


def test_what_is_left_to_pytorch(calls):
    logits, target = problem()
    beta = torch.tensor(0.5, requires_grad=True)
    F.gradient_decay_loss(logits, target, beta)
    F.gradient_decay_loss(logits[0], target[0])
    torch.func.grad(F.gradient_decay_loss)(logits, target)
    assert calls == []
    with pytest.raises(ValueError, match="beta must be a finite number above 0"):
        F.gradient_decay_loss(logits, target, -1.0)
    with pytest.raises(RuntimeError, match=r"weight must have shape \(7,\)"):
        F.gradient_decay_loss(logits, target, weight=torch.rand(3))
