"""The demo's numbers: as a table, as JSON, and what they belong to."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import softmargin
from softmargin._table import print_paragraph, print_table
from softmargin.demo.run import NUM_IMAGES, STEERED, DemoSetting, Outcome

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Column:
    """One column of the table: a metric, and how it is written."""

    metric: str
    heading: str
    short: str
    percent: bool = True
    signed: bool = False

    def cell(self, values: Sequence[float]) -> str:
        """Return mean ± standard deviation over seeds; one seed has no deviation."""
        scaled = (100 if self.percent else 1) * np.asarray(values)
        form = ".1f" if self.percent else ".3f"
        mean = f"{scaled.mean():{'+' if self.signed else ''}{form}}".replace("-", "−")
        spread = f"{scaled.std(ddof=1):{form}}" if len(scaled) > 1 else "–"
        return f"{mean} ± {spread}{' %' if self.percent else ''}"


COLUMNS = (
    Column("accuracy", "test accuracy", "accuracy"),
    Column("ece", "ECE", "ECE"),
    Column("nll", "NLL", "NLL", percent=False),
    Column("confidence", "mean confidence", "confidence"),
    Column("gap", "confidence − accuracy", "conf − acc", signed=True),
)


def table_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return the table's rows: the configuration, then mean ± sd of every column."""
    return [
        [outcome.configuration.label, *(c.cell(outcome.values(c.metric)) for c in COLUMNS)]
        for outcome in outcomes
    ]


def describe(setting: DemoSetting) -> str:
    """Return data, network, optimiser, epochs and seeds in one line."""
    seeds = f"seed {setting.first_seed}"
    if setting.num_seeds > 1:
        seeds = f"seeds {setting.first_seed} to {setting.seeds[-1]}"
    return (
        f"scikit-learn digits, {setting.train_images} images to train, "
        f"{NUM_IMAGES - setting.train_images} to test; "
        f"network 64-{setting.hidden_units}-10 with ReLU; "
        f"SGD, learning rate {setting.learning_rate:g}, momentum {setting.momentum:g}, "
        f"batches of {setting.batch_size}; {setting.epochs} epochs; {seeds}"
    )


def describe_warm_up(setting: DemoSetting) -> str:
    """Return what the warm-up's row means."""
    return (
        f"{setting.warm_up.label} is a warm-up: β rises linearly over the first "
        f"{100 * setting.warm_up_share:g} % of the iterations, then stays "
        "(eq. 24 of the gradient decay paper)."
    )


def describe_held_out(setting: DemoSetting) -> str:
    """Return what the two rows mean that hold images out."""
    kept = setting.train_images - setting.held_out_images
    return (
        f"The last two rows train on {kept} of these images and calibrate by the other "
        f"{setting.held_out_images}: 1 + T divides the logits of β = 1 by the temperature that "
        f"suits them best, calibrated moves β during training ({STEERED}). All rows have the "
        "same images to learn from; these two spend some of them on calibration."
    )


def command(setting: DemoSetting) -> str:
    """Return the command that gives these numbers."""
    betas = ",".join(f"{beta!r}".removesuffix(".0") for beta in setting.betas)
    return (
        f"softmargin demo --betas {betas} --seed {setting.first_seed} --seeds {setting.num_seeds}"
    )


def versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    import sklearn

    return {
        "softmargin": softmargin.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def to_json(setting: DemoSetting, outcomes: Sequence[Outcome]) -> str:
    """Return all numbers as JSON; the same setting gives the same text."""
    content = {
        "command": command(setting),
        "versions": versions(),
        "setting": {**asdict(setting), "test_images": NUM_IMAGES - setting.train_images},
        "units": "shares from 0 to 1; nll and train_loss (plain cross-entropy) in nats",
        "configurations": [_as_dict(outcome) for outcome in outcomes],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    bins = outcome.pooled_bins()
    return {
        "label": outcome.configuration.label,
        **asdict(outcome.configuration),
        "summary": {
            metric: {
                "mean": float(np.mean(values := outcome.values(metric))),
                "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            }
            for metric in outcome.runs[0].metrics
        },
        "runs": [
            {
                "seed": run.seed,
                **run.metrics,
                "train_loss_by_epoch": run.train_loss,
                "train_accuracy_by_epoch": run.train_accuracy,
                "test_accuracy_by_epoch": run.test_accuracy,
            }
            for run in outcome.runs
        ],
        "bins_pooled_over_seeds": {
            "edges": bins.edges.tolist(),
            "counts": bins.counts.tolist(),
            "confidence": [None if x != x else x for x in bins.confidence.tolist()],
            "accuracy": [None if x != x else x for x in bins.accuracy.tolist()],
        },
        "gradients": _gradients_as_dict(outcome),
    }


def _gradients_as_dict(outcome: Outcome) -> dict[str, Any] | None:
    if not outcome.configuration.fixed:
        return None
    p, magnitude = shown_gradients(outcome)
    return {
        "measured": len(outcome.gradients()[0]),
        "largest_deviation_from_theory": outcome.largest_deviation(),
        "shown_p": p.tolist(),
        "shown_magnitude": magnitude.tolist(),
    }


def shown_gradients(outcome: Outcome, steps: int = 25) -> tuple[Floats, Floats]:
    """Return one measured gradient for each of ``steps`` equal intervals of p that has any."""
    p, magnitude = (each.numpy() for each in outcome.gradients())
    _, first = np.unique(np.minimum(p * steps, steps - 1).astype(int), return_index=True)
    return p[first], magnitude[first]


def show_results(setting: DemoSetting, outcomes: Sequence[Outcome]) -> None:
    """Print the setting, the table and what its rows and columns mean."""
    headings = ["β", *(column.short for column in COLUMNS)]
    print_paragraph(describe(setting) + ".")
    print()
    print_table([headings, *table_rows(outcomes)], right=headings[1:])
    print()
    seeds = f"{setting.num_seeds} seeds" if setting.num_seeds > 1 else "one seed (no sd)"
    print_paragraph(
        f"Mean ± sd over {seeds}, on the test images. ECE has 10 bins. conf − acc above 0 is "
        "over-confident, below 0 under-confident. NLL is in nats."
    )
    print_paragraph(describe_warm_up(setting))
    print_paragraph(describe_held_out(setting))
