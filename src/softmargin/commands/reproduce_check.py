"""``softmargin reproduce plan`` and ``verify``: before a run, and after it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from softmargin._progress import duration
from softmargin.commands.common import UsageError, print_table

if TYPE_CHECKING:
    from softmargin.papers.core import Cell, Experiment
    from softmargin.papers.planning import CellPlan
    from softmargin.papers.verifying import Checked

DIFFERS = 1


def plan(options: argparse.Namespace) -> None:
    """Print the cells of ids: what each trains, how many steps, how long."""
    from softmargin.papers import reproduce
    from softmargin.papers.core import find_all
    from softmargin.papers.selecting import parse_only

    try_out = options.scale == "paper" and not options.no_dry_run
    everything: dict[str, CellPlan] = {}
    try:
        wanted = find_all(options.ids)
        settings = reproduce.plan(wanted, options.scale, options.seeds)
        only = parse_only(options.only) if options.only is not None else None
        chosen = reproduce.chosen_cells(wanted, settings, only)
        for experiment in wanted:
            if cells := chosen[experiment.id]:
                plans = _plan_of(experiment, cells, options.scale, try_out)
                everything |= {cell.key: own for cell, own in zip(cells, plans, strict=True)}
    except ValueError as error:
        raise UsageError(str(error)) from None
    if len(wanted) > 1:
        print(f"\nin all {_size(list(everything.values()))}; cells that ids share are run once")


def _plan_of(
    experiment: Experiment, cells: Sequence[Cell], scale: str, try_out: bool
) -> list[CellPlan]:
    from softmargin.papers.planning import planned, tried_out

    plans = [(tried_out if try_out else planned)(cell) for cell in cells]
    print(f"{experiment.id} at {scale} scale: {_size(plans)}")
    rows = [("  cell", "trains", "parameters", "steps", "about")]
    for each in plans:
        parameters = "-" if each.parameters is None else f"{each.parameters:,}"
        time = f"{duration(each.seconds)}{' of a GPU' if each.gpu else ''}"
        rows.append((f"  {each.label}", each.what, parameters, f"{each.steps:,}", time))
    if all(row[2] == "-" for row in rows[1:]):
        rows = [(*row[:2], *row[3:]) for row in rows]  # type: ignore[misc]
    print_table(rows)
    return plans


def _size(plans: Sequence[CellPlan]) -> str:
    """Return how many cells and steps there are, and how long they take, in words."""
    on_gpu = [each for each in plans if each.gpu]
    others = [each for each in plans if not each.gpu]
    parts = [f"{len(plans):,} cell{'s' if len(plans) > 1 else ''}"]
    parts.append(f"{sum(each.steps * each.models for each in plans):,} steps of single networks")
    if others:
        parts.append(f"about {duration(sum(each.seconds for each in others))} on two cores")
    if on_gpu:
        parts.append(f"about {sum(each.seconds for each in on_gpu) / 3600:,.1f} GPU hours")
    return ", ".join(parts)


def verify(options: argparse.Namespace) -> int:
    """Check all results in a folder; print a line for each thing wrong, and return 1 if any is."""
    from softmargin.papers.verifying import verify as verified

    problems = 0
    try:
        for checked in verified(options.out, options.ids):
            problems += len(checked.problems)
            for problem in checked.problems:
                print(f"{checked.id}: {problem}")
            if not checked.problems and checked.id != "README.md":
                print(f"{checked.id}: {_how(checked)}")
    except ValueError as error:
        raise UsageError(str(error)) from None
    return DIFFERS if problems else 0


def _how(checked: Checked) -> str:
    if not checked.cells:
        return "numbers and page agree; its cells are not here"
    cells = f"{checked.cells} cell{'s' if checked.cells > 1 else ''}"
    scores = f", {checked.scores} scores from stored logits" if checked.scores else ""
    return f"the same again from {cells}{scores}"
