"""How width, learning rate and epochs of ag-tab1 were chosen, which the paper leaves open.

``python -m softmargin.papers.choice`` does it again, in some minutes, and prints the
tables of ``docs/choices.md``. Only plain softmax is trained, on part of the training rows of the
first fold of every run, and scored on the rest of these: test rows of those folds are never
looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from softmargin._table import markdown_table
from softmargin.data.sampling import stratified_folds
from softmargin.papers.cross_validation import configured, folds_of, read_table
from softmargin.papers.statistics import average_ranks
from softmargin.papers.tabular import METHODS, UCI_TABLES, UciTable, training
from softmargin.training.ensemble import Fold, train_together

RUNS = 10
FOLDS = 10
WIDEST = 32  # fixed beforehand: with 200 epochs more would not fit 20 minutes on two cores


@dataclass(frozen=True)
class Grid:
    """Settings of which all combinations are tried; epochs are multiples of the fewest."""

    widths: tuple[int, ...]
    rates: tuple[float, ...]
    epochs: tuple[int, ...]


GRID = Grid((16, 32, 64), (0.003, 0.01, 0.03), (50, 100, 200))
EDGE = Grid((32,), (0.001, 0.003), (25, 50, 100))  # what was chosen lies on the edge of the grid


@dataclass(frozen=True)
class Candidate:
    """A setting, and how plain softmax does with it on validation rows, over all tables.

    Attributes:
        width: units of each hidden layer.
        lr: learning rate of Adam.
        epochs: passes over the training rows.
        rank: average rank of its accuracy among all settings, 1 the best.
        accuracy: mean accuracy in percent.
        nll: mean NLL in nats.
    """

    width: int
    lr: float
    epochs: int
    rank: float
    accuracy: float
    nll: float

    @property
    def cost(self) -> int:
        """What training takes, up to a factor."""
        return self.width * self.epochs


def validation_fold(rows: UciTable, run: int) -> Fold:
    """Return training and validation rows inside the training part of a run's first fold."""
    y = read_table(rows.data, rows.without).whole.y
    inside = folds_of(y, FOLDS, run)[0].train
    parts = stratified_folds(y[inside], FOLDS - 1, run)
    return Fold(inside[parts != 0], inside[parts == 0])


def scores_of(rows: UciTable, width: int, grid: Grid = GRID) -> NDArray[np.float64]:
    """Return validation accuracy and NLL of one table by (rate, epochs, score), over the runs."""
    table = read_table(rows.data, rows.without)
    configs, folds = [], []
    for run in range(RUNS):
        fold = validation_fold(rows, run)
        for lr in grid.rates:
            shared = training(width, lr, max(grid.epochs))
            configs.append(configured(table.name, shared, METHODS[0], run * FOLDS))
            folds.append(fold)
    step = min(grid.epochs)  # the rate is constant: fewer epochs are the beginning of more
    result = train_together(configs, folds=folds, dataset=table, evaluate_every=step)
    looks = [epochs // step - 1 for epochs in grid.epochs]
    found = [
        result.history(name).view(RUNS, len(grid.rates), -1).double().mean(0)[:, looks].numpy()
        for name in ("accuracy", "nll")
    ]
    return np.stack(found, -1)


def candidates(scores: NDArray[np.float64], grid: Grid = GRID) -> list[Candidate]:
    """Return all settings from scores by (table, width, rate, epochs, accuracy and NLL)."""
    flat = scores.reshape(len(scores), -1, 2)
    ranks = average_ranks((100 * flat[..., 0]).round(2))
    means = flat.mean(0)
    settings = product(grid.widths, grid.rates, grid.epochs)
    return [
        Candidate(*setting, float(rank), float(100 * mean[0]), float(mean[1]))
        for setting, rank, mean in zip(settings, ranks, means, strict=True)
    ]


def chosen(found: Sequence[Candidate]) -> Candidate:
    """Return the best average rank of those that are cheap enough; of equal ones the cheapest."""
    affordable = [each for each in found if each.width <= WIDEST]
    return min(affordable, key=lambda each: (round(each.rank, 2), each.cost))


def table(found: Sequence[Candidate]) -> str:
    """Return the table in Markdown, best rank first."""
    headings = ["width", "learning rate", "epochs", "average rank", "accuracy, %", "NLL, nats"]
    best, rows = chosen(found), []
    for each in sorted(found, key=lambda each: each.rank):
        cells = (
            f"{each.width}",
            f"{each.lr}",
            f"{each.epochs}",
            f"{each.rank:.2f}",
            f"{each.accuracy:.2f}",
            f"{each.nll:.3f}",
        )
        mark = "**" if each is best else ""
        rows.append([f"{mark}{cell}{mark}" for cell in cells])
    return markdown_table(headings, rows, "r" * len(headings))


def main() -> None:
    """Train everything and print a table for each grid."""
    for grid in (GRID, EDGE):
        scores = []
        for rows in UCI_TABLES:
            print(f"{rows.name} ...", file=sys.stderr, flush=True)
            scores.append(np.stack([scores_of(rows, width, grid) for width in grid.widths]))
        print(table(candidates(np.stack(scores), grid)), flush=True)


if __name__ == "__main__":
    main()
