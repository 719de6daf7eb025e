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
    require_reader,
    seed,
    writing_to,
)

DESCRIPTION = """\
Measure predictions in a file: accuracy, calibration errors, NLL and Brier score with
intervals, over- or under-confidence, and the effect of temperature and vector scaling on
held-out folds. Prints a table and writes a page (index.html) to a folder next to FILE and
named after it: predictions.npz gives predictions-npz-calibration. Shares and calibration
errors are in percent; in JSON they are fractions of 1.

FILE holds predictions and labels: .csv or .tsv (commas, semicolons or tabs; also .gz),
.parquet, .npz, or .pt; or it is a .npy or .pt with predictions alone, and LABELS a second
one. A folder of softmargin train stands for the predictions in it. Recognised are:

  logits_0 …, or probabilities, prob_0 …, of all classes, in columns or one array
  prob_cat, prob_dog …    with labels cat, dog …; or cat, dog … with --probabilities
  p, y_prob or logit      of one class of two, with labels 0 and 1 or --positive LABEL
  confidence and correct  of the predicted class

Labels are classes from 0, text, or one-hot; other names are given with --predictions and
--labels. Files larger than memory are fine.

example:
  softmargin calibrate --example         try it on predictions that come with softmargin
  softmargin calibrate predictions.csv --save calibrator.json
  softmargin apply calibrator.json new-predictions.csv"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin calibrate``."""
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="the predictions, or a run's folder"
    )
    parser.add_argument(
        "labels_file", type=Path, nargs="?", metavar="LABELS", help="labels of a .npy or .pt FILE"
    )
    parser.add_argument(
        "--example", action="store_true", help="use the predictions that come with softmargin"
    )
    what = parser.add_argument_group("what is in the file")
    declare_content(what)
    declare_labels(what)
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
        "--save",
        type=Path,
        metavar="FILE",
        help="write the calibrator as JSON, of two the one with the lower NLL on held-out folds",
    )


