"""``softmargin bench``: times beside what else a user might take, on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from softmargin.commands.common import (
    Command,
    check_out,
    count,
    folder,
    number,
    print_table,
    progress,
    quoted,
    writing_to,
)

GROUPS = (
    "losses",
    "linear",
    "heads",
    "metrics",
    "together",
    "growth",
    "memory",
    "roofline",
)
SECONDS, QUICK_SECONDS = 2.0, 0.1


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin bench``."""
    parser.add_argument(
        "--out",
        type=folder,
        default=Path("softmargin-bench"),
        metavar="FOLDER",
        help="where bench.json and the charts go (softmargin-bench)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, in under a minute")
    parser.add_argument(
        "--only", choices=GROUPS, action="append", help="one part; may be given several times"
    )
    parser.add_argument(
        "--threads", type=count, default=1, metavar="NUMBER", help="of PyTorch and the kernel (1)"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        metavar="NUMBER",
        help=f"for each comparison ({SECONDS:g}; with --quick {QUICK_SECONDS:g})",
    )


def _seconds(text: str) -> float:
    value = number(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(
            f"must be above 0 and at most 3600, but got {quoted(text)}."
        )
    return value


def run(options: argparse.Namespace) -> None:
    """Measure, print tables, write JSON and charts."""
    check_out(options.out)
    from softmargin.bench import run as bench

    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    groups = [group for group in GROUPS if options.only is None or group in options.only]
    with progress() as show:
        results = bench.measure(groups, options.quick, options.threads, seconds, show)
    for title, rows in bench.tables(results):
        print(title)
        print_table(rows, right={"time", "ratio", "MB", "GB/s", "of a copy", "p", "logits"})
        print()
    with writing_to(options.out, resumes=False):
        files = bench.write(results, options.out)
    for reason in results["skipped"]:
        print(f"Skipped: {reason}.")
    print("Written:", ", ".join(str(path) for path in files))


COMMAND = Command(
    "measure losses, heads, metrics and ensembles beside their peers, on this machine",
    "Measure losses, heads, calibration metrics and networks trained together beside what else a "
    "user might take and is installed. All take turns in one run, and the best turn of each "
    "counts. Prints ratios with their spread, peaks of memory, growth with size and bytes moved.",
    declare,
    run,
)
