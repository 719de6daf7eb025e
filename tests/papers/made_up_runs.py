"""Made-up experiments whose cells have all that cells can have, and ways to run them."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from softmargin._files import write_file
from softmargin.charts import Chart, Series
from softmargin.papers import core, ids
from softmargin.papers.core import Cell, Experiment, Finished, Result, Scope
from softmargin.papers.outcome import Entry, Outcome, ResultTable, Verdict
from softmargin.papers.plan import chosen_cells, with_scope
from softmargin.papers.run import conclude as write_results
from softmargin.papers.run import run_cells
from softmargin.papers.store import CellStore

DRAW = f"{__name__}:draw"
ID, OTHER_ID = "gd-tab99", "gd-tab98"


def draw(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    """Draw numbers in three steps, with a checkpoint after each."""
    kept = folder / "kept" / "numbers.txt"
    kept.parent.mkdir(exist_ok=True)
    lines = kept.read_text().split() if kept.exists() else []
    for step in range(len(lines), 3):
        lines.append(repr(float(np.random.default_rng([config["seed"], step]).normal())))
        write_file(kept, "\n".join(lines))
        progress((step + 1) / 3)
    values = [float(line) for line in lines]
    return Result({"mean": sum(values) / 3}, {"values": np.array(values)})


def cells(setting: Scope) -> list[Cell]:
    return [Cell(DRAW, {"seed": seed}, f"seed {seed}") for seed in setting.seeds]


def conclude(setting: Scope, finished: Finished) -> Outcome:
    values = [float(result.arrays["values"][-1]) for _, result in finished]
    means = [result.numbers["mean"] for _, result in finished]
    table = ResultTable("Draws", "", [Entry("all", "mean", means), Entry("all", "last", values)])
    # a run with other seeds has another figure
    chart = Chart(f"of-{len(values)}", "Draws", "line", "seed", "last", [_series(values)])
    return Outcome(Verdict("shown", remark="Some draws."), [table], [chart])


def _series(values: list[float]) -> Series:
    return Series("last", list(range(len(values))), values)


EXPERIMENT = Experiment(ID, "draws", "GD", "Table 99", "none", cells, conclude)
OTHER = replace(EXPERIMENT, id=OTHER_ID)  # of the same cells


def register(monkeypatch: pytest.MonkeyPatch, *experiments: Experiment) -> None:
    """Add a module of experiments to the registry."""
    module = SimpleNamespace(EXPERIMENTS=experiments)
    monkeypatch.setitem(sys.modules, "softmargin.papers.made_up", module)
    monkeypatch.setitem(ids.MODULES, "made_up", [each.id for each in experiments])


def add(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all commands know the experiments; drawing charts takes no time."""
    register(monkeypatch, EXPERIMENT, OTHER)
    monkeypatch.setattr("softmargin.papers.write.svg", lambda chart, beside: repr(chart))


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every cell take no time, so that equal runs write equal bytes."""
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr("softmargin.papers.store.time", clock)


def run(out: Path, *names: str, seeds: int | None = 2) -> None:
    """Run experiments at smoke scale and write their results."""
    wanted = with_scope(core.find_all(names), "smoke", seeds)
    cells = [cell for own in chosen_cells(wanted).values() for cell in own]
    assert run_cells(cells, CellStore(out)).failed == []
    assert write_results(wanted, out) == {}


def tree(out: Path) -> dict[str, bytes]:
    """Return all files of a folder with their contents, locks left out."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def fork(act: Callable[[], int | None]) -> int:
    """Start a copy of this process that acts and ends with what that returns; return its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        code = act() or 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Wait for a process; return its exit code, or the number of its signal below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
