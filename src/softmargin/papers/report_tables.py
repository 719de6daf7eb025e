"""Tables of results as the interactive report shows them: cells with what they are sorted by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softmargin.papers.outcome import Entry, ResultTable
from softmargin.papers.pages import (
    MARK,
    NOTHING,
    caption,
    is_over_seeds,
    methods,
    number,
    p_value,
)
from softmargin.papers.statistics import summary

IN_OVERVIEW = {"ours", "n", "paper"}
LONGEST_OPEN = 12  # rows of details that are shown without a click, where there is an overview


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        text: what is shown.
        key: the number that it is sorted by, or None where there is none.
        mark: a sign beside it, such as that of significance.
        says: what the sign means, in words.
        below: a second, smaller line.
    """

    text: str
    key: float | None = None
    mark: str = ""
    says: str = ""
    below: str = ""

    @property
    def order(self) -> str:
        """What the page sorts by: seven digits, or nothing."""
        return "" if self.key is None else f"{self.key:.7g}"


@dataclass(frozen=True)
class Grid:
    """A table to look at: headings, and rows of which the first ``names`` cells are names."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    names: int = 1


@dataclass(frozen=True)
class TableView:
    """A table of results: by row and column as in the paper, and one line for each number.

    At least one of the two is there: details that say no more than the overview are left out.
    """

    title: str
    caption: str
    overview: Grid | None
    details: Grid | None
    methods: str
    is_open: bool


def table_view(table: ResultTable, seeds: int) -> TableView:
    """Return how a table is shown.

    Args:
        table: the table.
        seeds: how many seeds it was run with; as many values are one per seed.

    Example:
        >>> entries = [Entry("iris", "β = 1", (95.0, 96.0), paper=95.1)]
        >>> view = table_view(ResultTable("Accuracy", "%", entries), seeds=2)
        >>> [cell.text for cell in view.details.rows[0]]
        ['iris', 'β = 1', '95.50 ± 0.71', '[89.15, 101.85]', '2', '95.1', '0.40']
    """
    columns = list(dict.fromkeys(each.column for each in table.entries))
    rows = list(dict.fromkeys(each.row for each in table.entries))
    overview = _by_place(table, rows, columns) if len(columns) > 1 else None
    details: Grid | None = _one_by_one(table, seeds)
    if (
        overview is not None
        and details is not None
        and IN_OVERVIEW.issuperset(details.headings[2:])
    ):
        details = None
    unit = f", {table.unit}" if table.unit else ""
    is_open = overview is None or len(table.entries) <= LONGEST_OPEN
    said = caption(table, "; ↑ above, ↓ below")
    return TableView(
        f"{table.title}{unit}", said, overview, details, methods(table, seeds), is_open
    )


def _by_place(table: ResultTable, rows: Sequence[str], columns: Sequence[str]) -> Grid:
    by_place = {(each.row, each.column): each for each in table.entries}
    cells = [
        [Cell(row), *(_place(table, by_place.get((row, column))) for column in columns)]
        for row in rows
    ]
    return Grid([table.row_heading, *columns], cells)


def _place(table: ResultTable, entry: Entry | None) -> Cell:
    if entry is None:
        return Cell(NOTHING)
    ours, mark = _ours(table, entry), _mark(table, entry)
    theirs = _paper(table, entry).text if entry.paper is not None else ""
    below = f"paper {theirs}" if theirs else ""
    return Cell(ours.text, ours.key, mark.mark, mark.says, below)


Column = Callable[[ResultTable, Entry], Cell]


def _one_by_one(table: ResultTable, seeds: int) -> Grid:
    """Return one row for each number; what no row has is left out."""

    def interval(table: ResultTable, entry: Entry) -> Cell:
        if not is_over_seeds(entry, seeds):
            return Cell(NOTHING)
        over = summary(entry.values)
        return _range(over.low, over.high, table.digits)

    columns: dict[str, Column] = {
        "ours": _ours,
        "95 % interval": interval,
        "n": lambda _, entry: Cell(str(len(entry.values)), len(entry.values)),
        "paper": _paper,
        "ours − paper": _to_paper,
        "ours − baseline": _to_baseline,
        "its interval": _baseline_interval,
        "p": lambda _, entry: _p(entry.comparison.p if entry.comparison else None),
        "p, Holm": lambda _, entry: _p(entry.adjusted),
        "differs?": _mark,
    }
    filled = {
        name: [column(table, entry) for entry in table.entries] for name, column in columns.items()
    }
    kept = {name: cells for name, cells in filled.items() if any(map(_has_something, cells))}
    rows = [
        [Cell(entry.row), Cell(entry.column), *(cells[i] for cells in kept.values())]
        for i, entry in enumerate(table.entries)
    ]
    return Grid([table.row_heading or "row", "what", *kept], rows, names=2)


def _has_something(cell: Cell) -> bool:
    return bool(cell.mark) or cell.text not in ("", NOTHING)


def _ours(table: ResultTable, entry: Entry) -> Cell:
    sd = entry.spread
    spread = "" if sd is None else f" ± {_number(sd, table.digits)}"
    return _value(entry.mean, table.digits, spread)


def _paper(table: ResultTable, entry: Entry) -> Cell:
    """Return the paper's number with the digits that it was printed with."""
    if entry.paper is None or not math.isfinite(entry.paper):
        return Cell(NOTHING)
    short = str(round(entry.paper, table.digits)) if table.digits else f"{entry.paper:.0f}"
    sd = "" if entry.paper_sd is None else f" ± {_number(entry.paper_sd, table.digits)}"
    return Cell(short.replace("-", "−") + sd, entry.paper)


def _to_paper(table: ResultTable, entry: Entry) -> Cell:
    if entry.paper is None:
        return Cell(NOTHING)
    return _value(entry.mean - entry.paper, table.digits)


def _to_baseline(table: ResultTable, entry: Entry) -> Cell:
    return _value(entry.comparison.difference if entry.comparison else None, table.digits)


def _baseline_interval(table: ResultTable, entry: Entry) -> Cell:
    found = entry.comparison
    return _range(found.low, found.high, table.digits) if found else Cell(NOTHING)


def _mark(table: ResultTable, entry: Entry) -> Cell:
    """Return in a sign and a word whether a number differs from its baseline."""
    found = entry.comparison
    if found is None:
        return Cell("")
    if not entry.is_significant:
        return Cell("not shown", 0)
    up = found.difference > 0
    word = {"higher": "better" if up else "worse", "lower": "worse" if up else "better"}
    said = word.get(table.better, "higher" if up else "lower")
    mark = f"{MARK}{'↑' if up else '↓'}"
    return Cell(said, 1 if up else -1, mark, f"significantly {said} than the baseline")


def _value(value: float | None, digits: int, after: str = "") -> Cell:
    if value is None or not math.isfinite(value):
        return Cell(NOTHING)
    return Cell(_number(value, digits) + after, value)


def _range(low: float | None, high: float | None, digits: int) -> Cell:
    if low is None or high is None:
        return Cell(NOTHING)
    return Cell(f"[{_number(low, digits)}, {_number(high, digits)}]", low)


def _p(value: float | None) -> Cell:
    there = value is not None and math.isfinite(value)
    return Cell(p_value(value), value if there else None)


def _number(value: float, digits: int) -> str:
    """Return a number with the sign that goes with digits; what rounds to 0 has none."""
    text = number(value, digits).replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text.removeprefix("−")
