"""``softmargin fit``: β chosen for a table, the model and a report in one folder."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmargin import __version__
from softmargin._files import UNFINISHED, write_file, write_json
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
from softmargin.commands.demo import betas, each_once

if TYPE_CHECKING:
    from softmargin.data.columns import Columns, TableFile

DESCRIPTION = """\
Choose β for a table by cross-validation, and whether a temperature is needed as well, and
train the model. Prints the candidates, and writes the model, its calibrator and a page
(index.html) to one folder, named after FILE: iris.csv gives iris-csv-model.

FILE is .csv, .tsv (also .gz, .bz2, .zst) or .parquet with a column --target of classes, or
.npz with arrays x and y. Columns of text are categories, and values may be missing.

The same command goes on where it was interrupted.

example:
  softmargin fit iris.csv --target species
  softmargin predict iris-csv-model new.csv"""
MODEL = "model.json"
WRITTEN = {MODEL, "weights.npz", "temperature.json", "index.html"}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin fit``."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the table")
    what = parser.add_argument_group("what is in the table")
    what.add_argument(
        "--target", metavar="NAME", help="column of the classes (in .npz: y, labels or target)"
    )
    what.add_argument(
        "--ignore", nargs="+", default=[], metavar="NAME", help="columns to leave out, such as ids"
    )
    how = parser.add_argument_group("how to choose")
    how.add_argument(
        "--betas",
        type=betas,
        nargs="+",
        default=[[0.3, 1.0, 3.0, 10.0]],
        metavar="BETA",
        help="values of β, separated by commas or spaces (default: 0.3,1,3,10)",
    )
    how.add_argument(
        "--scoring",
        choices=("nll", "brier", "accuracy"),
        default="nll",
        help="what to judge by (default: %(default)s)",
    )
    how.add_argument(
        "--one-standard-error",
        action="store_true",
        help="take the plainest candidate within one standard error of the best",
    )
    how.add_argument("--folds", type=count, default=5, metavar="N", help="default: %(default)s")
    how.add_argument(
        "--epochs", type=count, default=100, metavar="N", help="at most (default: %(default)s)"
    )
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="default: %(default)s")
    out = parser.add_argument_group("what to write")
    out.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder of the model (default: FILE's name with -model, beside FILE)",
    )
    out.add_argument("--overwrite", action="store_true", help="replace a model that is there")


def run(options: argparse.Namespace) -> None:
    """Choose, train, write the folder and print what was found."""
    chosen = check(options)
    require_lab()
    with progress() as show:
        show(0, 0, "reading")
        try:
            columns, labels = read(options)
            with writing_to(options.out, resumes=False), working(options, chosen) as work:
                found = fit(options, chosen, columns, labels, work, show)
                line = write(options, found, work)
        except ValueError as error:
            raise UsageError(one_line(str(error))) from None
    print_result(options, found, line)


def check(options: argparse.Namespace) -> list[float]:
    """Check what can be checked before anything is read; return the values of β."""
    chosen = each_once(options.betas)
    if options.folds < 2:
        raise UsageError(f"argument --folds: must be at least 2, but got {options.folds}.")
    if not options.file.is_file():
        raise UsageError(f"FILE must be a file that exists, but got {quoted(str(options.file))}.")
    if options.out is None:
        options.out = default_folder(options.file)
    check_out(options.out)
    check_out(Path(os.path.abspath(options.out)).parent)
    if options.out.is_dir() and any(options.out.iterdir()):
        where = quoted(str(options.out))
        found = {each.name for each in options.out.iterdir()}
        if MODEL not in found or found - WRITTEN:
            other = min(found - WRITTEN, default="files without a model")
            raise UsageError(
                f"argument --out: must be a new folder or one with a model alone, but {where} "
                f"holds {quoted(other)}."
            )
        if not options.overwrite:
            raise UsageError(
                f"argument --out: must be a new folder, but {where} holds a model; --overwrite "
                "replaces it."
            )
    return chosen


def default_folder(file: Path) -> Path:
    """Return the folder next to a table for its model.

    Example:
        >>> default_folder(Path("data/iris.csv.gz")).as_posix()
        'data/iris-csv-gz-model'
    """
    return file.parent / f"{file.name.strip('.').replace('.', '-')}-model"


def read(options: argparse.Namespace) -> tuple[Columns, Any]:
    """Return the columns to learn from, and the classes of all rows."""
    from softmargin.data.columns import check_classes, column_named

    file, options.target, labels = read_labels(options.file, options.target)
    check_classes(labels, f"column {quoted(options.target)}")
    for name in options.ignore:
        column_named(file.columns, name, "argument --ignore:")
    left = {options.target, *options.ignore}
    names = file.features or tuple(file.columns)
    columns = {name: file.columns[name] for name in names if name not in left}
    if not columns:
        raise UsageError("FILE must have a column to learn from beside the target, but has none.")
    return columns, labels


def read_labels(path: Path, target: str | None) -> tuple[TableFile, str, Any]:
    """Return a table, the name of its column of classes, and the class of every row."""
    from softmargin.data.columns import (
        as_labels,
        column_named,
        listed,
        read_columns,
        target_of_npz,
    )

    file = read_columns(path, {target} if target is not None else set())
    if target is None:
        target = target_of_npz(file) if file.features else None
    if target is None:
        rest = [name for name in file.columns if name not in file.features]
        if not rest:
            raise UsageError(
                f"FILE {quoted(path.name)} must have an array of classes beside its features, but "
                "has none."
            )
        raise UsageError(f"argument --target: must name a column of {listed(rest)}.")
    column = column_named(_choices(file), target, "argument --target:")
    _check_no_gaps(file, column, target)
    return file, target, as_labels(column)


def _choices(file: TableFile) -> Columns:
    """Return the columns that may be the target."""
    return {name: file.columns[name] for name in file.columns if name not in file.features}


def _check_no_gaps(file: TableFile, column: Any, name: str) -> None:
    gaps = [row for row, value in enumerate(column) if value is None or value != value]
    if gaps:
        more = f", and {len(gaps) - 1} more are" if len(gaps) > 1 else " is"
        raise UsageError(
            f"column {quoted(name)} must hold a class in every row, but {file.place(gaps[0])}"
            f"{more} empty; leave such rows out."
        )


@contextmanager
def working(options: argparse.Namespace, chosen: list[float]) -> Iterator[Path]:
    """Give a folder beside --out for checkpoints and the new model; it is gone at the end.

    What a killed process has left there is used if it is of the same table and options.
    """
    from softmargin.training.folder import RunFolder

    out = Path(os.path.abspath(options.out))
    work = out.parent / f".{out.name}{UNFINISHED}"
    wanted = {"key": _key(options, chosen)}
    made = [each for each in (out.parent, *out.parent.parents) if not each.exists()]
    held = False
    try:
        with RunFolder(work).locked():
            held = True
            known = work / "of.json"
            if _content(known) != wanted["key"]:
                _empty(work)
                write_json(known, wanted)
            yield work
    except KeyboardInterrupt:
        raise  # the same command goes on
    except BaseException:
        if held:  # not if another process is working there
            _remove(work, made)
        raise
    shutil.rmtree(work, ignore_errors=True)


def _key(options: argparse.Namespace, chosen: list[float]) -> str:
    """Return what tells work on one table with one set of options from any other."""
    names = ("target", "ignore", "scoring", "one_standard_error", "folds", "epochs", "seed")
    asked = {name: getattr(options, name) for name in names} | {"betas": chosen}
    digest = hashlib.sha256(json.dumps([__version__, asked], sort_keys=True).encode())
    with options.file.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _content(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text("utf-8"))["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _empty(work: Path) -> None:
    for each in work.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.name != ".lock":
            each.unlink()


def _remove(work: Path, made: list[Path]) -> None:
    """Remove the work folder, and the folders that were made for it if they are empty."""
    shutil.rmtree(work, ignore_errors=True)
    for each in made:
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()


def fit(
    options: argparse.Namespace,
    chosen: list[float],
    columns: Columns,
    labels: Any,
    work: Path,
    show: Any,
) -> Any:
    """Return the fitted model with its scores on held-out rows."""
    from softmargin.estimators import MarginClassifier, MarginClassifierCV, TableModel
    from softmargin.report.fit import fitted

    search = MarginClassifierCV(
        chosen,
        estimator=MarginClassifier(epochs=options.epochs),
        cv=options.folds,
        scoring=options.scoring,
        one_standard_error=options.one_standard_error,
        random_state=options.seed % (1 << 32),
    )

    def tell(done: int, total: int) -> None:
        if done < total:
            show(done, total, "training all candidates on all folds")
        else:
            show(0, 0, "comparing candidates and training the best one on all rows")

    model = TableModel(search).fit(columns, labels, progress=tell, work=work)
    return fitted(model, labels, options.file.name, options.target)


def write(options: argparse.Namespace, found: Any, work: Path) -> str:
    """Write the folder beside its place and move it there; return the line on what is next."""
    from softmargin.report.fit import fit_page, next_step

    line = next_step(found, shlex.quote(str(options.out)))
    new, old = work / "model", work / "old"
    for each in (new, old):
        shutil.rmtree(each, ignore_errors=True)
    found.model.save(new)
    write_file(new / "index.html", fit_page(found, _command(options), line))
    out = Path(os.path.abspath(options.out))
    if out.exists():
        os.replace(out, old)
    os.replace(new, out)
    return line


def print_result(options: argparse.Namespace, found: Any, line: str) -> None:
    """Print the candidates, what was chosen, and what to do next."""
    from softmargin.report import fit as report

    size = f"{found.rows} rows, {len(found.model.classes)} classes"
    print(f"{printable(options.file.name)}: {size}.\n")
    print_table([report.HEADINGS, *report.rows(found)], right=report.HEADINGS[2:])
    print(f"\n{report.legend(found)}")
    for sentence in report.remarks(found):
        print(printable(sentence, None))
    print(f"\nModel: {printable(str(options.out), None)}")
    print(f"Report: {printable(str(options.out / 'index.html'), None)}")
    print(printable(line, None))


def _command(options: argparse.Namespace) -> str:
    """Return the command that gives the same model."""
    words = ["softmargin", "fit", options.file.name, "--target", options.target]
    if options.ignore:
        words += ["--ignore", *options.ignore]
    words += ["--betas", ",".join(f"{beta:g}" for group in options.betas for beta in group)]
    words += ["--scoring", options.scoring, "--folds", str(options.folds)]
    words += ["--epochs", str(options.epochs), "--seed", str(options.seed)]
    words += ["--one-standard-error"] if options.one_standard_error else []
    return shlex.join(words)


COMMAND = Command(
    "choose β for a table, train the model, write it and a report to a folder",
    DESCRIPTION,
    declare,
    run,
    resumes=True,
)
