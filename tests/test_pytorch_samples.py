"""With β = 1 and τ = 1, PyTorch's own samples for cross-entropy must pass."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

import softmargin
from softmargin.functional import gradient_decay_loss

MODULE = next(info for info in module_db if info.module_cls is torch.nn.CrossEntropyLoss)
OPERATOR = next(info for info in op_db if info.name == "nn.functional.cross_entropy")
LOSSES = [
    lambda **options: softmargin.GradientDecayLoss(**options),
    lambda **options: softmargin.GradientDecayLoss(floored=True, **options),
    lambda **options: softmargin.RegularizedSoftmaxLoss(lam=0.0, **options),
    lambda **options: softmargin.SoftMarginSoftmaxLoss(margin=0.0, **options),
    lambda **options: softmargin.ModifiedSoftmaxLoss(rho=0.0, **options),
    lambda **options: softmargin.FocalLoss(gamma=0.0, **options),
]
NAMES = ["decay", "floored", "regularized", "soft-margin", "modified", "focal"]


def module_samples(dtype=torch.float64, requires_grad=True):
    return list(
        MODULE.module_inputs_func(
            MODULE, device="cpu", dtype=dtype, requires_grad=requires_grad, training=True
        )
    )


def operator_samples(dtype=torch.float64):
    return list(OPERATOR.sample_inputs("cpu", dtype, requires_grad=True))


def test_there_are_samples():
    assert len(module_samples()) > 100
    assert len(operator_samples()) > 15


@pytest.mark.parametrize("make", LOSSES, ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_module_values_and_gradients(make, dtype):
    for sample in module_samples(dtype):
        arguments = [argument.detach() for argument in sample.forward_input.args]
        options = sample.constructor_input.kwargs
        ours = make(**options)
        assert not list(ours.parameters())
        theirs = torch.nn.CrossEntropyLoss(**options)
        results = []
        for loss in (ours, theirs):
            logits = arguments[0].clone().requires_grad_()
            value = loss(logits, *arguments[1:])
            value.sum().backward()
            results.append((value.detach(), logits.grad))
        # NaN where every target is ignored, there and here
        torch.testing.assert_close(
            results[0], results[1], equal_nan=True, msg=lambda m, s=sample: f"{s.desc}: {m}"
        )
        reference = sample.reference_fn(ours, *arguments)
        torch.testing.assert_close(ours(*arguments), reference, equal_nan=True)
        restored = make(**options)
        restored.load_state_dict(copy.deepcopy(ours.state_dict()))
        torch.testing.assert_close(restored(*arguments), ours(*arguments), equal_nan=True)


def test_module_derivatives():
    for sample in module_samples():
        logits, target = (argument.detach() for argument in sample.forward_input.args)
        loss = softmargin.GradientDecayLoss(**sample.constructor_input.kwargs)
        logits.requires_grad_()
        # the many-dimensional ones take long; a NaN (all ignored) has no numerical derivative
        if logits.numel() > 130 or loss(logits, target).isnan().any():
            continue
        assert gradcheck(lambda z, t=target, f=loss: f(z, t), logits, check_forward_ad=True)
        assert gradgradcheck(lambda z, t=target, f=loss: f(z, t), logits)


def test_operator_values_and_derivatives():
    for sample in operator_samples():
        logits = sample.input.detach().requires_grad_()
        target = sample.args[0].detach()
        ours = gradient_decay_loss(logits, target, **sample.kwargs)
        theirs = torch.nn.functional.cross_entropy(logits, target, **sample.kwargs)
        torch.testing.assert_close(ours, theirs)
        assert gradcheck(
            lambda z, t=target, k=sample.kwargs: gradient_decay_loss(z, t, **k),
            logits,
            check_forward_ad=True,
        )


def test_gradient_of_probability_targets():
    for sample in operator_samples():
        target = sample.args[0].detach()
        if not target.is_floating_point():
            continue
        target = target.abs().requires_grad_()
        logits = sample.input.detach().requires_grad_()
        results = []
        for function in (gradient_decay_loss, torch.nn.functional.cross_entropy):
            value = function(logits, target, **sample.kwargs).sum()
            results.append(torch.autograd.grad(value, (logits, target)))
        torch.testing.assert_close(results[0], results[1])
