"""Verifying results: everything that is written is computed again from what it was made of.

Where the finished cells of a result are there, in full or as they were committed, its tables,
charts and verdict are concluded again from them and compared with ``numbers.json``. Of full cells
stored test logits are scored again (:mod:`softmargin.papers.rescoring`). Results of earlier
versions have no committed cells: there, and everywhere else, numbers that follow from others of
the same file, and the pages, are checked against each other.

A comparison is of an entry's values with those of its baseline, another entry of the table: its
difference, interval and p-value follow from both. Where folds of cross-validation were compared, of
which the table keeps means over runs with four decimals, the difference follows to 1e-4, and the
p-value from the interval. Holm's correction is over all comparisons of a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from softmargin._files import DamagedFileError
from softmargin.papers import core
from softmargin.papers.core import Cell, Experiment, Result, Scope
from softmargin.papers.outcome import Entry, Outcome, plain
from softmargin.papers.pages import index_page, result_page
from softmargin.papers.rescoring import EXACT, is_within, score_again
from softmargin.papers.statistics import Comparison, holm, paired_bootstrap, t_quantile, t_test_p
from softmargin.papers.store import CellStore, checksum
from softmargin.papers.write import (
    NUMBERS,
    PAGE,
    read_numbers,
    read_result,
    read_results,
)

FOUR_DECIMALS = 1e-4  # of two means, each rounded by at most half of that


@dataclass
class Checked:
    """What was found about one result: how it was checked, and a line for each thing wrong.

    Attributes:
        id: of the experiment.
        cells: from how many finished cells it was concluded again; 0 where none are there.
        scores: how many scores of stored logits were computed again.
        problems: one line each.
    """

    id: str
    cells: int = 0
    scores: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def how(self) -> str:
        """How it was checked, in words."""
        if not self.cells:
            return "numbers and page agree; its cells are not here"
        scores = f", {self.scores} scores from stored logits" if self.scores else ""
        return f"the same again from {self.cells} cell{'s' if self.cells > 1 else ''}{scores}"


def verify(out: Path, wanted: Sequence[str] = ()) -> Iterator[Checked]:
    """Check the results in a folder one by one, and in the end the page over all of them.

    Args:
        out: the folder.
        wanted: the ids of the results to check, by default all.
    """
    store, scored = CellStore(out), set[str]()
    damaged = False
    for name in wanted or sorted(path.parent.name for path in out.glob(f"*/{NUMBERS}")):
        checked = Checked(name)
        try:
            _check_result(out / name, store, checked, scored)
        except DamagedFileError as error:
            damaged = True
            checked.problems.append(str(error))
        yield checked
    if not wanted and not damaged:
        page = list(page_differences(out / PAGE, index_page(read_results(out))))
        yield Checked(PAGE, problems=page)


def _check_result(folder: Path, store: CellStore, checked: Checked, scored: set[str]) -> None:
    """Check one result; ``scored`` has the keys of the cells whose logits were scored before."""
    (meta, outcome), stored = read_result(folder, checked.id), read_numbers(folder)
    checked.problems += number_differences(outcome)
    experiment = core.experiments().get(meta["id"])
    scope = Scope(meta["scale"], tuple(meta["seeds"]))
    cells = [] if experiment is None else list(experiment.cells(scope))
    written = meta["configuration"]["cells"]
    checked.problems += _key_differences(meta["configuration"])
    if experiment is None or {cell.key for cell in cells} != {each["key"] for each in written}:
        checked.problems.append("it is of a recipe that this version does not have: run it again")
    elif cells and all(store.is_finished(cell) for cell in cells):
        finished = _checked_cells(cells, store, checked, scored)
        checked.cells = len(finished)
        if finished:
            checked.problems += _concluded_again(experiment, scope, finished, stored)
    checked.problems += page_differences(folder / PAGE, result_page(meta, outcome))
    checked.problems += _figure_differences(folder, outcome, stored.get("figures", {}))


def _key_differences(configuration: Mapping[str, Any]) -> Iterator[str]:
    for each in configuration["cells"]:
        config = {**configuration["common"], **each["config"]}
        if (key := Cell(each["work"], config, each["label"]).key) != each["key"]:
            yield (
                f"cell {each['label']!r}: its configuration has the key {key}, but "
                f"{each['key']} is written"
            )


def _checked_cells(
    cells: Sequence[Cell], store: CellStore, checked: Checked, scored: set[str]
) -> list[tuple[Cell, Result]]:
    """Return finished cells with their results, or nothing where one cannot be read."""
    finished = []
    for cell in cells:
        name = f"cell {cell.label!r} ({cell.key})"
        try:
            result = store.result(cell)
        except (ValueError, OSError) as error:
            checked.problems.append(f"{name}: cannot be read: {error}")
            return []
        finished.append((cell, result))
        checked.problems += [f"{name}: {problem}" for problem in _uncommitted(cell, store, result)]
        if cell.key not in scored:  # experiments share cells
            scored.add(cell.key)
            found = list(score_again(cell, result))
            checked.scores += len(found)
            checked.problems += [f"{name}: {problem}" for problem in found if problem]
    return finished


def _uncommitted(cell: Cell, store: CellStore, result: Result) -> Iterator[str]:
    """Yield where what is committed of a cell is not what the full one has."""
    if not store.is_full(cell) or not store.committed(cell).exists():
        return
    committed = store.committed_result(cell)
    for place in differences(plain(committed.numbers), plain(result.numbers)):
        yield f"what is committed of it differs: {place}"
    for name, values in committed.arrays.items():
        if not np.array_equal(values, result.arrays[name], equal_nan=values.dtype.kind == "f"):
            yield f"what is committed of it differs: {name}"


def _concluded_again(
    experiment: Experiment,
    scope: Scope,
    finished: Sequence[tuple[Cell, Result]],
    stored: Mapping[str, Any],
) -> Iterator[str]:
    """Yield where what is written is not what the cells give."""
    try:
        fresh = experiment.conclude(scope, finished).as_dict()
    except Exception as error:  # numbers that were tampered with may break anything
        yield f"its cells cannot be concluded from: {type(error).__name__}: {error}"
        return
    yield from differences({part: stored[part] for part in fresh}, fresh)


def differences(stored: Any, fresh: Any, path: str = "") -> Iterator[str]:
    """Yield where two plain values differ, and how: of rows of numbers the first place.

    Example:
        >>> list(differences({"values": [1.0, 2.0]}, {"values": [1.0, 2.5]}))
        ['values[1]: 2.0 is written, but it is 2.5']
        >>> list(differences([1.0, "a"], [1.0 + 1e-9, "a"]))
        []
    """
    if isinstance(stored, Mapping) and isinstance(fresh, Mapping) and stored.keys() == fresh.keys():
        for key in stored:
            # what is in a list of parts has names of its own
            step = "" if _has_parts(stored[key]) and _has_parts(fresh[key]) else f", {key}"
            yield from differences(stored[key], fresh[key], f"{path}{step}")
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        for place, (ours, theirs) in enumerate(zip(stored, fresh, strict=True)):
            found = list(differences(ours, theirs, f"{path}{_called(theirs, place)}"))
            yield from found
            if found and not _has_parts(fresh):
                return
    else:
        numbers = isinstance(stored, (int, float)) and isinstance(fresh, (int, float))
        if not (is_close(stored, fresh) if numbers else stored == fresh):
            where = path.removeprefix(", ")
            yield f"{where}: {_short(stored)} is written, but it is {_short(fresh)}"


def _has_parts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _called(part: Any, place: int) -> str:
    """Return what a part of an outcome is called: a table, an entry, a chart, a curve."""
    match part:
        case {"title": title, "entries": _}:
            return f", table {title!r}"
        case {"row": row, "column": column}:
            return _entry_place(row, column)
        case {"name": name, "series": _}:
            return f", chart {name!r}"
        case {"name": name}:
            return f", {name!r}"
    return f"[{place}]"


def is_close(a: float, b: float, to: float = EXACT) -> bool:
    """Return whether two numbers agree, relative to their size above 1; NaN agrees with NaN."""
    return is_within(a, b, to * max(1.0, abs(a), abs(b)))


def number_differences(outcome: Outcome) -> Iterator[str]:
    """Yield which comparisons do not follow from the values of the tables."""
    for table in outcome.tables:
        by_place = {(each.row, each.column): each for each in table.entries}
        again = []
        for entry in table.entries:
            base = None if entry.baseline is None else by_place.get(entry.baseline)
            again.append(replace(entry, comparison=_compared_again(entry, base)))
        tested = [each.comparison if each.adjusted is not None else None for each in again]
        adjusted = holm([math.nan if each is None else each.p for each in tested]).tolist()
        again = [
            each if each.adjusted is None else replace(each, adjusted=own)
            for each, own in zip(again, adjusted, strict=True)
        ]
        fresh = replace(table, entries=again)
        yield from differences([plain(asdict(table))], [plain(asdict(fresh))])


def _compared_again(entry: Entry, base: Entry | None) -> Comparison | None:
    """Compare an entry with its baseline as it was compared, as far as the table can tell."""
    stored = entry.comparison
    if stored is None or base is None:
        return None
    if stored.method.startswith("paired bootstrap"):
        return paired_bootstrap(entry.values, base.values, seed=0)
    difference = entry.mean - base.mean
    if is_close(stored.difference, difference, FOUR_DECIMALS):
        difference = stored.difference
    half, p = (stored.high - stored.low) / 2, float(difference == 0)
    if half > 0:
        p = t_test_p(difference, half / t_quantile(stored.n), stored.n)
    return Comparison(difference, difference - half, difference + half, p, stored.n, stored.method)


def _figure_differences(
    folder: Path, outcome: Outcome, checksums: Mapping[str, str]
) -> Iterator[str]:
    """Yield which figures are missing or changed; earlier versions have no checksums."""
    for name in (f"{chart.name}.svg" for chart in outcome.charts):
        if not (folder / name).exists():
            yield f"{name} is missing"
        elif name in checksums and checksum((folder / name).read_bytes()) != checksums[name]:
            yield f"{name} has been changed since it was written: run the id again"


def page_differences(path: Path, expected: str) -> Iterator[str]:
    """Yield each line of a page that is not as it should be, by table, row and column."""
    try:
        written = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        yield f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}"
        return
    heading, columns, last = "", list[str](), ""
    for number, (ours, theirs) in enumerate(zip_longest(written, expected.split("\n")), 1):
        line = theirs or ""
        if line.startswith("### "):
            heading = f", table {line[4:]!r}"
        if line.startswith(("| :--", "| --:")):
            columns = _cells(last)
        last = line
        if ours != theirs:
            where = _place_in_table(ours or "", line, columns)
            said = f"{_short(ours)} is written, but it is {_short(theirs)}"
            yield f"{path.name}, line {number}{heading if where else ''}{where}: {said}"


def _place_in_table(ours: str, theirs: str, columns: Sequence[str]) -> str:
    """Return the row and the columns in which two lines of a table differ."""
    own, other = _cells(ours), _cells(theirs)
    if not ours.startswith("| ") or not len(own) == len(other) == len(columns) > 1:
        return ""
    changed = [name for name, a, b in zip(columns, own, other, strict=True) if a != b]
    if columns[1] == "" and len(columns) > 2:  # intervals, with an entry in every line
        return f"{_entry_place(other[0], other[1])}, {', '.join(changed)}"
    return f", row {other[0]!r}, column {', '.join(map(repr, changed))}"


def _cells(line: str) -> list[str]:
    hidden = line.replace("\\|", "\0")
    return [cell.strip().replace("\0", "|") for cell in hidden.strip().strip("|").split("|")]


def _entry_place(row: str, column: str) -> str:
    return f", row {row!r}, column {column!r}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
