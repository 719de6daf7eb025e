"""How a table as it is published becomes the CSV that the rest of the library reads.

The CSV follows from the values alone: every column has one way to write a number. So the same
values give the same bytes, whichever copy of the table they came from, and one checksum verifies
them all.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from softmargin.data.readers.raw import RawReader, Rows

Number = Callable[[float], str]
Content = Callable[[str, str], bytes]
"""The bytes of a file, by its address and the member of it that is meant."""


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


@dataclass(frozen=True)
class Part:
    """A published file that holds rows of a table.

    Args:
        url: Its address.
        read: The reader of its format.
        label: Number of the column that is the class; from the end where negative.
        features: Which columns are the features, in the order of the recipe's.
        member: Name of the file within the archive at ``url``, "" where that is no archive.
        classes: Class as written there → as written in the CSV.
    """

    url: str
    read: RawReader
    label: int
    features: slice
    member: str = ""
    classes: Mapping[str, str] | None = None


Source = tuple[Part, ...]


@dataclass(frozen=True)
class Recipe:
    """A table: its columns, its classes and the places to get it from.

    Args:
        features: Names of the features.
        classes: Class as published → as written in the CSV.
        sources: Where it is published, the first choice first. The rows of a source are those of
            its parts, one after another.
        cells: Cell as published → as a number, "" where the value is missing.
        number: How numbers are written.
        columns: How they are written in some of the columns.
    """

    features: Sequence[str]
    classes: Mapping[str, str]
    sources: tuple[Source, ...]
    cells: Mapping[str, str] = field(default_factory=lambda: {"?": ""})
    number: Number = shortest
    columns: Mapping[str, Number] = field(default_factory=dict)

    def convert(self, source: Source, content: Content) -> tuple[str, int]:
        """Return the CSV and its number of rows; raise ``ValueError`` with a phrase."""
        rows = [row for part in source for row in self._rows(part, content(part.url, part.member))]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.features, "class"])
        writer.writerows(rows)
        return text.getvalue(), len(rows)

    def _rows(self, part: Part, content: bytes) -> Rows:
        classes = self.classes if part.classes is None else part.classes
        numbers = [self.columns.get(name, self.number) for name in self.features]
        rows = []
        for count, row in enumerate(part.read(content), start=1):
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
