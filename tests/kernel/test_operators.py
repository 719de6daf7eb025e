"""The kernel's operators: what ``torch.compile`` calls where there are many classes.

Most tests take ``aot_eager``, which does all that ``inductor`` does but write code: the operators
are the same, and a graph takes a tenth of the time.
"""

from __future__ import annotations

import itertools

import pytest
import torch
import torch._dynamo.testing
from test_kernel import DTYPES, OPTIONS, counting, problem
from torch.testing import assert_close

import softmargin
from inductor import needs_inductor
from softmargin import functional as F
from softmargin.functional import _fused, _operators

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(torch.compiler, "is_exporting"), reason="this PyTorch compiles without them"
    ),
]

REDUCTIONS = ("none", "mean", "sum")
CALLS = list(OPTIONS)


@pytest.fixture
def counted(kernel, monkeypatch):
    """Let the operators take any number of classes; yield the kernel's calls."""
    monkeypatch.setattr(_operators, "FEWEST_CLASSES", 2)
    torch.compiler.reset()
    with counting(kernel) as calls:
        yield calls


def compiled(function, **options):
    options = {"backend": "aot_eager", "fullgraph": True} | options
    return torch.compile(function, **options)


def results(function, *tensors, upstream=None):
    leaves = [each.detach().clone().requires_grad_() for each in tensors]
    value = function(*leaves)
    upstream = torch.linspace(0.5, 2.0, value.numel()).reshape(value.shape).to(value.dtype)
    return value.detach(), *torch.autograd.grad(value, leaves, upstream)


