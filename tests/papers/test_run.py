"""Cells: run once, kept whole, resumed after anything, failing alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmargin.papers import core
from softmargin.papers.core import Cell, Experiment, Result, Scope
from softmargin.papers.outcome import Outcome, Verdict
from softmargin.papers.plan import with_scope
from softmargin.papers.run import conclude, run_cells
from softmargin.papers.store import CellStore

SUM = f"{__name__}:slow_sum"


def slow_sum(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    """Add numbers with a checkpoint after each, and count in the folder's parent how often."""
    state = folder / "kept" / "state.json"
    state.parent.mkdir(exist_ok=True)
    total, done = json.loads(state.read_text()) if state.exists() else (0, 0)
    for number in range(done, config["count"]):
        time.sleep(config.get("pause", 0.0))
        total += number
        unfinished = state.with_suffix(".new")
        unfinished.write_text(json.dumps([total, number + 1]))
        unfinished.replace(state)
        with (folder.parent / "steps.txt").open("a") as file:
            file.write(f"{config['count']}:{number}\n")
        if os.environ.get("DIE_AFTER") == f"{config['count']}:{number}":
            os.kill(os.getpid(), signal.SIGKILL)
        progress((number + 1) / config["count"])
    if config.get("fail"):
        raise RuntimeError("it was asked to")
    if config.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    return Result({"total": total}, {"squares": np.arange(config["count"]) ** 2})


def cell(count: int, **more: Any) -> Cell:
    return Cell(SUM, {"count": count, **more}, f"sum of {count}", seconds=count)


def test_a_cell_is_run_once_and_read_back(tmp_path: Path) -> None:
    store, cells = CellStore(tmp_path), [cell(3), cell(5), cell(3)]
    first = run_cells(cells, store)
    assert (len(first.cells), first.skipped, first.failed) == (2, 0, [])
    assert [store.result(c).numbers["total"] for c in cells] == [3, 10, 3]
    np.testing.assert_array_equal(store.result(cell(5)).arrays["squares"], [0, 1, 4, 9, 16])
    steps = (tmp_path / ".cells" / "steps.txt").read_text()
    again = run_cells(cells, store)
    assert (again.skipped, again.waiting) == (2, [])
    assert (tmp_path / ".cells" / "steps.txt").read_text() == steps
    assert not (store.folder(cell(3)) / "kept").exists(), "checkpoints are removed"


def test_the_key_says_what_decides_the_numbers() -> None:
    assert cell(3).key == Cell(SUM, {"count": 3}, "another label", seconds=9).key
    assert len({cell(3).key, cell(4).key, Cell("other", {"count": 3}, "").key}) == 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_fails_is_recorded_and_the_rest_goes_on(tmp_path: Path, jobs: int) -> None:
    store = CellStore(tmp_path)
    tally = run_cells([cell(2, fail=True), cell(3)], store, jobs)
    assert [(c.label, why) for c, why in tally.failed] == [
        ("sum of 2", "RuntimeError: it was asked to")
    ]
    assert store.is_finished(cell(3))
    error = store.error(cell(2, fail=True))
    assert error is not None
    assert "it was asked to" in error


def test_a_process_that_dies_takes_no_other_cell_with_it(tmp_path: Path) -> None:
    store, deadly = CellStore(tmp_path), cell(1, die=True)
    tally = run_cells([deadly, *(cell(n) for n in range(2, 6))], store, jobs=2)
    assert tally.failed == [(deadly, "its process died twice")]
    assert [store.result(cell(n)).numbers["total"] for n in range(2, 6)] == [1, 3, 6, 10]


def test_progress_follows_the_work(tmp_path: Path) -> None:
    seen: list[tuple[float, float, str]] = []
    show = lambda *told: seen.append(told)  # noqa: E731
    run_cells([cell(4), cell(6)], CellStore(tmp_path), show=show)
    shares = [done / total for done, total, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert {total for _, total, _ in seen} == {10}
    assert {text for *_, text in seen} == {"sum of 4", "sum of 6", "working"}


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from softmargin.papers.core import Cell
from softmargin.papers.run import run_cells
from softmargin.papers.store import CellStore
cells = [Cell("test_run:slow_sum", {"count": n}, str(n), n) for n in (20, 15)]
run_cells(cells, CellStore(Path(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("last", ["20:0", "20:19", "15:4", "15:14"])
def test_killed_and_started_again_nothing_finished_is_run_again(tmp_path: Path, last: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(Path(__file__).parent)]
    steps = tmp_path / ".cells" / "steps.txt"
    killed = subprocess.run(command, env={**os.environ, "DIE_AFTER": last})
    assert killed.returncode == -signal.SIGKILL
    assert steps.read_text().splitlines()[-1] == last
    subprocess.run(command, check=True)
    everything = [f"{count}:{number}" for count in (20, 15) for number in range(count)]
    assert steps.read_text().splitlines() == everything, "no step is repeated or left out"
    store = CellStore(tmp_path)
    totals = [
        store.result(Cell("test_run:slow_sum", {"count": n}, "", 1)).numbers for n in (20, 15)
    ]
    assert totals == [{"total": 190}, {"total": 105}]


def experiment(**changes: Any) -> Experiment:
    def cells(scope: Scope) -> list[Cell]:
        return [cell(3 + seed) for seed in scope.seeds]

    def conclude_(scope: Scope, finished: Any) -> Outcome:
        return Outcome(Verdict("shown", remark=f"{len(finished)} cells at {scope.scale} scale."))

    options: dict[str, Any] = {"spread": True, **changes}
    return Experiment("gd-test", "a test", "GD", "Table 0", "none", cells, conclude_, **options)


def test_an_experiment_is_concluded_when_all_its_cells_are_finished(tmp_path: Path) -> None:
    wanted, told = with_scope([experiment()], "smoke"), list[str]()
    missing = conclude(wanted, tmp_path)
    assert missing == {"gd-test": (2, 2)}
    assert not (tmp_path / "gd-test").exists()
    run_cells(experiment().cells(wanted[0][1]), CellStore(tmp_path))
    missing = conclude(
        wanted,
        tmp_path,
        lambda e, outcome, folder: told.append(outcome.verdict.sentence),
    )
    assert (missing, told) == ({}, ["2 cells at smoke scale."])
    stored = json.loads((tmp_path / "gd-test" / "numbers.json").read_text())
    assert stored["scale"] == "smoke"
    with pytest.raises(ValueError, match="seeds must be at least 2"):
        with_scope([experiment()], "smoke", 1)
    with_scope([experiment(spread=False)], "smoke", 1)
