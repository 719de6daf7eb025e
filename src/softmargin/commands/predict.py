"""``softmargin predict``: calibrated probabilities for a table, by a model that fit has written."""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import sys
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
    file,
    folder,
    progress,
    quoted,
    require_lab,
)

DESCRIPTION = """\
Write calibrated probabilities, a column for every class, and the predicted class of every
row of FILE, by a model that softmargin fit has written. Other columns of FILE make no
difference. Categories that the model has not seen are treated as unknown.

The result is CSV on standard output, or a file by --out: .csv, .tsv or .parquet.

example:
  softmargin predict iris-csv-model new.csv > predictions.csv"""
PREDICTED = "predicted"
KINDS = (".csv", ".tsv", ".parquet")
MODEL = "model.json"
PLACE = re.compile(r".*\[\d+\]", re.DOTALL)  # how a place of an array of features is called


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin predict``."""
    parser.add_argument("model", type=folder, metavar="MODEL", help="folder that fit has written")
    parser.add_argument("file", type=Path, metavar="FILE", help="the table")
    parser.add_argument("--out", type=file, metavar="FILE", help="default: standard output")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def run(options: argparse.Namespace) -> None:
    """Read model and table, write probabilities and classes."""
    check(options)
    require_lab()
    from softmargin.estimators import TableModel

    with progress() as show:
        show(0, 0, "reading")
        try:
            model = TableModel.load(options.model)
            columns = read(options.file, model)
            show(0, 0, "predicting")
            unknown = model.unknown(columns)
            content = encoded(model, columns, options.out)
        except ValueError as error:
            raise UsageError(one_line(str(error))) from None
    if options.out is None:
        sys.stdout.write(content.decode())
    else:
        with writing(options.out):
            write_file(options.out, content)
    if unknown:
        print(said_of_unknown(unknown), file=sys.stderr)


def check(options: argparse.Namespace) -> None:
    """Check before the work that everything is there and the result can be written."""
    if not (options.model / MODEL).is_file():
        raise UsageError(
            "MODEL must be a folder that softmargin fit has written, but "
            f"{quoted(str(options.model))} has no {MODEL}."
        )
    if not options.file.is_file():
        raise UsageError(f"FILE must be a file that exists, but got {quoted(str(options.file))}.")
    if options.out is None:
        return
    if options.out.suffix.lower() not in KINDS:
        raise UsageError(
            f"argument --out: must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}, but got "
            f"{quoted(str(options.out))}."
        )
    if options.out.resolve() == options.file.resolve():
        raise UsageError(
            f"argument --out: must not be the file that is read, {quoted(str(options.out))}."
        )
    if options.out.exists() and not options.overwrite:
        raise UsageError(
            f"argument --out: must be a new file, but {quoted(str(options.out))} is there; "
            "--overwrite replaces it."
        )
    with writing(options.out):
        if options.out.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        with tempfile.TemporaryFile(dir=os.path.abspath(options.out.parent)):
            pass


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write into a sentence about ``--out``."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"argument --out: must be a file that can be written, but {quoted(str(path))} is not: "
            f"{(error.strerror or type(error).__name__).lower()}."
        ) from None


def read(path: Path, model: Any) -> Any:
    """Return the columns of a table, those of categories as text."""
    from softmargin.data.columns import read_columns

    table = read_columns(path, model.preparation.words)
    if not table.features:
        return table.columns
    wanted = model.preparation.names
    if not all(PLACE.fullmatch(name) for name in wanted):
        return table.columns  # fitted on columns with names of their own, which will be asked for
    if len(wanted) != len(table.features):
        raise UsageError(
            f"FILE {quoted(path.name)} must hold {len(wanted)} features, as when the model was "
            f"fitted, but holds {len(table.features)}."
        )
    # an array of features counts by its places, whatever its name is
    return {name: table.columns[own] for name, own in zip(wanted, table.features, strict=True)}


def encoded(model: Any, columns: Any, out: Path | None) -> bytes:
    """Return probabilities and classes as the content of a file."""
    proba, predicted = model.predict_proba(columns), model.predict(columns)
    names = [f"prob_{name}" for name in model.classes.tolist()]
    buffer = io.BytesIO()
    if out is not None and out.suffix.lower() == ".parquet":
        import pyarrow
        from pyarrow import parquet

        found = {name: proba[:, i] for i, name in enumerate(names)}
        parquet.write_table(pyarrow.table({**found, PREDICTED: predicted}), buffer)
        return buffer.getvalue()
    tabs = out is not None and out.suffix.lower() == ".tsv"
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t" if tabs else ",", lineterminator="\n")
    writer.writerow([*names, PREDICTED])
    for values, label in zip(proba.tolist(), predicted.tolist(), strict=True):
        writer.writerow([*values, label])  # numbers as Python shows them, which is exact
    return text.getvalue().encode()


def said_of_unknown(unknown: dict[str, list[str]]) -> str:
    """Return a line about categories that the model has not seen.

    Example:
        >>> print(said_of_unknown({"colour": ["violet", "violet", "pink"]}))
        Not seen when the model was fitted, treated as unknown: colour in 3 rows ('violet', 'pink').
    """
    parts = []
    for name, values in unknown.items():
        kinds = list(dict.fromkeys(values))
        shown = ", ".join(quoted(value) for value in kinds[:3]) + (", …" if len(kinds) > 3 else "")
        rows = "1 row" if len(values) == 1 else f"{len(values)} rows"
        parts.append(f"{printable(name, 60)} in {rows} ({shown})")
    return f"Not seen when the model was fitted, treated as unknown: {'; '.join(parts)}."


COMMAND = Command("probabilities for a table by a model of fit", DESCRIPTION, declare, run)
