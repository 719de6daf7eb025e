"""Heads, losses and center loss written out for many models: each equals the public module."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from softmargin import heads, losses
from softmargin.center import CenterLoss
from softmargin.training.ensemble import stacked

K, B, D, C = 4, 9, 6, 5
HEADS: dict[type[Any], list[dict[str, Any]]] = {
    heads.LinearHead: [{}, {"bias": False}],
    heads.CosineHead: [{"scale": 3.0}],
    heads.CosFaceHead: [{"scale": 3.0, "margin": 0.2}],
    heads.AdaCosHead: [{}, {"dynamic": False}],
    heads.ArcFaceHead: [{"beyond": each, "margin": 1.5} for each in ("monotone", "easy", "none")],
    heads.ArcGradHead: [{"scale": 2.0}],
    heads.LSoftmaxHead: [{"k": 3}, {"anneal": 2.0}],
    heads.ASoftmaxHead: [{"k": 2}, {"anneal": 2.0}],
    heads.SimplexHead: [{"scale": 2.0}],
}
LOSSES: dict[type[Any], list[dict[str, Any]]] = {
    losses.GradientDecayLoss: [{"beta": 0.1}, {"beta": 5.0, "tau": 2.0, "floored": True}],
    losses.RegularizedSoftmaxLoss: [{"lam": 0.5}, {"divergence": "uniform_to_logits", "tau": 0.5}],
    losses.FocalLoss: [{"gamma": 1.5}, {"tau": 2.0}],
    losses.SoftMarginSoftmaxLoss: [{"margin": 0.5, "tau": 2.0}],
    losses.ModifiedSoftmaxLoss: [{"rho": 0.5}],
}
HEAD_CASES = [(kind, options) for kind, each in HEADS.items() for options in each]
LOSS_CASES = [(kind, options) for kind, each in LOSSES.items() for options in each]


def test_none_is_left_out():
    assert set(HEADS) == set(stacked.HEADS)
    assert set(LOSSES) == set(stacked.LOSSES)


def settings_of(modules):
    """Return the settings of modules, each of which gets other ones, stacked."""
    found = {}
    for name, setting in modules[0].settings.items():
        for k, module in enumerate(modules):
            if not setting.moves:
                setattr(module, name, float(getattr(module, name)) * (1 + 0.1 * k))
        found[name] = torch.stack([getattr(each, name).clone() for each in modules])
    return found


def assert_equal_with_gradients(ours, theirs, tensors):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    weights = torch.randn_like(ours)
    expected = torch.autograd.grad(theirs, tensors, weights, retain_graph=True)
    for own, each in zip(torch.autograd.grad(ours, tensors, weights), expected, strict=True):
        torch.testing.assert_close(own, each, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize(("kind", "options"), HEAD_CASES, ids=str)
def test_heads(kind, options):
    modules = [kind(D, C, **options, dtype=torch.float64) for _ in range(K)]
    assert stacked.has_stacked(modules[0])
    own = settings_of(modules)
    names = [name for name, _ in modules[0].named_parameters()]
    for name in names:
        own[name] = torch.stack([each.get_parameter(name).detach() for each in modules])
        own[name].requires_grad_()
    x = torch.randn(K, B, D, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, C, (K, B))
    with torch.no_grad():  # some angles are small
        x[:, 0] = own["weight"][torch.arange(K), y[:, 0]] if "weight" in own else x[:, 0]
        x[:, 0] += 1e-3

    def public(k, *target):
        tensors = {name: own[name][k] for name in names}
        return torch.func.functional_call(modules[k], tensors, (x[k], *target))

    theirs = torch.stack([public(k, y[k]) for k in range(K)])
    ours = stacked.stacked_logits(modules[0], x, own, y.unsqueeze(-1))
    assert_equal_with_gradients(ours, theirs, [x, *(own[name] for name in names)])
    for name, setting in kind.settings.items():
        if setting.moves:
            after = torch.stack([getattr(each, name) for each in modules])
            torch.testing.assert_close(own[name], after, rtol=1e-12, atol=0)
    for module in modules:
        module.eval()
    theirs = torch.stack([public(k) for k in range(K)])
    torch.testing.assert_close(stacked.stacked_logits(modules[0], x, own, None), theirs)


@pytest.mark.parametrize(("kind", "options"), LOSS_CASES, ids=str)
def test_losses(kind, options):
    modules = [kind(**options) for _ in range(K)]
    assert stacked.has_stacked(modules[0])
    own = settings_of(modules)
    z = 3 * torch.randn(K, B, C, dtype=torch.float64)
    z.requires_grad_()
    y = torch.randint(0, C, (K, B))
    theirs = torch.stack([module(z[k], y[k]) for k, module in enumerate(modules)])
    ours = stacked.stacked_loss(modules[0], z, own, y.unsqueeze(-1)).mean(1)
    assert_equal_with_gradients(ours, theirs, [z])


@pytest.mark.parametrize(
    "options",
    [
        {"label_smoothing": 0.1},
        {"reduction": "sum"},
        {"compensate": True},
        {"learn_beta": True},
        {"weight": torch.ones(3)},
        {"ignore_index": 0},
        {"beta": torch.ones(3)},
    ],
    ids=str,
)
def test_other_options_have_no_stacked_version(options):
    assert not stacked.has_stacked(losses.GradientDecayLoss(**options))


def test_center_loss():
    modules = [CenterLoss(D, C, lam, update="running") for lam in (0.1, 0.2, 0.3, 0.4)]
    own = settings_of(modules)
    own["centers"] = torch.zeros(K, C, D, dtype=torch.float64)
    for module in modules:
        module.double()
    for _ in range(3):
        x = torch.randn(K, B, D, dtype=torch.float64, requires_grad=True)
        y = torch.randint(0, C, (K, B))
        theirs = torch.stack([module(x[k], y[k]) for k, module in enumerate(modules)])
        assert_equal_with_gradients(stacked.stacked_center(x, own, y.unsqueeze(-1)), theirs, [x])
        centers = torch.stack([module.centers for module in modules])
        torch.testing.assert_close(own["centers"], centers, rtol=1e-12, atol=1e-14)
