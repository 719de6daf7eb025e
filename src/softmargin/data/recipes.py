"""How a table as it is published becomes the CSV that the rest of the library reads.

The CSV follows from the values alone: every column has one way to write a number. So the same
values give the same bytes, whichever copy of the table they came from, and one checksum verifies
them all.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from softmargin._lazy import import_extra

Rows = list[list[str]]
PAGE = "https://archive.ics.uci.edu/static/public"
OLD = "https://archive.ics.uci.edu/ml/machine-learning-databases"


_NUMBERS: Mapping[str, Callable[[float], str]] = {
    "shortest": lambda value: repr(value).removesuffix(".0"),  # that reads back
    "pointed": repr,  # the same, but always with a decimal point
    ".3f": "{:.3f}".format,
}


@dataclass(frozen=True)
class SourceFile:
    """A published file that holds rows of a table.

    Args:
        url: Its address, or that of an archive.
        file: Its name within the archive, "" where that is none.
        format: One of ``FORMATS``.
        sheet: The sheet that is meant, where the file is an Excel workbook.
        label: Number of the column that is the class; from the end where negative.
        first: Number of the first feature's column; the others follow in the recipe's order.
        stop: Number of the column after the last feature's; by default that of the class where
            it is the last one, otherwise all columns that follow are features.
        classes: Class as written there → as written in the CSV, where the recipe's do not hold.
    """

    url: str
    file: str = ""
    format: str = "commas"
    sheet: str = ""
    label: int = -1
    first: int = 0
    stop: int | None = None
    classes: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file or self.url.rpartition("/")[2]

    @property
    def features(self) -> slice:
        """The columns of the features."""
        before_class = -1 if self.label == -1 else None
        return slice(self.first, before_class if self.stop is None else self.stop)

    def rows(self, content: bytes) -> Rows:
        """Return the rows of the file as text."""
        if not self.sheet:
            return FORMATS[self.format](content)
        # below a header, and where the first cell is not empty
        return [row for row in read_workbook(content, self.sheet) if row[0]][1:]


Source = tuple[SourceFile, ...]


@dataclass(frozen=True)
class Recipe:
    """A table: its columns, its classes and the places to get it from.

    Args:
        features: Names of the features.
        rows: Rows of the file.
        class_counts: Rows of each class among those that the ArcGrad paper uses, classes in
            alphabetical order.
        classes: Class as published → as written in the CSV.
        sources: Where it is published, the first choice first. The rows of a source are those of
            its parts, one after another.
        cells: Cell as published → as a number, "" where the value is missing.
        numbers: How numbers are written: "shortest", "pointed" or ".3f".
        columns: How they are written in some of the columns.
        zero_is_missing: Features in which 0 stands for a missing value.
    """

    features: Sequence[str]
    rows: int
    class_counts: Mapping[str, int]
    classes: Mapping[str, str]
    sources: tuple[Source, ...]
    cells: Mapping[str, str] = field(default_factory=lambda: {"?": ""})
    numbers: str = "shortest"
    columns: Mapping[str, str] = field(default_factory=dict)
    zero_is_missing: Sequence[str] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Recipe:
        """Return a recipe as ``published.toml`` describes it."""
        plain = ("rows", "class_counts", "cells", "numbers", "columns", "zero_is_missing")
        return cls(
            features=tuple(facts["features"].split()),
            classes=facts.get("classes") or {name: name for name in facts["class_counts"]},
            sources=_sources(facts),
            **{name: facts[name] for name in plain if name in facts},
        )

    def csv(self, rows: Rows) -> bytes:
        """Return the CSV with these rows."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([[*self.features, "class"], *rows])
        return text.getvalue().encode()

    def rows_of(self, part: SourceFile, content: bytes) -> Rows:
        """Return the rows of the CSV that a file holds; raise ``ValueError`` with a phrase."""
        classes = self.classes if part.classes is None else part.classes
        numbers = [_NUMBERS[self.columns.get(name, self.numbers)] for name in self.features]
        rows = []
        for count, row in enumerate(part.rows(content), start=1):
            cells = row[part.features]
            if len(cells) != len(numbers):
                raise ValueError(f"row {count} has {len(cells)} features, not {len(numbers)}")
            label = row[part.label]
            if label not in classes:
                raise ValueError(f"row {count} has the unknown class {label!r}")
            texts = [self.cells.get(cell, cell) for cell in cells]
            pairs = zip(numbers, texts, strict=True)
            values = [number(float(text)) if text else "" for number, text in pairs]
            rows.append([*values, classes[label]])
        return rows


