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
from softmargin.papers import registry, reproduce, work
from softmargin.papers.experiment import Cell, Experiment, Finished, Result, Setting
from softmargin.papers.outcome import Entry, Outcome, ResultTable, Verdict

DRAW = f"{__name__}:draw"
ID, OTHER_ID = "gd-tab99", "gd-tab98"


def draw(config: Mapping[str, Any], folder: Path, progress: work.Progress) -> Result:
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


def cells(setting: Setting) -> list[Cell]:
    return [Cell(DRAW, {"seed": seed}, f"seed {seed}") for seed in setting.seeds]


def conclude(setting: Setting, finished: Finished) -> Outcome:
    values = [float(result.arrays["values"][-1]) for _, result in finished]
    means = [result.numbers["mean"] for _, result in finished]
    table = ResultTable("Draws", "", [Entry("all", "mean", means), Entry("all", "last", values)])
    # a run with other seeds has another figure
    chart = Chart(f"of-{len(values)}", "Draws", "line", "seed", "last", [_series(values)])
    return Outcome(Verdict("shown", "Some draws."), [table], [chart])


def _series(values: list[float]) -> Series:
    return Series("last", list(range(len(values))), values)


EXPERIMENT = Experiment(ID, "draws", "GD", "Table 99", "none", cells, conclude)
OTHER = replace(EXPERIMENT, id=OTHER_ID)  # of the same cells


def add(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all commands know the experiments; drawing charts takes no time."""
    known = {**registry.experiments(), ID: EXPERIMENT, OTHER_ID: OTHER}
    for place in ("registry", "verifying"):
        monkeypatch.setattr(f"softmargin.papers.{place}.experiments", lambda: known)
    monkeypatch.setattr("softmargin.papers.report.experiments", lambda: known)
    monkeypatch.setattr("softmargin.papers.write.svg", lambda chart, beside: repr(chart))


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every cell take no time, so that equal runs write equal bytes."""
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr("softmargin.papers.store.time", clock)


def run(out: Path, *ids: str, seeds: int = 2) -> None:
    """Run experiments and write their results."""
    wanted = registry.find_all(ids)
    tally = reproduce.reproduce(wanted, reproduce.plan(wanted, "smoke", seeds), out)
    assert tally.failed == []


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
