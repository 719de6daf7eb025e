"""``softmargin demo``: what β does, on real digits."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from softmargin.commands.common import (
    Command,
    UsageError,
    check_out,
    count,
    folder,
    progress,
    quoted,
    require_lab,
    seed,
    writing_to,
)

DESCRIPTION = """\
Train one small network on real handwritten digits with several β, with a warm-up of β,
with a temperature fitted after β = 1 and with a β that calibrates itself, over several
seeds, and show what that does to accuracy and calibration. Prints a table and writes a
page with figures (index.html) and all numbers (results.json)."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin demo``."""
    parser.add_argument(
        "--out",
        type=folder,
        default=Path("softmargin-demo"),
        metavar="DIR",
        help="folder for index.html and results.json, which are replaced (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="first seed (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds",
        type=count,
        default=5,
        metavar="N",
        help="how many seeds; a spread needs at least 2 (default: %(default)s)",
    )
    parser.add_argument(
        "--betas",
        type=betas,
        nargs="+",
        default=[[20.0, 5.0, 1.0, 0.1, 0.01]],
        metavar="BETA",
        help="values of β, separated by commas or spaces (default: 20,5,1,0.1,0.01)",
    )


def run(options: argparse.Namespace) -> None:
    """Train, print the table, write the page, say where it is."""
    chosen = each_once(options.betas)
    check_out(options.out)
    require_lab()
    from softmargin.demo import DemoSetting, run_demo
    from softmargin.demo.page import write_report
    from softmargin.demo.results import show_results

    setting = DemoSetting(chosen, options.seed, options.seeds)
    networks = len(setting.configurations) * setting.num_seeds
    print(f"Training {networks} small networks on handwritten digits.", file=sys.stderr, flush=True)
    with progress() as show:
        outcomes = run_demo(
            setting, lambda done, total: show(done, total, f"training {networks} networks")
        )
    with writing_to(options.out, resumes=False):
        page = write_report(setting, outcomes, options.out)
    show_results(setting, outcomes)
    print(f"\nReport: {page}")


def betas(text: str) -> list[float]:
    """Read numbers above 0, separated by commas or spaces."""
    values = []
    for part in text.replace(",", " ").split():
        try:
            value = float(part)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise argparse.ArgumentTypeError(
                f"every β must be a finite number above 0, but got {quoted(part)}."
            )
        values.append(value)
    if not values:
        raise argparse.ArgumentTypeError(
            f"at least one finite number above 0 is needed, but got {quoted(text)}."
        )
    return values


def each_once(groups: list[list[float]]) -> list[float]:
    """Return all values of --betas; refuse one that is there twice."""
    chosen = [beta for group in groups for beta in group]
    if repeated := [beta for beta in chosen if chosen.count(beta) > 1]:
        raise UsageError(
            f"argument --betas: must name each β once, but {repeated[0]:g} came twice."
        )
    return chosen


COMMAND = Command(
    "see what β does to confidence: digits, several β, a page of figures", DESCRIPTION, declare, run
)
