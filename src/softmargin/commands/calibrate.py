"""``softmargin calibrate``: the calibration of predictions in a file, before and after scaling."""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softmargin._files import write_file
from softmargin._text import one_line, printable
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

DESCRIPTION = """\
Measure predictions in a file: accuracy, calibration errors, NLL and Brier score with
intervals, over- or under-confidence, and the effect of temperature and vector scaling on
held-out folds. Prints a table and writes a page (index.html) to a folder next to FILE and
named after it: predictions.npz gives predictions-npz-calibration. Shares and calibration
errors are in percent; in JSON they are fractions of 1.

FILE is .npz, .csv or .parquet with predictions and labels, or .npy with predictions and
a second .npy with LABELS. Arrays or columns named logits, logits_0 … or probabilities,
prob_0 … and labels are recognised; others are named with --predictions and --labels.
Labels are classes from 0; columns that end in numbers are taken in their order.
Files larger than memory are fine."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin calibrate``."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the predictions")
    parser.add_argument(
        "labels_file", type=Path, nargs="?", metavar="LABELS", help="labels of an .npy FILE"
    )
    what = parser.add_argument_group("what is in the file")
    what.add_argument("--predictions", metavar="NAME", help="key, column, or start of the columns")
    what.add_argument("--labels", metavar="NAME", help="key or column of the labels")
    kind = what.add_mutually_exclusive_group()
    kind.add_argument("--logits", action="store_true", help="predictions are logits")
    kind.add_argument("--probabilities", action="store_true", help="predictions are probabilities")
    how = parser.add_argument_group("how to measure")
    how.add_argument("--bins", type=count, default=10, metavar="N", help="default: %(default)s")
    how.add_argument(
        "--scaling",
        choices=("both", "temperature", "vector", "none"),
        default="both",
        help="what to fit (default: %(default)s)",
    )
    how.add_argument("--folds", type=count, default=5, metavar="N", help="default: %(default)s")
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="default: %(default)s")
    out = parser.add_argument_group("what to write")
    out.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder for index.html (default: FILE's name with -calibration, beside FILE)",
    )
    out.add_argument("--json", action="store_true", help="print JSON instead of the table")
    out.add_argument(
        "--save", type=Path, metavar="FILE", help="write the fitted calibrator as JSON"
    )


def run(options: argparse.Namespace) -> None:
    """Measure and print, write the page and, if requested, the calibrator."""
    methods = {"both": ["temperature", "vector"], "none": []}.get(
        options.scaling, [options.scaling]
    )
    if options.save is not None and len(methods) != 1:
        raise UsageError("argument --save: needs --scaling temperature or --scaling vector.")
    if options.out is None:
        options.out = default_folder(options.file, options.labels_file)
    check_places(options)
    require_lab()
    from softmargin.calibration.predictions import open_predictions
    from softmargin.report import calibration as report

    with progress() as show:

        def tell(what: str, done: int, total: int) -> None:
            show(done, total, what)

        try:
            predictions = open_predictions(
                options.file,
                options.labels_file,
                predictions=options.predictions,
                labels=options.labels,
                from_logits=options.logits or (False if options.probabilities else None),
                progress=lambda done, total: tell("reading", done, total),
            )
            found = measure(predictions, options, methods, tell)
        except (ValueError, IndexError, TypeError, NotImplementedError) as error:
            raise UsageError(one_line(str(error))) from None
    write(options, found, report.calibration_page(found, _command(options)), methods)
    if options.json:
        print(json.dumps(report.as_dict(found)))
    else:
        print_result(found)
        print(f"\nReport: {printable(str(options.out / 'index.html'), None)}")
        if options.save is not None:
            print(f"Calibrator: {printable(str(options.save), None)}")


def measure(predictions: Any, options: argparse.Namespace, methods: list[str], tell: Any) -> Any:
    """Return the audit; raise an error that names --folds if there are too few rows."""
    from softmargin.calibration.audit import audit

    rows = len(predictions.labels)
    if methods and not 2 <= options.folds <= rows:
        raise UsageError(
            f"argument --folds: must be a whole number from 2 to {rows}, the rows of "
            f"{quoted(options.file.name)}, but got {options.folds}; --scaling none needs no folds."
        )
    return audit(
        predictions,
        bins=options.bins,
        methods=methods,
        folds=options.folds,
        seed=options.seed,
        progress=tell,
    )


def default_folder(file: Path, labels: Path | None) -> Path:
    """Return the folder next to a file for its report; other labels have another folder.

    Example:
        >>> default_folder(Path("run/predictions.npz"), None).as_posix()
        'run/predictions-npz-calibration'
        >>> default_folder(Path("logits.npy"), Path("labels.npy")).name
        'logits-npy-labels-npy-calibration'
    """
    name = f"{file.stem}-{file.suffix[1:]}"
    if labels is not None:
        name += f"-{labels.stem}-{labels.suffix[1:]}"
        if labels.resolve().parent != file.resolve().parent:  # another file may have its name
            place = str(labels.resolve().parent).encode("utf-8", "surrogateescape")
            name += f"-{hashlib.sha256(place).hexdigest()[:8]}"
    return file.parent / f"{name}-calibration"


def check_places(options: argparse.Namespace) -> None:
    """Check before the work that the folder and the file can be written."""
    inputs = [each for each in (options.file, options.labels_file) if each is not None]
    if not options.file.is_file():  # or the error would be about the folder next to it
        raise UsageError(f"FILE must be a file that exists, but got {quoted(str(options.file))}.")
    check_out(options.out)
    if options.save is None:
        return
    if any(options.save.resolve() == each.resolve() for each in inputs):
        raise UsageError(
            f"argument --save: must not be the file that is read, {quoted(str(options.save))}."
        )
    with saving_to(options.save):
        if options.save.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=options.save.parent):
            pass


@contextmanager
def saving_to(path: Path) -> Iterator[None]:
    """Turn a failure to write into a sentence about ``--save``."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"argument --save: must be a file that can be written, but {quoted(str(path))} "
            f"is not: {error.strerror or type(error).__name__}."
        ) from None


