"""One way to print a table: it fits any terminal, and says what it left out."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Sequence

from softmargin._text import printable

GAP = "  "
NARROWEST = 40  # below this nothing is dropped any more
SHORTEST_WRAP = 16  # columns of text are wrapped down to this before anything is dropped


def print_table(
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    wrap: Collection[str] = (),
    width: int | None = None,
) -> None:
    """Print a table that is no wider than the terminal.

    Where it would be, the columns in ``wrap`` get several lines. Where that is not enough, columns
    are left out from the right, and a line below the table names them. The first column stays.

    Args:
        rows: the headings, then the rows.
        right: headings of the columns to align to the right.
        wrap: headings of the columns whose text may take several lines.
        width: how many characters a line has; by default :func:`usual_width`.

    Example:
        >>> rows = [("id", "what", "cells"), ("one", "a table of the paper", "12")]
        >>> print_table(rows, right=("cells",))
        id   what                  cells
        one  a table of the paper     12
        >>> print_table([("id", "one", "two"), ("a", "x" * 25, "y" * 25)], width=40)
        id  one
        a   xxxxxxxxxxxxxxxxxxxxxxxxx
        Too wide for this terminal: two.
    """
    print("\n".join(table_lines(rows, right=right, wrap=wrap, width=width or usual_width())))


def table_lines(
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    wrap: Collection[str] = (),
    width: int | None = None,
) -> list[str]:
    """Return what :func:`print_table` prints; without a width nothing is wrapped or left out."""
    rows = [[printable(cell, None) for cell in row] for row in rows]
    names = rows[0]
    if width is None:
        widths, limit = _natural(rows), None
    else:
        limit = max(NARROWEST, width)
        widths = _fitted(rows, wrap, limit)
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


def _fitted(rows: Sequence[Sequence[str]], wrap: Collection[str], limit: int) -> list[int]:
    """Return the widths of the columns that fit, from the left."""
    widths = _natural(rows)
    while True:
        over = sum(widths) + len(GAP) * (len(widths) - 1) - limit
        texts = [place for place, size in enumerate(widths) if rows[0][place] in wrap and size > 1]
        # the widest text gives way first
        for place in sorted(texts, key=lambda place: -widths[place]):
            if over > 0:
                taken = min(over, max(0, widths[place] - SHORTEST_WRAP))
                widths[place] -= taken
                over -= taken
        if over <= 0:
            return widths
        if len(widths) == 1:
            return [limit]
        widths = _natural(rows)[: len(widths) - 1]


def _wrapped(cell: str, size: int) -> list[str]:
    if len(cell) <= size:
        return [cell]
    start = cell[: len(cell) - len(cell.lstrip())]
    return textwrap.wrap(cell, size, subsequent_indent=start) or [""]
