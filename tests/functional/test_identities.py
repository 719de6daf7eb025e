"""Which published loss is which β (SPEC's table), and the gradients the papers print."""

from __future__ import annotations

import math

import pytest
import torch

import softmargin.functional as F
from loss_cases import divergence as slow_divergence

pytestmark = pytest.mark.usefixtures("either_path")

LOGITS = torch.randn(64, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4
TARGET = torch.arange(64) % 9


def losses(function, *arguments, **options):
    return function(LOGITS, TARGET, *arguments, **options, reduction="none")


def lowered(logits, margin):
    """Return the logits with the target's lowered, as the literature writes a margin."""
    own = torch.nn.functional.one_hot(TARGET, 9).to(logits.dtype)
    return logits - margin * own


def assert_same(ours, expected):
    torch.testing.assert_close(ours, expected, rtol=1e-14, atol=4e-15)


def test_beta_one_is_cross_entropy():
    expected = losses(torch.nn.functional.cross_entropy)
    assert_same(losses(F.gradient_decay_loss), expected)
    assert_same(losses(F.gradient_decay_loss, floored=True), expected)
    assert_same(losses(F.focal_loss, gamma=0.0), expected)
    assert_same(losses(F.soft_margin_softmax_loss, 0.0), expected)
    assert_same(losses(F.regularized_softmax_loss, lam=0.0), expected)


@pytest.mark.parametrize("margin", [0.25, 1.0, 3.0])
def test_soft_margin_is_beta(margin):
    decay = losses(F.gradient_decay_loss, math.exp(-margin))
    assert_same(losses(F.soft_margin_softmax_loss, margin), decay + margin)
    floored = losses(F.gradient_decay_loss, math.exp(-margin), floored=True)
    assert_same(losses(F.soft_margin_softmax_loss, margin), floored)
    by_hand = torch.nn.functional.cross_entropy(lowered(LOGITS, margin), TARGET, reduction="none")
    assert_same(losses(F.soft_margin_softmax_loss, margin), by_hand)


def test_modified_softmax_is_beta():
    assert_same(losses(F.modified_softmax_loss), losses(F.gradient_decay_loss, math.exp(-1)) + 1)


def test_additive_cosine_margin_is_beta():
    """AM-Softmax on s·cos θ with margin m is β = e^(-s·m)."""
    scale, margin = 10.0, 0.2
    cosines = LOGITS.tanh()
    with_margin = scale * lowered(cosines, margin)
    expected = torch.nn.functional.cross_entropy(with_margin, TARGET, reduction="none")
    beta = math.exp(-scale * margin)
    ours = F.gradient_decay_loss(scale * cosines, TARGET, beta, floored=True, reduction="none")
    assert_same(ours, expected)


def test_label_smoothing_is_pytorchs():
    expected = losses(torch.nn.functional.cross_entropy, label_smoothing=0.1)
    ours = losses(F.gradient_decay_loss, label_smoothing=0.1)
    torch.testing.assert_close(ours, expected, rtol=1e-13, atol=1e-13)


def test_mean_hinge_is_multi_margin_with_the_right_divisor():
    expected = losses(torch.nn.functional.multi_margin_loss) * 9 / 8
    assert_same(losses(F.mean_hinge_loss), expected)


def test_hard_losses_are_functions_of_the_hard_margin():
    hard = F.hard_log_odds(LOGITS, TARGET)
    assert_same(losses(F.max_hinge_loss), (hard + 1).clamp(min=0))
    assert_same(losses(F.hard_bias_softmax_loss), torch.logaddexp(hard + 1, torch.zeros(())))


@pytest.mark.parametrize("beta", [0.01, 1.0, 10.0])
def test_gradient_is_cross_entropys_times_a_weight(beta):
    """GD eq. 10: w·(p - onehot) with w = 1/(1 + (β - 1)p)."""
    logits = LOGITS.clone().requires_grad_()
    F.gradient_decay_loss(logits, TARGET, beta, reduction="sum").backward()
    p = LOGITS.softmax(1)
    plain = p - torch.nn.functional.one_hot(TARGET, 9)
    weight = 1 / (1 + (beta - 1) * p.gather(1, TARGET[:, None]))
    # the quotient is what loses digits here, not the sigmoid
    torch.testing.assert_close(logits.grad, weight * plain, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_regularised_gradient_is_the_printed_one(lam):
    """LM eq. 12."""
    logits = LOGITS.clone().requires_grad_()
    F.regularized_softmax_loss(logits, TARGET, lam, reduction="sum").backward()
    expected = LOGITS.softmax(1)
    own = torch.nn.functional.one_hot(TARGET, 9).bool()
    q = LOGITS.masked_fill(own, -math.inf).softmax(1)
    mean = (q * LOGITS).sum(1, keepdim=True)
    expected = expected + lam / 2 * (q * (LOGITS - mean) + (q - 1 / 8)).masked_fill(own, 0)
    expected = expected - own.double()
    torch.testing.assert_close(logits.grad, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["symmetric", "uniform_to_logits", "logits_to_uniform"])
def test_divergences(kind):
    ours = F.logit_divergence(LOGITS, TARGET, kind)
    rows = zip(LOGITS.tolist(), TARGET.tolist(), strict=True)
    expected = torch.tensor([slow_divergence(z, c, kind) for z, c in rows], dtype=torch.float64)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    assert (ours >= 0).all()
    two = torch.randn(5, 2, dtype=torch.float64)
    assert not F.logit_divergence(two, torch.tensor([0, 1, 0, 1, 0]), kind).any()


def test_soft_targets_average_the_losses_of_the_classes():
    """Σ y_c J_c, each class with its own β."""
    y = torch.rand(64, 9, dtype=torch.float64).softmax(1)
    beta = torch.logspace(-2, 2, 9, dtype=torch.float64)
    each = torch.stack(
        [
            F.gradient_decay_loss(LOGITS, torch.full((64,), c), beta=beta, reduction="none")
            for c in range(9)
        ],
        1,
    )
    ours = F.gradient_decay_loss(LOGITS, y, beta=beta, reduction="none")
    torch.testing.assert_close(ours, (y * each).sum(1), rtol=1e-12, atol=1e-13)
