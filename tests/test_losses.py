"""What holds for every loss, by the rows of ``loss_cases.py``."""

from __future__ import annotations

import copy
import io
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import gradcheck, gradgradcheck

import softmargin
from inductor import needs_inductor
from loss_cases import EVERY_LOSS, EVERY_OPTION, OLDER, slow_criterion

pytestmark = pytest.mark.usefixtures("either_path")

each_loss = pytest.mark.parametrize("case", EVERY_LOSS.values(), ids=EVERY_LOSS)
each_option = pytest.mark.parametrize(("case", "options"), EVERY_OPTION.values(), ids=EVERY_OPTION)


def sample(kind="index", dtype=torch.float64, shape=(7, 5), scale=2.0):
    """Return logits and a target: class indices, or probabilities."""
    logits = torch.randn(shape, dtype=dtype) * scale
    if kind == "index":
        return logits, torch.randint(0, shape[1], shape[:1] + shape[2:])
    return logits, torch.rand(shape, dtype=dtype).softmax(1)


@each_option
@pytest.mark.parametrize("kind", ["index", "probability"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_a_slow_reference(case, options, kind, smoothing, weighted):
    logits, target = sample(kind)
    if kind == "index":
        target[2] = -100
    weight = torch.rand(5, dtype=torch.float64) + 0.5 if weighted else None
    losses, mean = slow_criterion(case, options, logits, target, weight, smoothing=smoothing)
    for reduction, expected in (("none", losses), ("sum", losses.sum()), ("mean", mean)):
        shared = {"weight": weight, "label_smoothing": smoothing, "reduction": reduction}
        for ours in (
            case.function(logits, target, **options, **shared),
            case.module(**options, **shared)(logits, target),
        ):
            torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@each_option
def test_shapes_follow_cross_entropy(case, options):
    logits, target = sample(shape=(3, 5, 2, 4))
    flat = logits.movedim(1, -1).reshape(-1, 5)
    by_hand = case.function(flat, target.reshape(-1), **options, reduction="none")
    ours = case.function(logits, target, **options, reduction="none")
    torch.testing.assert_close(ours, by_hand.view(3, 2, 4))
    one = case.function(logits[0, :, 0, 0], target[0, 0, 0], **options)
    torch.testing.assert_close(one, ours[0, 0, 0])
    assert one.shape == ()


@each_option
@pytest.mark.parametrize("kind", ["index", pytest.param("probability", marks=pytest.mark.slow)])
def test_gradients(case, options, kind):
    logits, target = sample(kind, shape=(4, 5))
    logits.requires_grad_()
    for reduction in ("none", "mean"):  # gradcheck sends a gradient of its own into each value

        def loss(z, reduction=reduction):
            return case.function(z, target, **options, reduction=reduction)

        assert gradcheck(loss, logits, check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(loss, logits, check_batched_grad=False)


@each_loss
def test_the_setting_may_be_learned(case):
    logits, target = sample(shape=(4, 5))
    setting = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)

    def loss(z, value):
        return case.function(z, target, **{case.setting: value})

    assert gradcheck(loss, (logits.requires_grad_(), setting), check_forward_ad=True)
    assert gradgradcheck(loss, (logits, setting))
    module = case.module(**{case.setting: nn.Parameter(torch.tensor(0.6))})
    module(logits.detach(), target).backward()
    assert getattr(module, case.setting).grad is not None
    assert dict(module.named_parameters()).keys() == {case.setting}


@each_option
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_backward_without_a_graph_equals_backward_with_one(case, options, reduction):
    """The fast backward and the differentiable one are two formulas: they must agree."""
    logits, target = sample(shape=(6, 5))
    target[1] = -100
    logits.requires_grad_()
    loss = case.function(logits, target, **options, reduction=reduction)
    upstream = torch.randn_like(loss)
    (fast,) = torch.autograd.grad(loss, logits, upstream, retain_graph=True)
    (again,) = torch.autograd.grad(loss, logits, upstream, retain_graph=True)
    (slow,) = torch.autograd.grad(loss, logits, upstream, create_graph=True)
    assert torch.equal(fast, again)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-13)
    assert not fast[1].any()  # the ignored sample pushes nothing


@each_loss
def test_state_dict_keeps_the_setting(case):
    first = case.module(**{case.setting: 0.7})
    setattr(first, case.setting, 0.1)
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second = case.module(**{case.setting: 1.0})
    second.load_state_dict(torch.load(stored, weights_only=True))
    assert getattr(second, case.setting).item() == 0.1
    assert case.setting in first.state_dict()
    assert getattr(copy.deepcopy(first), case.setting).item() == 0.1
    assert f"{case.setting}=0.1" in repr(first)


@each_loss
def test_a_setting_is_never_rounded_and_always_checked(case):
    module = case.module(**{case.setting: 0.1})
    assert getattr(module.half().to("cpu"), case.setting).item() == 0.1
    with pytest.raises(ValueError, match=f"{case.setting} must be a finite number.*got nan"):
        setattr(module, case.setting, float("nan"))
    with pytest.raises(TypeError, match=f"{case.setting} must be an nn.Parameter to be learned"):
        setattr(module, case.setting, torch.tensor(0.5, requires_grad=True))
    assert getattr(module, case.setting).item() == 0.1


@each_loss
def test_a_learned_setting_can_be_set(case):
    module = case.module(**{case.setting: nn.Parameter(torch.tensor(0.5))})
    setattr(module, case.setting, 0.25)
    assert isinstance(getattr(module, case.setting), nn.Parameter)
    assert getattr(module, case.setting).item() == 0.25
    assert f"{case.setting}=0.25, learned" in repr(module)


@each_loss
@pytest.mark.parametrize("kind", ["index", "probability"])
def test_vmap_over_models_equals_a_loop(case, kind):
    _, target = sample(kind, shape=(6, 5))
    logits = torch.randn(50, 6, 5, dtype=torch.float64)
    values = torch.rand(50, dtype=torch.float64) + 0.05

    def loss(z, value):
        return case.function(z, target, **{case.setting: value}, label_smoothing=0.1)

    together = torch.func.vmap(torch.func.grad_and_value(loss))(logits, values)
    alone = [torch.func.grad_and_value(loss)(z, v) for z, v in zip(logits, values, strict=True)]
    for ours, expected in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(ours, torch.stack(expected), rtol=1e-12, atol=1e-14)


@each_loss
def test_vmap_keeps_the_dtype_of_the_logits(case):
    logits, target = sample(dtype=torch.float32, shape=(6, 5))
    values = torch.rand(3, dtype=torch.float64) + 0.05
    losses = torch.func.vmap(lambda v: case.function(logits, target, **{case.setting: v}))(values)
    assert losses.dtype == torch.float32


@each_loss
def test_vmap_over_modules_with_stacked_state(case):
    """β is a buffer, so that ``functional_call`` can give every model its own."""
    logits, target = sample(shape=(6, 5))
    module = case.module(**{case.setting: 1.0})
    values = torch.rand(8, dtype=torch.float64) + 0.05

    def loss(value):
        return torch.func.functional_call(module, {case.setting: value}, (logits, target))

    expected = torch.stack([case.function(logits, target, **{case.setting: v}) for v in values])
    torch.testing.assert_close(torch.func.vmap(loss)(values), expected)


@each_option
def test_hessian_equals_double_backward(case, options):
    logits, target = sample(shape=(3, 5))

    def loss(z):
        return case.function(z, target, **options)

    expected = torch.autograd.functional.hessian(loss, logits)
    for hessian in (
        torch.func.hessian(loss)(logits),  # forward over reverse
        torch.func.jacrev(torch.func.jacrev(loss))(logits),
        torch.func.jacfwd(torch.func.jacfwd(loss))(logits),
    ):
        torch.testing.assert_close(hessian, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@each_loss
@pytest.mark.parametrize("kind", ["index", "probability"])
def test_compiles_to_one_graph_that_schedules_do_not_break(case, kind):
    torch.compiler.reset()
    logits, target = sample(kind)
    module = case.module(**case.options[-1], label_smoothing=0.1)
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=graphs)
    compiled_once = 0
    for value in (0.3, 0.4, 0.5):
        shape = getattr(module, case.setting).shape
        setattr(module, case.setting, torch.full(shape, value))
        gradients = []
        for function in (module, compiled):
            z = logits.clone().requires_grad_()
            function(z, target).backward()
            gradients.append(z.grad)
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)
        compiled_once = compiled_once or graphs.frame_count
    assert graphs.frame_count == compiled_once > 0  # new values, no new graph


