"""One way to show progress: a bar on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from softmargin._text import printable

SAY_EVERY = 10.0  # seconds, where there is no terminal to draw a bar on
DRAW_EVERY = 0.2  # seconds, where there is one


class Progress:
    """How far the work is. A call only notes it, so that it may come at every step."""

    def __init__(self) -> None:
        """Start with nothing done of an unknown whole."""
        self.done, self.total, self.text = 0.0, 0.0, "starting"
        self.left: float | None = None
        self._since = time.monotonic(), 0.0

    def __call__(
        self, done: float, total: float, text: str = "working", left: float | None = None
    ) -> None:
        """Say how far the work is.

        Args:
            done: how much of ``total`` is done, in any unit.
            total: the whole; 0 where it is not known.
            text: what is going on, such as ``"epoch 3 of 30, loss 0.12"``.
            left: seconds left; by default as many as the speed so far makes likely.
        """
        if total != self.total or done < self.done:  # something new: it has its own speed
            self._since = time.monotonic(), done
        began, before = self._since
        if left is None and before < done < total:
            left = (time.monotonic() - began) * (total - done) / (done - before)
        self.done, self.total, self.left, self.text = done, total, left, printable(text)

    def line(self) -> str:
        """Return the progress as a line of text.

        Example:
            >>> progress = Progress()
            >>> progress(1, 4, "epoch 2 of 4", left=120)
            >>> progress.line()
            '25 %, about 2 min left: epoch 2 of 4'
        """
        parts = [f"{100 * self.done / self.total:.0f} %"] if self.total > 0 else []
        parts += [self.time_left] if self.time_left else []
        return f"{', '.join(parts)}: {self.text}" if parts else self.text

    @property
    def time_left(self) -> str:
        """Return the time left in words, nothing where it is not known."""
        return "" if self.left is None else f"about {duration(self.left)} left"


@contextmanager
def progress(*, hidden: bool = False) -> Iterator[Progress]:
    """Show on standard error how far the work inside is; call what this gives to say so.

    A line or a frame of the bar comes when it is due, however seldom the work calls.

    Args:
        hidden: show nothing, as in all processes of many but one.

    Example:
        >>> with progress(hidden=True) as show:
        ...     for step in range(3):
        ...         show(step, 3, f"step {step + 1}")
    """
    state, end = Progress(), threading.Event()
    if hidden:
        yield state
        return
    show = _draw_bar if _has_bar() else _say_lines
    thread = threading.Thread(target=show, args=(state, end), name="progress", daemon=True)
    thread.start()
    try:
        yield state
    finally:
        end.set()
        thread.join()


def duration(seconds: float) -> str:
    """Return a time in the unit that fits it.

    Example:
        >>> duration(12), duration(600), duration(90_000)
        ('12 s', '10 min', '25.0 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _has_bar() -> bool:
    """Return whether a bar can be drawn: on a terminal that can move its cursor, with rich."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True


def _say_lines(state: Progress, end: threading.Event) -> None:
    while not end.wait(SAY_EVERY):
        print(state.line(), file=sys.stderr, flush=True)


def _draw_bar(state: Progress, end: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[share]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    # what is printed meanwhile goes above the bar, and where it belongs if that is a file
    shared = sys.stdout.isatty()
    console = Console(stderr=True, highlight=False)
    with Bar(*columns, console=console, transient=True, redirect_stdout=shared) as bar:
        task = bar.add_task(state.text, total=None, share="", left="")
        while not end.wait(DRAW_EVERY):
            share = f"{100 * state.done / state.total:3.0f} %" if state.total > 0 else ""
            bar.update(
                task,
                total=state.total or None,
                completed=state.done,
                description=state.text,
                share=share,
                left=state.time_left,
            )
