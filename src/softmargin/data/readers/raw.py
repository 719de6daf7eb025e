"""The formats that tables are published in, each read into rows of text.

A reader takes the bytes of a file and returns its rows, cells stripped of blanks and quotes. What
does not fit the format is a ``ValueError`` with a phrase that says why.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable

from softmargin.data.readers.xls import read_sheet

Rows = list[list[str]]
RawReader = Callable[[bytes], Rows]


def read_commas(content: bytes) -> Rows:
    """Read lines of cells with commas between them; empty lines do not count.

    >>> read_commas(b"5.1,3.5,1.4,0.2,Iris-setosa\\n\\n")
    [['5.1', '3.5', '1.4', '0.2', 'Iris-setosa']]
    """
    return _cells(_lines(content))


def read_commas_after_header(content: bytes) -> Rows:
    """Read the same, without the first line.

    >>> read_commas_after_header(b"class,b1\\nd ,39\\n")
    [['d', '39']]
    """
    return read_commas(content)[1:]


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


def sheet(name: str) -> RawReader:
    """Return a reader of one sheet of an Excel workbook: rows that start with a cell, but one."""
    return lambda content: [row for row in read_sheet(content, name) if row[0]][1:]


def _lines(content: bytes) -> list[str]:
    lines = io.StringIO(content.decode("utf-8-sig", "replace"), newline=None)
    return [line for line in lines if line.strip()]


def _cells(lines: Iterable[str]) -> Rows:
    try:
        return [[cell.strip(" \t\r\n'\"") for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise ValueError(str(error)) from None
