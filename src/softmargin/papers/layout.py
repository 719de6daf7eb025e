"""How a table of results is laid out, on Markdown pages and in the report alike.

Ours stand by row and column with the paper's beside them; below, every number that has a spread or
a comparison has a line with its intervals and differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softmargin.papers.outcome import SIGNIFICANT, Entry, ResultTable, p_told
from softmargin.papers.statistics import summary

ENOUGH = 3  # values for an interval, where some seeds have none
MARK = "†"
ELSEWHERE = "‡"  # at a number of the paper's that is of another test
NOTHING = "–"
DETAILS = (
    "",
    "",
    "n",
    "mean [95 %]",
    "paper",
    "ours − paper",
    "ours − baseline [interval]",
    "p",
    "p, Holm",
)


@dataclass(frozen=True)
class Shown:
    """One number of a table.

    Attributes:
        ours: mean ± standard deviation.
        paper: the paper's, or nothing.
        mark: whether it differs from its baseline: a sign, or nothing.
        says: what the sign means.
    """

    ours: str = NOTHING
    paper: str = ""
    mark: str = ""
    says: str = ""


@dataclass(frozen=True)
class Layout:
    """A table to look at.

    Attributes:
        title: with its unit.
        headings: of the rows, and of each column.
        rows: for each column a number, by the name of the row.
        caption: what the numbers are.
        details: lines of as many cells as ``DETAILS``.
        methods: how the intervals and p-values in them were found.
    """

    title: str
    headings: Sequence[str]
    rows: Mapping[str, Sequence[Shown]]
    caption: str
    details: Sequence[Sequence[str]]
    methods: str

    @property
    def has_paper(self) -> bool:
        """Whether some number of the paper's stands in it."""
        return any(each.paper for row in self.rows.values() for each in row)


def layout(table: ResultTable, seeds: int, elsewhere: Mapping[str, str] | None = None) -> Layout:
    """Lay a table out.

    Args:
        table: the table.
        seeds: how many seeds it was run with; as many values are one per seed.
        elsewhere: why numbers of the paper's are of another test than ours, by row or column, or
            with an empty key for all of them: these are marked, and no difference is taken.

    Example:
        >>> entries = [Entry("iris", "β = 1", (95.0, 96.0), paper=95.1)]
        >>> found = layout(ResultTable("Accuracy", "%", entries), seeds=2)
        >>> found.rows["iris"][0].ours, found.rows["iris"][0].paper
        ('95.50 ± 0.71', '95.1')
        >>> found.details[0][:6]
        ['iris', 'β = 1', '2', '95.50 [89.15, 101.85]', '95.1', '0.40']
    """
    reasons = elsewhere or {}
    by_place = {(each.row, each.column): each for each in table.entries}
    if len(by_place) < len(table.entries):
        raise ValueError(f"entries of table {table.title!r} must have one place each.")
    columns = list(dict.fromkeys(each.column for each in table.entries))
    rows = {
        row: [_shown(table, by_place.get((row, column)), reasons) for column in columns]
        for row in dict.fromkeys(each.row for each in table.entries)
    }
    unit = f", {table.unit}" if table.unit else ""
    details = [
        _detail(each, table.digits, seeds, reasons)
        for each in table.entries
        if each.comparison is not None or each.spread is not None
    ]
    headings = [table.row_heading, *columns]
    said = _caption(table, reasons), _methods(table, seeds)
    return Layout(f"{table.title}{unit}", headings, rows, said[0], details, said[1])


def _elsewhere(entry: Entry, reasons: Mapping[str, str]) -> str:
    """Return why the paper's number is of another test, or nothing."""
    found = (reasons.get(name, "") for name in (entry.row, entry.column, ""))
    return "" if entry.paper is None else next(filter(None, found), "")


