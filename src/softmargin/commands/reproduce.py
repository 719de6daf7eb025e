"""``softmargin reproduce``: every table and figure of the papers by its id."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmargin.commands.common import (
    Command,
    UsageError,
    count,
    folder,
    require_lab,
    writing_to,
)

if TYPE_CHECKING:
    from softmargin.experiments.experiment import Experiment
    from softmargin.experiments.outcome import Outcome
    from softmargin.experiments.running import Tally

DESCRIPTION = """\
Reproduce tables and figures of the papers. Every id has three scales: smoke (seconds, only
proves that the path works), desk (minutes on two cores, real data) and paper (the recipe as
printed). What is finished is kept in --out and never run again; the same command after an
interruption goes on where it was."""
ACTIONS = {
    "list": "show every id with its size and how long it takes",
    "run": "run ids and write their pages",
    "status": "show how far every id is",
}
SAY_EVERY = 30.0  # seconds, where there is no terminal to draw a bar on


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin reproduce``."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for action, summary in ACTIONS.items():
        sub = actions.add_parser(action, help=summary, description=f"{summary.capitalize()}.")
        if action == "run":
            sub.add_argument("ids", nargs="+", metavar="ID", help="such as gd-tab1, or all")
            sub.add_argument(
                "--seeds", type=count, metavar="N", help="how many seeds, instead of the usual"
            )
            sub.add_argument(
                "--jobs",
                type=count,
                default=1,
                metavar="N",
                help="cells at a time, each in its own process (default: %(default)s)",
            )
        sub.add_argument(
            "--scale",
            choices=("smoke", "desk", "paper"),
            default="desk",
            help="how large (default: %(default)s)",
        )
        if action != "list":
            sub.add_argument(
                "--out",
                type=folder,
                default=Path("results"),
                metavar="DIR",
                help="folder of all results (default: %(default)s)",
            )


def run(options: argparse.Namespace) -> None:
    """Run one action."""
    require_lab()
    {"list": _list, "run": _run, "status": _status}[options.action](options)


def _list(options: argparse.Namespace) -> None:
    from softmargin.experiments.registry import experiments

    rows = [("id", "paper", "what", "cells", "seeds", "about")]
    for experiment in experiments().values():
        setting = experiment.setting(options.scale)
        cells = experiment.cells(setting)
        seeds = str(len(setting.seeds)) if experiment.spread else "-"
        about = _duration(sum(cell.seconds for cell in cells))
        where = f"{experiment.paper} {experiment.where}"
        rows.append((experiment.id, where, experiment.title, str(len(cells)), seeds, about))
    _print(rows)


def _status(options: argparse.Namespace) -> None:
    from softmargin.experiments.registry import experiments
    from softmargin.experiments.store import CellStore

    store = CellStore(options.out)
    rows = [("id", "cells", "finished", "failed", "work done")]
    for experiment in experiments().values():
        cells = experiment.cells(experiment.setting(options.scale))
        finished = sum(store.is_finished(cell) for cell in cells)
        failed = sum(store.error(cell) is not None for cell in cells)
        work = sum(cell.seconds for cell in cells)
        done = sum(cell.seconds * store.progress(cell) for cell in cells)
        share = f"{100 * done / work:.0f} %"
        rows.append((experiment.id, str(len(cells)), str(finished), str(failed), share))
    _print(rows)


def _run(options: argparse.Namespace) -> None:
    from softmargin.data.errors import MissingDataError
    from softmargin.experiments import reproduce
    from softmargin.experiments.registry import experiments, find

    try:
        ids = list(experiments()) if options.ids == ["all"] else options.ids
        wanted = [find(name) for name in dict.fromkeys(ids)]
        settings = reproduce.plan(wanted, options.scale, options.seeds)
        cells = [cell for each in wanted for cell in each.cells(settings[each.id])]
        reproduce.check_data(cells, options.scale)
    except (ValueError, MissingDataError) as error:
        raise UsageError(str(error)) from None
    with writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
        with _progress() as report:
            tally = reproduce.reproduce(
                wanted, settings, options.out, jobs=options.jobs, report=report, tell=_tell
            )
    if tally.skipped:
        print(f"{tally.skipped} of {len(tally.cells)} cells were finished before.")
    for cell, why in tally.failed:
        print(f"failed: {cell.label}: {why}", file=sys.stderr)
    if tally.failed:
        raise UsageError(
            f"{len(tally.failed)} of {len(tally.cells)} cells failed; run the same command again "
            "to try them again."
        )


def _tell(experiment: Experiment, outcome: Outcome, where: Path) -> None:
    verdict = outcome.verdict
    print(f"{experiment.id}: {verdict.word}. {verdict.sentence}\n  {where / 'README.md'}")


@contextmanager
def _progress() -> Iterator[Any]:
    """Show progress and the time left: a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0, left="")

        def show(tally: Tally) -> None:
            active = ", ".join(tally.active[:2]) or "working"
            bar.update(
                task, total=tally.total, completed=tally.done, description=active, left=_left(tally)
            )

        yield show


class _Lines:
    """A line of progress every half minute, for logs."""

    def __init__(self) -> None:
        self.said = time.monotonic()

    def __call__(self, tally: Tally) -> None:
        if (now := time.monotonic()) - self.said < SAY_EVERY:
            return
        self.said = now
        share = 100 * tally.done / max(tally.total, 1e-9)
        print(f"{share:.0f} %, {_left(tally)}: {', '.join(tally.active[:2])}", file=sys.stderr)


def _left(tally: Tally) -> str:
    return "" if tally.remaining is None else f"about {_duration(tally.remaining)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


COMMAND = Command(
    "reproduce tables and figures of the papers, each by its id", DESCRIPTION, declare, run
)
