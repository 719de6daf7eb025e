"""The actions and arguments of ``softmargin reproduce``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from softmargin.commands.common import count, folder

DESCRIPTION = """\
Reproduce tables and figures of the papers. Every id has three scales: smoke (seconds, only
proves that the path works), desk (minutes on two cores, real data) and paper (the recipe as
printed). What is finished is kept in --out and never run again; the same command after an
interruption goes on where it was."""
ACTIONS = {
    "list": "show every id with its size and how long it takes",
    "plan": "show the cells of ids, what each trains, and what that takes",
    "run": "run ids and write their pages",
    "status": "show how far every id is",
    "report": "write one page over all results, to look at in a browser",
    "verify": "compute written results again from what they were made of, and compare",
}
IDS: dict[str, Any] = {"metavar": "ID", "help": "such as gd-tab1, or all"}
# every argument once: which actions have it, and what it is
ARGUMENTS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("ids", ("plan", "run"), {**IDS, "nargs": "+"}),
    ("ids", ("verify",), {**IDS, "nargs": "*", "help": "such as gd-tab1 (default: all)"}),
    (
        "--seeds",
        ("plan", "run"),
        {"type": count, "metavar": "N", "help": "how many seeds, instead of the usual"},
    ),
    (
        "--only",
        ("plan", "run", "status"),
        {
            "metavar": "KEY=VALUE,...",
            "help": 'only cells with these values, such as "beta=0.1,model=resnet18"',
        },
    ),
    (
        "--jobs",
        ("run",),
        {
            "type": count,
            "metavar": "N",
            "help": "cells at a time, each in its own process (default: one per core where it "
            "takes minutes; on Ray, as many as the cluster takes)",
        },
    ),
    (
        "--ray",
        ("run",),
        {
            "metavar": "ADDRESS",
            "help": "run cells on the Ray cluster at host:port or ray://host:port, or on one "
            "started here (local)",
        },
    ),
    (
        "--yes",
        ("run",),
        {
            "action": "store_true",
            "help": "run paper scale even without a GPU, and fetch the data it needs",
        },
    ),
    (
        "--no-dry-run",
        ("plan",),
        {"action": "store_true", "help": "at paper scale, only list: build and run nothing"},
    ),
    (
        "--scale",
        ("list", "plan", "run", "status"),
        {
            "choices": ("smoke", "desk", "paper"),
            "default": "desk",
            "help": "how large (default: %(default)s)",
        },
    ),
    (
        "--replace-larger",
        ("run",),
        {
            "action": "store_true",
            "help": "write results even where --out has those of a larger scale, which are lost",
        },
    ),
    (
        "--out",
        ("run", "status"),
        {
            "type": folder,
            "metavar": "DIR",
            "help": "folder of all results (default: results, and results-smoke at smoke scale)",
        },
    ),
    (
        "--out",
        ("report", "verify"),
        {
            "type": folder,
            "default": Path("results"),
            "metavar": "DIR",
            "help": "folder of all results (default: %(default)s)",
        },
    ),
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin reproduce``."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for action, summary in ACTIONS.items():
        sub = actions.add_parser(
            action,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            allow_abbrev=False,
        )
        sub.set_defaults(resumes=action == "run")
        for name, where, options in ARGUMENTS:
            if action in where:
                sub.add_argument(name, **options)
