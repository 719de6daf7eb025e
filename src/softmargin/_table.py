"""Tables as text: for any terminal, where they say what they left out, and as Markdown."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence

from softmargin._text import printable

GAP = "  "
NARROWEST = 40  # below this nothing is dropped any more
SHORTEST_TEXT = 12  # columns of text are narrowed to this before any is dropped
SHORTEST_NAME = 20  # and the first column to this


def print_table(
    rows: Sequence[Sequence[str]], *, right: Collection[str] = (), width: int | None = None
) -> None:
    """Print a table that is no wider than the terminal.

    Where it would be, long texts get several lines. Where that is not enough, columns are left out
    from the right, and a line below the table names them. The first column stays.

    Args:
        rows: the headings, then the rows.
        right: headings of the columns of numbers: to the right, and never in several lines.
        width: how many characters a line has; by default :func:`usual_width`.

    Example:
        >>> rows = [("id", "what", "cells"), ("one", "a table of the paper on margins", "12")]
        >>> print_table(rows, right=("cells",), width=40)
        id   what                          cells
        one  a table of the paper on          12
             margins
        >>> print_table([("id", "one", "two"), ("a", "1" * 25, "2" * 25)], right=("one", "two"),
        ...             width=40)
        id                        one
        a   1111111111111111111111111
        Too wide for this terminal: two.
    """
    print("\n".join(table_lines(rows, right=right, width=width or usual_width())))


def print_paragraph(text: str) -> None:
    """Print a text in lines no wider than the terminal."""
    width = usual_width()
    print(text if width is None else textwrap.fill(text, max(NARROWEST, width)))


def table_lines(
    rows: Sequence[Sequence[str]], *, right: Collection[str] = (), width: int | None = None
) -> list[str]:
    """Return what :func:`print_table` prints; without a width nothing is wrapped or left out."""
    rows = [[printable(cell, None) for cell in row] for row in rows]
    names = rows[0]
    if width is None:
        widths, limit = _natural(rows), None
    else:
        limit = max(NARROWEST, width)
        widths = _fitted(rows, right, limit)
    shown, dropped = names[: len(widths)], names[len(widths) :]
    lines = []
    for row in rows:
        cells = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=False)]
        for number in range(max(map(len, cells))):
            parts = [cell[number] if number < len(cell) else "" for cell in cells]
            placed = (
                part.rjust(size) if name in right else part.ljust(size)
                for name, part, size in zip(shown, parts, widths, strict=True)
            )
            lines.append(GAP.join(placed).rstrip())
    if dropped:
        note = f"Too wide for this terminal: {', '.join(name.strip() for name in dropped)}."
        lines += textwrap.wrap(note, limit or len(note))
    return lines


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """Return a Markdown table; ``align`` has a letter l or r for each column, by default l.

    Example:
        >>> print(markdown_table(["a", "b"], [["x|y", "1"]], "lr"))
        | a | b |
        | :-- | --: |
        | x\\|y | 1 |
    """
    marks = ["--:" if letter == "r" else ":--" for letter in align.ljust(len(headings), "l")]
    lines = [headings, *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    cells.insert(1, marks)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def usual_width() -> int | None:
    """Return $COLUMNS, or the terminal's width; None where output goes to a file or a pipe."""
    named = os.environ.get("COLUMNS", "")
    if named.isascii() and named.isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):  # no terminal, or not even a file
        return None


def _natural(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]


def _fitted(rows: Sequence[Sequence[str]], right: Collection[str], limit: int) -> list[int]:
    """Return the widths of the columns that fit, from the left."""
    natural = _natural(rows)
    least = [
        size if name in right else min(size, SHORTEST_TEXT)
        for name, size in zip(rows[0], natural, strict=True)
    ]
    least[0] = min(natural[0], SHORTEST_NAME)
    shown = len(natural)
    while shown > 1 and sum(least[:shown]) + len(GAP) * (shown - 1) > limit:
        shown -= 1
    widths = natural[:shown]
    for _ in range(sum(widths) + len(GAP) * (shown - 1) - limit):
        widest = max(range(shown), key=lambda place: (widths[place] > least[place], widths[place]))
        widths[widest] -= 1
    return widths


def _wrapped(cell: str, size: int) -> list[str]:
    if len(cell) <= size:
        return [cell]
    start = cell[: len(cell) - len(cell.lstrip())]
    return textwrap.wrap(cell, size, subsequent_indent=start) or [""]
