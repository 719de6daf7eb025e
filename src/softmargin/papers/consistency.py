"""What can be checked of a result from its own files: numbers among each other, and pages.

A comparison is of an entry's values with those of its baseline, another entry of the table: its
difference, interval and p-value follow from both. Where folds of cross-validation were compared, of
which the table keeps means over runs with four decimals, the difference follows to 1e-4, and the
p-value from the interval. Holm's correction is over all comparisons of a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from softmargin.papers.outcome import Entry, Outcome, ResultTable
from softmargin.papers.pages import index_page, result_page
from softmargin.papers.statistics import Comparison, holm, paired_bootstrap, scipy_stats
from softmargin.papers.write import PAGE, checksum, read_results

EXACT = 1e-6  # of a number's size, or of 1 where it is smaller
FOUR_DECIMALS = 1e-4  # of two means, each rounded by at most half of that
LEVEL = 0.95
Place = Callable[[Mapping[str, Any], Mapping[str, Any] | None], str]


def is_close(a: float, b: float, to: float = EXACT) -> bool:
    """Return whether two numbers agree; NaN agrees with NaN."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return abs(a - b) <= to * max(1.0, abs(a), abs(b))


def first_difference(stored: Any, fresh: Any, path: str = "") -> str:
    """Return where two plain values differ first, and how; nothing where they do not.

    Example:
        >>> first_difference({"values": [1.0, 2.0]}, {"values": [1.0, 2.5]})
        ', values[1]: 2.0 is written, but it is 2.5'
        >>> first_difference([1.0, "a"], [1.0 + 1e-9, "a"])
        ''
    """
    if isinstance(stored, Mapping) and isinstance(fresh, Mapping) and stored.keys() == fresh.keys():
        pairs = [(f", {key}", stored[key], fresh[key]) for key in stored]
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        pairs = [(f"[{i}]", *pair) for i, pair in enumerate(zip(stored, fresh, strict=True))]
    else:
        numbers = isinstance(stored, (int, float)) and isinstance(fresh, (int, float))
        same = is_close(stored, fresh) if numbers else stored == fresh
        return "" if same else f"{path}: {_short(stored)} is written, but it is {_short(fresh)}"
    for step, ours, theirs in pairs:
        if found := first_difference(ours, theirs, f"{path}{step}"):
            return found
    return ""


def entry_place(table: Mapping[str, Any], entry: Mapping[str, Any] | None) -> str:
    """Return the name of a table, or of an entry in it."""
    title = f"table {table['title']!r}"
    return title if entry is None else f"{title}, row {entry['row']!r}, column {entry['column']!r}"


def chart_place(chart: Mapping[str, Any], series: Mapping[str, Any] | None) -> str:
    """Return the name of a chart, or of a curve in it."""
    return f"chart {chart['name']!r}" + ("" if series is None else f", {series['name']!r}")


def number_differences(outcome: Outcome) -> Iterator[str]:
    """Yield what does not follow from the values of the tables: a line for each entry."""
    for table in outcome.tables:
        for entry in table.entries:
            stored = entry.comparison
            if stored is not None and (found := _compared(entry, stored, table)):
                yield f"{_place(table, entry)}: {found}"
        yield from _adjusted(table)