def write(options: argparse.Namespace, found: Any, page: str, methods: list[str]) -> None:
    """Write the page and, if requested, the calibrator; both atomically."""
    with writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
        write_file(options.out / "index.html", page)
    if options.save is not None:
        with saving_to(options.save):
            found.calibrators[methods[0]].save(options.save)


def print_result(found: Any) -> None:
    """Print the metrics with their intervals, and a summary."""
    from rich.console import Console

    from softmargin.report import calibration as report

    console = Console(soft_wrap=True, highlight=False)
    size = f"{found.given.samples} predictions, {found.num_classes} classes"
    console.print(f"{found.source}; {size}.\n", markup=False)
    headings = ["", *(report.TITLES[name] for name in report.results(found))]
    print_table([headings, *report.rows(found)], right=headings[1:])
    console.print(f"\n{report.verdict(found.given)}", markup=False)
    for note in found.notes["given"]:
        console.print(note, markup=False)
    for name, calibrator in found.calibrators.items():
        title = report.TITLES[name].capitalize()
        console.print(f"{title}: {report.describe(calibrator)}.", markup=False)
        for note in found.notes[name]:
            console.print(f"  {note}", markup=False)
    console.print(report.legend(found), markup=False)


def _command(options: argparse.Namespace) -> str:
    """Return the command that writes the same page."""
    words = ["softmargin", "calibrate", options.file.name]
    if options.labels_file is not None:
        words.append(options.labels_file.name)
    for name in ("predictions", "labels"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", value]
    words += [f"--{name}" for name in ("logits", "probabilities") if getattr(options, name)]
    words += ["--bins", options.bins, "--scaling", options.scaling]
    words += ["--folds", options.folds, "--seed", options.seed]
    return shlex.join(map(str, words))


COMMAND = Command(
    "how calibrated the predictions in a file are, and what scaling gives",
    DESCRIPTION,
    declare,
    run,
)
