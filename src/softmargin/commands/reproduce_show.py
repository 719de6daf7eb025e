"""How ``softmargin reproduce`` shows progress, durations and tables."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmargin.experiments.running import Tally

SAY_EVERY = 10.0  # seconds, where there is no terminal to draw a bar on


@contextmanager
def progress() -> Iterator[Any]:
    """Show progress and the time left: a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        with _Lines() as lines:
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0, left="")

        def show(tally: Tally) -> None:
            active = ", ".join(tally.active[:2]) or "working"
            bar.update(
                task, total=tally.total, completed=tally.done, description=active, left=_left(tally)
            )

        yield show


class _Lines:
    """A line of progress every few seconds, for logs, however seldom the work tells of any."""

    def __init__(self) -> None:
        self.tally: Tally | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._say, daemon=True)

    def __enter__(self) -> _Lines:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def __call__(self, tally: Tally) -> None:
        self.tally = tally

    def _say(self) -> None:
        while not self.over.wait(SAY_EVERY):
            print(self._line(), file=sys.stderr, flush=True)

    def _line(self) -> str:
        if self.tally is None:
            return "starting"
        share = f"{100 * self.tally.done / max(self.tally.total, 1e-9):.0f} %"
        parts = [share] + ([left] if (left := _left(self.tally)) else [])
        return f"{', '.join(parts)}: {', '.join(self.tally.active[:2]) or 'working'}"


def _left(tally: Tally) -> str:
    return "" if tally.remaining is None else f"about {duration(tally.remaining)} left"


def duration(seconds: float) -> str:
    """Return a time in the unit that fits it.

    Example:
        >>> duration(12), duration(600), duration(90_000)
        ('12 s', '10 min', '25.0 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with their columns below each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
