"""Running experiments: their cells, one by one or several at a time, and then their results.

Cells at the same time run in a process each; how a cell ended stands in the store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from softmargin._files import UNFINISHED
from softmargin._processes import leave_interrupts_to_parent, run_side_by_side
from softmargin._warnings import plain_warnings
from softmargin.papers.core import SCALES, Cell, Experiment, Scope
from softmargin.papers.outcome import Outcome
from softmargin.papers.provenance import of_results
from softmargin.papers.store import FULL, CellStore
from softmargin.papers.write import PAGE, read_results, write_index, write_result
from softmargin.training.folder import RunFolder

A_MINUTE = 60.0
Scoped = Sequence[tuple[Experiment, Scope]]
Show = Callable[[float, float, str], None]
"""Told how much is done, of how much, in estimated seconds, and what is being run."""


def quiet(done: float, total: float, text: str) -> None:
    """Show nothing."""


@dataclass
class Tally:
    """How far a number of cells is.

    Attributes:
        store: where their results go.
        cells: all of them, once each.
        waiting: those to run, the longest first, so that short ones fill the end.
        show: told how far they are.
        shares: how far each that has begun is, from 0 to 1, by key.
        failed: cells that failed, and why.
    """

    store: CellStore
    cells: Sequence[Cell]
    waiting: Sequence[Cell]
    show: Show
    shares: dict[str, float] = field(default_factory=dict)
    failed: list[tuple[Cell, str]] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        """How many were finished before."""
        return len(self.cells) - len(self.waiting)

    def note(self, cell: Cell, share: float) -> None:
        """Note how far a cell is that is being run, and show how far all are."""
        self.shares[cell.key] = share
        active = [each.label for each in self.waiting if self.shares.get(each.key, 1.0) < 1]
        done = sum(each.seconds * self.shares.get(each.key, 0.0) for each in self.waiting)
        total = sum(each.seconds for each in self.waiting)
        self.show(done, total, ", ".join(active[:2]) or "working")

    def end(self, cell: Cell) -> None:
        """Note how a cell ended, which its folder says."""
        if not self.store.is_finished(cell):
            told = (self.store.error(cell) or "it ended without a result").partition("\n")[0]
            self.failed.append((cell, told))
        self.note(cell, 1.0)


def begin(cells: Sequence[Cell], store: CellStore, show: Show) -> Tally:
    """Return the tally of cells; of those that are finished remove what is left over."""
    unique = list({cell.key: cell for cell in cells}.values())
    waiting = []
    for cell in unique:
        if store.is_finished(cell):
            store.tidy(cell)
        else:
            waiting.append(cell)
    return Tally(store, unique, sorted(waiting, key=lambda cell: -cell.seconds), show)


def run_cells(
    cells: Sequence[Cell], store: CellStore, jobs: int | None = None, show: Show = quiet
) -> Tally:
    """Run the cells that are not finished; one that fails does not stop the rest.

    A full disk does: it is raised, and the same call goes on once there is space.

    Args:
        cells: what to run.
        store: where results go.
        jobs: how many at a time, by default one per core where there is a minute of work or more.
        show: told how far the cells are.
    """
    tally = begin(cells, store, show)
    if jobs is None:
        much = sum(cell.seconds for cell in tally.waiting) > A_MINUTE
        jobs = torch.get_num_threads() if much else 1
    if jobs > 1 and len(tally.waiting) > 1:
        _run_side_by_side(tally, jobs)
        return tally
    for cell in tally.waiting:
        tally.note(cell, 0.0)
        store.run(cell, partial(tally.note, cell))
        tally.end(cell)
    return tally


def _run_side_by_side(tally: Tally, jobs: int) -> None:
    """Run cells in a process each; a cell whose process dies is tried once more."""
    # the other processes have their cores: threads that fight are slower than one
    threads = max(1, torch.get_num_threads() // jobs)
    died: set[int] = set()

    def look(number: int) -> None:
        cell = tally.waiting[number]
        tally.note(cell, tally.store.progress(cell))

    def ended(number: int, code: int) -> bool:
        cell = tally.waiting[number]
        if code in FULL:
            raise OSError(code, os.strerror(code))
        if code != 0 and not tally.store.is_finished(cell):
            if number not in died:
                died.add(number)
                return True
            tally.store.keep_error(cell, "its process died twice")
        tally.end(cell)
        return False

    given = [(tally.store.root, cell, threads) for cell in tally.waiting]
    run_side_by_side(_run_alone, given, jobs, preload=__name__, look=look, ended=ended)


def _run_alone(root: Path, cell: Cell, threads: int) -> None:
    """Run a cell in a process of its own; the exit code says where the disk is full."""
    leave_interrupts_to_parent()
    torch.set_num_threads(threads)
    try:
        with plain_warnings():
            CellStore(root).run(cell)
    except OSError as error:
        sys.exit(error.errno)


def conclude(
    wanted: Scoped, out: Path, tell: Callable[[str, Outcome, Path], None] | None = None
) -> dict[str, tuple[int, int]]:
    """Write the results of every experiment whose cells are all finished.

    Args:
        wanted: experiments with their scopes.
        out: the folder of all results.
        tell: told of every result that is written: its id, what it is, and where.

    Returns:
        By id of an experiment that is not complete, how many cells are missing, and of how many.
    """
    store, missing = CellStore(out), {}
    for experiment, scope in wanted:
        cells = experiment.cells(scope)
        if lacking := sum(not store.is_finished(cell) for cell in cells):
            missing[experiment.id] = lacking, len(cells)
            continue
        for cell in cells:
            store.tidy(cell)
        finished = [(cell, store.result(cell)) for cell in cells]
        try:
            outcome = experiment.conclude(scope, finished)
        except ValueError as error:  # no mistake of the user's, to whom others are told
            raise RuntimeError(f"{experiment.id} could not be concluded") from error
        folder = out / experiment.id
        seconds = sum(result.seconds for _, result in finished)
        with store.locked():
            RunFolder(folder).clean()
            facts, data = {"seconds": f"{seconds:.0f}"}, of_results(finished)
            write_result(experiment, scope, outcome, folder, facts, data)
        if tell is not None:
            tell(experiment.id, outcome, folder)
    with store.locked():
        for left in out.glob(f".{PAGE}.*{UNFINISHED}"):  # by killed writers
            left.unlink(missing_ok=True)
        write_index(out)
    return missing


def check_folder(out: Path, cells: Sequence[Cell] = ()) -> None:
    """Refuse a results folder that was damaged, or that another version has written."""
    read_results(out)
    store = CellStore(out)
    for cell in filter(store.is_finished, cells):
        store.result(cell)


def check_replaced(out: Path, wanted: Scoped) -> None:
    """Refuse to replace results by those of a smaller scale, or of fewer seeds at the same one.

    Smoke results are not written beside larger ones at all.
    """
    there = {meta["id"]: (meta["scale"], len(meta["seeds"])) for meta, _ in read_results(out)}
    for experiment, scope in wanted:
        if experiment.id not in there:
            continue
        scale, seeds = there[experiment.id]
        if (SCALES.index(scope.scale), len(scope.seeds)) < (SCALES.index(scale), seeds):
            raise ValueError(
                f"argument --out: {str(out / experiment.id)!r} has results of {scale} scale "
                f"with {seeds} seeds, which --scale {scope.scale} with {len(scope.seeds)} seeds "
                "would replace: name another folder, or add --replace-larger."
            )
    larger = sorted(name for name, (scale, _) in there.items() if scale != SCALES[0])
    if larger and any(scope.scale == SCALES[0] for _, scope in wanted):
        raise ValueError(
            f"argument --out: {str(out)!r} has results of a larger scale than {SCALES[0]}, such "
            f"as {larger[0]}: name another folder, or add --replace-larger."
        )
