"""Every loss and head in the modes that PyTorch has, and on inputs that are odd but allowed."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import head_cases
import loss_cases
from softmargin import functional as F
from softmargin.heads import AdaCosHead

each_loss = pytest.mark.parametrize(
    ("case", "options"), loss_cases.EVERY_OPTION.values(), ids=loss_cases.EVERY_OPTION
)
EVERY_HEAD = head_cases.EVERY_OPTION | {
    "AdaCosHead-dynamic": (head_cases.EVERY_HEAD["AdaCosHead"], {"dynamic": True})
}
each_head = pytest.mark.parametrize(("case", "options"), EVERY_HEAD.values(), ids=EVERY_HEAD)
each_kind = pytest.mark.parametrize("kind", ["index", "probability"])

MODES = {
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def sample(kind, dtype=torch.float32, classes=5):
    logits = torch.randn(6, classes, dtype=dtype) * 3
    if kind == "index":
        return logits, torch.tensor([0, 1, -100, 3, 4, 2])
    return logits, torch.rand(6, classes).softmax(1)


def make_head(case, options, **where):
    torch.manual_seed(0)
    return case.module(8, 5, **options, **where)


def head_sample(dtype=torch.float32):
    features, target = torch.randn(6, 8, dtype=dtype), torch.tensor([0, 1, -100, 3, 4, 2])
    return features, target


@each_mode
@each_kind
@each_loss
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_without_gradients(case, options, kind, mode, smoothing):
    logits, target = sample(kind)
    options = options | {"label_smoothing": smoothing}
    expected = case.function(logits.clone().requires_grad_(), target, **options)
    module = case.module(**options)
    with mode():
        for ours in (case.function(logits, target, **options), module(logits, target)):
            assert not ours.requires_grad
            torch.testing.assert_close(ours, expected.detach(), rtol=1e-6, atol=1e-6)
        inside = torch.randn(6, 5)  # in inference mode, an inference tensor
        assert case.function(inside, target, **options).isfinite()


@each_mode
@each_head
@pytest.mark.parametrize("training", [True, False])
def test_heads_without_gradients(case, options, mode, training):
    head = make_head(case, options).train(training)
    features, target = head_sample()
    state = {name: value.clone() for name, value in head.state_dict().items()}
    expected = head(features.clone().requires_grad_(), target).detach()
    head.load_state_dict(state)
    with mode():
        torch.testing.assert_close(head(features, target), expected)
        head(torch.randn(6, 8), target)
        head.eval()(features)


@each_head
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_heads_under_autocast(case, options, dtype):
    """Angles stay in float32; a linear head may round as nn.Linear does."""
    head = make_head(case, options)
    features, target = head_sample()
    state = {name: value.clone() for name, value in head.state_dict().items()}
    expected = head(features, target).detach()
    head.load_state_dict(state)
    features.requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        logits = head(features, target)
        loss = nn.functional.cross_entropy(logits, target)
    loss.backward()
    linear = case.name == "LinearHead"
    torch.testing.assert_close(
        logits.detach().float(), expected, rtol=2e-2 if linear else 1e-5, atol=2e-2 * linear
    )
    assert features.grad.isfinite().all()


@each_head
@pytest.mark.parametrize("mode_stays", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_heads_with_fake_tensors(case, options, mode_stays):
    """Shape propagation, as in export, memory estimates and deferred initialisation."""
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        head = make_head(case, options)
        features, target = torch.randn(6, 8, requires_grad=True), torch.randint(0, 5, (6,))
    with fake if mode_stays else contextlib.nullcontext():
        logits = head(features, target)
        assert logits.shape == (6, 5)
        logits.sum().backward()
        assert features.grad.shape == (6, 8)
        assert head.eval()(features.detach()).shape == (6, 5)


@each_loss
@pytest.mark.parametrize("kind", ["index", pytest.param("probability", marks=pytest.mark.slow)])
def test_losses_with_fake_tensors(case, options, kind):
    with FakeTensorMode(allow_non_fake_inputs=True):
        logits = torch.randn(6, 5, requires_grad=True)
        target = torch.randint(0, 5, (6,)) if kind == "index" else torch.rand(6, 5)
        loss = case.function(logits, target, **options, label_smoothing=0.1)
        assert loss.shape == ()
        loss.backward()
        assert logits.grad.shape == (6, 5)


@each_loss
@each_kind
def test_losses_on_the_meta_device(case, options, kind):
    options = {n: v.to("meta") if isinstance(v, torch.Tensor) else v for n, v in options.items()}
    logits = torch.empty(6, 5, device="meta", requires_grad=True)
    target = torch.empty(6, 5, device="meta")
    if kind == "index":
        target = torch.empty(6, dtype=torch.long, device="meta")
    loss = case.function(logits, target, **options, label_smoothing=0.1)
    assert loss.device.type == "meta"
    loss.backward()
    assert logits.grad.shape == (6, 5)


@each_head
@pytest.mark.parametrize("reentrant", [True, False])
def test_heads_under_activation_checkpointing(case, options, reentrant):
    if options.get("dynamic"):
        pytest.skip("a scale that adapts would do so once more in the second forward pass")
    head = make_head(case, options)
    features, target = head_sample()

    def gradients(call):
        x = features.clone().requires_grad_()
        logits = call(x)
        loss = nn.functional.cross_entropy(logits, target)
        return torch.autograd.grad(loss, [x, *head.parameters()], allow_unused=True)

    plain = gradients(lambda x: head(x, target))
    if reentrant:  # reentrant checkpoints only know .backward()
        x = features.clone().requires_grad_()
        head.zero_grad()
        logits = checkpoint(head, x, target, use_reentrant=True)
        nn.functional.cross_entropy(logits, target).backward()
        again = [x.grad, *(p.grad for p in head.parameters())]
    else:
        again = gradients(lambda x: checkpoint(head, x, target, use_reentrant=False))
    for ours, expected in zip(again, plain, strict=True):
        torch.testing.assert_close(ours, expected)


@each_loss
@each_kind
@pytest.mark.parametrize("reentrant", [True, False])
def test_losses_under_activation_checkpointing(case, options, kind, reentrant):
    logits, target = sample(kind)
    results = []
    for wrapped in (False, True):
        z = logits.clone().requires_grad_()

        def loss(z):
            return case.function(z, target, **options)

        (checkpoint(loss, z, use_reentrant=reentrant) if wrapped else loss(z)).backward()
        results.append(z.grad)
    torch.testing.assert_close(*results)


@each_loss
@each_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_sample_without_a_batch_dimension(case, options, kind, dtype, smoothing):
    """1-D logits give what the batch of one gives, value and gradient, in every dtype."""
    logits = (torch.randn(5) * 3).to(dtype)
    target = torch.tensor(3) if kind == "index" else torch.rand(5).softmax(0).to(dtype)
    one, batch = logits.clone().requires_grad_(), logits.unsqueeze(0).clone().requires_grad_()
    shared = options | {"label_smoothing": smoothing}
    loss = case.function(one, target, **shared)
    expected = case.function(batch, target.unsqueeze(0), **shared)
    assert loss.dtype == dtype
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    assert one.grad.dtype == dtype
    torch.testing.assert_close(one.grad, batch.grad.squeeze(0))


@each_loss
@each_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("mask", [-math.inf, "lowest"])
def test_masked_logits(case, options, kind, dtype, mask):
    """A class at -inf or at the lowest finite number: no NaN, and finite gradients."""
    mask = torch.finfo(dtype).min if mask == "lowest" else mask
    logits = torch.tensor([[2.0, mask, 0.5, -1.0, mask], [0.3, mask, mask, mask, mask]])
    logits = logits.to(dtype).requires_grad_()
    target = torch.tensor([2, 0])
    if kind == "probability":
        target = torch.tensor([[0.2, 0, 0.5, 0.3, 0], [1.0, 0, 0, 0, 0]], dtype=dtype)
    losses = case.function(logits, target, **options, reduction="none")
    assert not losses.isnan().any()
    if dtype in (torch.float32, torch.float64) and "lam" not in case.module.settings:
        assert losses.isfinite().all()
    losses.sum().backward()
    assert logits.grad.isfinite().all()


@each_kind
@pytest.mark.parametrize("divergence", ["symmetric", "uniform_to_logits", "logits_to_uniform"])
@pytest.mark.parametrize("mask", [-math.inf, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_divergences_of_masked_logits_have_their_limits(kind, divergence, mask, tau):
    logits = torch.tensor([[2.0, mask, 0.5, -1.0]], requires_grad=True)
    target = torch.tensor([0]) if kind == "index" else torch.tensor([[1.0, 0, 0, 0]])
    arguments = {"lam": 1.0, "divergence": divergence, "tau": tau}
    loss = F.regularized_softmax_loss(logits, target, **arguments)
    assert loss.isfinite()
    loss.backward()
    assert logits.grad.isfinite().all()
    if divergence == "logits_to_uniform":  # q log q is 0 at q = 0: a logit far down says the same
        far = torch.tensor([[2.0, -200.0, 0.5, -1.0]], dtype=torch.float64)
        expected = F.regularized_softmax_loss(
            far, target.to(far) if kind != "index" else target, **arguments
        )
        torch.testing.assert_close(loss.detach().double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("divergence", ["symmetric", "uniform_to_logits", "logits_to_uniform"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_divergences_of_masked_logits_have_the_gradients_of_far_ones(divergence, smoothing):
    """A masked class counts as one of the uniform's for every kind of target; it gets none."""
    rows = torch.tensor([[2.0, -math.inf, 0.5, -1.0], [0.1, 1.0, -math.inf, 3.0]])
    shares = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    shares = (1 - smoothing) * shares + smoothing * rows.softmax(1)
    targets = [shares.double()]
    if not smoothing:
        targets.append(torch.tensor([0, 3]))
    options = {"divergence": divergence, "reduction": "sum", "lam": 0.7}
    for target in targets:

        def loss(z, target=target):
            return F.regularized_softmax_loss(z, target, **options)

        masked = rows.double().requires_grad_()
        (ours,) = torch.autograd.grad(loss(masked), masked)
        far = rows.double().clamp_min(-1e4).requires_grad_()
        (expected,) = torch.autograd.grad(loss(far), far)
        torch.testing.assert_close(ours, expected.masked_fill(rows == -math.inf, 0.0))
        torch.testing.assert_close(torch.func.grad(loss)(masked.detach()), ours)


