"""A rerun beside committed results: numbers of tables, in units of the spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softmargin.papers.outcome import Entry, Outcome
from softmargin.papers.provenance import other_copies
from softmargin.papers.write import read_results


@dataclass(frozen=True)
class Difference:
    """A number of both: where it stands, both means, and how many spreads they are apart."""

    table: str
    row: str
    column: str
    committed: float
    own: float
    spreads: float

    def __str__(self) -> str:
        """Return the place and both means, in words."""
        place = ", ".join(part for part in (self.table, self.row, self.column) if part)
        return f"{place}: {self.own:.4g} against {self.committed:.4g}"


@dataclass
class Compared:
    """One result of both folders.

    Attributes:
        id: of the experiment.
        verdicts: the word of the committed result, and that of the rerun.
        differences: of all numbers that both have, the largest first.
        remarks: what to know: other seeds, another copy of the data, or why nothing is compared.
    """

    id: str
    verdicts: tuple[str, str]
    differences: list[Difference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def compare(own: Path, committed: Path) -> Iterator[Compared]:
    """Compare the results that two folders share, in the order of the papers.

    Args:
        own: the folder of the rerun.
        committed: the folder that it is set beside.

    Raises:
        ValueError: where they share none.
    """
    beside = {meta["id"]: (meta, outcome) for meta, outcome in read_results(committed)}
    found = [
        (beside[meta["id"]], (meta, outcome))
        for meta, outcome in read_results(own)
        if meta["id"] in beside
    ]
    if not found:
        raise ValueError(
            f"argument FOLDER: must have results of ids that {str(committed)!r} has, too, "
            f"but {str(own)!r} has none of them."
        )
    for theirs, ours in found:
        yield compared(theirs, ours)


Read = tuple[Mapping[str, Any], Outcome]


def compared(committed: Read, own: Read) -> Compared:
    """Compare two results of one experiment; those of two scales have nothing in common."""
    (there, then), (here, now) = committed, own
    found = Compared(here["id"], (then.verdict.word, now.verdict.word))
    if there["scale"] != here["scale"]:
        found.remarks.append(
            f"it is of {here['scale']} scale, the other of {there['scale']} scale: not compared"
        )
        return found
    if there["seeds"] != here["seeds"]:
        found.remarks.append(f"{len(here['seeds'])} seeds, the other has {len(there['seeds'])}")
    found.remarks += other_copies(there["data"], here["data"])
    entries = {place: entry for place, entry in _entries(now)}
    for place, entry in _entries(then):
        if place in entries:
            mine = entries[place]
            apart = spreads(entry, mine)
            found.differences.append(Difference(*place, entry.mean, mine.mean, apart))
    found.differences.sort(key=lambda each: -each.spreads)
    lacking = len(list(_entries(then))) - len(found.differences)
    if lacking:
        found.remarks.append(f"{lacking} numbers of the other are missing")
    return found


def _entries(outcome: Outcome) -> Iterator[tuple[tuple[str, str, str], Entry]]:
    for table in outcome.tables:
        for entry in table.entries:
            yield (table.title, entry.row, entry.column), entry


def spreads(a: Entry, b: Entry) -> float:
    """Return how many standard deviations over seeds two means are apart.

    The deviation is that of both together. Without a spread equal numbers are 0 apart, others
    infinitely far.

    Example:
        >>> spreads(Entry("", "", (1.0, 3.0)), Entry("", "", (2.0, 4.0)))
        0.7071067811865475
    """
    gap = abs(a.mean - b.mean)
    known = [own for own in (a.spread, b.spread) if own is not None]
    spread = math.sqrt(sum(own**2 for own in known) / len(known)) if known else 0.0
    if gap <= 1e-9 * max(1.0, abs(a.mean)):
        return 0.0
    return gap / spread if spread else math.inf
