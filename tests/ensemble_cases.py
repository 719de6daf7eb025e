"""Models that are trained together, for tests: a network, and what each may have of its own."""

from __future__ import annotations

from typing import Any

from softmargin import data
from softmargin.data.sampling import stratified_folds
from softmargin.training import Fold, TrainingConfig

BASE = TrainingConfig(
    "iris",
    "mlp",
    model_options={"width": 8},
    epochs=5,
    batch=7,  # 135 rows: 19 whole batches and one of 2
    lr=0.01,
    precision="64",
)

KINDS: list[dict[str, Any]] = [
    {},
    {"loss_options": {"beta": 0.1}},
    {"loss_options": {"beta": 5.0, "tau": 2.0, "floored": True}},
    {"loss_options": {"label_smoothing": 0.1}},
    {"loss_options": {"label_smoothing": 0.1, "beta": 3.0, "floored": True}},
    {"loss_options": {"beta": 10.0, "compensate": True}},
    {"schedules": ("beta=linear:0.1:1:30%",)},
    {"schedules": ("beta=geometric:0.01:1:50%", "tau=linear:1:2:50%")},
    {"loss": "soft_margin_softmax", "loss_options": {"margin": 0.5}},
    {"loss": "modified_softmax"},
    {"loss": "regularized_softmax", "loss_options": {"lam": 0.3}},
    {"loss": "regularized_softmax", "loss_options": {"divergence": "uniform_to_logits"}},
    {"loss": "regularized_softmax", "schedules": ("lam=cosine:0:1:50%",)},
    {"loss": "focal"},
    {"loss": "mean_hinge"},
    {"loss": "max_hinge"},
    {"loss": "hard_bias_softmax"},
    {"center": 0.02},
    {"center": 0.1, "loss_options": {"beta": 0.5}},
    {"head_options": {"bias": False}},
    {"head": "cosine", "head_options": {"scale": 10.0}},
    {"head": "cosface", "head_options": {"scale": 10.0, "margin": 0.1}},
    {"head": "arcface", "head_options": {"scale": 10.0, "margin": 0.3}},
    {"head": "arcface", "head_options": {"scale": 5.0, "margin": 1.5, "beyond": "easy"}},
    {"head": "adacos"},
    {"head": "adacos", "head_options": {"dynamic": False}},
    {"head": "arcgrad", "head_options": {"scale": 5.0}},
    {"head": "arcgrad", "schedules": ("scale=linear:30:5:50%",)},
    {"head": "l_softmax", "head_options": {"k": 3, "anneal": 2.0}},
    {"head": "a_softmax", "head_options": {"k": 2}, "loss_options": {"beta": 2.0}},
    {"head": "gaussian"},
    {"head": "gaussian", "head_options": {"likelihood": 0.1}},
    {"head": "simplex"},
    {"weight_decay": 0.01, "lr": 0.05},
    {"clip": 0.5},
    {"pollute": 0.2, "fraction": 0.8},
]


WARM_UP = {"schedules": ("beta=linear:0.1:1:30%",)}


def iris_folds(count: int) -> list[Fold]:
    """Return folds of unequal size."""
    y = data.load_table("iris").whole.y[:149]
    parts = stratified_folds(y, count, seed=3)
    return [Fold((parts != i).nonzero()[:, 0], (parts == i).nonzero()[:, 0]) for i in range(count)]
