"""Networks trained together by the kernel: every step is that of PyTorch's operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ensemble_cases import BASE, KINDS, WARM_UP, iris_folds
from softmargin import data
from softmargin.functional import _fused
from softmargin.training import TrainingConfig
from softmargin.training.ensemble import fused
from softmargin.training.ensemble import run as ensemble
from softmargin.training.ensemble.members import blocks_of, pool
from softmargin.training.ensemble.part import Part

pytestmark = pytest.mark.skipif(_fused.kernel is None, reason=_fused.reason)

SHAPES: dict[str, dict[str, Any]] = {
    "one layer": {"model": "fcnn", "model_options": {"widths": (5,)}},
    "no hidden layer": {"model": "fcnn", "model_options": {"widths": ()}},
    "odd widths": {"model": "fcnn", "model_options": {"widths": (33, 1, 17)}},
    "no last activation": {
        "model": "fcnn",
        "model_options": {"widths": (9, 2), "last_activation": False},
    },
    "whole vectors": {"model_options": {"width": 32}, "batch": 32},
    "a rest of one row": {"batch": 67},
}
# not Adam in float32: it turns the rounding of a gradient that is as good as 0 into a step
RULES: list[dict[str, Any]] = [
    {"optimizer": "sgd", "precision": "32"},
    {"optimizer": "sgd", "momentum": 0.0},
    {"optimizer": "adam", "lr": 0.005},
    {"optimizer": "adamw", "lr": 0.005, "weight_decay": 0.01},
]


def parts_of(configs: list[TrainingConfig], folds: Any = None, **options: Any) -> Iterator[Part]:
    """Yield the parts that models are trained in, before their first step."""
    table = data.load_table("iris")
    samples, _ = pool(table, folded=folds is not None)
    blocks = blocks_of(configs, table, folds)
    x = ensemble._normalised(samples, blocks, configs[0])
    for block in blocks:
        yield Part(block, x, (4,), 3, **options)


def steps_of(part: Part, epochs: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the losses of all steps, and what is kept after them."""
    losses = torch.stack([step for _ in range(epochs) for step in part.train_epoch()])
    return losses, part.state_dict()


def assert_same(configs: list[TrainingConfig], folds: Any = None, **options: Any) -> None:
    """Compare all losses of models, and all that is kept of them, with and without the kernel."""
    bound = 1e-9 if configs[0].precision == "64" else 2e-3
    for ours, theirs in zip(
        parts_of(configs, folds, **options), parts_of(configs, folds, **options), strict=True
    ):
        assert ours.is_small
        found, after = steps_of(ours, configs[0].epochs)
        with _fused.using(None):
            expected, kept = steps_of(theirs, configs[0].epochs)
        worst = ((found - expected).abs() / expected.abs().clamp(min=1e-3)).amax(0)
        assert float(worst.max()) < bound, (ours.variants, worst)
        for group in ("params", "state"):
            for name, value in kept[group].items():
                error = (after[group][name] - value).abs().max() if value.numel() else 0.0
                assert error < bound * 10, (group, name, error)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_kind_and_optimizer(rule: dict[str, Any]) -> None:
    base = dataclasses.replace(BASE, epochs=2)
    kinds = [kind for kind in KINDS if "clip" not in kind]
    assert_same([dataclasses.replace(base, **(rule | kind)) for kind in kinds])


@pytest.mark.parametrize("precision", ["32", "64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_with_several_streams_and_variants(shape: str, precision: str) -> None:
    kinds = [KINDS[0], {"head": "arcface"}, {"head": "adacos"}, {"center": 0.1}, WARM_UP]
    kinds += [{"head": "gaussian"}, {"loss_options": {"beta": 3.0}}]
    base = dataclasses.replace(BASE, epochs=2, precision=precision, **SHAPES[shape])
    configs = [dataclasses.replace(base, seed=seed, **kind) for seed in range(3) for kind in kinds]
    assert_same(configs)


@pytest.mark.parametrize("precision", ["32", "64"])
def test_folds_clipping_and_rates_by_model(precision: str) -> None:
    kinds: list[dict[str, Any]] = [{"clip": 0.5}, {"clip": 0.05, "lr": 0.02}, {"weight_decay": 0.1}]
    kinds += [{"head": "arcgrad", "clip": 1.0}]
    folds = iris_folds(3)
    base = dataclasses.replace(BASE, epochs=2, precision=precision, batch=11)
    configs = [dataclasses.replace(base, seed=seed, **kind) for seed in range(3) for kind in kinds]
    assert_same(configs, [fold for fold in folds for _ in kinds])


def test_sample_weights_and_recorded_confidences() -> None:
    kinds: list[dict[str, Any]] = [{}, {"head": "cosface"}, {"loss": "focal"}, {"head": "cosine"}]
    configs = [dataclasses.replace(BASE, epochs=2, **kind) for kind in kinds]
    weight = torch.rand(150, generator=torch.Generator().manual_seed(0)).double()
    assert_same(configs, weight=weight)
    ours, theirs = parts_of(configs, record=True), parts_of(configs, record=True)
    for one, other in zip(ours, theirs, strict=True):
        steps_of(one, 2)
        with _fused.using(None):
            steps_of(other, 2)
        assert one.recorder is not None
        assert other.recorder is not None
        first, second = one.recorder.confidence, other.recorder.confidence
        torch.testing.assert_close(first, second, equal_nan=True, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("copy", range(_fused.instructions + 1))
def test_every_compiled_copy(copy: int) -> None:
    kinds = [{}, {"head": "arcface"}, {"head": "arcgrad"}, {"center": 0.1}, {"loss": "focal"}]
    for precision in ("32", "64"):
        base = dataclasses.replace(BASE, epochs=1, precision=precision)
        with _fused.using(_fused.kernel, copy):
            assert_same([dataclasses.replace(base, **kind) for kind in kinds])


def test_features_of_length_0() -> None:
    """One feature: cosines are 1 or -1, and 0 where ReLU is."""
    kinds = [{"head": name} for name in ("cosine", "adacos", "cosface")]
    shape = {"model": "fcnn", "model_options": {"widths": (4, 1)}}
    for precision in ("32", "64"):
        base = dataclasses.replace(BASE, epochs=1, precision=precision, **shape)
        assert_same([dataclasses.replace(base, **kind) for kind in kinds])


def test_a_model_that_diverges_is_not_finite() -> None:
    configs = [dataclasses.replace(BASE, lr=lr) for lr in (0.01, 1e200)]
    for part in parts_of(configs):
        losses, _ = steps_of(part, 3)
        places = [part.numbers.index(number) for number in (0, 1)]
        assert losses[:, places[0]].isfinite().all()
        assert not losses[-1, places[1]].isfinite()


def test_large_networks_are_left_to_pytorch() -> None:
    wide = dataclasses.replace(BASE, model_options={"width": 400})
    deep = dataclasses.replace(
        BASE, model="fcnn", model_options={"widths": (3,) * (fused.LAYERS + 1)}
    )
    clipped = dataclasses.replace(BASE, head="gaussian", clip=1.0)
    for config in (wide, deep, clipped):
        assert not any(part.is_small for part in parts_of([config]))
