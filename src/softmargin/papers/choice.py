"""How width, learning rate and epochs of ag-tab1 were chosen, which the paper leaves open.

``python -m softmargin.papers.choice`` does it again, in some minutes, and prints the
tables of ``docs/choices.md``. Only plain softmax is trained, on part of the training rows of the
first fold of every run, and scored on the rest of these: test rows of those folds are never
looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from torch import Tensor

from softmargin._table import markdown_table
from softmargin.data.sampling import stratified_folds
from softmargin.papers.cross_validation import configured, folds_of, read_table
from softmargin.papers.findings import Floats
from softmargin.papers.methods import SOFT
from softmargin.papers.statistics import average_ranks
from softmargin.papers.tabular import UCI_TABLES, WITHOUT, training
from softmargin.training import TrainingConfig
from softmargin.training.ensemble import Fold, train_together

RUNS = 10
FOLDS = 10
WIDEST = 32  # fixed beforehand: with 200 epochs more would not fit 20 minutes on two cores


class Grid(NamedTuple):
    """Settings of which all combinations are tried; epochs are multiples of the fewest."""

    widths: tuple[int, ...]
    rates: tuple[float, ...]
    epochs: tuple[int, ...]


GRID = Grid((16, 32, 64), (0.003, 0.01, 0.03), (50, 100, 200))
EDGE = Grid((32,), (0.001, 0.003), (25, 50, 100))  # what was chosen lies on the edge of the grid


class Candidate(NamedTuple):
    """A setting, and how plain softmax does with it on validation rows, over all tables."""

    width: int
    lr: float
    epochs: int
    rank: float  # average rank of its accuracy among all settings, 1 the best
    accuracy: float  # mean, in percent
    nll: float  # mean, in nats


COLUMNS = {
    "width": "",
    "learning rate": "",
    "epochs": "",
    "average rank": ".2f",
    "accuracy, %": ".2f",
    "NLL, nats": ".3f",
}
"""Headings of the tables, and how their numbers are written."""


def validation_fold(y: Tensor, run: int) -> Fold:
    """Return training and validation rows inside the training part of a run's first fold."""
    inside = folds_of(y, FOLDS, run)[0].train
    parts = stratified_folds(y[inside], FOLDS - 1, run)
    return Fold(inside[parts != 0], inside[parts == 0])


def scores_of(data: str, width: int, grid: Grid = GRID) -> Floats:
    """Return validation accuracy and NLL of one table by (rate, epochs, score), over the runs."""
    table = read_table(data, WITHOUT.get(data, ()))
    configs, folds = list[TrainingConfig](), list[Fold]()
    for run in range(RUNS):
        settings = [training(width, lr, max(grid.epochs)) for lr in grid.rates]
        configs += [configured(table.name, each, SOFT.training, run * FOLDS) for each in settings]
        folds += [validation_fold(table.whole.y, run)] * len(settings)
    step = min(grid.epochs)  # the rate is constant: fewer epochs are the beginning of more
    result = train_together(configs, folds=folds, dataset=table, evaluate_every=step)
    looks = [epochs // step - 1 for epochs in grid.epochs]
    found = [
        result.history(name).view(RUNS, len(grid.rates), -1).double().mean(0)[:, looks].numpy()
        for name in ("accuracy", "nll")
    ]
    return np.stack(found, -1)


def candidates(scores: Floats, grid: Grid = GRID) -> list[Candidate]:
    """Return all settings from scores by (table, width, rate, epochs, accuracy and NLL)."""
    flat = scores.reshape(len(scores), -1, 2)
    ranks = average_ranks((100 * flat[..., 0]).round(2))
    return [
        Candidate(*setting, float(rank), float(100 * accuracy), float(nll))
        for setting, rank, (accuracy, nll) in zip(product(*grid), ranks, flat.mean(0), strict=True)
    ]


def chosen(found: Sequence[Candidate]) -> Candidate:
    """Return the best average rank of those that are cheap enough; of equal ones the cheapest."""
    affordable = [each for each in found if each.width <= WIDEST]
    return min(affordable, key=lambda each: (round(each.rank, 2), each.width * each.epochs))


def table(found: Sequence[Candidate]) -> str:
    """Return the table in Markdown, best rank first."""
    best, rows = chosen(found), []
    for each in sorted(found, key=lambda each: each.rank):
        mark = "**" if each is best else ""
        cells = zip(each, COLUMNS.values(), strict=True)
        rows.append([f"{mark}{value:{digits}}{mark}" for value, digits in cells])
    return markdown_table(list(COLUMNS), rows, "r" * len(COLUMNS))


def main() -> None:
    """Train everything and print a table for each grid."""
    for grid in (GRID, EDGE):
        scores = []
        for name, data in UCI_TABLES.items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            scores.append(np.stack([scores_of(data, width, grid) for width in grid.widths]))
        print(table(candidates(np.stack(scores), grid)), flush=True)


if __name__ == "__main__":
    main()
