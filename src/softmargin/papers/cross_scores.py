"""Scores of cross-validation by row and method, for ag-tab1, ag-fig1 and ag-fig2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from softmargin.papers.core import Cell, Finished, Scope
from softmargin.papers.findings import Floats
from softmargin.papers.outcome import Entry, ResultTable, rounded
from softmargin.papers.runs import Key
from softmargin.papers.statistics import corrected_resampled_t_test
from softmargin.papers.tables import adjusted

Paper = Mapping[str, Mapping[str, float]]
"""The paper's numbers by row, then by column."""
BASELINE = "Soft"


class Scores:
    """What cells of cross-validation gave, each of them a row of tables.

    Attributes:
        rows: their names.
        methods: names of the methods.
        results: of the cells.
        accuracy: in percent, (rows, methods, runs, folds).
        means: of it, (rows, methods), to the two decimals that are shown.
        folds: how many.
        size: scale, runs and folds in words.
    """

    def __init__(self, scope: Scope, finished: Finished, rows: Sequence[str]) -> None:
        """Gather the results of cells."""
        self.rows, self.results = rows, [result for _, result in finished]
        self.methods = list(self.results[0].numbers["methods"])
        self.accuracy = 100 * self.array("accuracy")
        self.means: Floats = self.accuracy.mean((2, 3)).round(2)
        *_, runs, self.folds = self.accuracy.shape
        self.size = f"{scope.scale} scale, {runs} runs of {self.folds}-fold cross-validation"

    def array(self, name: str) -> Floats:
        """Return an array of all cells, (rows, methods, ...)."""
        return np.stack([result.arrays[name] for result in self.results])

    def by_name(self, values: Floats, rows: Sequence[str] = ()) -> dict[Key, Floats]:
        """Return values by the names of row and method, where all of them are finite."""
        return {
            (row, method): values[r, m]
            for r, row in enumerate(rows or self.rows)
            for m, method in enumerate(self.methods)
            if np.isfinite(values[r, m]).all()
        }

    def compared(self, paper: Paper) -> list[Entry]:
        """Return accuracy by run, each method against the baseline of its row, fold by fold."""
        entries = entries_of(self.by_name(self.accuracy.mean(3)), paper)
        folds = self.by_name(self.accuracy)
        for place, entry in enumerate(entries):
            key, base = (entry.row, entry.column), (entry.row, BASELINE)
            if key != base and base in folds:
                test = corrected_resampled_t_test(folds[key] - folds[base], 1 / self.folds)
                entries[place] = replace(entry, comparison=test, baseline=base)
        return adjusted(entries)

    def table(
        self, title: str, row_heading: str, where: str, entries: Sequence[Entry]
    ) -> ResultTable:
        """Return a table of entries of which some are compared with the baseline."""
        count = sum(entry.comparison is not None for entry in entries)
        note = (
            f"{self.size}. ± is the standard deviation of the runs' means. Tests: each method "
            f"against {BASELINE} {where}, corrected resampled t-test, p-values after Holm's "
            f"correction over all {count} comparisons."
        )
        return ResultTable(title, "%", entries, 2, row_heading, "higher", note)


def entries_of(values: Mapping[Key, ArrayLike], paper: Paper | None = None) -> list[Entry]:
    """Return entries without a comparison."""
    beside = paper or {}
    return [
        Entry(row, column, rounded(np.atleast_1d(own)), beside.get(row, {}).get(column))
        for (row, column), own in values.items()
    ]


def network_of(training: Mapping[str, Any], layers: str = "") -> dict[str, str]:
    """Return in words what is trained, and how."""
    options = training["model_options"]
    layers, width = layers or f"{options['depth']}", options["width"]
    optimizer = {"adam": "Adam", "sgd": "SGD, momentum 0.9"}[training["optimizer"]]
    return {
        "network": f"{layers} layers with the head, {width} units each, ReLU",
        "optimiser": f"{optimizer}, learning rate {training['lr']:g}, constant; no weight decay",
    }


def described(cell: Cell, layers: str = "") -> dict[str, str]:
    """Return in words how the models of a cell were trained."""
    shared, runs, folds = (cell.config[name] for name in ("training", "runs", "folds"))
    return {
        **network_of(shared, layers),
        "training": f"{shared['epochs']} epochs in batches of {shared['batch']}, inputs z-scored "
        "by the training rows of each fold",
        "cross-validation": f"{len(runs)} runs of {folds} stratified folds; the run is the seed of "
        "the folds, run and fold are that of weights and order",
    }
