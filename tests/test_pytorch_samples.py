"""With β = 1 and τ = 1, PyTorch's own samples for cross-entropy must pass, by its own checkers.

What PyTorch does to ``nn.CrossEntropyLoss`` in its ``test_modules``, ``test_ops`` and
``test_ops_gradients`` is done here to every loss, at the setting where it is cross-entropy.
"""

from __future__ import annotations

import copy
import io
import itertools

import pytest
import torch
from torch import nn
from torch._subclasses import CrossRefFakeMode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close
from torch.testing._internal import composite_compliance
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db
from torch.testing._internal.common_utils import TestGradients as GradientChecks
from torch.utils._pytree import tree_map

import softmargin
from softmargin.functional import gradient_decay_loss

pytestmark = pytest.mark.slow

MODULE = next(info for info in module_db if info.module_cls is nn.CrossEntropyLoss)
OPERATOR = next(info for info in op_db if info.name == "nn.functional.cross_entropy")
LOSSES = {
    "decay": (softmargin.GradientDecayLoss, {}),
    "floored": (softmargin.GradientDecayLoss, {"floored": True}),
    "regularized": (softmargin.RegularizedSoftmaxLoss, {"lam": 0.0}),
    "soft-margin": (softmargin.SoftMarginSoftmaxLoss, {"margin": 0.0}),
    "modified": (softmargin.ModifiedSoftmaxLoss, {"rho": 0.0}),
    "focal": (softmargin.FocalLoss, {"gamma": 0.0}),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def make(name, options):
    module, own = LOSSES[name]
    return module(**own, **options)


def operator(name):
    """Return PyTorch's description of cross-entropy, with one of our functions in its place."""
    module, own = LOSSES[name]

    def function(input, target, **options):
        return module.function(input, target, **own, **options)

    info = copy.copy(OPERATOR)
    info.op = function
    return info


def module_samples(dtype=torch.float64, requires_grad=True, device="cpu"):
    return list(
        MODULE.module_inputs_func(
            MODULE, device=device, dtype=dtype, requires_grad=requires_grad, training=True
        )
    )


def operator_samples(dtype=torch.float64, requires_grad=True):
    return list(OPERATOR.sample_inputs("cpu", dtype, requires_grad=requires_grad))


def value_and_gradient(loss, logits, target, pull=None):
    logits = logits.detach().requires_grad_()
    value = loss(logits, target.detach())
    value.backward(torch.ones_like(value) if pull is None else pull)
    return value.detach(), logits.grad


def test_there_are_samples():
    assert len(module_samples()) > 100
    assert len(operator_samples()) > 15


@each_loss
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_module_values_and_gradients(name, dtype):
    for sample in module_samples(dtype):
        arguments = [argument.detach() for argument in sample.forward_input.args]
        options = sample.constructor_input.kwargs
        ours = make(name, options)
        assert not list(ours.parameters())
        # NaN where every target is ignored, there and here
        assert_close(
            value_and_gradient(ours, *arguments),
            value_and_gradient(nn.CrossEntropyLoss(**options), *arguments),
            equal_nan=True,
            msg=lambda m, s=sample: f"{s.desc}: {m}",
        )
        reference = sample.reference_fn(ours, *arguments)
        assert_close(ours(*arguments), reference, equal_nan=True)


@each_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_off_by_one_rounding(name, dtype):
    """Against cross-entropy in float64: its own half precision is off by more."""
    for sample in module_samples(dtype):
        logits, target = sample.forward_input.args
        options = sample.constructor_input.kwargs
        value, gradient = value_and_gradient(make(name, options), logits, target)
        if "weight" in options:
            options = {**options, "weight": options["weight"].double()}
        if target.is_floating_point():
            target = target.double()
        exact = value_and_gradient(nn.CrossEntropyLoss(**options), logits.double(), target)
        assert value.dtype == gradient.dtype == dtype
        step = torch.finfo(dtype).eps
        assert_close(
            (value.double(), gradient.double()), exact, rtol=step, atol=1e-6, equal_nan=True
        )


@each_loss
def test_modules_are_stored_and_copied(name):
    for sample in module_samples(torch.float32, requires_grad=False):
        logits, target = sample.forward_input.args
        options = sample.constructor_input.kwargs
        loss = make(name, options)
        expected = loss(logits, target)
        whole, state = io.BytesIO(), io.BytesIO()
        torch.save(loss, whole)
        torch.save(loss.state_dict(), state)
        whole.seek(0)
        state.seek(0)
        restored = make(name, options)
        restored.load_state_dict(torch.load(state, weights_only=True))
        for again in (torch.load(whole, weights_only=False), copy.deepcopy(loss), restored):
            assert_close(again(logits, target), expected, equal_nan=True, rtol=0, atol=0)


@each_loss
def test_modules_do_not_look_at_the_training_mode(name):
    sample = module_samples(torch.float32)[0]
    loss = make(name, sample.constructor_input.kwargs)
    del loss.training
    loss(*sample.forward_input.args)


@each_loss
@pytest.mark.parametrize("method", ["float", "double", "half", "bfloat16"])
def test_weights_are_cast_and_settings_are_not(name, method):
    loss = getattr(make(name, {"weight": torch.ones(3)}), method)()
    dtype = getattr(torch.zeros(()), method)().dtype
    for key, buffer in loss.named_buffers():
        assert buffer.dtype == (dtype if key == "weight" else torch.float64), key


@each_loss
def test_modules_made_on_meta_come_to_life(name):
    """As after deferred initialisation: settings have their values back, weights are loaded."""
    with torch.device("meta"):
        samples = module_samples(torch.float32, requires_grad=False, device=None)
    for sample in samples[:10]:
        options = sample.constructor_input.kwargs
        with torch.device("meta"):
            loss = make(name, options)
        assert all(buffer.is_meta for buffer in loss.buffers())
        assert loss(*sample.forward_input.args).is_meta
        loss.to_empty(device="cpu")
        if loss.weight is not None:
            loss.weight.fill_(2.0)
            options = {**options, "weight": loss.weight}
        logits, target = torch.randn(4, 3), torch.tensor([0, 2, 0, 2])
        assert_close(loss(logits, target), nn.CrossEntropyLoss(**options)(logits, target))


def rearranged(tensor):
    """Return the same tensor in other memory layouts."""
    layouts = [tensor]
    if tensor.ndim:
        layouts.append(tensor.repeat_interleave(2, dim=-1)[..., ::2])
    if tensor.ndim == 4:
        layouts.append(tensor.contiguous(memory_format=torch.channels_last))
    return layouts


@each_loss
def test_memory_layout_does_not_matter(name):
    for sample in module_samples(torch.float32):
        loss = make(name, sample.constructor_input.kwargs)
        logits, target = (argument.detach() for argument in sample.forward_input.args)
        pull = torch.randn_like(loss(logits, target))
        expected = value_and_gradient(loss, logits, target, pull)
        for z, t, g in itertools.product(*map(rearranged, (logits, target, pull))):
            before = z.clone(), t.clone()
            assert_close(value_and_gradient(loss, z, t, g), expected, equal_nan=True)
            assert_close((z, t), before, rtol=0, atol=0)


@each_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_errors_where_pytorch_has_them(name, dtype):
    mistakes = MODULE.module_error_inputs_func(
        MODULE, device="cpu", dtype=dtype, requires_grad=False, training=True
    )
    assert len(mistakes) >= 7
    for mistake in mistakes:
        assert mistake.error_on == ModuleErrorEnum.FORWARD_ERROR
        sample = mistake.module_error_input
        loss = make(name, sample.constructor_input.kwargs)
        with pytest.raises(mistake.error_type):
            loss(*sample.forward_input.args)


def test_module_derivatives():
    for sample in module_samples():
        logits, target = (argument.detach() for argument in sample.forward_input.args)
        loss = softmargin.GradientDecayLoss(**sample.constructor_input.kwargs)
        logits.requires_grad_()
        if loss(logits, target).isnan().any():  # all ignored: there is no numerical derivative
            continue

        def function(z, y=target, f=loss):
            return f(z, y)

        # entry by entry takes long: along a random direction where there are many
        shortcut = {"fast_mode": logits.numel() > 20}
        assert gradcheck(function, logits, check_forward_ad=True, **shortcut)
        assert gradgradcheck(function, logits, **shortcut)


@each_loss
def test_operator_derivatives(name):
    """By PyTorch's checker: backward and forward mode, both batched, and both of backward.

    Targets that are probabilities are differentiated too.
    """
    info, checks = operator(name), GradientChecks()
    everything = {"check_forward_ad": True, "check_batched_forward_grad": True}
    call = ("cpu", torch.float64, info, info.op)
    checks._check_helper(*call, "gradcheck", **everything)
    checks._check_helper(*call, "bwgrad_bwgrad")
    checks._check_helper(*call, "fwgrad_bwgrad")


@each_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_operator_on_meta_and_fake_tensors(name, dtype):
    function = operator(name).op

    def moved(value, to):
        return tree_map(lambda x: to(x) if isinstance(x, torch.Tensor) else x, value)

    def facts(value):
        return value.shape, value.stride(), value.dtype

    for sample in operator_samples(dtype, requires_grad=False):
        call = (sample.input, *sample.args), sample.kwargs
        expected = facts(function(*call[0], **call[1]))
        arguments, options = moved(call, lambda x: x.to("meta"))
        assert facts(function(*arguments, **options)) == expected
        with FakeTensorMode() as mode:
            arguments, options = moved(call, mode.from_tensor)
            result = function(*arguments, **options)
            assert isinstance(result, FakeTensor)
            assert facts(result) == expected
            with torch.autocast("cpu"):
                under_autocast = function(*arguments, **options)
        with torch.autocast("cpu"):
            theirs = nn.functional.cross_entropy(*call[0], **call[1])
        assert under_autocast.dtype == theirs.dtype
    for sample in operator_samples(dtype)[::9]:  # every operation beside its fake twin
        with CrossRefFakeMode():
            function(sample.input, *sample.args, **sample.kwargs).sum().backward()


def same(ours, theirs, **options):
    assert_close(ours, theirs, **options)


@each_loss
def test_operator_with_tensor_subclasses(name):
    """A loss made of operations must work with every mix of subclasses and plain tensors."""
    info = operator(name)
    for sample in operator_samples(torch.float32)[::7]:  # targets alternate
        arguments = [sample.input, *sample.args]
        plain = [argument.detach() for argument in arguments]
        composite_compliance.check_with_mode(info.op, plain, sample.kwargs, same)
        composite_compliance.check_all_permutations(info.op, plain, sample.kwargs, same)
        wrapped = arguments, sample.kwargs
        composite_compliance.check_backward_formula(
            info.op, *wrapped, sample.output_process_fn_grad, info.gradcheck_wrapper, same
        )
        composite_compliance.check_forward_ad_formula(
            info.op, *wrapped, info.gradcheck_wrapper, same
        )


@each_loss
def test_operator_under_function_transforms(name):
    function = operator(name).op
    for sample in operator_samples(torch.float64, requires_grad=False):
        logits, target = sample.input, sample.args[0]
        other, direction = torch.randn_like(logits), torch.randn_like(logits)

        def results(f, z=logits, y=target, o=other, d=direction, options=sample.kwargs):
            def loss(x):
                return f(x, y, **options)

            def total(x):
                return loss(x).sum()

            def forward(x):
                return torch.func.jvp(loss, (x,), (d,))[1]

            both, targets = torch.stack([z, o]), torch.stack([y, y.flip(0)])
            return (
                torch.func.vmap(loss)(both),
                torch.func.vmap(lambda t: f(z, t, **options))(targets),
                torch.func.vmap(lambda x, t: f(x, t, **options), (-1, 0))(
                    both.movedim(0, -1), targets
                ),
                torch.func.vmap(torch.func.grad(total))(both),
                torch.func.jacfwd(loss)(z),
                torch.func.jacrev(loss)(z),
                torch.func.hessian(total)(z),
                torch.func.jvp(torch.func.grad(total), (z,), (d,)),
                torch.func.jacrev(forward)(z),
            )

        assert_close(results(function), results(nn.functional.cross_entropy))


def test_gradient_of_probability_targets():
    for sample in operator_samples():
        target = sample.args[0].detach()
        if not target.is_floating_point():
            continue
        target = target.abs().requires_grad_()
        logits = sample.input.detach().requires_grad_()
        results = []
        for function in (gradient_decay_loss, nn.functional.cross_entropy):
            value = function(logits, target, **sample.kwargs).sum()
            results.append(torch.autograd.grad(value, (logits, target)))
        assert_close(results[0], results[1])
