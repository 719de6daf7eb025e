"""Every head with every loss, in real training on real digits, with schedules and a resume."""

from __future__ import annotations

import io

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from head_cases import EVERY_HEAD
from loss_cases import EVERY_LOSS
from softmargin import heads, schedules

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.data / 16, dtype=torch.float32)[:480]
LABELS = torch.tensor(DIGITS.target)[:480]


def build(head_name, loss_name):
    """Return a network, a loss and a schedule over each of their settings."""
    torch.manual_seed(0)
    case = EVERY_HEAD[head_name]
    options = {} if head_name != "AdaCosHead" else {"dynamic": True}
    features = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16))
    head = case.module(16, 10, **options)
    loss_case = EVERY_LOSS[loss_name]
    loss = loss_case.module(**{loss_case.setting: 0.5})
    moving = [schedules.Linear(loss, loss_case.setting, start=0.5, end=0.9, steps=8)]
    if case.state is not None and not isinstance(head, heads.AdaCosHead):
        start, end = (8.0, 9.0) if case.state == "scale" else (0.2, 0.3)
        moving.append(schedules.Cosine(head, case.state, start=start, end=end, steps=8))
    parameters = [*features.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9)
    return features, head, loss, schedules.Schedules(moving), optimizer


def train(parts, epochs):
    features, head, loss, moving, optimizer = parts
    losses = []
    for epoch in epochs:
        order = torch.randperm(len(IMAGES), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(48):
            optimizer.zero_grad()
            value = loss(head(features(IMAGES[batch]), LABELS[batch]), LABELS[batch])
            value.backward()
            nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], 3.0)
            optimizer.step()
            moving.step()
            losses.append(value.item())
    return losses


def cross_entropy(parts):
    """Return the plain cross-entropy of inference on the training images."""
    features, head, *_ = parts
    head.eval()
    with torch.no_grad():
        value = nn.functional.cross_entropy(head(features(IMAGES)), LABELS)
    head.train()
    return value.item()


def pairs():
    """Return every head with every loss: each of them once, and the rest slow."""
    for head in EVERY_HEAD:
        for loss in EVERY_LOSS:
            plain = head == "LinearHead" or loss == "GradientDecayLoss"
            slow = [] if plain else [pytest.mark.slow]
            yield pytest.param(head, loss, id=f"{head}-{loss}", marks=slow)


@pytest.mark.parametrize(("head_name", "loss_name"), list(pairs()))
def test_two_epochs_resumed_in_the_middle(head_name, loss_name):
    straight = build(head_name, loss_name)
    before = cross_entropy(straight)
    losses = train(straight, range(2))
    assert torch.tensor(losses).isfinite().all()
    assert cross_entropy(straight) < before  # the margins grow, so the loss itself need not fall
    first = build(head_name, loss_name)
    assert train(first, range(1)) == losses[:10]
    stored = io.BytesIO()
    torch.save([part.state_dict() for part in first], stored)
    stored.seek(0)
    second = build(head_name, loss_name)
    for part, state in zip(second, torch.load(stored, weights_only=True), strict=True):
        part.load_state_dict(state)
    assert train(second, range(1, 2)) == losses[10:]
    for a, b in zip(straight[0].parameters(), second[0].parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("loss_name", EVERY_LOSS)
@pytest.mark.parametrize("head_name", EVERY_HEAD)
def test_compiled_and_vectorised_together(head_name, loss_name):
    """Head and loss in one graph, and many models of both at once."""
    torch.compiler.reset()
    _, head, loss, *_ = build(head_name, loss_name)
    if isinstance(head, heads.AdaCosHead):
        head.dynamic = False  # a scale that changes is refused inside torch.func, tested elsewhere
    x, target = torch.randn(12, 16), torch.arange(12) % 10
    models = torch.func.stack_module_state([head, head])

    def value(parameters, buffers):
        logits = torch.func.functional_call(head, (parameters, buffers), (x, target))
        return loss(logits, target)

    def step(x, target):
        return loss(head(x, target), target)

    expected = step(x, target)
    torch.testing.assert_close(torch.func.vmap(value)(*models), expected.expand(2))
    # where graphs break; the rest of the compiler is tried on each head and each loss alone
    compiled = torch.compile(step, fullgraph=True, backend="eager")(x, target)
    torch.testing.assert_close(compiled, expected)
