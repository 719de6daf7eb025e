"""From ids to results: run the cells, conclude, write the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from softmargin._files import UNFINISHED
from softmargin.data.download import obtain
from softmargin.data.errors import DownloadError, MissingDataError
from softmargin.data.registry import entry_of
from softmargin.papers.core import SCALES, Cell, Experiment, Scope
from softmargin.papers.outcome import Outcome
from softmargin.papers.running import Report, Tally, run_cells
from softmargin.papers.selecting import Wanted, select
from softmargin.papers.statistics import require_spread
from softmargin.papers.store import CellStore
from softmargin.papers.write import (
    NUMBERS,
    PAGE,
    read_result,
    read_results,
    write_index,
    write_result,
)

Told = Callable[[Experiment, Outcome, Path], None]
Runner = Callable[[Sequence[Cell], CellStore, Report | None], Tally]


def plan(wanted: Sequence[Experiment], scale: str, seeds: int | None = None) -> dict[str, Scope]:
    """Return the setting of every experiment by id, after checks that need no time."""
    settings = {}
    for experiment in wanted:
        if experiment.spread and seeds is not None:
            require_spread(seeds)
        settings[experiment.id] = experiment.scope(scale, seeds if experiment.spread else None)
    return settings


def chosen_cells(
    wanted: Sequence[Experiment], settings: Mapping[str, Scope], only: Wanted | None = None
) -> dict[str, list[Cell]]:
    """Return the cells of every experiment by id, those that ``only`` leaves."""
    cells = {each.id: list(each.cells(settings[each.id])) for each in wanted}
    if not only:
        return cells
    kept = {cell.key for cell in select([cell for own in cells.values() for cell in own], only)}
    return {name: [cell for cell in own if cell.key in kept] for name, own in cells.items()}


def check_data(cells: Sequence[Cell], scale: str) -> None:
    """Find or download all data sets that cells need; say what to do where one is missing."""
    for name in sorted({name for cell in cells for name in cell.needs}):
        entry = entry_of(name)
        if entry.bundled is not None:
            continue
        try:
            obtain(entry)
        except (MissingDataError, DownloadError) as error:
            less = "" if scale == "smoke" else " With --scale smoke no data set is needed."
            raise MissingDataError(f"{error}{less}") from None


def check_folder(out: Path, cells: Sequence[Cell] = ()) -> None:
    """Refuse a results folder that was damaged, or that another version has written."""
    read_results(out)
    store = CellStore(out)
    for cell in cells:
        store.check(cell)


def check_scale(out: Path, settings: Mapping[str, Scope]) -> None:
    """Refuse to replace results by those of a smaller scale."""
    for name, setting in settings.items():
        if not (out / name / NUMBERS).exists():
            continue
        there = read_result(out / name)[0]["scale"]
        if there in SCALES and SCALES.index(setting.scale) < SCALES.index(there):
            raise ValueError(
                f"argument --out: {str(out / name)!r} has results of {there} scale, which "
                f"--scale {setting.scale} would replace: name another folder, or add "
                "--replace-larger."
            )


def reproduce(
    wanted: Sequence[Experiment],
    settings: Mapping[str, Scope],
    out: Path,
    *,
    only: Wanted | None = None,
    jobs: int = 1,
    runner: Runner | None = None,
    report: Report | None = None,
    tell: Told | None = None,
) -> Tally:
    """Run what is not finished, then write the results of every experiment that is whole.

    Args:
        wanted: the experiments.
        settings: of each by id.
        out: the folder of all results.
        only: which cells to run, by their configuration; by default all.
        jobs: how many cells at a time, in processes of their own.
        runner: runs cells in another way, such as on a cluster.
        report: told how far the cells are.
        tell: told of every result that is written.

    Returns:
        How the cells went; ``missing`` says of every experiment that is not whole how many cells
        are missing.
    """
    store = CellStore(out)
    chosen = chosen_cells(wanted, settings, only)
    runner = runner or partial(_run_here, jobs=jobs)
    tally = runner([cell for own in chosen.values() for cell in own], store, report)
    for experiment in wanted:
        setting = settings[experiment.id]
        own = list(experiment.cells(setting))
        if missing := sum(not store.is_finished(cell) for cell in own):
            tally.missing[experiment.id] = missing, len(own)
            continue
        outcome = experiment.conclude(setting, [(cell, store.result(cell)) for cell in own])
        folder = out / experiment.id
        seconds = sum(store.seconds(cell) for cell in own)
        with store.locked():
            tidy(folder)
            write_result(experiment, setting, outcome, folder, {"seconds": f"{seconds:.0f}"})
        if tell is not None:
            tell(experiment, outcome, folder)
    with store.locked():
        tidy(out, PAGE)
        write_index(out)
    return tally


def tidy(folder: Path, name: str = "*") -> None:
    """Remove what writers of a file that were killed have left; no other may be at work on it."""
    for path in folder.glob(f".{name}.*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def _run_here(
    cells: Sequence[Cell], store: CellStore, report: Report | None, jobs: int = 1
) -> Tally:
    return run_cells(cells, store, jobs, report)
