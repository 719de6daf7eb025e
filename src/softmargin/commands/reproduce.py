"""``softmargin reproduce``: every table and figure of the papers by its id."""

from __future__ import annotations

import argparse
import errno
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from softmargin._progress import duration
from softmargin.commands.common import (
    Command,
    UsageError,
    check_out,
    print_table,
    progress,
    require_lab,
    writing_to,
)
from softmargin.commands.reproduce_arguments import DESCRIPTION, declare
from softmargin.commands.reproduce_check import plan, verify
from softmargin.commands.reproduce_report import write_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from softmargin._progress import Progress
    from softmargin.papers.core import Cell, Experiment
    from softmargin.papers.outcome import Outcome
    from softmargin.papers.reproduce import Runner
    from softmargin.papers.running import Report, Tally
    from softmargin.papers.store import CellStore


def run(options: argparse.Namespace) -> int | None:
    """Run one action."""
    require_lab()
    if options.action in ("run", "status") and options.out is None:
        from softmargin.papers.core import usual_folder

        options.out = usual_folder(options.scale)
    if options.action == "verify":
        return verify(options)
    actions = {"list": _list, "plan": plan, "run": _run, "status": _status, "report": write_report}
    actions[options.action](options)
    return None


def _list(options: argparse.Namespace) -> None:
    from softmargin.papers.core import experiments

    rows = [("id", "paper", "what", "cells", "seeds", "about")]
    for experiment in experiments().values():
        setting = experiment.scope(options.scale)
        cells = experiment.cells(setting)
        seeds = str(len(setting.seeds)) if experiment.spread else "-"
        about = duration(sum(cell.seconds for cell in cells))
        where = f"{experiment.paper} {experiment.where}"
        rows.append((experiment.id, where, experiment.title, str(len(cells)), seeds, about))
    print_table(rows)


def _status(options: argparse.Namespace) -> None:
    from softmargin.papers import reproduce
    from softmargin.papers.core import experiments
    from softmargin.papers.store import CellStore

    store = CellStore(options.out)
    rows = [("id", "cells", "finished", "failed", "work done")]
    try:
        wanted = list(experiments().values())
        settings = reproduce.plan(wanted, options.scale)
        chosen = reproduce.chosen_cells(wanted, settings, _only(options))
        reproduce.check_folder(options.out, [cell for own in chosen.values() for cell in own])
    except ValueError as error:
        raise UsageError(str(error)) from None
    for name, cells in chosen.items():
        if not cells:
            continue
        finished = sum(store.is_finished(cell) for cell in cells)
        failed = sum(store.error(cell) is not None for cell in cells)
        work = sum(cell.seconds for cell in cells)
        done = sum(cell.seconds * store.progress(cell) for cell in cells)
        share = f"{100 * done / work:.0f} %"
        rows.append((name, str(len(cells)), str(finished), str(failed), share))
    print_table(rows)


def _run(options: argparse.Namespace) -> None:
    from softmargin._files import DamagedFileError
    from softmargin.data.errors import MissingDataError
    from softmargin.papers import reproduce
    from softmargin.papers.core import find_all
    from softmargin.papers.running import usual_jobs
    from softmargin.papers.store import CELLS, CellStore

    try:
        wanted = find_all(options.ids)
        settings = reproduce.plan(wanted, options.scale, options.seeds)
        only = _only(options)
        chosen = reproduce.chosen_cells(wanted, settings, only)
        cells = [cell for own in chosen.values() for cell in own]
        reproduce.check_folder(options.out, cells)
        if not options.replace_larger:
            reproduce.check_scale(options.out, settings)
        if options.ray in (None, "local"):  # elsewhere data and GPUs are the cluster's
            _check_needs(options, cells)
            reproduce.check_data(cells, options.scale)
    except (ValueError, MissingDataError) as error:
        raise UsageError(str(error)) from None
    check_out(options.out)
    if (cells_folder := options.out / CELLS).exists() and not cells_folder.is_dir():
        with writing_to(options.out):
            raise NotADirectoryError(errno.ENOTDIR, f"{CELLS} in it is a file")
    with writing_to(options.out), progress() as show:
        try:
            tally = reproduce.reproduce(
                wanted,
                settings,
                options.out,
                only=only,
                jobs=options.jobs or usual_jobs(cells, CellStore(options.out)),
                runner=_runner(options),
                report=partial(_show_tally, show),
                tell=_tell,
            )
        except DamagedFileError as error:
            raise UsageError(str(error)) from None
    _summarise(tally)


def _show_tally(show: Progress, tally: Tally) -> None:
    """Say how far a number of cells is."""
    active = ", ".join(tally.active[:2]) or "working"
    show(tally.done, tally.total, active, tally.remaining)


def _only(options: argparse.Namespace) -> dict[str, list[str]] | None:
    from softmargin.papers.selecting import parse_only

    return None if options.only is None else parse_only(options.only)


def _check_needs(options: argparse.Namespace, cells: Sequence[Cell]) -> None:
    """Say what paper scale would take where a GPU or data are missing, unless that is wanted."""
    from softmargin.papers.planning import would_take
    from softmargin.papers.store import CellStore

    if options.scale != "paper" or options.yes:
        return
    store = CellStore(options.out)
    to_do = {cell.key: cell for cell in cells if not store.is_finished(cell)}
    if to_do and (sentence := would_take(list(to_do.values()))):
        raise UsageError(sentence)


def _runner(options: argparse.Namespace) -> Runner | None:
    """Return what runs cells on a cluster, where one is asked for."""
    return None if options.ray is None else partial(_run_on_ray, options)


def _run_on_ray(
    options: argparse.Namespace, cells: Sequence[Cell], store: CellStore, report: Report | None
) -> Tally:
    from softmargin.papers.ray_running import run_on_ray

    try:
        return run_on_ray(cells, store, options.ray, options.jobs, report)
    except (ConnectionError, ImportError) as error:
        raise UsageError(str(error)) from None


def _summarise(tally: Tally) -> None:
    """Say what was skipped, what is missing and what failed."""
    if tally.skipped:
        print(f"{tally.skipped} of {len(tally.cells)} cells were finished before.")
    for cell, why in tally.failed:
        print(f"failed: {cell.label}: {why}", file=sys.stderr)
    for name, (missing, cells) in tally.missing.items():
        print(f"{name}: {missing} of its {cells} cells are missing, so that nothing is concluded.")
    if tally.failed:
        raise UsageError(
            f"{len(tally.failed)} of {len(tally.cells)} cells failed; run the same command again "
            "to try them again."
        )


def _tell(experiment: Experiment, outcome: Outcome, where: Path) -> None:
    verdict = outcome.verdict
    print(f"{experiment.id}: {verdict.word}. {verdict.sentence}\n  {where / 'README.md'}")


COMMAND = Command(
    "reproduce tables and figures of the papers, each by its id", DESCRIPTION, declare, run
)
