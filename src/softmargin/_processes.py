"""Calls in processes of their own, several at a time.

The processes end with the one that started them, however that ends; ctrl-C is for that one to deal
with.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

LOOK_EVERY = 0.5  # seconds between two looks at what runs
# a server that has imported PyTorch once can be copied for every call, where that is safe
if sys.platform == "linux":
    CONTEXT = multiprocessing.get_context("forkserver")
else:
    CONTEXT = multiprocessing.get_context("spawn")


def run_side_by_side(
    target: Callable[..., None],
    given: Sequence[tuple[Any, ...]],
    jobs: int,
    *,
    preload: str,
    look: Callable[[int], None],
    ended: Callable[[int, int], bool],
) -> None:
    """Call a function in a process for each tuple of arguments, the first ones first.

    Args:
        target: a function that another process can import; it should begin with
            :func:`leave_interrupts_to_parent`.
        given: the arguments of every call.
        jobs: how many run at a time.
        preload: a module to import once for all processes.
        look: called with the number of each call that runs, twice a second.
        ended: called with a call's number and its exit code; True asks for the same call again.
    """
    CONTEXT.set_forkserver_preload([preload])
    waiting, running = list(range(len(given))), list[tuple[BaseProcess, int]]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number = waiting.pop(0)
                started = CONTEXT.Process(target=target, args=given[number], daemon=True)
                running.append((started, number))
                with _interrupts_held_back():
                    started.start()
            wait([process.sentinel for process, _ in running], LOOK_EVERY)
            for process, number in list(running):
                if process.is_alive():
                    look(number)
                    continue
                running.remove((process, number))
                assert process.exitcode is not None
                if ended(number, process.exitcode):
                    waiting.insert(0, number)
    finally:  # at once: the files that they write are whole or not there
        for process, _ in running:
            if process.pid is not None:
                process.kill()
                process.join()


def leave_interrupts_to_parent() -> None:
    """Ignore ctrl-C here, and end when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold ctrl-C back while a process starts, where the system can.

    Otherwise a process that does not ignore it yet would print where it was interrupted.
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
