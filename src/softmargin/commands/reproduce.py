"""``softmargin reproduce``: every table and figure of the papers by its id."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmargin._progress import duration
from softmargin.commands.common import (
    Command,
    UsageError,
    check_out,
    count,
    file,
    folder,
    print_table,
    progress,
    quoted,
    require_lab,
    writing_to,
)

if TYPE_CHECKING:
    from softmargin.papers.core import Cell, Experiment, Scope
    from softmargin.papers.outcome import Outcome
    from softmargin.papers.plan import CellPlan
    from softmargin.papers.run import Tally

DESCRIPTION = """\
Reproduce tables and figures of the papers. Every id has three scales: smoke (seconds, only
proves that the path works), desk (minutes on two cores, real data) and paper (the recipe as
printed). What is finished is kept in --out and never run again; the same command after an
interruption goes on where it was."""
DIFFERS = 1
REPORT = "index.html"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and arguments of ``softmargin reproduce``."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    subs = {}
    for name, (summary, _) in ACTIONS.items():
        described = f"{summary[0].upper()}{summary[1:]}."
        sub = actions.add_parser(name, help=summary, description=described, allow_abbrev=False)
        sub.set_defaults(resumes=name == "run")
        subs[name] = sub

    def add(where: str, name: str, text: str, **options: Any) -> None:
        for action in where.split():
            subs[action].add_argument(name, help=text, **options)

    usual = "(default: %(default)s)"
    add("plan run", "ids", "such as gd-tab1, or all", metavar="ID", nargs="+")
    add("compare", "folder", "results of your own", type=folder, metavar="FOLDER")
    add("verify", "ids", "such as gd-tab1 (default: all)", metavar="ID", nargs="*")
    add("plan run", "--seeds", "how many seeds, instead of the usual", type=count, metavar="N")
    only = 'only cells with these values, such as "beta=0.1,model=resnet18"'
    add("plan run status", "--only", only, type=only_pairs, metavar="KEY=VALUE,...")
    jobs = (
        "cells at a time, each in its own process (default: one per core where it takes minutes; "
        "on Ray, as many as the cluster takes)"
    )
    add("run", "--jobs", jobs, type=count, metavar="N")
    ray = "run cells on the Ray cluster at host:port or ray://host:port, or on one started here "
    add("run", "--ray", f"{ray}(local)", metavar="ADDRESS")
    yes = "run paper scale even without a GPU, and fetch the data it needs"
    add("run", "--yes", yes, action="store_true")
    no_dry_run = "at paper scale, only list: build and run nothing"
    add("plan", "--no-dry-run", no_dry_run, action="store_true")
    scales = ("smoke", "desk", "paper")
    add("list plan run status", "--scale", f"how large {usual}", choices=scales, default="desk")
    larger = (
        "write results even where --out has those of a larger scale or more seeds, which are lost"
    )
    add("run", "--replace-larger", larger, action="store_true")
    out = "folder of all results (default: results, and results-smoke at smoke scale)"
    add("run status", "--out", out, type=folder, metavar="DIR")
    out, here = f"folder of all results {usual}", Path("results")
    add("report verify compare pages", "--out", out, type=folder, default=here, metavar="DIR")
    claims = "also write the page of all claims and verdicts to this file"
    add("pages", "--claims", claims, type=file, metavar="FILE")
    add("pages", "--figures", "also draw the figures again", action="store_true")


def only_pairs(text: str) -> dict[str, list[str]]:
    """Read pairs of key and value; a key that comes twice may have either value.

    Example:
        >>> only_pairs("beta=0.1, model=resnet18, beta=1")
        {'beta': ['0.1', '1'], 'model': ['resnet18']}
    """
    wanted: dict[str, list[str]] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if not (key and value):
            raise argparse.ArgumentTypeError(
                f'must be pairs such as "beta=0.1,model=resnet18", but got {quoted(text)}.'
            )
        wanted.setdefault(key, []).append(value)
    return wanted


def run(options: argparse.Namespace) -> int | None:
    """Run one action; what is typed wrong is answered before anything slow is imported."""
    if options.action in ("plan", "run"):
        from softmargin.papers.ids import check_id

        with _told_in_a_sentence():
            for name in options.ids:
                check_id(name)
    elif options.action in ("report", "verify", "compare", "pages"):
        _check_results(options)
    require_lab()
    if options.action in ("run", "status") and options.out is None:
        from softmargin.papers.core import usual_folder

        options.out = usual_folder(options.scale)
    with _told_in_a_sentence():
        return ACTIONS[options.action][1](options)


@contextmanager
def _told_in_a_sentence() -> Iterator[None]:
    """Turn what the user can put right into one sentence."""
    from softmargin.data.errors import MissingDataError

    try:
        yield
    except (ValueError, MissingDataError, ConnectionError, ImportError) as error:
        raise UsageError(str(error)) from None


def _check_results(options: argparse.Namespace) -> None:
    """Refuse a folder without results, or without those of the ids, and a file without a folder."""
    folders = {"--out": options.out}
    if options.action == "compare":
        folders["FOLDER"] = options.folder
    for argument, where in folders.items():
        if not any(where.glob("*/numbers.json")):
            raise UsageError(
                f"argument {argument}: must be a folder with results, as softmargin reproduce run "
                f"writes them, but {quoted(str(where))} has none."
            )
    there = sorted(path.parent.name for path in options.out.glob("*/numbers.json"))
    for name in getattr(options, "ids", ()):
        if name not in there:
            raise UsageError(
                f"argument ID: must be one that {quoted(str(options.out))} has results of, such as "
                f"{', '.join(there[:8])}, but got {quoted(name)}."
            )
    claims = getattr(options, "claims", None)
    if claims is not None and (claims.is_dir() or not claims.parent.is_dir()):
        raise UsageError(
            "argument --claims: must be a file in a folder that exists, but got "
            f"{quoted(str(claims))}."
        )


def _list(options: argparse.Namespace) -> None:
    from softmargin.papers.core import experiments

    rows = [("id", "paper", "what", "cells", "seeds", "about")]
    for experiment in experiments().values():
        scope = experiment.scope(options.scale)
        cells = experiment.cells(scope)
        seeds = str(len(scope.seeds)) if experiment.spread else "-"
        about = duration(sum(cell.seconds for cell in cells))
        where = f"{experiment.paper} {experiment.where}"
        rows.append((experiment.id, where, experiment.title, str(len(cells)), seeds, about))
    print_table(rows)


def _chosen(
    options: argparse.Namespace, ids: Sequence[str]
) -> tuple[list[tuple[Experiment, Scope]], dict[str, list[Cell]]]:
    """Return experiments with their scopes, and by id their cells, as the options say."""
    from softmargin.papers.core import find_all
    from softmargin.papers.plan import chosen_cells, with_scope

    wanted = with_scope(find_all(ids), options.scale, getattr(options, "seeds", None))
    return wanted, chosen_cells(wanted, options.only)


def _status(options: argparse.Namespace) -> None:
    from softmargin.papers.run import check_folder
    from softmargin.papers.store import CellStore
    from softmargin.papers.write import read_results

    store = CellStore(options.out)
    rows = [("id", "cells", "finished", "failed", "work done", "result")]
    _, chosen = _chosen(options, ["all"])
    check_folder(options.out, [cell for own in chosen.values() for cell in own])
    results = {
        meta["id"]: f"{meta['scale']}, seeds: {len(meta['seeds'])}, {outcome.verdict.told}"
        for meta, outcome in read_results(options.out)
    }
    for name, cells in chosen.items():
        if not cells:
            continue
        finished = sum(store.is_finished(cell) for cell in cells)
        failed = sum(store.error(cell) is not None for cell in cells)
        done = sum(cell.seconds * store.progress(cell) for cell in cells)
        share = f"{100 * done / sum(cell.seconds for cell in cells):.0f} %"
        counts = str(len(cells)), str(finished), str(failed)
        rows.append((name, *counts, share, results.get(name, "-")))
    print_table(rows)


def _plan(options: argparse.Namespace) -> None:
    """Print the cells of ids: what each trains, how many steps, how long."""
    from softmargin.papers.plan import planned, tried_out

    plan = tried_out if options.scale == "paper" and not options.no_dry_run else planned
    everything: dict[str, CellPlan] = {}
    _, chosen = _chosen(options, options.ids)
    for name, cells in chosen.items():
        if cells:
            plans = {cell.key: plan(cell) for cell in cells}
            _print_plans(f"{name} at {options.scale} scale", list(plans.values()))
            everything |= plans
    if len(chosen) > 1:
        print(f"\nin all {_size(list(everything.values()))}; cells that ids share are run once")


def _print_plans(title: str, plans: Sequence[CellPlan]) -> None:
    print(f"{title}: {_size(plans)}")
    rows = [["  cell", "trains", "parameters", "steps", "about"]]
    for each in plans:
        parameters = "-" if each.parameters is None else f"{each.parameters:,}"
        time = f"{duration(each.cell.seconds)}{' of a GPU' if each.gpu else ''}"
        rows.append([f"  {each.cell.label}", each.what, parameters, f"{each.steps:,}", time])
    if all(each.parameters is None for each in plans):
        rows = [[*row[:2], *row[3:]] for row in rows]
    print_table(rows)


def _size(plans: Sequence[CellPlan]) -> str:
    """Return how many cells and steps there are, and how long they take, in words."""
    on_gpu = [each.cell.seconds for each in plans if each.gpu]
    others = [each.cell.seconds for each in plans if not each.gpu]
    parts = [f"{len(plans):,} cell{'s' if len(plans) > 1 else ''}"]
    parts.append(f"{sum(each.steps * each.models for each in plans):,} steps of single networks")
    if others:
        parts.append(f"about {duration(sum(others))} on two cores")
    if on_gpu:
        parts.append(f"about {sum(on_gpu) / 3600:,.1f} GPU hours")
    return ", ".join(parts)


def _run(options: argparse.Namespace) -> None:
    from softmargin.papers.plan import check_data, check_means
    from softmargin.papers.run import check_folder, check_replaced, conclude, run_cells
    from softmargin.papers.store import CELLS, CellStore

    wanted, chosen = _chosen(options, options.ids)
    cells, store = [cell for own in chosen.values() for cell in own], CellStore(options.out)
    check_folder(options.out, cells)
    if not options.replace_larger:
        check_replaced(options.out, wanted)
    if options.ray in (None, "local"):  # elsewhere data and GPUs are the cluster's
        to_do = {cell.key: cell for cell in cells if not store.is_finished(cell)}
        if options.scale == "paper" and not options.yes and to_do:
            check_means(list(to_do.values()))
        check_data(list(to_do.values()), options.scale)
    check_out(options.out)
    with writing_to(options.out), _told_in_a_sentence():
        if (options.out / CELLS).exists() and not (options.out / CELLS).is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{CELLS} in it is a file")
        with progress() as show:
            if options.ray is None:
                tally = run_cells(cells, store, options.jobs, show)
            else:
                from softmargin.papers.ray import run_on_ray

                tally = run_on_ray(cells, store, options.ray, options.jobs, show)
        missing = conclude(wanted, options.out, _tell)
    _summarise(tally, missing)


def _summarise(tally: Tally, missing: Mapping[str, tuple[int, int]]) -> None:
    """Say what was skipped, what is missing and what failed."""
    if tally.skipped:
        print(f"{tally.skipped} of {len(tally.cells)} cells were finished before.")
    for cell, why in tally.failed:
        print(f"failed: {cell.label}: {why}", file=sys.stderr)
    for name, (lacking, cells) in missing.items():
        print(f"{name}: {lacking} of its {cells} cells are missing, so that nothing is concluded.")
    if tally.failed:
        raise UsageError(
            f"{len(tally.failed)} of {len(tally.cells)} cells failed; run the same command again "
            "to try them again."
        )


def _tell(name: str, outcome: Outcome, where: Path) -> None:
    verdict = outcome.verdict
    print(f"{name}: {verdict.told}. {verdict.sentence}\n  {where / 'README.md'}")


def _report(options: argparse.Namespace) -> None:
    """Write the report over a results folder into that folder."""
    from softmargin._files import write_file
    from softmargin.papers.report import results_page

    path = options.out / REPORT
    with writing_to(options.out):
        write_file(path, results_page(options.out))
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser")


def _pages(options: argparse.Namespace) -> None:
    """Write the pages of results again, from their numbers."""
    from softmargin.papers.write import write_pages

    with writing_to(options.out):
        found = write_pages(options.out, options.claims, figures=options.figures)
    print(f"{options.out / 'README.md'} and the pages of {found} results")


def _verify(options: argparse.Namespace) -> int:
    """Check all results in a folder; print a line for each thing wrong, and return 1 if any is."""
    from softmargin.papers.verify import verify
    from softmargin.papers.write import PAGE

    results = problems = 0
    for checked in verify(options.out, options.ids):
        problems += len(checked.problems)
        for problem in checked.problems:
            print(f"{checked.id}: {problem}")
        if checked.id != PAGE:
            results += 1
            if not checked.problems:
                print(f"{checked.id}: {checked.how}")
    if not problems and results > 1:
        print(f"all {results} results agree")
    return DIFFERS if problems else 0


def _compare(options: argparse.Namespace) -> None:
    """Set results beside those of another folder; print the largest difference of each."""
    from softmargin.papers.compare import compare

    rows, remarks = [("id", "numbers", "sd apart", "where most", "verdict")], []
    for found in compare(options.folder, options.out):
        remarks += [f"{found.id}: {remark}." for remark in found.remarks]
        committed, own = found.verdicts
        word = own if own == committed else f"{own}, committed: {committed}"
        if found.differences:
            most = found.differences[0]
            numbers, apart = str(len(found.differences)), f"{most.spreads:.2f}"
            rows.append((found.id, numbers, apart, str(most) if most.spreads else "-", word))
    if len(rows) > 1:
        print_table(rows)
    print(*remarks, sep="\n", end="\n" if remarks else "")


ACTIONS: dict[str, tuple[str, Callable[[argparse.Namespace], int | None]]] = {
    "list": ("show every id with its size and how long it takes", _list),
    "plan": ("show the cells of ids, what each trains, and what that takes", _plan),
    "run": ("run ids and write their pages", _run),
    "status": ("show how far every id is", _status),
    "report": ("write one page over all results, to look at in a browser", _report),
    "verify": ("compute written results again from what they were made of, and compare", _verify),
    "compare": ("set your own results beside committed ones, by the spread over seeds", _compare),
    "pages": ("write the pages of results again, from their numbers", _pages),
}
COMMAND = Command(
    "reproduce tables and figures of the papers, each by its id", DESCRIPTION, declare, run
)
