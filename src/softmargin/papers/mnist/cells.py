"""What is trained: one cell per seed, with all values of β at once.

A variant is named by its β, ``"0.1"``, or by the two ends of its warm-up, ``"0.01→0.1"``. The
table and the figures of confidence and accuracy share their cells; the figure of features has its
own, since its network is another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softmargin.papers.core import Cell, Scope

BASELINE = "1"  # cross-entropy, which everything is compared with
BETAS = ("5", "2", "1", "0.5", "0.2", "0.1", "0.01", "0.001")
WARM_UPS = ("0.01→0.1", "0.001→0.01")
FEATURE_BETAS = ("5", "1", "0.2", "0.1", "0.01")

RECIPE: Mapping[str, Any] = {
    "data": "mnist",
    "variants": [*BETAS, *WARM_UPS],
    "widths": [50, 20],
    "last_activation": True,
    "epochs": 100,
    "batch": 100,
    "lr": 1e-3,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "warm_up": "30%",
    "features": False,
}
# a larger rate, so that a few epochs on small data are enough to learn something
SMOKE = {"data": "digits", "epochs": 8, "lr": 0.02}
SMOKE_VARIANTS = ["5", "1", "0.1", "0.01", "0.01→0.1"]
IN_TWO_DIMENSIONS = {"widths": [50, 20, 2], "last_activation": False, "features": True}
EARLY = 40  # epochs
SECONDS_PER_VARIANT = 15.0
# with five seeds no exact paired test can give a p below 0.06
SEEDS = {"smoke": 2, "desk": 8, "paper": 8}

OPEN_CHOICES = (
    "The paper leaves the length of the warm-up open: here β moves linearly over the first 30 % of "
    "all steps. It reports one run; here every seed gives all variants the same initial weights "
    "and batches, so that differences are paired."
)
SMOKE_DEVIATION = (
    "8×8 digits instead of MNIST, 8 epochs, a learning rate of 0.02 and few values of β: this "
    "proves that the path works, nothing else."
)


def confidence_cells(setting: Scope) -> list[Cell]:
    """Return the cells of Table 1 and Figures 3 to 5, which are the same."""
    smoke = {**SMOKE, "variants": SMOKE_VARIANTS} if setting.scale == "smoke" else {}
    return _cells(setting, {**RECIPE, **smoke}, "confidences")


def early_cells(setting: Scope, variants: Sequence[str]) -> list[Cell]:
    """Return cells of the first epochs of Table 1's β, in which counts are kept for every epoch.

    At the constant rate of the recipe they are the first epochs of the longer ones.
    """
    recipe = {**RECIPE, "variants": list(variants), "epochs": EARLY}
    return [] if setting.scale == "smoke" else _cells(setting, recipe, "first epochs")


def feature_cells(setting: Scope) -> list[Cell]:
    """Return the cells of Figure 1, whose network has two features."""
    smoke = {**SMOKE, "variants": ["5", "1", "0.01"]} if setting.scale == "smoke" else {}
    recipe = {**RECIPE, "variants": list(FEATURE_BETAS), **IN_TWO_DIMENSIONS, **smoke}
    return _cells(setting, recipe, "two features")


def _cells(setting: Scope, recipe: Mapping[str, Any], what: str) -> list[Cell]:
    smoke = setting.scale == "smoke"
    title = "digits" if smoke else "MNIST"
    return [
        Cell(
            "mnist",
            {**recipe, "seed": seed},
            f"{title}, {what}, seed {seed}",
            seconds=0.8 if smoke else _seconds(recipe),
            needs=(recipe["data"],),
        )
        for seed in setting.seeds
    ]


def _seconds(recipe: Mapping[str, Any]) -> float:
    return SECONDS_PER_VARIANT * len(recipe["variants"]) * float(recipe["epochs"]) / 100


def beta_of(variant: str) -> float:
    """Return a variant's β, of a warm-up the one it ends with."""
    return float(variant.rpartition("→")[2])


def label(variant: str) -> str:
    """Return how a variant is called in tables and legends.

    Example:
        >>> label("0.1"), label("0.01→0.1")
        ('β = 0.1', 'warm-up, β = 0.01→0.1')
    """
    return f"{'warm-up, ' if '→' in variant else ''}β = {variant}"


def file_name(stem: str, variant: str) -> str:
    """Return a name for a file, without dots, which would look like an ending."""
    return f"{stem}-beta-{variant.replace('.', '_')}"


def present(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return the wanted variants that were trained: small scales have fewer."""
    return [variant for variant in wanted if variant in there]


def setup(config: Mapping[str, Any], inputs: int) -> dict[str, str]:
    """Return what was trained, in words."""
    layers = "-".join(str(width) for width in (inputs, *config["widths"], 10))
    end = "" if config["last_activation"] else ", no ReLU on the last features"
    return {
        "data": str(config["data"]),
        "network": f"fully connected {layers}{end}",
        "optimiser": f"SGD, momentum {config['momentum']:g}, learning rate {config['lr']:g}, "
        f"weight decay {config['weight_decay']:g}, batch {config['batch']}",
        "epochs": str(config["epochs"]),
        "variants": ", ".join(label(variant) for variant in config["variants"]),
    }