def declare_content(parser: argparse._ActionsContainer) -> None:
    """Declare what says which part of a file holds predictions, and of what kind."""
    parser.add_argument(
        "--predictions", metavar="NAME", help="key, column, start of the columns, or A,B,C"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--logits", action="store_true", help="predictions are logits")
    kind.add_argument("--probabilities", action="store_true", help="predictions are probabilities")


def declare_labels(parser: argparse._ActionsContainer) -> None:
    """Declare what says which part of a file holds labels."""
    parser.add_argument("--labels", metavar="NAME", help="key or column of the labels")
    parser.add_argument("--positive", metavar="LABEL", help="of one score, the label it is for")


def are_logits(options: argparse.Namespace) -> bool | None:
    """Return whether predictions were said to be logits; None where nothing was said."""
    if options.logits:
        return True
    return False if options.probabilities else None


def run(options: argparse.Namespace) -> None:
    """Measure and print, write the page and, if requested, the calibrator."""
    methods = {"both": ["temperature", "vector"], "none": []}.get(
        options.scaling, [options.scaling]
    )
    if options.save is not None and not methods:
        raise UsageError("argument --save: needs --scaling other than none.")
    find_input(options)
    check_places(options)
    require_reader(options.given)
    from softmargin.calibration.predictions import open_predictions
    from softmargin.report import calibration as report

    with progress() as show:

        def tell(what: str, done: int, total: int) -> None:
            show(done, total, what)

        try:
            check_run(options.given)
            predictions = open_predictions(
                options.file,
                options.labels_file,
                predictions=options.predictions,
                labels=options.labels,
                from_logits=are_logits(options),
                positive=options.positive,
                progress=lambda done, total: tell("reading", done, total),
            )
            found = measure(predictions, options, methods, tell)
        except (ValueError, IndexError, TypeError, NotImplementedError) as error:
            raise UsageError(one_line(str(error))) from None
    if options.save is not None and not found.calibrators:
        raise UsageError("argument --save: needs predictions of all classes, not confidences.")
    write(options, found, report.calibration_page(found, _command(options)))
    if options.json:
        print(json.dumps(report.as_dict(found)))
        return
    print_result(found)
    print(f"\nReport: {printable(str(options.out / 'index.html'), None)}")
    if options.save is not None:
        print(f"Calibrator: {printable(str(options.save), None)}, by {report.best(found)} scaling")
    print(f"Next: {next_step(found, options)}")


def next_step(found: Any, options: argparse.Namespace) -> str:
    """Return what to do after a report, in one line."""
    from softmargin.report import calibration as report

    if options.save is not None:
        saved = printable(shlex.quote(str(options.save)), None)
        return f"softmargin apply {saved} FILE calibrates other predictions of this model."
    if found.scaled and not options.example:
        best = report.best(found)
        if found.scaled[best].nll < found.given.nll:
            again = f"{_command(options, scaling=best)} --save calibrator.json"
            return f"{printable(again, None)} keeps what {best} scaling has learned."
        return "scaling does not lower the NLL: use the predictions as they are."
    if options.example:
        return "softmargin calibrate FILE, with predictions of your own."
    return "open the report."


def find_input(options: argparse.Namespace) -> None:
    """Set the file to read and the folder to write to."""
    if options.example:
        if options.file is not None:
            raise UsageError("argument --example: needs no FILE.")
        options.file = Path(__file__).parent.parent / "calibration" / "example.csv"
        options.out = options.out or Path("softmargin-example-calibration")
    elif options.file is None:
        raise UsageError("the following arguments are required: FILE; or try --example.")
    options.given = options.file
    if options.file.is_dir():
        options.file = run_predictions(options.file)
    if options.out is None:
        options.out = default_folder(options.file, options.labels_file)


def run_predictions(run: Path) -> Path:
    """Return the file of predictions in the folder of a finished run."""
    path = run / "predictions.npz"
    if not path.is_file():
        raise UsageError(
            "FILE must be a file or the folder of a finished run, but "
            f"{quoted(str(run))} is a folder without predictions.npz."
        )
    return path


def measure(predictions: Any, options: argparse.Namespace, methods: list[str], tell: Any) -> Any:
    """Return the audit; raise an error that names --folds if there are too few rows."""
    from softmargin.calibration.audit import audit

    rows = len(predictions.labels)
    if methods and not predictions.confidence_only and not 2 <= options.folds <= rows:
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


def check_run(given: Path) -> None:
    """Check the predictions of a run's folder, which have a checksum."""
    if given.is_dir():
        from softmargin.training.folder import RunFolder

        RunFolder(given).check_predictions()


def check_places(options: argparse.Namespace) -> None:
    """Check before the work that the folder and the file can be written."""
    inputs = [each for each in (options.file, options.labels_file) if each is not None]
    if not options.file.is_file():  # or the error would be about the folder next to it
        raise UsageError(f"FILE must be a file that exists, but got {quoted(str(options.file))}.")
    check_out(options.out)
    if options.save is not None:
        check_file(options.save, "--save", inputs)


def check_file(path: Path, flag: str, inputs: list[Path]) -> None:
    """Check before the work that a file can be written, and is none of those that are read."""
    if any(path.resolve() == each.resolve() for each in inputs):
        raise UsageError(
            f"argument {flag}: must not be the file that is read, {quoted(str(path))}."
        )
    with saving_to(path, flag):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass


@contextmanager
def saving_to(path: Path, flag: str) -> Iterator[None]:
    """Turn a failure to write into a sentence about an argument."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"argument {flag}: must be a file that can be written, but {quoted(str(path))} "
            f"is not: {error.strerror or type(error).__name__}."
        ) from None


def write(options: argparse.Namespace, found: Any, page: str) -> None:
    """Write the page and, if requested, the calibrator; both atomically."""
    from softmargin.report import calibration as report

    with writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
        write_file(options.out / "index.html", page)
    if options.save is not None:
        with saving_to(options.save, "--save"):
            found.calibrators[report.best(found)].save(options.save)


def print_result(found: Any) -> None:
    """Print the metrics with their intervals, and a summary."""
    from rich.console import Console

    from softmargin.report import calibration as report

    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{found.source}; {report.size(found)}.\n", markup=False)
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


def _command(options: argparse.Namespace, scaling: str | None = None) -> str:
    """Return the command that writes the same page; with another scaling, the one to run next."""
    words = ["softmargin", "calibrate"]
    files = [each for each in (options.given, options.labels_file) if each is not None]
    # a page may be sent elsewhere, where the folders of this machine mean nothing
    names = [each.name if scaling is None else str(each) for each in files]
    words += ["--example"] if options.example else names
    for name in ("predictions", "labels", "positive"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", value]
    words += [f"--{name}" for name in ("logits", "probabilities") if getattr(options, name)]
    words += ["--bins", options.bins, "--scaling", scaling or options.scaling]
    words += ["--folds", options.folds, "--seed", options.seed]
    return shlex.join(map(str, words))


COMMAND = Command(
    "how calibrated the predictions in a file are, and what scaling gives",
    DESCRIPTION,
    declare,
    run,
)