def test_level_masked_rivals_are_level():
    lowest = torch.finfo(torch.float32).min
    for mask in (-math.inf, lowest):
        logits = torch.tensor([[1.0, mask, mask, mask]])
        target = torch.tensor([0])
        assert F.embedded_bias(logits, target).item() == pytest.approx(math.log(3))
        for divergence in ("symmetric", "uniform_to_logits", "logits_to_uniform"):
            assert F.logit_divergence(logits, target, divergence).item() == pytest.approx(0.0)


def test_uint8_targets_know_every_class():
    """-100 must not wrap to class 156."""
    logits = torch.randn(3, 200)
    target = torch.tensor([156, 3, 199])
    for case, options in loss_cases.EVERY_OPTION.values():
        if any(isinstance(value, torch.Tensor) and value.ndim for value in options.values()):
            continue
        for compensate in ({}, {"compensate": True}):
            if compensate and case.name != "GradientDecayLoss":
                continue
            arguments = options | compensate
            expected = case.function(logits, target, **arguments)
            ours = case.function(logits, target.to(torch.uint8), **arguments)
            torch.testing.assert_close(ours, expected, msg=case.name)


@each_head
def test_heads_know_every_uint8_class(case, options):
    head = case.module(200, 200, **options)
    features, target = torch.randn(3, 200), torch.tensor([156, 156, 156])
    state = {name: value.clone() for name, value in head.state_dict().items()}
    expected = head(features, target), head.added_loss(features, target)
    after = {name: value.clone() for name, value in head.state_dict().items()}
    head.load_state_dict(state)
    target = target.to(torch.uint8)
    ours = head(features, target), head.added_loss(features, target)
    torch.testing.assert_close(ours, expected)
    for name, value in head.state_dict().items():
        assert torch.equal(value, after[name]), name


@each_head
def test_empty_batches(case, options):
    head = make_head(case, options)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    features = torch.randn(0, 8, requires_grad=True)
    logits = head(features, torch.zeros(0, dtype=torch.long))
    assert logits.shape == (0, 5)
    logits.sum().backward()
    assert features.grad.shape == (0, 8)
    for name, value in head.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("classes", [3, 4])
def test_adacos_keeps_a_positive_scale(classes):
    """With few classes and batches of one, the formula's logarithm is often not positive."""
    for seed in range(40):
        torch.manual_seed(seed)
        head = AdaCosHead(4, classes)
        for _ in range(10):
            head(torch.randn(1, 4), torch.randint(0, classes, (1,)))
            assert head.scale > 0
    before = head.scale.clone()
    head(torch.full((2, 4), math.nan), torch.tensor([0, 1]))
    assert torch.equal(head.scale, before)  # one bad batch does not last for ever
    head(torch.randn(2, 4), torch.tensor([-100, -100]))
    assert torch.equal(head.scale, before)
