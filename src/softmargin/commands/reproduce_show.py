"""How ``softmargin reproduce`` shows progress, durations and tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from softmargin._table import print_table

if TYPE_CHECKING:
    from softmargin.experiments.running import Tally

SAY_EVERY = 30.0  # seconds, where there is no terminal to draw a bar on


@contextmanager
def progress() -> Iterator[Any]:
    """Show progress and the time left: a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines()
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
    """A line of progress every half minute, for logs."""

    def __init__(self) -> None:
        self.said = time.monotonic()

    def __call__(self, tally: Tally) -> None:
        if (now := time.monotonic()) - self.said < SAY_EVERY:
            return
        self.said = now
        share = 100 * tally.done / max(tally.total, 1e-9)
        print(f"{share:.0f} %, {_left(tally)}: {', '.join(tally.active[:2])}", file=sys.stderr)


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
    print_table(rows)
