"""From ids to results: run the cells, conclude, write the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from softmargin.data.errors import DownloadError, MissingDataError
from softmargin.data.loading import obtain
from softmargin.data.registry import entry_of
from softmargin.experiments.experiment import Cell, Experiment, Setting
from softmargin.experiments.outcome import Outcome
from softmargin.experiments.running import Report, Tally, run_cells
from softmargin.experiments.statistics import require_spread
from softmargin.experiments.store import CellStore
from softmargin.experiments.write import write_index, write_result

Planned = Mapping[Experiment, Setting]
Told = Callable[[Experiment, Outcome, Path], None]


def plan(wanted: Sequence[Experiment], scale: str, seeds: int | None = None) -> dict[str, Setting]:
    """Return the setting of every experiment by id, after checks that need no time."""
    settings = {}
    for experiment in wanted:
        if experiment.spread and seeds is not None:
            require_spread(seeds)
        settings[experiment.id] = experiment.setting(scale, seeds if experiment.spread else None)
    return settings


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


def reproduce(
    wanted: Sequence[Experiment],
    settings: Mapping[str, Setting],
    out: Path,
    *,
    jobs: int = 1,
    report: Report | None = None,
    tell: Told | None = None,
) -> Tally:
    """Run what is not finished, then write the results of every experiment that is whole."""
    store = CellStore(out)
    cells = {each.id: list(each.cells(settings[each.id])) for each in wanted}
    tally = run_cells([cell for some in cells.values() for cell in some], store, jobs, report)
    for experiment in wanted:
        own = cells[experiment.id]
        if not all(store.is_finished(cell) for cell in own):
            continue
        setting = settings[experiment.id]
        outcome = experiment.conclude(setting, [(cell, store.result(cell)) for cell in own])
        folder = out / experiment.id
        seconds = sum(store.seconds(cell) for cell in own)
        write_result(experiment, setting, outcome, folder, {"seconds": f"{seconds:.0f}"})
        if tell is not None:
            tell(experiment, outcome, folder)
    write_index(out)
    return tally
