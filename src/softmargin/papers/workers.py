"""Processes that run cells: one cell at a time each, so that it is known which cell a dead one had.

A worker takes cells from a pipe and answers how each ended. It ends with the process that started
it, however that one ends; ctrl-C is that process's to deal with.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from softmargin._warnings import plain_warnings
from softmargin.papers.core import Cell
from softmargin.papers.store import CellStore, is_full

CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Ended:
    """How a cell ended.

    Attributes:
        error: what it failed with, if it did.
        full: number and text of the error, where that was a full disk.
        files: of the cell, where a worker elsewhere cannot write them.
    """

    error: str | None = None
    full: tuple[int, str] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


def attempt(store: CellStore, cell: Cell) -> Ended:
    """Run a cell, and return how it ended."""
    try:
        store.run(cell)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and is_full(error):
            return Ended(text, (error.errno or 0, os.strerror(error.errno or 0)))
        return Ended(text)
    return Ended()


class Worker:
    """A process that runs one cell at a time.

    Attributes:
        pipe: to the process; there is something to take where it is ready to be read.
        cell: what it is running, or None.
        is_ready: whether the process has come so far as to wait for cells.
    """

    def __init__(self, root: Path, threads: int) -> None:
        """Start the process; it computes with so many threads."""
        self.cell: Cell | None = None
        self.is_ready = False
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(theirs, root, threads), daemon=True)
        with _interrupts_held_back():
            self.process.start()
        theirs.close()  # so that the pipe ends with the process

    def give(self, cell: Cell) -> None:
        """Let it run a cell."""
        self.cell = cell
        with suppress(OSError):  # it has died: the pipe says so to whoever takes from it
            self.pipe.send(cell)

    def take(self) -> Ended | None:
        """Return how its cell ended, or None where it has only just become ready.

        Raises:
            EOFError: where the process has died.
        """
        try:
            ended: Ended | None = self.pipe.recv()
        except OSError:
            raise EOFError from None
        self.is_ready = True
        if ended is not None:
            self.cell = None
        return ended

    def end(self) -> None:
        """End the process at once: whatever it writes is whole or not there."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Start processes that ctrl-C does not reach, where the system can; here it comes afterwards.

    Otherwise one that has not come so far as to ignore it would show where it was interrupted.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, root: Path, threads: int) -> None:
    """Run cells as they come, until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    store = CellStore(root)
    pipe.send(None)
    with plain_warnings():
        while True:
            pipe.send(attempt(store, pipe.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
