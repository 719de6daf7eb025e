"""How a table as it is published becomes the CSV that the rest of the library reads.

The CSV follows from the values alone: every column has one way to write a number. So the same
values give the same bytes, whichever copy of the table they came from, and one checksum verifies
them all.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

Rows = list[list[str]]
Content = Callable[[str, str], bytes]
"""The bytes of a file, by its address and the member of it that is meant."""

PAGE = "https://archive.ics.uci.edu/static/public"
OLD = "https://archive.ics.uci.edu/ml/machine-learning-databases"


def shortest(value: float) -> str:
    """Write a number as short as it reads back.

    >>> shortest(29.0), shortest(0.0633)
    ('29', '0.0633')
    """
    return repr(value).removesuffix(".0")


def pointed(value: float) -> str:
    """Write the same, but always with a decimal point.

    >>> pointed(330), pointed(0.08)
    ('330.0', '0.08')
    """
    return repr(float(value))


_NUMBERS: Mapping[str, Callable[[float], str]] = {
    "shortest": shortest,
    "pointed": pointed,
    ".3f": "{:.3f}".format,
}


@dataclass(frozen=True)
class SourceFile:
    """A published file that holds rows of a table.

    Args:
        url: Its address.
        member: Name of the file within the archive at ``url``, "" where that is no archive.
        format: One of ``FORMATS``.
        sheet: The sheet that is meant, where the file is an Excel workbook.
        label: Number of the column that is the class; from the end where negative.
        first: Number of the first feature's column; the others follow in the recipe's order.
        stop: Number of the column after the last feature's, None for all that follow.
        classes: Class as written there → as written in the CSV, where the recipe's do not hold.
    """

    url: str
    member: str = ""
    format: str = "commas"
    sheet: str = ""
    label: int = -1
    first: int = 0
    stop: int | None = None
    classes: Mapping[str, str] | None = None

    @classmethod
    def of(cls, facts: Mapping[str, Any], url: str = "", member: str = "") -> SourceFile:
        """Return a part as ``published.toml`` describes it."""
        given = {"stop": -1 if facts.get("label", -1) == -1 else None, "url": url, **facts}
        given.pop("file", None)
        return cls(member=member, **given)

    def rows(self, content: bytes) -> Rows:
        """Return the rows of the file as text."""
        return read_sheet(content, self.sheet) if self.sheet else FORMATS[self.format](content)


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

    def convert(self, source: Source, content: Content) -> tuple[str, int]:
        """Return the CSV and its number of rows; raise ``ValueError`` with a phrase."""
        rows = [row for part in source for row in self._rows(part, content(part.url, part.member))]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.features, "class"])
        writer.writerows(rows)
        return text.getvalue(), len(rows)

    def _writer(self, feature: str) -> Callable[[float], str]:
        return _NUMBERS[self.columns.get(feature, self.numbers)]

    def _rows(self, part: SourceFile, content: bytes) -> Rows:
        classes = self.classes if part.classes is None else part.classes
        numbers = [self._writer(name) for name in self.features]
        rows = []
        for count, row in enumerate(part.rows(content), start=1):
            cells = row[part.first : part.stop]
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
    sources = list[Source]()
    if parts := facts.get("files"):
        page, old = (
            f"{PAGE}/{facts['dataset']}/{facts['page']}.zip",
            f"{OLD}/{facts['old_address']}",
        )
        sources.append(tuple(SourceFile.of(part, page, part["file"]) for part in parts))
        if old.endswith(".zip"):
            sources.append(tuple(SourceFile.of(part, old, part["file"]) for part in parts))
        else:
            sources.append(
                tuple(SourceFile.of(part, f"{old}/{quote(part['file'])}") for part in parts)
            )
    return (*sources, *((SourceFile.of(part),) for part in facts.get("elsewhere", ())))


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


def read_sheet(content: bytes, name: str) -> Rows:
    """Return the rows of a sheet of an Excel workbook that start with a cell, but for the first.

    Raises:
        ValueError: The file is no workbook that can be read, or has no sheet of this name.
    """
    return [row for row in read_workbook(content, name) if row[0]][1:]


def read_workbook(content: bytes, sheet: str) -> Rows:
    """Return all rows of a sheet as text, in a process of its own that has limits.

    A number is written so that it reads back; rows without any cell are left out.
    """
    if importlib.util.find_spec("python_calamine") is None:
        raise ImportError(
            "Reading an Excel workbook needs python-calamine, which is missing: "
            'pip install "softmargin[lab]".'
        )
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