@pytest.mark.slow
@needs_inductor
def test_compiles_with_inductor():
    torch.compiler.reset()
    logits, target = sample(dtype=torch.float32, shape=(64, 10))
    target[3] = -100
    module = softmargin.GradientDecayLoss(beta=0.1)
    compiled = torch.compile(module, fullgraph=True)
    gradients = []
    for function in (module, compiled):
        z = logits.clone().requires_grad_()
        function(z, target).backward()
        gradients.append(z.grad)
    torch.testing.assert_close(*gradients)


@each_option
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("kind", ["index", "probability"])
def test_half_precision(case, options, dtype, autocast, kind):
    logits, target = sample(kind, dtype=torch.float32, scale=20.0)
    half = logits.to(dtype).requires_grad_()
    target = target.to(dtype) if target.is_floating_point() else target
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = case.function(half, target, **options, reduction="none")
        peer = nn.functional.cross_entropy(half, target, reduction="none")
    assert loss.dtype == peer.dtype
    loss.sum().backward()
    assert half.grad.dtype == dtype
    assert half.grad.isfinite().all()
    exact = half.detach().double().requires_grad_()
    target = target.double() if target.is_floating_point() else target
    expected = case.function(exact, target, **options, reduction="none")
    expected.sum().backward()
    epsilon = torch.finfo(loss.dtype).eps
    torch.testing.assert_close(loss.double(), expected, rtol=4 * epsilon, atol=1e-5)
    epsilon = torch.finfo(dtype).eps
    torch.testing.assert_close(half.grad.double(), exact.grad, rtol=2 * epsilon, atol=1e-3)


