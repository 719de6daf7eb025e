"""Committed cells: small files from which everything can be concluded again."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import made_up_cells
import made_up_runs
import numpy as np
import pytest

from softmargin.papers import compact
from softmargin.papers.core import Cell, Result, experiments
from softmargin.papers.outcome import plain
from softmargin.papers.run import run_cells
from softmargin.papers.store import CellStore

MOST = 20_000  # characters of a cell on average, so that 400 of them are 8 MB


def round_trip(cell: Cell, result: Result) -> tuple[Result, str]:
    text = compact.dumps(compact.packed(cell, result))
    return compact.unpacked(json.loads(text)), text


@pytest.mark.slow
def test_every_experiment_concludes_the_same_from_committed_cells() -> None:
    sizes: dict[str, int] = {}
    for experiment in experiments().values():
        scope = experiment.scope("desk")
        full, small = [], []
        for cell, result in made_up_cells.finished(experiment.cells(scope)):
            rounded = compact.rounded(cell, result)
            again, text = round_trip(cell, rounded)
            sizes[cell.key] = len(text)
            full.append((cell, rounded))
            small.append((cell, again))
        expected = experiment.conclude(scope, full).as_dict()
        assert experiment.conclude(scope, small).as_dict() == expected, experiment.id
    assert sum(sizes.values()) / len(sizes) < MOST


def test_numbers_and_arrays_come_back() -> None:
    cell = Cell("train", {"seed": 1}, "cell")
    numbers = {"a": [0.1234567891, math.inf, None], "b": {"c": 3, "name": "β = 1"}}
    arrays = {
        "curve": np.array([[1 / 3, np.nan], [1e-9, 60000.4]], dtype=np.float32),
        "counts": np.array([3, 70000], dtype=np.int32),
        "none": np.zeros((0, 2)),
        "test_logits": np.ones((1, 2, 3), dtype=np.float16),
        "traces": np.ones(3),
    }
    rounded = compact.rounded(cell, Result(numbers, arrays, 2.5, {"iris": {"classes": 3}}))
    assert rounded.arrays["test_logits"] is arrays["test_logits"]
    again, _ = round_trip(cell, rounded)
    assert plain(again.numbers) == {"a": [0.12345679, None, None], "b": {"c": 3, "name": "β = 1"}}
    assert set(again.arrays) == {"curve", "counts", "none"}
    for name, values in again.arrays.items():
        np.testing.assert_array_equal(values, rounded.arrays[name])
    np.testing.assert_array_equal(again.arrays["curve"], [[0.33333, np.nan], [1e-9, 60000]])
    assert (again.seconds, again.data) == (2.5, {"iris": {"classes": 3}})
    first = Cell("train", {"seed": 0}, "cell")
    assert "traces" in round_trip(first, compact.rounded(first, rounded))[0].arrays


def test_what_is_committed_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_runs.add(monkeypatch)
    made_up_runs.run(tmp_path, made_up_runs.ID, seeds=3)
    shutil.rmtree(tmp_path / ".cells")
    pages = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr("softmargin.papers.store.find_work", pytest.fail)
    made_up_runs.run(tmp_path, made_up_runs.ID, seeds=3)
    after = {path: path.read_bytes() for path in pages}
    assert after == pages


def test_a_cell_of_an_earlier_version_is_committed_when_it_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_runs.add(monkeypatch)
    store, (cell, *_) = CellStore(tmp_path), made_up_runs.cells(made_up_runs.Scope("desk", (0,)))
    run_cells([cell], store)
    written = store.committed(cell).read_bytes()
    store.committed(cell).unlink()
    left = tmp_path / "cells" / f".{cell.key}.json.x.unfinished"
    left.touch()
    assert run_cells([cell], store).skipped == 1
    assert store.committed(cell).read_bytes() == written
    assert not left.exists()
