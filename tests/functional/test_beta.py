"""β in any dtype and at any size: its logarithm and its derivative keep their digits."""

from __future__ import annotations

import mpmath
import pytest
import torch
from torch.autograd import gradcheck

from softmargin import functional as F

pytestmark = pytest.mark.usefixtures("either_path")

LOSSES = {
    "decay": F.gradient_decay_loss,
    "floored": lambda *a, **k: F.gradient_decay_loss(*a, floored=True, **k),
    "regularized": lambda *a, **k: F.regularized_softmax_loss(*a, lam=0.3, **k),
}
KINDS = {
    "index": (torch.tensor([0, 2]), {}),
    "smoothed": (torch.tensor([0, 2]), {"label_smoothing": 0.2}),
    "probability": (torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]), {}),
}
LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.3, -0.2, 1.0]])


def shares(kind):
    """Return the weight of every sample and class in the mean loss."""
    target, options = KINDS[kind]
    smoothing = options.get("label_smoothing", 0.0)
    hard = target if target.is_floating_point() else torch.nn.functional.one_hot(target, 3).double()
    return ((1 - smoothing) * hard.double() + smoothing / 3) / 2


def derivative(kind, beta, floored):
    """Return ∂J/∂β to 50 digits: Σ 1/(β + e^ξ), less 1/β where the minimum is taken off."""
    total = mpmath.mpf(0)
    for row, weights in zip(LOGITS.double().tolist(), shares(kind).tolist(), strict=True):
        for c, weight in enumerate(weights):
            ratio = sum(mpmath.exp(z - row[c]) for i, z in enumerate(row) if i != c)
            total += weight * (1 / (beta + ratio) - (1 / beta if floored else 0))
    return total


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("transformed", [False, True])
def test_the_derivative_does_not_cancel(loss, kind, beta, per_class, transformed):
    target, options = KINDS[kind]
    value = torch.full((3,), beta) if per_class else torch.tensor(beta)

    def function(b):
        return LOSSES[loss](LOGITS, target, beta=b, **options)

    if transformed:
        ours = torch.func.grad(function)(value)
    else:
        value.requires_grad_()
        (ours,) = torch.autograd.grad(function(value), value)
    expected = derivative(kind, mpmath.mpf(value.reshape(-1)[0].item()), loss == "floored")
    assert abs(ours.double().sum().item() / expected - 1) <= 1e-5


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("logits_dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("per_class", [False, True])
def test_the_logarithm_is_taken_in_full_precision(loss, kind, dtype, logits_dtype, per_class):
    target, options = KINDS[kind]
    beta = torch.tensor([0.3, 5.0, 40.0] if per_class else 0.3).to(dtype)
    logits = LOGITS.to(logits_dtype)
    target = target.to(logits_dtype) if target.is_floating_point() else target
    expected = LOSSES[loss](logits, target, beta=beta.double(), **options)
    assert torch.equal(LOSSES[loss](logits, target, beta=beta, **options), expected)


@pytest.mark.parametrize("loss", [F.gradient_decay_loss, F.regularized_softmax_loss, F.focal_loss])
def test_targets_may_be_differentiated_at_zero(loss):
    """A numerical derivative steps below 0, and rounding in half precision does."""
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    target = torch.nn.functional.one_hot(torch.tensor([0, 3, 1]), 4).double().requires_grad_()
    assert gradcheck(lambda z, t: loss(z, t), (logits, target), check_forward_ad=True)
    mixed = (target.detach() - 1e-6).float()
    assert loss(logits.float(), mixed).isfinite()
    with pytest.raises(ValueError, match="target must hold probabilities of at least 0, but got"):
        loss(logits, target - 0.1)