def _shown(table: ResultTable, entry: Entry | None, reasons: Mapping[str, str]) -> Shown:
    if entry is None:
        return Shown()
    paper = "" if entry.paper is None else _printed(entry.paper, table.digits)
    if entry.paper_sd is not None:
        paper += f" ± {_number(entry.paper_sd, table.digits)}"
    if _elsewhere(entry, reasons):
        paper += f" {ELSEWHERE}"
    ours = _number(entry.mean, table.digits)
    if entry.spread is not None:
        ours += f" ± {_number(entry.spread, table.digits)}"
    if entry.comparison is None or not entry.is_significant:
        return Shown(ours, paper)
    up = entry.comparison.difference > 0
    words = {"higher": ("worse", "better"), "lower": ("better", "worse")}
    word = words.get(table.better, ("lower", "higher"))[up]
    return Shown(ours, paper, MARK, f"significantly {word} than the baseline")


def _detail(entry: Entry, digits: int, seeds: int, reasons: Mapping[str, str]) -> list[str]:
    mean = _number(entry.mean, digits)
    if _is_over_seeds(entry, seeds):
        over = summary(entry.values)
        mean += f" [{_number(over.low, digits)}, {_number(over.high, digits)}]"
    cells = [entry.row, entry.column, str(len(entry.values)), mean]
    if entry.paper is None:
        cells += [NOTHING, NOTHING]
    elif _elsewhere(entry, reasons):
        cells += [f"{_printed(entry.paper, digits)} {ELSEWHERE}", NOTHING]
    else:
        cells += [_printed(entry.paper, digits), _number(entry.mean - entry.paper, digits)]
    found = entry.comparison
    if found is None:
        return [*cells, NOTHING, NOTHING, NOTHING]
    ends = f"[{_number(found.low, digits)}, {_number(found.high, digits)}]"
    mark = f" {MARK}" if entry.is_significant else ""
    difference = f"{_number(found.difference, digits)} {ends}"
    return [*cells, difference, _p_value(found.p), _p_value(entry.adjusted) + mark]


def _caption(table: ResultTable, reasons: Mapping[str, str]) -> str:
    """Return what the numbers are, in the words that this table needs."""
    sizes = sorted({len(each.values) for each in table.entries if len(each.values) > 1})
    said = []
    if sizes:
        said.append(f"Mean ± standard deviation of {' or '.join(map(str, sizes))} values.")
    if table.better:
        said.append(f"{table.better.capitalize()} is better.")
    if any(each.is_significant for each in table.entries):
        holm = any(each.adjusted is not None for each in table.entries)
        after = " after Holm's correction" if holm else ""
        said.append(f"{MARK} differs from the baseline, p < {SIGNIFICANT:g}{after}.")
    other = dict.fromkeys(_elsewhere(each, reasons) for each in table.entries)
    if why := "; ".join(filter(None, other)):
        said.append(f"{ELSEWHERE} The paper's number is of another test: {why}.")
    return " ".join([*said, table.note]).strip()


def _methods(table: ResultTable, seeds: int) -> str:
    """Return how the intervals and p-values were found."""
    compared = [each for each in table.entries if each.comparison is not None]
    found = dict.fromkeys(each.comparison.method for each in compared if each.comparison)
    said = [f"Difference from the baseline: {method}." for method in found]
    if any(_is_over_seeds(each, seeds) for each in table.entries):
        said.insert(0, "Interval of a mean: Student's t over seeds.")
    pairs = [
        len(each.values)
        for each in compared
        if each.comparison and "exact sign-flip" in each.comparison.method
    ]
    if pairs and (least := 2 / 2 ** max(pairs)) > SIGNIFICANT:
        said.append(
            f"With {max(pairs)} pairs an exact p is at least {least:.3f}: see the intervals."
        )
    return " ".join(said)


def _is_over_seeds(entry: Entry, seeds: int) -> bool:
    """Whether the values are one per seed, of all seeds or of enough of them for an interval.

    Those of folds are more, and not independent.
    """
    count = len(entry.values)
    return entry.spread is not None and (count == seeds or ENOUGH <= count < seeds)


def _number(value: float | None, digits: int) -> str:
    """Return a number with that many digits, or a dash where there is none."""
    return f"{value:.{digits}f}" if value is not None and math.isfinite(value) else NOTHING


def _printed(value: float, digits: int) -> str:
    """Return a paper's number with the digits that it was printed with."""
    return str(round(value, digits)) if digits and math.isfinite(value) else _number(value, digits)


def _p_value(value: float | None) -> str:
    return p_told(value) if value is not None and math.isfinite(value) else NOTHING