def page_differences(folder: Path, meta: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    """Yield where a result's page is not what its numbers make, and which figures are missing."""
    yield from _pages(folder / PAGE, result_page(meta, outcome))
    for chart in outcome.charts:
        if not (folder / f"{chart.name}.svg").exists():
            yield f"{chart.name}.svg is missing"


def figure_differences(folder: Path, stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield which figures are not those that were written; earlier versions do not say."""
    for name, expected in stored.get("figures", {}).items():
        path = folder / name
        if path.exists() and checksum(path.read_bytes()) != expected:
            yield f"{name} has been changed since it was written: run the id again"


def index_differences(out: Path) -> list[str]:
    """Return where the page over all results is not what they make."""
    return list(_pages(out / PAGE, index_page(read_results(out))))


def _compared(entry: Entry, stored: Comparison, table: ResultTable) -> str:
    """Return what is wrong with the comparison of an entry, or nothing."""
    bases = [each for each in table.entries if (each.row, each.column) == entry.baseline]
    if len(bases) != 1:
        return f"it is compared with {entry.baseline}, which is not an entry of the table"
    return _against(entry, stored, bases[0])


def _against(entry: Entry, stored: Comparison, base: Entry) -> str:
    """Return in what a comparison is not that of an entry with a baseline, or nothing."""
    if stored.method.startswith("paired bootstrap"):
        fresh, to = paired_bootstrap(entry.values, base.values, seed=0), EXACT
    else:
        fresh, to = _from_interval(stored, entry.mean - base.mean), FOUR_DECIMALS
    for name in ("difference", "low", "high", "p", "n"):
        ours, theirs = getattr(stored, name), getattr(fresh, name)
        if not is_close(ours, theirs, to if name == "difference" else EXACT):
            against = f"{base.row!r}, {base.column!r}"
            return f"{name} is written as {ours:.8g}, but against {against} it is {theirs:.8g}"
    return ""


def _from_interval(stored: Comparison, difference: float) -> Comparison:
    """Return a corrected t-test as its own interval and the means of its runs give it."""
    half = (stored.high - stored.low) / 2
    low, high = stored.difference - half, stored.difference + half
    p = float(stored.difference == 0)
    if half > 0:
        t = scipy_stats().t
        error = half / float(t.ppf(0.5 + LEVEL / 2, stored.n - 1))
        p = 2 * float(t.sf(abs(stored.difference) / error, stored.n - 1))
    return Comparison(difference, low, high, p, stored.n, stored.method)


def _adjusted(table: ResultTable) -> Iterator[str]:
    tested = [each for each in table.entries if each.adjusted is not None and each.comparison]
    p = np.array([each.comparison.p for each in tested if each.comparison])
    if not ((p >= 0) & (p <= 1)).all():
        yield f"table {table.title!r}: a p-value is not from 0 to 1"
        return
    for entry, fresh in zip(tested, holm(p), strict=True):
        if entry.adjusted is not None and not is_close(entry.adjusted, float(fresh)):
            yield (
                f"{_place(table, entry)}: p after Holm's correction is written as "
                f"{entry.adjusted:.8g}, but it is {fresh:.8g}"
            )


def _place(table: ResultTable, entry: Entry) -> str:
    return entry_place({"title": table.title}, {"row": entry.row, "column": entry.column})


def _pages(path: Path, expected: str) -> Iterator[str]:
    try:
        written = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        yield f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}"
        return
    heading, columns, last = "", list[str](), ""
    for number, (ours, theirs) in enumerate(zip_longest(written, expected.split("\n")), 1):
        line = theirs or ""
        if line.startswith("### "):
            heading = line[4:]
        if line.startswith("| :--") or line.startswith("| --:"):
            columns = _cells(last)
        last = line
        if ours != theirs:
            where = _changed(ours or "", line, columns)
            table = f", table {heading!r}" if where and heading else ""
            said = f"{_short(ours)} is written, but it is {_short(theirs)}"
            yield f"{path.name}, line {number}{table}{where}: {said}"


def _changed(ours: str, theirs: str, columns: Sequence[str]) -> str:
    """Return the row and the columns in which two lines of a table differ."""
    own, other = _cells(ours), _cells(theirs)
    if not ours.startswith("| ") or not len(own) == len(other) == len(columns) > 1:
        return ""
    changed = [name for name, a, b in zip(columns, own, other, strict=True) if a != b]
    if columns[1] == "" and len(columns) > 2:  # intervals, with an entry in every line
        return f", row {other[0]!r}, column {other[1]!r}, {', '.join(changed)}"
    return f", row {other[0]!r}, column {', '.join(repr(name) for name in changed)}"


def _cells(line: str) -> list[str]:
    hidden = line.replace("\\|", "\0")
    return [cell.strip().replace("\0", "|") for cell in hidden.strip().strip("|").split("|")]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
