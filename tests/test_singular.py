"""Odd features, weights and targets: every head, finite logits and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from head_cases import EVERY_HEAD
from loss_cases import EVERY_LOSS
from softmargin.center import CenterLoss
from softmargin.heads import GaussianHead, SimplexHead

D, C = 7, 5
KINDS = ["zero", "tiny", "large", "zero weights", "on", "opposite"]


@pytest.mark.parametrize("case", EVERY_HEAD.values(), ids=EVERY_HEAD)
@pytest.mark.parametrize("learned", [False, True], ids=["fixed", "learned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_are_finite(case, learned, dtype, kind):
    options = case.options[0]
    head = case.module(D, C, dtype=torch.float64 if dtype == torch.float64 else None, **options)
    if learned:
        if case.state is None:
            pytest.skip("a head without settings")
        setattr(head, case.state, nn.Parameter(torch.tensor(0.5)))
    x = torch.randn(C, D).to(head.weight.dtype)
    with torch.no_grad():
        if kind == "zero weights":
            for name, parameter in head.named_parameters():
                if name != case.state:
                    parameter.zero_()
        elif kind in ("on", "opposite"):
            x = head.weight.detach() * (3 if kind == "on" else -3)
        else:
            # a Gaussian's logits are squares: 1e20 has none in float32
            large = 1e15 if isinstance(head, GaussianHead) else 1e20
            size = {"zero": 0.0, "tiny": 1e-20, "large": large}[kind]
            x = x / x.norm(dim=-1, keepdim=True) * size
    x = x.to(dtype).requires_grad_()
    for target in (torch.arange(C), torch.arange(C).roll(1)):
        if x.grad is not None:
            x.grad = None
            head.zero_grad()
        features = x if dtype != torch.bfloat16 or case.name != "LinearHead" else x.float()
        logits = head(features, target)
        logits.mean().backward()
        assert logits.isfinite().all()
        for tensor in (x, *head.parameters()):
            assert tensor.grad is None or tensor.grad.isfinite().all()


@pytest.mark.parametrize("rank", range(C - 1))
@pytest.mark.parametrize(
    "plain",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["looked at", "compiled"],
)
def test_a_simplex_of_any_rank_is_a_simplex(rank, plain):
    head = SimplexHead(D, C, dtype=torch.float64)
    with torch.no_grad():
        head.basis[:, rank:] = head.basis[:, :1] if rank else 0.0
    target = torch.full((C, C), -1 / (C - 1), dtype=torch.float64).fill_diagonal_(1.0)
    x = torch.randn(3, D, dtype=torch.float64)
    call = head
    if plain:
        torch.compiler.reset()
        call = torch.compile(head, fullgraph=True, backend="aot_eager")
    weight = head.weight
    torch.testing.assert_close(weight @ weight.T, target, rtol=0, atol=1e-12)
    call(x).square().sum().backward()
    assert head.basis.grad.isfinite().all()
    assert head.basis.grad.any()


BYTES = torch.tensor([156, 0, 199, 156], dtype=torch.uint8)


@pytest.mark.parametrize("case", EVERY_LOSS.values(), ids=EVERY_LOSS)
def test_losses_count_class_156_of_a_byte(case):
    logits = torch.randn(4, 200)
    expected = case.function(logits, BYTES.long(), **case.options[0])
    assert torch.equal(case.function(logits, BYTES, **case.options[0]), expected)


@pytest.mark.parametrize("case", EVERY_HEAD.values(), ids=EVERY_HEAD)
def test_heads_count_class_156_of_a_byte(case):
    head, x = case.module(199, 200, **case.options[0]), torch.randn(4, 199)
    assert torch.equal(head(x, BYTES), head(x, BYTES.long()))
    if isinstance(head, GaussianHead):
        assert torch.equal(head.likelihood_loss(x, BYTES), head.likelihood_loss(x, BYTES.long()))


def test_center_loss_counts_class_156_of_a_byte():
    center, x = CenterLoss(3, 200), torch.randn(4, 3)
    assert torch.equal(center(x, BYTES), center(x, BYTES.long()))
