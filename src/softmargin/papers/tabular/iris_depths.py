"""ag-fig2: how accuracy on Iris changes as layers are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Chart, Series
from softmargin.papers.core import Cell, Finished, Progress, Result, Scope
from softmargin.papers.findings import verdict
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable
from softmargin.papers.statistics import corrected_resampled_t_test, holm, summary
from softmargin.papers.tabular.arcgrad_table import PAPER_METHODS
from softmargin.papers.tabular.cross_validation import (
    METHODS,
    TRAINING,
    cross_validate,
    described,
    seconds_of,
    training,
)

Floats = NDArray[np.float64]
DEPTHS = {"smoke": (1, 4), "desk": tuple(range(1, 11)), "paper": tuple(range(1, 11))}
FOLDS = {"smoke": 3, "desk": 10, "paper": 10}
ROWS = 150
BASELINE = "Soft"
OURS = ("ArcGrad 30", "ArcGrad 5")
GUESSING = ("Soft", "ArcFace", "AdaCos")  # at the greatest depth, by the paper's words
PAPER_GUESS, NEAR_GUESS = 33.0, 40.0  # percent; one of three classes is 33.3


def train_depths(
    config: Mapping[str, Any], folder: Path, progress: Progress, *, threads: int | None = None
) -> Result:
    """Cross-validate all methods with networks of one depth; see :func:`cross_validate`."""
    return cross_validate(config, folder, progress, threads)


def cells(setting: Scope) -> Sequence[Cell]:
    """Return one cell per depth."""
    smoke = setting.scale == "smoke"
    methods = [dict(method) for method in METHODS if method["name"] in PAPER_METHODS]
    runs, folds = list(setting.seeds), FOLDS[setting.scale]
    found = []
    for depth in DEPTHS[setting.scale]:
        base = training(width=16, lr=0.01, epochs=5) if smoke else TRAINING
        shared = {**base, "model_options": {**base["model_options"], "depth": depth}}
        config = {
            "data": "iris" if smoke else "uci/iris",
            "without": [],
            "runs": runs,
            "folds": folds,
            "methods": methods,
            "training": shared,
        }
        seconds = seconds_of(ROWS, len(runs), folds, len(methods), shared)
        needs = () if smoke else ("uci/iris",)
        found.append(Cell("depths", config, f"Iris, depth {depth}", seconds, needs))
    return found


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Compare how much accuracy the methods lose with depth."""
    ordered = sorted(finished, key=lambda each: _depth(each[0]))
    depths = [_depth(cell) for cell, _ in ordered]
    methods = list(ordered[0][1].numbers["methods"])
    accuracy = 100 * np.stack([result.arrays["accuracy"] for _, result in ordered])
    runs, folds = accuracy.shape[2:]
    size = f"{setting.scale} scale, {runs} runs of {folds}-fold cross-validation"
    lost = lost_by_run(accuracy)
    tables = [
        accuracy_table(depths, methods, accuracy, size),
        ResultTable(
            f"Accuracy lost from the best depth to {depths[-1]} layers",
            "points",
            [Entry("lost", name, _plain(lost[m])) for m, name in enumerate(methods)],
            row_heading="",
            better="lower",
            note=f"{size}. Best depth by the mean over runs; ± is over runs.",
        ),
    ]
    found = verdict(setting.scale, findings(depths, methods, accuracy), NOT_GIVEN)
    setup = described(ordered[0][0])
    setup["network"] = f"{depths[0]} to {depths[-1]}" + setup["network"].removeprefix(
        f"{depths[0]}"
    )
    return Outcome(found, tables, [chart(depths, methods, accuracy, size)], NOTES, setup)


NOTES = (
    "Layers are counted with the head: with 1 the head sees the table itself.",
    "The paper's numbers for 10 layers are words, about 33 %, not a table.",
    "Weights are drawn as nn.Linear draws them, without a remedy for depth such as residual "
    "connections or normalisation.",
)


