"""Running cells: one after the other here, or several at a time in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait

import torch

from softmargin.papers.core import Cell
from softmargin.papers.store import CellStore, is_full
from softmargin.papers.workers import Worker

A_MINUTE = 60.0
FAILED_STARTS = 3  # of processes, before starting them is given up
LOOK_EVERY = 0.5  # seconds: at how far cells are
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
        _SideBySide(open_cells, store, tally, jobs).run(report)
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
    for cell in unique:
        if store.is_finished(cell):
            store.tidy(cell)
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


class _SideBySide:
    """Cells in several processes; where one dies, only the cell that it was running was tried."""

    def __init__(self, cells: Sequence[Cell], store: CellStore, tally: Tally, jobs: int) -> None:
        self.waiting, self.store, self.tally = list(cells), store, tally
        self.slots = min(jobs, len(cells))
        # the other processes have their cores: threads that fight are slower than one
        self.threads = max(1, torch.get_num_threads() // jobs)
        self.workers: list[Worker] = []
        self.died: set[str] = set()  # keys of cells whose process has died once
        self.failed_starts = 0

    def run(self, report: Report) -> None:
        """Run all cells; whatever ends this ends the processes at once."""
        try:
            while self.waiting or any(worker.cell for worker in self.workers):
                self._start_and_give()
                for pipe in wait([worker.pipe for worker in self.workers], LOOK_EVERY):
                    self._take(next(each for each in self.workers if each.pipe is pipe))
                for worker in self.workers:
                    if worker.cell is not None:
                        self.tally.shares[worker.cell.key] = self.store.progress(worker.cell)
                report(self.tally)
        finally:
            for worker in self.workers:
                worker.end()

    def _start_and_give(self) -> None:
        wanted = min(self.slots, len(self.waiting) + sum(bool(w.cell) for w in self.workers))
        while len(self.workers) < wanted:
            self.workers.append(Worker(self.store.root, self.threads))
        for worker in self.workers:
            if worker.is_ready and worker.cell is None and self.waiting:
                worker.give(self.waiting.pop(0))

    def _take(self, worker: Worker) -> None:
        cell = worker.cell
        try:
            ended = worker.take()
        except EOFError:
            self.workers.remove(worker)
            worker.end()
            self._died(cell)
            return
        if cell is None or ended is None:
            return
        if ended.full is not None:
            raise OSError(*ended.full)
        self._done(cell, ended.error)

    def _died(self, cell: Cell | None) -> None:
        if cell is None:  # it has not come so far as to run one
            self.failed_starts += 1
            if self.failed_starts == FAILED_STARTS:
                for each in self.waiting:
                    self._done(each, "no process could be started for it")
                self.waiting.clear()
        elif self.store.is_finished(cell):
            self._done(cell)
        elif cell.key not in self.died:
            self.died.add(cell.key)
            self.waiting.insert(0, cell)
        else:
            why = "its process died twice"
            self.store.keep_error(cell, why)
            self._done(cell, why)

    def _done(self, cell: Cell, error: str | None = None) -> None:
        self.tally.shares[cell.key] = 1.0
        if error is not None:
            self.tally.failed.append((cell, error))