@each_loss
def test_extreme_logits_stay_finite(case):
    for rows in ([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], [[100.0, 0, 0], [0, 100, 100]]):
        logits = torch.tensor(rows, requires_grad=True)
        for target in (torch.tensor([0, 0]), torch.tensor([[0.5, 0.5, 0], [1.0, 0, 0]])):
            value = case.function(logits, target, **{case.setting: 0.5})
            (gradient,) = torch.autograd.grad(value, logits, create_graph=True)
            assert value.isfinite()
            assert gradient.isfinite().all()
            if gradient.requires_grad:  # a hinge's does not
                (second,) = torch.autograd.grad(gradient.square().sum(), logits)
                assert second.isfinite().all()


@each_loss
def test_nan_propagates_as_in_torch(case):
    logits = torch.tensor([[0.0, float("nan"), 1.0], [0.0, 1.0, 2.0]])
    loss = case.function(logits, torch.tensor([0, 1]), **{case.setting: 0.5}, reduction="none")
    assert loss.isnan().tolist() == [True, False]


@each_loss
def test_empty_and_all_ignored_mean_what_torch_means(case):
    setting = {case.setting: 0.5}
    logits, none = torch.randn(2, 3), torch.full((2,), -100)
    assert case.function(logits, none, **setting).isnan()
    assert case.function(logits, none, **setting, reduction="sum") == 0
    empty = torch.randn(0, 3), torch.zeros(0, dtype=torch.long)
    assert case.function(*empty, **setting).isnan()
    assert case.function(*empty, **setting, reduction="none").shape == (0,)


@each_loss
def test_own_bad_arguments(case):
    logits, target = sample()
    setting = {} if case.setting != "margin" else {"margin": 1.0}
    for options, error, message in case.bad:
        with pytest.raises(error, match=message):
            case.function(logits, target, **{**setting, **options})
        with pytest.raises(error, match=message):
            case.module(**{**setting, **options})


INPUT, TARGET = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
BAD_CALLS = {
    "target above": ((INPUT, TARGET + 1), {}, "target must hold classes from 0 to 2 or .*got 3"),
    "target below": ((INPUT, TARGET - 1), {}, "or ignore_index -100, but got -1"),
    "one class": ((INPUT[:, :1], TARGET * 0), {}, "at least 2 classes in dimension 1, but got 1"),
    "batch": ((INPUT, TARGET[:3]), {}, r"target must have shape \(4,\).*but got \(3,\)"),
    "pixels": (
        (torch.zeros(4, 3, 5), torch.zeros(4, 6).long()),
        {},
        r"target must have shape \(4, 5\).*but got \(4, 6\)",
    ),
    "integer logits": ((INPUT.long(), TARGET), {}, "floating-point logits, but got torch.int64"),
    "float target": ((INPUT, TARGET.float()), {}, "torch.int64 or torch.uint8, got torch.float32"),
    "integer probabilities": ((INPUT, INPUT.long()), {}, "floating-point class probabilities"),
    "negative probabilities": (
        (INPUT, INPUT - 0.25),
        {},
        "target must hold probabilities of at least 0, but got -0.25",
    ),
    "ignored probabilities": (
        (INPUT, INPUT),
        {"ignore_index": 1},
        "ignore_index must be negative when target holds class probabilities, but got 1",
    ),
    "weight": ((INPUT, TARGET), {"weight": torch.ones(2)}, r"weight must have shape \(3,\)"),
    "reduction": (
        (INPUT, TARGET),
        {"reduction": "avg"},
        "reduction must be one of none, mean, sum, but got 'avg'",
    ),
    "smoothing": (
        (INPUT, TARGET),
        {"label_smoothing": 1.5},
        "label_smoothing must be between 0.0 and 1.0, but got 1.5",
    ),
    "scalar": ((torch.tensor(1.0), torch.tensor(0)), {}, r"shape \(C\), \(N, C\) or"),
    "list": (([[1.0, 2.0]], TARGET), {}, "input must be a Tensor, but got list"),
    "long unbatched": ((torch.zeros(3), TARGET[:2]), {}, r"but got \(2,\)"),
}
# cross-entropy accepts these two; here they have no meaning
NOT_IN_TORCH = {"one class": ValueError, "negative probabilities": ValueError}


@each_loss
@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_calls_raise_what_torch_raises(case, call):
    arguments, shared, message = BAD_CALLS[call]
    if call in NOT_IN_TORCH:
        error = NOT_IN_TORCH[call]
    else:
        with pytest.raises(Exception) as raised:
            nn.functional.cross_entropy(*arguments, **shared)
        error = (raised.type, ValueError) if OLDER else raised.type
    with pytest.raises(error, match=message):
        case.function(*arguments, **{case.setting: 0.5}, **shared)


@pytest.mark.slow
def test_import_needs_torch_and_numpy_only():
    """Nothing of the ``lab`` extra may come along with ``import softmargin``."""
    code = (
        "import sys, torch; before = set(sys.modules); import softmargin; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(eval(out.stdout)) <= {"softmargin", "torch", "numpy"}
