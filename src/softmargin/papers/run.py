"""Running experiments: their cells, one by one or several at a time, and then their results.

Cells at the same time run in processes of their own, each with one cell at a time, so that it is
known which cell a process had when it died. These end with the process that started them, however
that ends; ctrl-C is for that one to deal with.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from softmargin._files import UNFINISHED
from softmargin._warnings import plain_warnings
from softmargin.papers.core import SCALES, Cell, Experiment, Scope
from softmargin.papers.outcome import Outcome
from softmargin.papers.store import CellStore, is_full
from softmargin.papers.write import PAGE, read_results, write_index, write_result

A_MINUTE = 60.0
FAILED_STARTS = 3  # of processes, before starting them is given up
LOOK_EVERY = 0.5  # seconds between two looks at how far cells are
CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Ended:
    """How a cell ended.

    Attributes:
        error: what it failed with, if it did.
        full: number and text of the error, where the disk was full.
        files: of the cell, from a worker elsewhere that cannot write them itself.
    """

    error: str | None = None
    full: tuple[int, str] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass
class Tally:
    """How far a number of cells is; work is counted in estimated seconds.

    Attributes:
        cells: all of them.
        skipped: how many were finished before.
        shares: how far each of the others is, from 0 to 1, by key.
        failed: cells that failed, and why.
    """

    cells: Sequence[Cell]
    skipped: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @property
    def total(self) -> float:
        """The work to do."""
        return sum(cell.seconds for cell in self.cells if cell.key in self.shares)

    @property
    def done(self) -> float:
        """The work that is done."""
        return sum(cell.seconds * self.shares.get(cell.key, 0.0) for cell in self.cells)

    @property
    def remaining(self) -> float | None:
        """The seconds left, from the pace so far; None while that is a guess."""
        elapsed = time.monotonic() - self.started
        if self.done <= 0 or elapsed < 1:
            return None
        return elapsed * (self.total - self.done) / self.done

    @property
    def active(self) -> list[str]:
        """The labels of the cells that are being run."""
        return [c.label for c in self.cells if 0 < self.shares.get(c.key, 0.0) < 1]

    def end(self, cell: Cell, ended: Ended) -> None:
        """Note how a cell ended; a full disk is raised, since all others would fail, too."""
        if ended.full is not None:
            raise OSError(*ended.full)
        self.shares[cell.key] = 1.0
        if ended.error is not None:
            self.failed.append((cell, ended.error))


Report = Callable[[Tally], None]


def conclude(
    wanted: Sequence[Experiment],
    scopes: Mapping[str, Scope],
    out: Path,
    tell: Callable[[Experiment, Outcome, Path], None] | None = None,
) -> dict[str, tuple[int, int]]:
    """Write the results of every experiment whose cells are all finished.

    Args:
        wanted: the experiments.
        scopes: of each by id.
        out: the folder of all results.
        tell: told of every result that is written, and where.

    Returns:
        By id of an experiment that is not complete, how many cells are missing, and of how many.
    """
    store, missing = CellStore(out), {}
    for experiment in wanted:
        scope = scopes[experiment.id]
        cells = experiment.cells(scope)
        if lacking := sum(not store.is_finished(cell) for cell in cells):
            missing[experiment.id] = lacking, len(cells)
            continue
        outcome = experiment.conclude(scope, [(cell, store.result(cell)) for cell in cells])
        folder = out / experiment.id
        seconds = sum(store.seconds(cell) for cell in cells)
        with store.locked():
            _tidy(folder)
            write_result(experiment, scope, outcome, folder, {"seconds": f"{seconds:.0f}"})
        if tell is not None:
            tell(experiment, outcome, folder)
    with store.locked():
        _tidy(out, PAGE)
        write_index(out)
    return missing


def check_folder(out: Path, cells: Sequence[Cell] = ()) -> None:
    """Refuse a results folder that was damaged, or that another version has written."""
    read_results(out)
    store = CellStore(out)
    for cell in cells:
        store.check(cell)


def check_replaced(out: Path, scopes: Mapping[str, Scope]) -> None:
    """Refuse to replace results by those of a smaller scale, or of fewer seeds at the same one."""
    for meta, _ in read_results(out):
        there = Scope(meta["scale"], tuple(meta["seeds"]))
        wanted = scopes.get(meta["id"], there)
        if _size(wanted) < _size(there):
            raise ValueError(
                f"argument --out: {str(out / meta['id'])!r} has results of {there.scale} scale "
                f"with {len(there.seeds)} seeds, which --scale {wanted.scale} with "
                f"{len(wanted.seeds)} seeds would replace: name another folder, or add "
                "--replace-larger."
            )


def _size(scope: Scope) -> tuple[int, int]:
    return SCALES.index(scope.scale), len(scope.seeds)


def run_cells(
    cells: Sequence[Cell], store: CellStore, jobs: int = 1, report: Report | None = None
) -> Tally:
    """Run the cells that are not finished; one that fails does not stop the rest.

    A full disk does: it is raised, and the same call goes on once there is space.
    """
    tally, waiting = begin(cells, store)
    report = report or (lambda _: None)
    if jobs == 1 or len(waiting) < 2:
        _run_one_by_one(waiting, store, tally, report)
    else:
        _Pool(waiting, store, tally, jobs).run(report)
    return tally


def begin(cells: Sequence[Cell], store: CellStore) -> tuple[Tally, list[Cell]]:
    """Return the tally of all cells, and those to run: once each, the longest first."""
    unique = list({cell.key: cell for cell in cells}.values())
    waiting = []
    for cell in unique:
        if store.is_finished(cell):
            store.tidy(cell)
        else:
            waiting.append(cell)
    tally = Tally(unique, len(unique) - len(waiting), {cell.key: 0.0 for cell in waiting})
    return tally, sorted(waiting, key=lambda cell: -cell.seconds)  # short ones fill the end


def usual_jobs(cells: Sequence[Cell], store: CellStore) -> int:
    """Return one process per core where there is more than a minute of work, otherwise one."""
    tally, waiting = begin(cells, store)
    return max(1, min(torch.get_num_threads(), len(waiting))) if tally.total > A_MINUTE else 1


def attempt(store: CellStore, cell: Cell, report: Callable[[float], None] | None = None) -> Ended:
    """Run a cell, and return how it ended."""
    try:
        store.run(cell, report)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and is_full(error):
            return Ended(text, (error.errno or 0, os.strerror(error.errno or 0)))
        return Ended(text)
    return Ended()


def _run_one_by_one(cells: Sequence[Cell], store: CellStore, tally: Tally, report: Report) -> None:
    for cell in cells:

        def tell(share: float, key: str = cell.key) -> None:
            tally.shares[key] = max(share, 1e-6)
            report(tally)

        tell(0.0)
        tally.end(cell, attempt(store, cell, tell))
        report(tally)


class _Pool:
    """Cells in several processes; where one dies, only the cell that it had is tried again."""

    def __init__(self, cells: Sequence[Cell], store: CellStore, tally: Tally, jobs: int) -> None:
        self.waiting, self.store, self.tally = list(cells), store, tally
        self.size = min(jobs, len(cells))
        # the other processes have their cores: threads that fight are slower than one
        self.threads = max(1, torch.get_num_threads() // jobs)
        self.workers: list[_Worker] = []
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
        wanted = min(self.size, len(self.waiting) + sum(bool(w.cell) for w in self.workers))
        while len(self.workers) < wanted:
            self.workers.append(_Worker(self.store.root, self.threads))
        for worker in self.workers:
            if worker.is_ready and worker.cell is None and self.waiting:
                worker.give(self.waiting.pop(0))

    def _take(self, worker: _Worker) -> None:
        cell = worker.cell
        try:
            ended = worker.take()
        except EOFError:
            self.workers.remove(worker)
            worker.end()
            self._note_death(cell)
            return
        if cell is not None and ended is not None:
            self.tally.end(cell, ended)

    def _note_death(self, cell: Cell | None) -> None:
        if cell is None:  # the process died before it could run one
            self.failed_starts += 1
            if self.failed_starts == FAILED_STARTS:
                for each in self.waiting:
                    self.tally.end(each, Ended("no process could be started for it"))
                self.waiting.clear()
        elif self.store.is_finished(cell):
            self.tally.end(cell, Ended())
        elif cell.key not in self.died:
            self.died.add(cell.key)
            self.waiting.insert(0, cell)
        else:
            why = "its process died twice"
            self.store.keep_error(cell, why)
            self.tally.end(cell, Ended(why))


class _Worker:
    """A process that runs one cell at a time.

    Attributes:
        pipe: to the process; there is something to take where it is ready to be read.
        cell: what it is running, or None.
        is_ready: whether the process has started and waits for cells.
    """

    def __init__(self, root: Path, threads: int) -> None:
        """Start the process; it computes with so many threads."""
        self.cell: Cell | None = None
        self.is_ready = False
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(theirs, root, threads), daemon=True)
        with _interrupts_held_back():
            self.process.start()
        theirs.close()  # so that the pipe ends with the process

    def give(self, cell: Cell) -> None:
        """Let it run a cell."""
        self.cell = cell
        with suppress(OSError):  # it has died: whoever takes from the pipe learns of it
            self.pipe.send(cell)

    def take(self) -> Ended | None:
        """Return how its cell ended, or None where it has only just become ready.

        Raises:
            EOFError: where the process has died.
        """
        try:
            ended: Ended | None = self.pipe.recv()
        except OSError:
            raise EOFError from None
        self.is_ready = True
        if ended is not None:
            self.cell = None
        return ended

    def end(self) -> None:
        """End the process at once: the files it writes are whole or not there."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold ctrl-C back while a process starts, where the system can.

    Otherwise a process that does not ignore it yet would print where it was interrupted.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, root: Path, threads: int) -> None:
    """Run cells as they come, until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    store = CellStore(root)
    pipe.send(None)
    with plain_warnings():
        while True:
            pipe.send(attempt(store, pipe.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _tidy(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of a file have left; nobody else may be writing it."""
    for path in folder.glob(f".{name}.*{UNFINISHED}"):
        path.unlink(missing_ok=True)
