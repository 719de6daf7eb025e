"""The page that ``softmargin train`` ends with: curves, reliability, and what to do next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmargin.calibration import CalibrationMetrics, TemperatureScaling
from softmargin.calibration.predictions import open_predictions
from softmargin.calibration.result import IN_PERCENT, CalibrationResult
from softmargin.charts.tones import BLUES, GREEN, INK
from softmargin.report import figures
from softmargin.report.calibration import shown, verdict
from softmargin.report.figures import (
    RELIABILITY,
    Style,
    house_style,
    new_figure,
    reliability_panel,
    to_svg,
)
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    Facts,
    FigureGroup,
    Page,
    Section,
    Table,
    render_page,
)
from softmargin.training.config import TrainingConfig
from softmargin.training.folder import HELD_OUT, PREDICTIONS, RunFolder

TEST, HELD = Style("test", INK), Style("held out", BLUES[0], line="--")
STILL_FALLING = 0.98  # of the NLL of some epochs before
LATER = 1.05  # times the lowest NLL: it has risen since


@dataclass(frozen=True)
class RunSummary:
    """A finished run: what it was, its epochs, and its test predictions scored.

    Attributes:
        path: the run's folder.
        config: its configuration.
        epochs: the metrics of every epoch.
        test: the scores of the test set, with 95 % intervals.
        scaled: the same after a temperature fitted on held-out rows, and that temperature.
    """

    path: Path
    config: TrainingConfig
    epochs: Sequence[dict[str, Any]]
    test: CalibrationResult
    scaled: tuple[CalibrationResult, float] | None


def read_run(path: Path) -> RunSummary:
    """Read a finished run from its folder."""
    folder = RunFolder(path)
    config = folder.config()
    assert config is not None
    logits, y = _predictions(path / PREDICTIONS)
    scaled = None
    if (path / HELD_OUT).exists():
        held, target = _predictions(path / HELD_OUT)
        scaling = TemperatureScaling().fit(held, target)
        scaled = _scored(scaling(logits), y), float(scaling.temperature)
    return RunSummary(path, config, folder.metrics(), _scored(logits, y), scaled)


def _predictions(path: Path) -> tuple[Tensor, Tensor]:
    stored = open_predictions(path)
    return torch.from_numpy(stored.values), torch.from_numpy(stored.labels)


def _scored(logits: Tensor, y: Tensor) -> CalibrationResult:
    metrics = CalibrationMetrics(logits.shape[1], from_logits=True, classwise=False)
    metrics.update(logits, y)
    return metrics.compute(confidence_level=0.95)


def next_steps(run: RunSummary) -> list[str]:
    """Return what the numbers suggest to do, in the order of what matters most."""
    losses = [epoch["nll"] for epoch in run.epochs]
    lowest = losses.index(min(losses))
    before = losses[max(0, len(losses) - 1 - len(losses) // 10 - 1)]
    steps = []
    if len(losses) > 1 and losses[-1] < STILL_FALLING * before:
        steps.append(f"The test NLL was still falling: train longer, --epochs {2 * len(losses)}.")
    elif losses[-1] > LATER * losses[lowest]:
        steps.append(
            f"The test NLL was lowest after epoch {lowest + 1}, {losses[lowest]:.4f}, and has "
            f"risen to {losses[-1]:.4f}: the network grows too sure of itself."
        )
    low, high = run.test.intervals["overconfidence"]
    steered = "beta" in run.epochs[-1]
    if low > 0:
        steps.append(
            "It is over-confident: try a larger β"
            + ("." if steered else ", or let it find its own, --schedule beta=calibrated.")
        )
    elif high < 0:
        steps.append("It is under-confident: try a smaller β, or train longer.")
    else:
        steps.append(
            f"On {run.test.samples} test predictions confidence and accuracy do not differ by more "
            "than chance: nothing needs to be done about calibration."
        )
    if run.scaled is not None:
        after, temperature = run.scaled
        steps.append(
            f"A temperature fitted on the held-out rows, T = {temperature:.3g}, takes the test NLL "
            f"from {run.test.nll:.4f} to {after.nll:.4f}."
        )
    elif low > 0 or high < 0:
        steps.append("With --held-out 0.1 this page shows what a temperature would give.")
    return steps


def run_page(run: RunSummary) -> str:
    """Return the report of a finished run as one HTML page."""
    predictions = shlex.quote(str(run.path / PREDICTIONS))
    options = {name: value for name, value in run.config.as_dict().items() if value}
    facts = [(name, json.dumps(value).strip('"')) for name, value in options.items()]
    numbers = json.dumps({"config": run.config.as_dict(), "epochs": list(run.epochs)}, indent=1)
    with house_style():
        sections = [
            Section("What was found", [Bullets([verdict(run.test), *next_steps(run)])]),
            Section("How training went", [_curves(run)]),
            Section("Confidence against accuracy", [_diagrams(run)]),
            Section("The numbers", [_table(run)]),
            Section("To look closer", [Code(f"softmargin calibrate {predictions}")]),
            Section("How this was made", [Facts(facts), Download("run.json", numbers)]),
        ]
    lead = (
        f"{len(run.epochs)} epochs of {run.config.model} on {run.config.data}, judged on "
        f"{run.test.samples} test samples."
    )
    return render_page(Page("What this run gave", lead, sections, [INK, *BLUES, GREEN]))


def _table(run: RunSummary) -> Table:
    columns = {"test": run.test}
    if run.scaled is not None:
        columns["test, after the temperature"] = run.scaled[0]
    rows = []
    for estimates in zip(*(result.estimates() for result in columns.values()), strict=True):
        percent = estimates[0].name in IN_PERCENT
        cells = [shown(each.value, each.low, each.high, percent) for each in estimates]
        rows.append([estimates[0].label, *cells])
    return Table("In brackets: 95 % intervals.", ["", *columns], rows)


def _curves(run: RunSummary) -> FigureGroup:
    panels = []
    for name, title, factor in (("accuracy", "accuracy, %", 100.0), ("nll", "NLL, nats", 1.0)):
        figure = new_figure(5.0, 3.4)
        axes = figure.add_subplot()
        for prefix, style in (("", TEST), ("held_out_", HELD)):
            if prefix + name in run.epochs[-1]:
                values = [factor * epoch[prefix + name] for epoch in run.epochs]
                figures.draw_curves(axes, style, [values])
        axes.set_xlim(1, max(2, len(run.epochs)))
        axes.set_title(title, loc="left")
        axes.legend()
        said = f"{title} after every epoch; at the end {factor * run.epochs[-1][name]:.4g}."
        panels.append(to_svg(figure, name, said, BLUES))
    if "beta" in run.epochs[-1]:
        figure = new_figure(5.0, 3.4)
        axes = figure.add_subplot()
        values = [epoch["beta"] for epoch in run.epochs]
        figures.draw_curves(axes, replace(TEST, label="β", tone=GREEN), [values])
        axes.set_xlim(1, max(2, len(run.epochs)))
        axes.set_yscale("log")
        axes.set_title("β", loc="left")
        panels.append(to_svg(figure, "beta", f"β, at the end {values[-1]:.4g}.", [GREEN]))
    return FigureGroup(panels, "After every epoch.", 330)


def _diagrams(run: RunSummary) -> FigureGroup:
    shown_results = [("as trained", run.test, INK)]
    if run.scaled is not None:
        result, temperature = run.scaled
        shown_results.append((f"T = {temperature:.3g}", result, BLUES[0]))
    panels = []
    for place, (title, result, tone) in enumerate(shown_results):
        error = f"ECE {100 * result.ece:.1f} %"
        panels.append(
            reliability_panel(
                f"reliability{place}",
                result.bins,
                tone,
                f"Reliability diagram, {title}: {error}.",
                title=title,
                error=error,
            )
        )
    return FigureGroup(panels, RELIABILITY, 300)