def _sources(facts: Mapping[str, Any]) -> tuple[Source, ...]:
    """Return the zip of a table's page at UCI, its old address there, and copies elsewhere."""
    elsewhere = [(SourceFile(**part),) for part in facts.get("elsewhere", ())]
    if "files" not in facts:
        return tuple(elsewhere)
    old = f"{OLD}/{facts['old_address']}"
    page = f"{PAGE}/{facts['dataset']}/{facts['page']}.zip"
    first = tuple(SourceFile(page, **part) for part in facts["files"])
    if old.endswith(".zip"):
        second = tuple(replace(part, url=old) for part in first)
    else:
        second = tuple(replace(part, url=f"{old}/{quote(part.file)}", file="") for part in first)
    return (first, second, *elsewhere)


def read_commas(content: bytes) -> Rows:
    """Read lines of cells with commas between them; empty lines do not count.

    >>> read_commas(b"5.1,3.5,1.4,0.2,Iris-setosa\\n\\n")
    [['5.1', '3.5', '1.4', '0.2', 'Iris-setosa']]
    """
    return _cells(_lines(content))


def read_blanks(content: bytes) -> Rows:
    """Read lines of cells with blanks between them.

    >>> read_blanks(b"63.03 22.55 DH\\n")
    [['63.03', '22.55', 'DH']]
    """
    return [line.split() for line in _lines(content)]


def read_arff(content: bytes) -> Rows:
    """Read the data of an ARFF file, dense and without commas inside quotes.

    >>> read_arff(b"% a comment\\n@RELATION r\\n@ATTRIBUTE a {'y','n'}\\n@DATA\\n'y','n',?\\n% end")
    [['y', 'n', '?']]
    """
    lines = [line for line in _lines(content) if not line.lstrip().startswith("%")]
    starts = [i for i, line in enumerate(lines) if line.strip().lower() == "@data"]
    if not starts:
        raise ValueError("it has no line @data")
    return _cells(lines[starts[0] + 1 :])


FORMATS: Mapping[str, Callable[[bytes], Rows]] = {
    "commas": read_commas,
    "commas after a header": lambda content: read_commas(content)[1:],
    "blanks": read_blanks,
    "arff": read_arff,
}
"""Readers of text, each from the bytes of a file to rows of cells without blanks and quotes.

What does not fit the format is a ``ValueError`` with a phrase that says why.
"""

# a damaged workbook can make calamine end the process or ask for all of the memory
_CHILD = """\
import json, sys
from python_calamine import CalamineWorkbook
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
except ImportError:
    pass
book = CalamineWorkbook.from_filelike(sys.stdin.buffer)
rows = None
if sys.argv[1] in book.sheet_names:
    sheet = book.get_sheet_by_name(sys.argv[1])
    if sheet.total_height * sheet.total_width > 10**6:
        sys.exit("too large")
    rows = sheet.to_python(skip_empty_area=False)
json.dump(rows, sys.stdout, default=str)
"""
_SECONDS = 60


def read_workbook(content: bytes, sheet: str) -> Rows:
    """Return all rows of a sheet as text, read in a process of its own that has limits.

    A number is written so that it reads back; rows without any cell are left out.
    """
    import_extra("python_calamine", "Reading an Excel workbook needs python-calamine")
    command = [sys.executable, "-P", "-c", _CHILD, sheet]
    try:
        done = subprocess.run(
            command, input=content, capture_output=True, timeout=_SECONDS, check=True
        )
        rows = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        raise ValueError("it cannot be read as an Excel workbook") from None
    if rows is None:
        raise ValueError(f"it has no sheet {sheet}")
    texts = [[_cell(value) for value in row] for row in rows]
    return [row for row in texts if any(row)]


def _cell(value: object) -> str:
    return repr(float(value)) if isinstance(value, (int, float)) else str(value).strip()


def _lines(content: bytes) -> list[str]:
    lines = io.StringIO(content.decode("utf-8-sig", "replace"), newline=None)
    return [line for line in lines if line.strip()]


def _cells(lines: Iterable[str]) -> Rows:
    try:
        return [[cell.strip(" \t\r\n'\"") for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise ValueError(str(error)) from None
