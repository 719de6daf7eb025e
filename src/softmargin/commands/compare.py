"""``softmargin compare``: several models on the same rows."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from softmargin._files import write_file
from softmargin._text import one_line, printable
from softmargin.commands.calibrate import (
    are_logits,
    check_run,
    declare_content,
    declare_labels,
    run_predictions,
)
from softmargin.commands.common import (
    Command,
    UsageError,
    check_out,
    count,
    folder,
    print_table,
    progress,
    quoted,
    require_lab,
    seed,
    writing_to,
)

MOST = 6  # that a diagram can tell apart
DESCRIPTION = """\
Compare models on the same test rows: accuracy, NLL, Brier score and ECE of each, and how
much each differs from the first, with intervals from row to row. Writes a page
(index.html) with one reliability diagram of all.

Each FILE is a folder of softmargin train, or predictions with labels as softmargin
calibrate reads them; rows and labels must be the same in all.

example:
  softmargin compare run-beta1 run-beta5
  softmargin compare mine.csv theirs.npz --out report"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin compare``."""
    parser.add_argument("first", type=Path, metavar="FILE", help="what to compare with")
    parser.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="what to compare")
    what = parser.add_argument_group("what is in the files")
    declare_content(what)
    declare_labels(what)
    how = parser.add_argument_group("how to measure, and what to write")
    how.add_argument("--bins", type=count, default=10, metavar="N", help="default: %(default)s")
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="default: %(default)s")
    how.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder for index.html (default: named after the files, in this folder)",
    )
    how.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(options: argparse.Namespace) -> None:
    """Read, compare, write the page and print the table."""
    given = [options.first, *options.others]
    if len(given) > MOST:
        raise UsageError(f"OTHER must be at most {MOST - 1} files, but got {len(given) - 1}.")
    files = [run_predictions(path) if path.is_dir() else path for path in given]
    for path, file in zip(given, files, strict=True):
        if not file.is_file():
            raise UsageError(
                "FILE must be a file or the folder of a run that exists, but got "
                f"{quoted(str(path))}."
            )
    if len({file.resolve() for file in files}) < len(files):
        raise UsageError("FILE and OTHER must be different files, but one is there twice.")
    names = names_of(given)
    out = options.out or Path(f"{'-'.join(name.replace('/', '-') for name in names)}-compared")
    check_out(out)
    require_lab()
    found = compared(options, given, files, names)
    from softmargin.report import comparison as report

    words = ["softmargin", "compare", *(path.name for path in given)]
    words += ["--bins", options.bins, "--seed", options.seed]
    page = report.comparison_page(found, shlex.join(map(str, words)))
    with writing_to(out, resumes=False):
        out.mkdir(parents=True, exist_ok=True)
        write_file(out / "index.html", page)
    if options.json:
        print(json.dumps(report.as_dict(found)))
        return
    headings, rows = report.table(found)
    print_table([headings, *rows], right=headings[1:])
    print(f"\n{report.legend(found)}")
    for sentence in report.sentences(found):
        print(sentence)
    print(f"\nReport: {printable(str(out / 'index.html'), None)}")


def compared(
    options: argparse.Namespace, given: list[Path], files: list[Path], names: list[str]
) -> Any:
    """Return the comparison."""
    from softmargin.calibration.comparing import compare
    from softmargin.calibration.predictions import open_predictions

    with progress() as show:
        try:
            models: list[tuple[str, Any]] = []
            for path, file, name in zip(given, files, names, strict=True):
                show(len(models), 2 * len(files), f"reading {name}")
                check_run(path)
                found = open_predictions(
                    file,
                    predictions=options.predictions,
                    labels=options.labels,
                    from_logits=are_logits(options),
                    positive=options.positive,
                )
                models.append((name, found))
            return compare(
                models,
                bins=options.bins,
                seed=options.seed,
                progress=lambda name, done, total: show(
                    total + done, 2 * total, f"measuring {name}"
                ),
            )
        except (ValueError, TypeError) as error:
            raise UsageError(one_line(str(error))) from None


def names_of(paths: list[Path]) -> list[str]:
    """Return a short name for each file, or the whole path where names are the same.

    Example:
        >>> names_of([Path("runs/a"), Path("runs/b.npz")])
        ['a', 'b.npz']
        >>> names_of([Path("a/p.npz"), Path("b/p.npz")])
        ['a/p.npz', 'b/p.npz']
    """
    short = [path.name or path.resolve().name for path in paths]
    if len(set(short)) < len(short):
        short = [path.as_posix() for path in paths]
    return [printable(name, 60) for name in short]


COMMAND = Command("how models differ on the same test rows", DESCRIPTION, declare, run)
