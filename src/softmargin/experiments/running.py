"""Running cells: one after the other here, or several at a time in processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import torch

from softmargin.experiments.experiment import Cell
from softmargin.experiments.store import CellStore, is_full

A_MINUTE = 60.0
Report = Callable[["Tally"], None]


@dataclass
class Tally:
    """How far a number of cells is; work is counted in estimated seconds.

    Attributes:
        cells: all of them.
        skipped: those that were finished before.
        shares: how far each of the others is, from 0 to 1.
        failed: labels and errors of those that failed.
        missing: by id of an experiment that is not whole, how many cells of how many are missing.
    """

    cells: Sequence[Cell]
    skipped: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    missing: dict[str, tuple[int, int]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def total(self) -> float:
        """The work that there is to do."""
        return sum(cell.seconds for cell in self.cells if cell.key in self.shares)

    @property
    def done(self) -> float:
        """The work that is done."""
        return sum(
            cell.seconds * self.shares[cell.key] for cell in self.cells if cell.key in self.shares
        )

    @property
    def remaining(self) -> float | None:
        """The seconds that are left, from the pace so far; None while that is a guess."""
        elapsed = time.monotonic() - self.started
        if self.done <= 0 or elapsed < 1:
            return None
        return elapsed * (self.total - self.done) / self.done

    @property
    def active(self) -> list[str]:
        """The labels of the cells that have begun and not ended."""
        return [c.label for c in self.cells if 0 < self.shares.get(c.key, 0.0) < 1]


def run_cells(
    cells: Sequence[Cell], store: CellStore, jobs: int = 1, report: Report | None = None
) -> Tally:
    """Run the cells that are not finished; one that fails does not stop the rest.

    A full disk does, since it would fail them all: it is raised, and the same call goes on later.
    """
    tally, open_cells = begin(cells, store)
    report = report or (lambda _: None)
    if jobs == 1 or len(open_cells) < 2:
        _one_by_one(open_cells, store, tally, report)
    else:
        _side_by_side(open_cells, store, tally, report, jobs)
    return tally


def usual_jobs(cells: Sequence[Cell], store: CellStore) -> int:
    """Return one process per core where there is more than a minute of work, otherwise one."""
    _, open_cells = begin(cells, store)
    work = sum(cell.seconds for cell in open_cells)
    return max(1, min(torch.get_num_threads(), len(open_cells))) if work > A_MINUTE else 1


def begin(cells: Sequence[Cell], store: CellStore) -> tuple[Tally, list[Cell]]:
    """Return the tally of all cells, and those to run: once each, the longest first."""
    unique = list({cell.key: cell for cell in cells}.values())
    open_cells = [cell for cell in unique if not store.is_finished(cell)]
    tally = Tally(unique, len(unique) - len(open_cells))
    tally.shares = {cell.key: 0.0 for cell in open_cells}
    # the last ones to end are then short
    open_cells.sort(key=lambda cell: -cell.seconds)
    return tally, open_cells


def _one_by_one(cells: Sequence[Cell], store: CellStore, tally: Tally, report: Report) -> None:
    for cell in cells:

        def tell(share: float, key: str = cell.key) -> None:
            tally.shares[key] = max(share, 1e-6)
            report(tally)

        tell(0.0)
        try:
            store.run(cell, tell)
        except Exception as error:
            if is_full(error):
                raise
            tally.failed.append((cell, f"{type(error).__name__}: {error}"))
        tell(1.0)


def _side_by_side(
    cells: Sequence[Cell], store: CellStore, tally: Tally, report: Report, jobs: int
) -> None:
    waiting = list(cells)
    while waiting:
        waiting = _with_pool(waiting, store, tally, report, jobs)


def _with_pool(
    cells: Sequence[Cell], store: CellStore, tally: Tally, report: Report, jobs: int
) -> list[Cell]:
    """Run cells in a pool of processes; return those to try again after a process has died."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _share_cores, (jobs,)) as pool:
        running: dict[Future[None], Cell] = {
            pool.submit(_run, store.root, cell): cell for cell in cells
        }
        lost = []
        while running:
            done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    lost.append(cell)
                    continue
                if error is not None and is_full(error):
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise error
                if error is not None:
                    tally.failed.append((cell, f"{type(error).__name__}: {error}"))
                tally.shares[cell.key] = 1.0
            for cell in running.values():
                tally.shares[cell.key] = store.progress(cell)
            report(tally)
    return _worth_retrying(lost, store, tally)


def _worth_retrying(lost: Sequence[Cell], store: CellStore, tally: Tally) -> list[Cell]:
    """Return cells whose process died, once; nobody knows which of them killed it."""
    again = []
    for cell in lost:
        folder = store.folder(cell)
        mark = folder.path / "died"
        if mark.exists():
            tally.failed.append((cell, "its process died twice"))
            tally.shares[cell.key] = 1.0
        else:
            folder.path.mkdir(parents=True, exist_ok=True)
            mark.touch()
            again.append(cell)
    return again


def _share_cores(jobs: int) -> None:
    """Leave the other processes their cores: threads that fight are slower than one."""
    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))


def _run(root: Path, cell: Cell) -> None:
    CellStore(root).run(cell)
