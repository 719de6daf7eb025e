"""What holds for every head, by the rows of ``head_cases.py``."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from head_cases import EVERY_HEAD, EVERY_OPTION
from softmargin import heads

D, C = 7, 5
each_head = pytest.mark.parametrize("case", EVERY_HEAD.values(), ids=EVERY_HEAD)
SLOW_BUT_FIRST = [
    pytest.param(*row, id=name, marks=[] if name.endswith("-0") else [pytest.mark.slow])
    for name, row in EVERY_OPTION.items()
]
each_option = pytest.mark.parametrize(("case", "options"), EVERY_OPTION.values(), ids=EVERY_OPTION)


def make(case, options=None, dtype=torch.float64, **shape):
    head = case.module(
        shape.get("features", D), shape.get("classes", C), dtype=dtype, **(options or {})
    )
    if isinstance(head, heads.GaussianHead):  # variances other than their first value
        nn.init.normal_(head.log_variance, std=0.3)
    return head


def sample(count=9, dtype=torch.float64):
    return torch.randn(count, D, dtype=dtype) * 2, torch.arange(count) % C


@each_option
def test_logits_equal_a_slow_reference(case, options):
    head, (x, target) = make(case, options), sample()
    for c in (None, target):
        head.train(c is not None)
        ours = head(x) if c is None else head(x, c)
        classes = [None] * len(x) if c is None else c.tolist()
        expected = [
            case.reference(head, row, k) for row, k in zip(x.tolist(), classes, strict=True)
        ]
        expected = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("case", "options"), SLOW_BUT_FIRST)
def test_gradients(case, options):
    head, (x, target) = make(case, options), sample(4)
    names, parameters = zip(*head.named_parameters(), strict=True)

    def call(x, *values):
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(head, given, (x, target))

    inputs = (x.requires_grad_(), *(p.detach().clone().requires_grad_() for p in parameters))
    assert gradcheck(call, inputs, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(call, inputs)
    head.eval()
    assert gradcheck(lambda x: head(x), (x,))


@each_option
def test_fused_backward_equals_plain_backward(case, options):
    """Without a graph the gradient comes from closed forms, with one from plain operations."""
    head, (x, target) = make(case, options), sample()
    x.requires_grad_()
    logits = head(x, target)
    upstream = torch.randn_like(logits)
    inputs = [x, *head.parameters()]
    fast = torch.autograd.grad(logits, inputs, upstream, retain_graph=True)
    slow = torch.autograd.grad(logits, inputs, upstream, create_graph=True)
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


@each_head
def test_leading_dimensions(case):
    head, (x, target) = make(case, case.options[0]), sample(6)
    together = head(x, target)
    torch.testing.assert_close(head(x.view(2, 3, D), target.view(2, 3)), together.view(2, 3, C))
    torch.testing.assert_close(head(x[0], target[0]), together[0])


@each_head
@pytest.mark.parametrize("kind", ["on", "opposite", "zero"])
@pytest.mark.parametrize("autocast", [False, True])
def test_singular_features_give_finite_gradients(case, kind, autocast):
    head = make(case, case.options[0], dtype=torch.float32)
    with torch.no_grad():
        x = {"on": head.weight * 3, "opposite": -head.weight, "zero": head.weight * 0}[kind].clone()
    x.requires_grad_()
    for target in (torch.arange(C), torch.arange(C).roll(1)):
        x.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            features = x * 1.0 if not autocast else nn.functional.linear(x, torch.eye(D))
            loss = nn.functional.cross_entropy(head(features, target), target)
        loss.backward()
        assert loss.isfinite()
        for tensor in (x, *head.parameters()):
            assert tensor.grad.isfinite().all()
            assert tensor.grad.abs().max() < 1e4
        head.eval()
        assert head(x).isfinite().all()
        head.train()


@each_head
def test_autocast_computes_in_float32_and_keeps_parameters(case):
    head = make(case, case.options[0], dtype=torch.float32)
    x, target = sample(dtype=torch.float32)
    exact = head(x.bfloat16().float(), target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(x.bfloat16(), target)
    logits.float().sum().backward()
    assert all(p.dtype == torch.float32 for p in head.parameters())
    if case.name != "LinearHead":  # that one is nn.Linear, and follows autocast
        assert logits.dtype == torch.float32
        torch.testing.assert_close(logits, exact)


@each_head
def test_half_precision_parameters_keep_their_dtype(case):
    head = make(case, case.options[0], dtype=torch.float32).bfloat16()
    x, target = sample(dtype=torch.bfloat16)
    head(x, target).float().sum().backward()
    for parameter in head.parameters():
        assert parameter.dtype == torch.bfloat16
        assert parameter.grad.dtype == torch.bfloat16
        assert parameter.grad.isfinite().all()


@each_head
def test_state_dict_and_repr(case):
    first = make(case, case.options[-1])
    if case.state is not None:
        setattr(first, case.state, 0.3)
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second = make(case, case.options[-1])
    second.load_state_dict(torch.load(stored, weights_only=True))
    x, target = sample()
    assert torch.equal(first(x, target), second(x, target))
    if case.state is not None:
        assert case.state in first.state_dict()
        assert f"{case.state}=0.3" in repr(second)
    assert f"in_features={D}, num_classes={C}" in repr(second)


@each_head
def test_vmap_over_models_equals_a_loop(case):
    x, target = sample()
    models = [make(case, case.options[0]) for _ in range(4)]
    parameters, buffers = torch.func.stack_module_state(models)

    def loss(parameters, buffers):
        logits = torch.func.functional_call(models[0], (parameters, buffers), (x, target))
        return nn.functional.cross_entropy(logits, target)

    together = torch.func.vmap(torch.func.grad(loss))(parameters, buffers)
    for i, model in enumerate(models):
        value = nn.functional.cross_entropy(model(x, target), target)
        alone = torch.autograd.grad(value, list(model.parameters()))
        for (name, _), gradient in zip(model.named_parameters(), alone, strict=True):
            torch.testing.assert_close(together[name][i], gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@each_head
@pytest.mark.parametrize("kind", ["index", "probability"])
def test_compiles_to_one_graph(case, kind):
    torch.compiler.reset()
    head, (x, target) = make(case, case.options[0]), sample()
    if kind == "probability":
        target = mixed()
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    results = []
    for function in (head, compiled):
        head.zero_grad()
        z = x.clone().requires_grad_()
        logits = function(z, target)
        logits.square().sum().backward()
        results.append((logits.detach(), z.grad, [p.grad for p in head.parameters()]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-8, atol=1e-9)


@each_head
def test_ignored_targets_are_accepted(case):
    head, (x, target) = make(case, case.options[0]), sample()
    target[2] = -100
    x.requires_grad_()
    nn.functional.cross_entropy(head(x, target), target).backward()
    assert not x.grad[2].any()
    kept = target != -100
    logits = head(x, target)
    torch.testing.assert_close(logits[kept], head(x[kept], target[kept]))


@pytest.mark.parametrize("case", [c for c in EVERY_HEAD.values() if c.state], ids=lambda c: c.name)
def test_a_learned_setting(case):
    head, (x, target) = make(case, case.options[0]), sample()
    setattr(head, case.state, nn.Parameter(torch.tensor(0.7, dtype=torch.float64)))
    nn.functional.cross_entropy(head(x, target), target).backward()
    gradient = getattr(head, case.state).grad
    assert gradient.isfinite()
    assert gradient != 0


@each_head
def test_bad_arguments(case):
    for options, error, message in case.bad:
        with pytest.raises(error, match=message):
            make(case, options)
    with pytest.raises(ValueError, match="in_features must be at least 1, but got 0"):
        case.module(0, C)
    with pytest.raises(ValueError, match="num_classes must be at least [23], but got 1"):
        case.module(D, 1)
    with pytest.raises(TypeError, match="num_classes must be a whole number, but got 3.0"):
        case.module(D, 3.0)


@each_head
def test_bad_calls(case):
    head, (x, target) = make(case, case.options[0]), sample()
    with pytest.raises(ValueError, match=r"features must have shape \(..., 7\), but got \(9, 6\)"):
        head(x[:, :6], target)
    with pytest.raises(NotImplementedError, match="features must be floating-point, but got"):
        head(x.long(), target)
    with pytest.raises(IndexError, match="classes from 0 to 4 or ignore_index -100, but got 5"):
        head(x, target + 1)
    with pytest.raises(ValueError, match=r"target must have shape \(9,\) .* but got \(8,\)"):
        head(x, target[:8])
    with pytest.raises(RuntimeError, match="class indices as torch.int64"):
        head(x, target.float())
    if case.margin:
        with pytest.raises(ValueError, match=f"target must be given to {case.name} in training"):
            head(x)
    else:
        assert head(x).shape == (9, C)


@each_head
def test_meets_devices_and_dtypes_on_request(case):
    head = case.module(D, C, device="cpu", dtype=torch.float64, **case.options[0])
    assert {p.dtype for p in head.parameters()} == {torch.float64}
    assert tuple(head.weight.shape) == (C, D)


def mixed(count=9, dtype=torch.float64):
    """Return class probabilities as mixup makes them of two labels, and of smoothed ones."""
    one_hot = nn.functional.one_hot(torch.arange(count) % C, C).to(dtype)
    share = torch.linspace(0.1, 1.0, count, dtype=dtype).unsqueeze(-1)
    return 0.9 * (share * one_hot + (1 - share) * one_hot.roll(1, 0)) + 0.1 / C


@each_option
def test_soft_targets_equal_a_slow_reference(case, options):
    head, (x, _), target = make(case, options), sample(), mixed()
    ours = head(x, target)
    for row, q, logits in zip(x.tolist(), target.tolist(), ours.tolist(), strict=True):
        plain = case.reference(head, row, None)
        own = [case.reference(head, row, c)[c] for c in range(C)]
        expected = [(1 - p) * a + p * b for p, a, b in zip(q, plain, own, strict=True)]
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)


@each_option
def test_all_probability_on_one_class_is_its_index(case, options):
    head, (x, target) = make(case, options), sample()
    one_hot = nn.functional.one_hot(target, C).double()
    torch.testing.assert_close(head(x, one_hot), head(x, target), rtol=1e-9, atol=1e-9)
    fallback = heads.Head.logits_as_target(head, x)
    torch.testing.assert_close(fallback, head.logits_as_target(x), rtol=1e-9, atol=1e-9)


@each_option
def test_gradients_with_soft_targets(case, options):
    head, (x, _), target = make(case, options), sample(4), mixed(4)
    assert gradcheck(lambda x: head(x, target), (x.requires_grad_(),))
    loss = nn.functional.cross_entropy(head(x, target), target)
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, list(head.parameters())))


@each_head
def test_soft_targets_in_half_precision_and_in_every_shape(case):
    head, (x, _), target = make(case, case.options[0]), sample(6), mixed(6)
    together = head(x, target)
    shaped = head(x.view(2, 3, D), target.view(2, 3, C))
    torch.testing.assert_close(shaped, together.view(2, 3, C))
    torch.testing.assert_close(head(x[0], target[0]), together[0])
    half = head.bfloat16()(x.bfloat16(), target.bfloat16())
    assert half.dtype == (torch.bfloat16 if case.name == "LinearHead" else torch.float32)
    with pytest.raises(ValueError, match="probabilities of at least 0, but got -0.5"):
        head(x.bfloat16(), target.bfloat16() * 0 - 0.5)
    with pytest.raises(RuntimeError, match="class indices as torch.int64"):
        head(x.bfloat16(), target[:, :4].bfloat16())


def test_adacos_adapts_to_the_most_probable_class():
    x, target = sample()
    soft, hard = (heads.AdaCosHead(D, C, dtype=torch.float64) for _ in range(2))
    soft.load_state_dict(hard.state_dict())
    one_hot = nn.functional.one_hot(target, C).double()
    torch.testing.assert_close(soft(x, 0.9 * one_hot + 0.1 / C), hard(x, target))
    assert torch.equal(soft.scale, hard.scale)
    assert soft.scale != heads.AdaCosHead(D, C).scale


def test_the_likelihood_of_soft_targets_is_the_mean_over_classes():
    x, target = sample()
    head = heads.GaussianHead(D, C, likelihood=0.1, dtype=torch.float64)
    one_hot = nn.functional.one_hot(target, C).double()
    torch.testing.assert_close(head.added_loss(x, one_hot), head.added_loss(x, target))
