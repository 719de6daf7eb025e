"""Accelerate: a loop with a margin head, accumulation, a schedule in the checkpoint."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerate = pytest.importorskip("accelerate")

from softmargin import GradientDecayLoss, heads  # noqa: E402
from softmargin.models import Classifier  # noqa: E402
from softmargin.schedules import Linear, Schedules  # noqa: E402

BATCHES = 12


def parts():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
    model = Classifier(network, heads.ArcFaceHead(8, 3, scale=8.0, margin=0.1))
    criterion = GradientDecayLoss()
    schedules = Schedules(
        [
            Linear(criterion, "beta", start=0.1, end=0.7, steps=6),
            Linear(model.head, "margin", start=0.0, end=0.3, steps=6),
        ]
    )
    return model, criterion, schedules


def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8 * BATCHES, 5, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0)), batch_size=8)


def trained(folder, start=0, stop=BATCHES, load=False):
    model, criterion, schedules = parts()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    model, optimizer, criterion, loader = accelerator.prepare(model, optimizer, criterion, data())
    accelerator.register_for_checkpointing(schedules)
    if load:
        accelerator.load_state(str(folder))
    used = []
    model.train()
    for number, (x, target) in enumerate(loader):
        if not start <= number < stop:
            continue
        with accelerator.accumulate(model):
            used.append(float(criterion.beta))
            accelerator.backward(criterion(model(x, target), target))
            optimizer.step()
            if accelerator.sync_gradients:
                schedules.step()
            optimizer.zero_grad()
    if stop < BATCHES:
        accelerator.save_state(str(folder))
    return accelerator.unwrap_model(model), criterion, used


def test_a_resumed_run_is_the_same_run(tmp_path):
    whole, criterion, used = trained(tmp_path / "whole")
    steps = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert used == pytest.approx([beta for beta in steps for _ in range(2)])
    _, _, first = trained(tmp_path / "half", stop=6)
    resumed, other, second = trained(tmp_path / "half", start=6, load=True)
    assert first + second == used
    assert other.beta == criterion.beta
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
