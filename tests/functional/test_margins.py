"""Accuracy of the margins and of gradient decay, where float32 and extreme β are hard."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

import softmargin.functional as F

pytestmark = pytest.mark.usefixtures("either_path")

mpmath.mp.dps = 50
BETAS = [1e-8, 1e-4, 0.1, 1.0, 7.0, 1e4, 1e8]


def exact(z, c, beta=1.0, tau=1.0):
    """Return ξ, J, J - log β and dJ/dz of one sample, from the definition, to 50 digits."""
    z = [mpmath.mpf(v) / mpmath.mpf(tau) for v in z]
    ratios = [mpmath.exp(v - z[c]) for v in z]
    ratio = sum(r for i, r in enumerate(ratios) if i != c)
    beta = mpmath.mpf(beta)
    gradient = [r / (beta + ratio) for r in ratios]
    gradient[c] = -ratio / (beta + ratio)
    floored = mpmath.log1p(ratio / beta)
    return mpmath.log(ratio), mpmath.log(beta + ratio), floored, [g / tau for g in gradient]


def rows(scale, dtype, count=40, classes=6):
    """Return logits up to ±scale, among them close calls and clear leads."""
    generator = torch.Generator().manual_seed(int(scale))
    logits = (torch.rand(count, classes, generator=generator, dtype=torch.float64) * 2 - 1) * scale
    logits[::4] *= 0.01
    logits[1::4, 0] = scale
    return logits.to(dtype), torch.arange(count) % classes


def assert_relative(ours, expected, bound, smallest=0.0):
    """Compare with mpmath numbers wherever those are above ``smallest``."""
    for a, b in zip(ours.double().reshape(-1).tolist(), expected, strict=True):
        if abs(b) > smallest:
            error = abs(mpmath.mpf(a) - b) / abs(b)
            assert error <= bound, f"{a} is off {mpmath.nstr(b, 17)} by {mpmath.nstr(error, 3)}"


@pytest.mark.parametrize("tau", [1.0, 0.7])
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("scale", [3.0, 100.0, 1e4])
@pytest.mark.parametrize(
    ("dtype", "value_bound"), [(torch.float64, 1e-12), (torch.float32, 2e-6)], ids=str
)
def test_loss_and_gradient_against_mpmath(dtype, value_bound, scale, beta, tau):
    logits, target = rows(scale, dtype)
    logits.requires_grad_()
    losses = F.gradient_decay_loss(logits, target, beta, tau, reduction="none")
    losses.sum().backward()
    as_tensor = F.gradient_decay_loss(
        logits, target, torch.tensor(beta, dtype=torch.float64), tau, reduction="none"
    )
    assert losses.isfinite().all()
    assert logits.grad.isfinite().all()
    cases = zip(logits.tolist(), target.tolist(), losses, as_tensor, logits.grad, strict=True)
    for z, c, loss, other, gradient in cases:
        _, j, _, dj = exact(z, c, beta, tau)
        for ours in (loss, other):
            assert abs(mpmath.mpf(ours.item()) - j) <= value_bound * max(1, abs(j))
        # a step of 1e4 is resolved to 5e-4 in float32: there is no more to be had from z/τ
        if scale <= 100 or tau == 1.0:
            bound = 2e-5 if dtype == torch.float32 else 1e-11
            assert_relative(gradient, dj, bound, smallest=1e-36)


@pytest.mark.parametrize("lead", [18.0, 40.0, 80.0])
@pytest.mark.parametrize("beta", [1.0, 0.1, 5.0])
def test_tails_that_cross_entropy_loses(lead, beta):
    logits = torch.tensor([[lead, 0.0, -1.0, 0.5]], requires_grad=True)
    target = torch.tensor([0])
    assert torch.nn.functional.cross_entropy(logits, target) == 0
    loss = F.gradient_decay_loss(logits, target, beta, floored=True)
    loss.backward()
    _, _, floored, gradient = exact(logits[0].tolist(), 0, beta)
    assert_relative(loss, [floored], 1e-5)
    assert_relative(logits.grad, gradient, 1e-5)
    # not floored, the loss is at its minimum but its gradient is still there
    logits.grad = None
    F.gradient_decay_loss(logits, target, beta).backward()
    assert_relative(logits.grad, gradient, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_log_odds_of_every_class(dtype):
    """The O(N·C) form for soft targets, where one class may hold all the probability."""
    from softmargin.functional.margins import log_odds_by_class

    logits, _ = rows(100.0, dtype)
    ours = log_odds_by_class(logits, 1)
    for z, row in zip(logits.tolist(), ours.tolist(), strict=True):
        for c, value in enumerate(row):
            expected = exact(z, c)[0]
            bound = 1e-13 if dtype == torch.float64 else 1e-6
            assert abs(mpmath.mpf(value) - expected) <= bound * max(1, abs(expected))


@pytest.mark.parametrize("beta", [1e-8, 1e-3, 1.0, 1e8])
def test_gradient_in_beta(beta):
    """dJ/dβ = 1/(β + e^ξ), without cancellation on either side."""
    logits, target = rows(30.0, torch.float32)
    value = torch.tensor(beta, requires_grad=True)
    for z, c in zip(logits, target, strict=True):
        ratio = mpmath.exp(exact(z.tolist(), int(c))[0])
        (ours,) = torch.autograd.grad(F.gradient_decay_loss(z, c, value), value)
        assert_relative(ours, [1 / (mpmath.mpf(value.item()) + ratio)], 2e-5, smallest=1e-36)


def test_second_derivative_is_finite_where_logaddexp_is_not():
    logits = torch.tensor([[120.0, 0.0, 1.0]], requires_grad=True)
    target, beta = torch.tensor([0]), torch.tensor(0.5, requires_grad=True)
    loss = F.gradient_decay_loss(logits, target, beta)
    first = torch.autograd.grad(loss, (logits, beta), create_graph=True)
    second = torch.autograd.grad(sum(g.sum() for g in first), (logits, beta))
    assert all(g.isfinite().all() for g in second)
    hessian = torch.func.hessian(lambda z: F.gradient_decay_loss(z, target, 0.5))(logits.detach())
    assert hessian.isfinite().all()


def test_masked_classes_mean_what_cross_entropy_means():
    low = -math.inf
    logits = torch.tensor([[0.0, low, low], [0.0, 1.0, low], [low, 1.0, 2.0]], dtype=torch.float64)
    target = torch.tensor([0, 1, 0])
    results = []
    for function in (torch.nn.functional.cross_entropy, F.gradient_decay_loss):
        z = logits.clone().requires_grad_()
        losses = function(z, target, reduction="none")
        losses[:2].sum().backward()
        results.append((losses.detach(), z.grad))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_the_three_margins_fit_together(tau):
    logits, target = torch.randn(20, 7, dtype=torch.float64) * 5, torch.arange(20) % 7
    xi = F.log_odds(logits, target, tau)
    hard = F.hard_log_odds(logits, target, tau)
    bias = F.embedded_bias(logits, target, tau)
    torch.testing.assert_close(hard + bias, xi, rtol=1e-12, atol=1e-12)
    assert (bias >= 0).all()
    assert (bias <= math.log(6)).all()
    p = (logits / tau).softmax(1).gather(1, target[:, None])[:, 0]
    torch.testing.assert_close(torch.sigmoid(-xi), p, rtol=1e-12, atol=1e-15)
    wrong = logits.argmax(1) != target
    assert torch.equal(hard > 0, wrong)


@pytest.mark.parametrize("divergence", ["symmetric", "uniform_to_logits", "logits_to_uniform"])
@pytest.mark.parametrize("giant", [1e3, 1e8, 1e20])
@pytest.mark.parametrize("tau", [1.0, 0.05, 20.0])
def test_a_giant_logit_leaves_the_others_apart(tau, giant, divergence):
    """Less the giant, the others would be one number, and the class of the giant has none else."""
    others = [0.06, -1.1, -14.8, 8.8, 3.3, 1.7]
    logits = torch.tensor([[*others, giant]], requires_grad=True)
    target = torch.tensor([6])
    F.logit_divergence(logits, target, divergence, tau).backward()
    alone = torch.tensor([[*others, 0.0]], dtype=torch.float64, requires_grad=True)
    F.logit_divergence(alone, target, divergence, tau).backward()
    torch.testing.assert_close(logits.grad.double(), alone.grad, rtol=2e-5, atol=2e-6)


def test_margins_of_images_and_single_samples():
    logits, target = torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5))
    for function in (F.log_odds, F.hard_log_odds, F.embedded_bias, F.logit_divergence):
        values = function(logits, target)
        assert values.shape == target.shape
        torch.testing.assert_close(values[1, 2, 3], function(logits[1, :, 2, 3], target[1, 2, 3]))


@pytest.mark.parametrize(
    "function", [F.log_odds, F.hard_log_odds, F.embedded_bias, F.logit_divergence]
)
def test_bad_input(function):
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    with pytest.raises(IndexError, match="target must hold classes from 0 to 2, but got 3"):
        function(logits, target + 1)
    with pytest.raises(RuntimeError, match="class indices here, but got class probabilities"):
        function(logits, logits)
    with pytest.raises(ValueError, match="tau must be a finite number above 0, but got 0"):
        function(logits, target, tau=0)


def test_unknown_divergence_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"divergence must be one of symmetric, .* got 'kl'"):
        F.logit_divergence(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]), "kl")
