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
from softmargin.commands.fit import MODEL, read_labels
from softmargin.commands.predict import read as read_for_model

MOST = 6  # that a diagram can tell apart
DESCRIPTION = """\
Compare models on the same test rows: accuracy, NLL, Brier score and ECE of each, and how
much each differs from the first, with intervals from row to row. Writes a page
(index.html) with one reliability diagram of all.

Each FILE is a folder of softmargin train, predictions with labels as softmargin calibrate
reads them, or a model that softmargin fit has written, which predicts the rows of the table
--test; rows and labels must be the same in all.

example:
  softmargin compare run-beta1 run-beta5
  softmargin compare mine.csv theirs.npz --out report
  softmargin compare model-a model-b --test new.csv --target species"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin compare``."""
    parser.add_argument("first", type=Path, metavar="FILE", help="what to compare with")
    parser.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="what to compare")
    what = parser.add_argument_group("what is in the files")
    declare_content(what)
    declare_labels(what)
    what.add_argument("--test", type=Path, metavar="TABLE", help="table for models of fit")
    what.add_argument(
        "--target", metavar="NAME", help="its column of the classes (in .npz: y, labels or target)"
    )
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
    check_test(options, any(is_model(path) for path in given))
    files = [predictions_of(path) for path in given]
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
    if options.test is not None:
        words += ["--test", options.test.name]
        words += ["--target", options.target] if options.target else []
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
                if is_model(path):
                    models.append((name, of_model(options, path, name)))
                    continue
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


def is_model(path: Path) -> bool:
    """Return whether this is the folder of a model that ``softmargin fit`` has written."""
    return (path / MODEL).is_file()


def predictions_of(path: Path) -> Path:
    """Return the file that has the predictions, or makes them."""
    if is_model(path):
        return path / MODEL
    return run_predictions(path) if path.is_dir() else path


def check_test(options: argparse.Namespace, needed: bool) -> None:
    """Check that there is a table where models need one, and only there."""
    if needed and options.test is None:
        raise UsageError("argument --test: must name a table for models of softmargin fit.")
    if not needed and options.test is not None:
        raise UsageError(
            "argument --test: must be left out unless a FILE is a model of softmargin fit, but got "
            f"{quoted(str(options.test))}."
        )
    if options.test is not None and not options.test.is_file():
        raise UsageError(
            f"argument --test: must be a file that exists, but got {quoted(str(options.test))}."
        )


def of_model(options: argparse.Namespace, path: Path, name: str) -> Any:
    """Return what a fitted model predicts for the rows of the table."""
    import numpy as np

    from softmargin.calibration.predictions import Predictions
    from softmargin.estimators import TableModel

    model = TableModel.load(path)
    _, target, labels = read_labels(options.test, options.target)
    known = {str(each): number for number, each in enumerate(model.classes.tolist())}
    texts = [str(each) for each in labels.tolist()]
    new = [text for text in texts if text not in known]
    if new:
        raise UsageError(
            f"column {quoted(target)} of {quoted(options.test.name)} must hold classes that "
            f"{name} was fitted on, but holds {quoted(new[0])}."
        )
    log_p = model.predict_log_proba(read_for_model(options.test, model))
    return Predictions(
        log_p, np.array([known[text] for text in texts], dtype=np.int64), True, f"model {name}"
    )


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