def lost_by_run(accuracy: Floats) -> Floats:
    """Return by (method, run) what is lost from the best depth to the greatest."""
    by_run = accuracy.mean(3)
    best = by_run.mean(2).argmax(0)
    return np.stack([by_run[place, m] - by_run[-1, m] for m, place in enumerate(best)])


def accuracy_table(
    depths: Sequence[int], methods: Sequence[str], accuracy: Floats, size: str
) -> ResultTable:
    """Return accuracy by depth and method, each method against plain softmax at the same depth."""
    baseline, share = methods.index(BASELINE), 1 / accuracy.shape[3]
    compared = {
        (d, m): corrected_resampled_t_test(accuracy[d, m] - accuracy[d, baseline], share)
        for d, m in np.ndindex(accuracy.shape[:2])
        if m != baseline
    }
    adjusted = dict(zip(compared, holm([each.p for each in compared.values()]), strict=True))
    entries = []
    for d, m in np.ndindex(accuracy.shape[:2]):
        in_words = depths[d] == 10 and methods[m] in GUESSING
        entries.append(
            Entry(
                f"{depths[d]}",
                methods[m],
                _plain(accuracy[d, m].mean(1)),
                paper=PAPER_GUESS if in_words else None,
                comparison=compared.get((d, m)),
                adjusted=float(adjusted[d, m]) if (d, m) in adjusted else None,
                baseline=(f"{depths[d]}", BASELINE) if (d, m) in compared else None,
            )
        )
    return ResultTable(
        "Accuracy on test rows by number of layers",
        "%",
        entries,
        row_heading="layers",
        better="higher",
        note=(
            f"{size}. ± is the standard deviation of the runs' means. Tests: against {BASELINE} "
            "of the same depth on the same folds, corrected resampled t-test, p-values after "
            f"Holm's correction over all {len(compared)} comparisons."
        ),
    )


def chart(depths: Sequence[int], methods: Sequence[str], accuracy: Floats, size: str) -> Chart:
    """Return accuracy against depth with intervals over runs."""
    series = []
    for m, name in enumerate(methods):
        found = [summary(row.mean(1)) for row in accuracy[:, m]]
        series.append(
            Series(
                name,
                [float(depth) for depth in depths],
                [each.mean for each in found],
                low=[each.mean if each.low is None else each.low for each in found],
                high=[each.mean if each.high is None else min(each.high, 100.0) for each in found],
            )
        )
    third = [100 / 3] * len(depths)
    series.append(Series("guessing", [float(d) for d in depths], third, dashed=True))
    return Chart(
        "accuracy-by-depth",
        "Accuracy on Iris by number of layers",
        "line",
        "layers with weights, the head among them",
        "accuracy on test rows (%)",
        series,
        note=f"{size}. Bands: 95 % intervals of the mean over runs, Student's t.",
    )


def findings(depths: Sequence[int], methods: Sequence[str], accuracy: Floats) -> list[Finding]:
    """Find whether each ArcGrad loses the least, and whether the named methods end up guessing."""
    lost = dict(zip(methods, lost_by_run(accuracy).mean(1), strict=True))
    at_end = dict(zip(methods, accuracy[-1].mean((1, 2)), strict=True))
    others = {name: value for name, value in lost.items() if name not in OURS}
    least = min(others, key=lambda name: others[name])
    found = [
        Finding(
            f"from its best depth to {depths[-1]} layers {name} loses {lost[name]:.1f} points, "
            f"{least}, the best of the others, {others[least]:.1f}",
            bool(lost[name] < others[least]),
        )
        for name in OURS
    ]
    ends = ", ".join(f"{name} {at_end[name]:.1f} %" for name in GUESSING)
    guessing = all(at_end[name] <= NEAR_GUESS for name in GUESSING)
    return [*found, Finding(f"at {depths[-1]} layers: {ends} (the paper: about 33 %)", guessing)]


NOT_GIVEN = (
    "What is lost depends on width, initial weights and epochs, which the paper does not give."
)


def _depth(cell: Cell) -> int:
    return int(cell.config["training"]["model_options"]["depth"])


def _plain(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
