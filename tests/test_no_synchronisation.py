"""Training on an accelerator never waits for it: a look at a meta tensor's value is an error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import head_cases
import loss_cases
from softmargin import heads, losses, schedules

N, D, C = 6, 8, 5
LOSSES = {"CrossEntropyLoss": nn.CrossEntropyLoss} | {
    name: case.module for name, case in loss_cases.EVERY_LOSS.items()
}


def on_meta(kind, *sizes, **options):
    with torch.device("meta"):
        return kind(*sizes, **options)


@pytest.fixture
def target():
    return torch.empty(N, dtype=torch.int64, device="meta")


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, options, target):
    sizes = [0.5] if name == "SoftMarginSoftmaxLoss" else []
    criterion = on_meta(LOSSES[name], *sizes, **options, weight=torch.ones(C, device="meta"))
    logits = torch.empty(N, C, device="meta", requires_grad=True)
    criterion(logits, target).backward()
    assert logits.grad.is_meta


@pytest.mark.parametrize("name", head_cases.EVERY_HEAD)
def test_heads(name, target):
    head = on_meta(head_cases.EVERY_HEAD[name].module, D, C)
    features = torch.empty(N, D, device="meta", requires_grad=True)
    head(features, target).sum().backward()
    assert features.grad.is_meta
    if name != "AdaCosHead":
        head.loss(features, target, on_meta(losses.GradientDecayLoss, 0.5)).backward()


def test_a_schedule_writes_to_the_buffer_that_a_captured_graph_reads():
    criterion, head = losses.GradientDecayLoss(0.1), heads.CosineHead(D, C)
    kept = [(m, n, b, b.data_ptr()) for m in (criterion, head) for n, b in m.named_buffers()]
    schedule = schedules.Linear(criterion, "beta", start=0.1, end=1.0, steps=10)
    schedule.step()
    assert criterion.beta > 0.1
    criterion.tau, head.scale = torch.tensor(3.0), 7.0
    for module, name, buffer, place in kept:
        assert getattr(module, name) is buffer
        assert buffer.data_ptr() == place