def same_as_eager(function, *tensors, **options):
    """Compare values and gradients; the operators are the eager path's kernel, bit for bit."""
    ours = results(compiled(function, **options), *tensors)
    for one, other in zip(ours, results(function, *tensors), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert_close(one, other, rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize(
    ("call", "reduction", "weighted", "dtype"),
    [  # all pairs would be too many: every loss with every reduction, the rest in turn
        (call, reduction, bool(number % 2), DTYPES[number % len(DTYPES)])
        for number, (call, reduction) in enumerate(itertools.product(CALLS, REDUCTIONS))
    ],
)
def test_classes(call, reduction, weighted, dtype, counted):
    function, options = OPTIONS[call]
    logits, target = problem((6, 5), dtype)
    target[0] = -100
    shared = {"reduction": reduction, "weight": torch.rand(5) if weighted else None}
    same_as_eager(lambda z: function(z, target, **options, **shared), logits)
    assert len(counted) == (4 if dtype in _fused.HALF else 2)  # half of them are eager's
    assert not any(counted)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("soft", [False, True], ids=["classes", "probabilities"])
def test_smoothed(call, soft, counted):
    function, options = OPTIONS[call]
    logits, target = problem((6, 5), torch.float32, soft)
    same_as_eager(lambda z: function(z, target, **options, label_smoothing=0.1), logits)
    assert len(counted) == 2
    assert not any(counted)


@pytest.mark.parametrize("shape", [(5,), (0, 5), (3, 5, 4), (2, 5, 3, 2), (0, 5, 3)])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_shapes(shape, reduction, counted):
    logits = torch.randn(shape)
    rest = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = torch.randint(0, 5, rest)
    same_as_eager(lambda z: F.gradient_decay_loss(z, target, 0.1, reduction=reduction), logits)
    assert counted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_any_strides(dtype, counted):
    logits, target = torch.randn(5, 6).to(dtype), torch.randint(0, 5, (6,))
    same_as_eager(lambda z: F.focal_loss(z.T, target, reduction="none"), logits)
    pixels, classes = torch.randn(2, 3, 4, 5).to(dtype), torch.randint(0, 5, (2, 3, 4))
    same_as_eager(lambda z: F.focal_loss(z.permute(0, 3, 1, 2), classes), pixels)
    assert counted


@needs_inductor
def test_inductor(counted):
    logits, target = problem((7, 300), torch.float32)
    layer = torch.nn.Linear(300, 300)

    def function(z):
        return F.gradient_decay_loss(layer(z.relu()), target, 0.1) * 3

    same_as_eager(function, logits, backend="inductor")
    half = logits.bfloat16()
    same_as_eager(lambda z: F.focal_loss(z * 2, target), half, backend="inductor")
    assert len(counted) >= 4


def test_few_classes_are_left_to_the_compiler(kernel):
    torch.compiler.reset()
    with counting(kernel) as calls:
        for classes in (_operators.FEWEST_CLASSES - 1, _operators.FEWEST_CLASSES):
            logits, target = problem((2, classes), torch.float32)
            compiled(F.gradient_decay_loss, dynamic=False)(logits, target)
    assert calls == [0]


def test_modules_with_changing_settings_and_shapes(counted):
    criterion = softmargin.GradientDecayLoss(beta=0.1, weight=torch.rand(4))
    ours = compiled(criterion, dynamic=True)
    for size, beta in ((3, 0.1), (7, 2.0), (1, 0.5), (0, 1.0)):
        criterion.beta = beta
        logits, target = torch.randn(size, 4), torch.randint(0, 4, (size,))
        expected = results(lambda z, t=target: criterion(z, t), logits)
        for one, other in zip(
            results(lambda z, t=target: ours(z, t), logits), expected, strict=True
        ):
            assert_close(one, other, equal_nan=True)
    assert counted


def test_a_size_that_depends_on_values(counted):
    logits, target = torch.randn(6, 5), torch.randint(0, 5, (6,))

    def function(z):
        chosen = (target > 1).nonzero().squeeze(1)
        return F.gradient_decay_loss(z[chosen], target[chosen], 0.1)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        same_as_eager(function, logits)


def test_functional_call(counted):
    layer, criterion = torch.nn.Linear(8, 5), softmargin.FocalLoss()
    features, target = torch.randn(6, 8), torch.randint(0, 5, (6,))

    def function(weight):
        return criterion(torch.func.functional_call(layer, {"weight": weight}, features), target)

    same_as_eager(function, layer.weight)
    assert counted


TRANSFORMS = {
    "vmap": lambda f, z: torch.vmap(f)(z.expand(3, *z.shape)),
    "grad": lambda f, z: torch.func.grad(f)(z),
    "jvp": lambda f, z: torch.func.jvp(f, (z,), (z.cos(),))[1],
    "hessian-vector": lambda f, z: torch.func.jvp(torch.func.grad(f), (z,), (z.cos(),))[1],
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_inside_see_plain_operations(transform, counted):
    logits, target = problem((4, 5), torch.float32)

    def function(z):
        return transform(lambda x: F.gradient_decay_loss(x, target, 0.1), z)

    expected = function(logits)
    counted.clear()
    assert_close(compiled(function)(logits), expected)
    assert counted == []


@pytest.mark.parametrize("call", ["GradientDecayLoss-1", "FocalLoss-0", "RegularizedSoftmaxLoss-0"])
def test_second_derivatives_of_a_graph_that_only_dynamo_compiles(call, counted):
    function, options = OPTIONS[call]
    logits, target = problem((4, 5), torch.float64)
    ours = compiled(lambda z: function(z, target, **options), backend="eager")
    assert torch.autograd.gradcheck(ours, logits.requires_grad_())
    assert torch.autograd.gradgradcheck(ours, logits.requires_grad_())
    assert counted


def test_a_graph_that_is_kept_gives_the_same_gradient_again(counted):
    logits, target = problem((4, 5), torch.float32)
    logits.requires_grad_()
    loss = compiled(F.gradient_decay_loss, backend="eager")(logits, target)
    first, second = (torch.autograd.grad(loss, logits, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_masked_classes_are_done_by_operations(dtype, counted):
    logits, target = problem((4, 5), dtype)
    masked = logits.masked_fill(torch.eye(4, 5).bool() & (target.unsqueeze(1) != 0), -torch.inf)
    target = torch.full_like(target, 4)
    same_as_eager(lambda z: F.regularized_softmax_loss(z, target), masked)
    assert any(counted)


def test_mistakes_are_named(counted):
    logits, target = problem((4, 5), torch.float32)
    function = compiled(lambda z, t, beta: F.gradient_decay_loss(z, t, beta))
    with pytest.raises(IndexError, match="target must hold classes from 0 to 4"):
        function(logits, target + 9, 0.1)
    with pytest.raises(ValueError, match="beta must be a finite number above 0"):
        function(logits, target, torch.tensor(-1.0))


def test_learned_settings_and_learned_targets_have_gradients(counted):
    logits, target = problem((4, 5), torch.float32)
    beta = torch.tensor(0.5)
    same_as_eager(lambda z, b: F.gradient_decay_loss(z, target, b), logits, beta)
    soft = torch.rand(4, 5).softmax(1)
    same_as_eager(lambda z, t: F.gradient_decay_loss(z, t, 0.5), logits, soft)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype, counted):
    logits, target = problem((4, 5), dtype)

    def function(z):
        with torch.autocast("cpu", dtype=dtype):
            return F.gradient_decay_loss(z, target, 0.1)

    assert compiled(function)(logits).dtype == torch.float32
    same_as_eager(function, logits)
    assert counted


def test_exported_programs_have_plain_operations(counted):
    class Step(torch.nn.Module):
        def forward(self, z, target):
            return F.gradient_decay_loss(z, target, 0.1)

    logits, target = problem((4, 5), torch.float32)
    for strict in (False, True):
        program = torch.export.export(Step(), (logits, target), strict=strict)
        assert "softmargin" not in str(program.graph)
        assert_close(program.module()(logits, target), F.gradient_decay_loss(logits, target, 0.1))


def test_without_the_kernel_the_compiler_sees_plain_operations(counted):
    logits, target = problem((4, 5), torch.float32)
    with _fused.using(None):
        same_as_eager(lambda z: F.gradient_decay_loss(z, target, 0.1), logits)
    assert counted == []


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_opcheck(call, learning, counted):
    function, options = OPTIONS[call]
    number = options.get(
        "beta", options.get("margin", options.get("gamma", options.get("rho", 1.0)))
    )
    form = "floored" if options.get("floored") else "decay"
    form = {F.focal_loss: "focal", F.soft_margin_softmax_loss: "margin"}.get(function, form)
    lam = options.get("lam", 0.3) if function is F.regularized_softmax_loss else None
    shared = (options.get("tau", 1.0), None, -100, "none" if learning else "mean", 0.0)
    logits, target = problem((4, 5), torch.float32)
    given = _operators.Given(
        form,
        number,
        logits.requires_grad_(learning),
        target,
        *shared,
        lam,
        options.get("divergence", "symmetric"),
        bool(options.get("compensate")),
    )
    flat = _operators._flat(given, torch.float32)
    torch.library.opcheck(torch.ops.softmargin.loss.default, (*flat, learning))
    if not learning:
        half = _operators._flat(given._replace(input=logits.detach().bfloat16()), torch.bfloat16)
        upstream = torch.ones((), dtype=torch.bfloat16)
        torch.library.opcheck(torch.ops.softmargin.loss_gradient.default, (upstream, *half))


def test_numbers_that_change_compile_once_more(counted):
    backend = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    logits, target = problem((4, 5), torch.float32)

    def function(z, beta, tau, smoothing):
        return F.gradient_decay_loss(z, target, beta, tau, label_smoothing=smoothing)

    ours = compiled(function, backend=backend)
    for number in (0.1, 0.2, 0.3, 0.4):
        arguments = (number, 2 * number, number)
        assert_close(ours(logits, *arguments), function(logits, *arguments))
    assert backend.frame_count == 2
    assert not any(counted)
