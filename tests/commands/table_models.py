"""A small table, and what the tests of ``fit`` and ``predict`` ask of models."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from softmargin.cli import main

QUICK = ["--betas", "1,3", "--folds", "2", "--epochs", "4"]
HEADER = ["size", "weight", "colour", "id", "kind"]


def cells(rows=40):
    """Return a table as text, with categories, missing values and an id."""
    random = np.random.default_rng(0)
    table = [HEADER]
    for row in range(rows):
        kind = row % 2
        size = f"{random.normal(2.0 * kind):.3f}"
        weight = "" if row % 7 == 3 else f"{random.normal():.3f}"
        colour = ("red", "blue", "green", "")[int(random.integers(4))]
        table.append([size, weight, colour, f"n{row}", ("oak", "ash")[kind]])
    return table


def text_of(table, separator=","):
    return "".join(separator.join(line) + "\n" for line in table)


def weights(model):
    return (Path(model) / "weights.npz").read_bytes()


def refused(words, capsys, *said):
    """Check that a command is refused in one sentence, and that nothing is written."""
    before = sorted(str(path) for path in Path.cwd().rglob("*"))
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for each in said:
        assert each in error
    assert sorted(str(path) for path in Path.cwd().rglob("*")) == before


def fit_trees(folder):
    """Write a table to a folder, fit a model on it there, and return the folder."""
    (folder / "trees.csv").write_text(text_of(cells()))
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["fit", "trees.csv", "--target", "kind", *QUICK]) == 0
    finally:
        os.chdir(before)
    return folder
