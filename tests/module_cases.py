"""Every loss and head with a way to make and call it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
import torch
from torch import nn

import head_cases
import loss_cases
from softmargin.center import CenterLoss

D, C, N = 7, 5, 6


@dataclass
class Case:
    """A module: how it is made and called, and a setting with a value it was not made with."""

    make: Callable[..., nn.Module]
    call: Callable[[nn.Module], torch.Tensor]
    setting: str | None
    other: float = 0.37
    head: bool = True


def data_for(like: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the module's tensors can meet: on their device, and in float64 or float32."""
    some = next(chain(like.parameters(), like.buffers()), torch.zeros(()))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    parameter = next(like.parameters(), x)
    return x.to(parameter.dtype).to(some.device), (torch.arange(N) % C).to(some.device)


def call_head(head):
    return head(*data_for(head))


def call_loss(loss):
    x, target = data_for(loss)
    return loss(x[:, :C].double(), target)


def _cases() -> dict[str, Case]:
    found = {}
    for name, (case, options) in head_cases.EVERY_OPTION.items():
        found[name] = Case(
            lambda case=case, options=options, **place: case.module(D, C, **options, **place),
            call_head,
            case.state,
        )
    for name, (case, options) in loss_cases.EVERY_OPTION.items():
        found[name] = Case(
            lambda case=case, options=options, **extra: case.module(**options, **extra),
            call_loss,
            case.setting,
            head=False,
        )
    for update in ("gradient", "running"):
        found[f"CenterLoss-{update}"] = Case(
            lambda update=update, **place: CenterLoss(D, C, 0.5, update=update, **place),
            lambda module: module(*data_for(module)),
            "lam",
        )
    return found


CASES = _cases()
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
with_setting = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.setting], ids=[n for n, c in CASES.items() if c.setting]
)
LOSSES = {name: case for name, case in CASES.items() if not case.head}
HEADS = {name: case for name, case in CASES.items() if case.head}


def numbers(module: Any) -> dict[str, list[float]]:
    return {name: getattr(module, name).tolist() for name in module.settings}


def loaded(module, state, **options):
    """Load without a word about other values, which has a test of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return module.load_state_dict(state, **options)
