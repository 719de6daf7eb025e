"""ag-tab1: fifteen UCI tables, seven methods of the ArcGrad paper and three of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from softmargin.papers.core import Cell, Experiment, Progress, Result, Scope
from softmargin.papers.tabular.arcgrad_table import PAPER_TABLE, PaperRow
from softmargin.papers.tabular.cross_validation import (
    METHODS,
    TRAINING,
    cross_validate,
    seconds_of,
    training,
)
from softmargin.papers.tabular.uci_outcome import conclude

FOLDS = {"smoke": 3, "desk": 10, "paper": 10}
SMOKE_TRAINING = training(width=16, lr=0.01, epochs=5)
BUNDLED = "iris"


def train_table(
    config: Mapping[str, Any], folder: Path, progress: Progress, *, threads: int | None = None
) -> Result:
    """Cross-validate all methods on one table; see :func:`cross_validate`."""
    return cross_validate(config, folder, progress, threads)


def cells(setting: Scope) -> Sequence[Cell]:
    """Return one cell per table; at the smoke scale, Iris as scikit-learn brings it."""
    if setting.scale == "smoke":
        (iris,) = (row for row in PAPER_TABLE if row.name == "Iris")
        return [_cell(setting, iris, BUNDLED, SMOKE_TRAINING)]
    return [_cell(setting, row, row.data, TRAINING) for row in PAPER_TABLE]


def _cell(setting: Scope, row: PaperRow, data: str, shared: Mapping[str, Any]) -> Cell:
    runs, folds = list(setting.seeds), FOLDS[setting.scale]
    methods = [dict(method) for method in METHODS]
    return Cell(
        work="table",
        config={
            "data": data,
            "without": list(row.without),
            "runs": runs,
            "folds": folds,
            "methods": methods,
            "training": dict(shared),
        },
        label=row.name,
        seconds=seconds_of(row.rows, len(runs), folds, len(methods), shared),
        needs=() if data == BUNDLED else (data,),
    )


EXPERIMENTS = (
    Experiment(
        id="ag-tab1",
        title="Accuracy on 15 UCI tables by repeated cross-validation",
        paper="AG",
        where="Table I",
        claim=(
            "Of seven methods on 15 small tables, ArcGrad with s = 5 has the highest average "
            "accuracy and is the best on the largest number of tables."
        ),
        cells=cells,
        conclude=conclude,
        seeds={"smoke": 2, "desk": 10, "paper": 10},
        deviations={
            "smoke": "Iris alone, 2 runs of 3 folds, 5 epochs: only proves that the path works.",
            "desk": (
                "The paper's size. Width, optimiser, learning rate, batch and epochs are not in "
                "the paper: they were chosen once on validation rows by plain softmax, the same "
                "for all methods and tables (docs/choices.md). Parameters of ArcFace, Center and "
                "M-Soft are those the paper gives for CIFAR."
            ),
            "paper": "As desk.",
        },
    ),
)
