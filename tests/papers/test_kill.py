"""A run that is stopped at any write, in any way, leaves the same files in the end."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_up_runs
import pytest
from made_up_runs import ended, fork, run, tree

from softmargin.cli import main

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
if not hasattr(os, "fork"):
    pytest.skip("needs processes that can be copied", allow_module_level=True)

pytestmark = pytest.mark.slow

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate")
TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def at_every_change(act: Callable[[int], None]) -> None:
    """Call with a number before every change to a file from now on, whoever makes it."""
    count = 0

    def note() -> None:
        nonlocal count
        count += 1
        act(count)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        is_write = event == "open" and bool(int(arguments[2] or 0) & TO_WRITE)
        if event in CHANGES or is_write:
            note()

    os.fsync = lambda descriptor: note()  # what is not on the disk yet outlives a process
    sys.addaudithook(hook)  # for ever, so only in a process that is about to end


def fail(mode: str) -> None:
    if mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "interrupt":
        raise KeyboardInterrupt
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def changes_of(act: Callable[[], None]) -> int:
    """Return how many changes to files something makes, in a process of its own."""
    reader, writer = os.pipe()

    def counted() -> None:
        counts = [0]
        at_every_change(counts.append)
        act()
        os.write(writer, str(counts[-1]).encode())

    assert ended(fork(counted)) == 0
    os.close(writer)
    with os.fdopen(reader) as file:
        return int(file.read())


@pytest.mark.parametrize("mode", ["kill", "interrupt", "full"])
def test_a_run_that_ends_at_any_write_goes_on_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    made_up_runs.add(monkeypatch)
    made_up_runs.stop_clock(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    before, whole, out = tmp_path / "before", tmp_path / "whole", tmp_path / "out"
    run(before, made_up_runs.ID, seeds=3)  # an earlier result, whose figure has to go
    shutil.rmtree(before / ".cells")
    shutil.rmtree(before / "cells")
    shutil.copytree(before, whole)
    total = changes_of(lambda: run(whole, made_up_runs.ID))
    expected = tree(whole)
    assert not any("of-3.svg" in name or "unfinished" in name for name in expected)
    assert total > 50
    for last in range(1, total + 1, 1 if mode == "kill" else 3):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(before, out)

        def broken(last: int = last) -> None:
            at_every_change(lambda count: fail(mode) if count == last else None)
            run(out, made_up_runs.ID)

        code = ended(fork(broken))
        assert (code == -signal.SIGKILL) is (mode == "kill")
        run(out, made_up_runs.ID)
        found = tree(out)
        assert found.keys() == expected.keys(), last
        assert found == expected, last


def test_many_runs_in_one_folder_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_runs.add(monkeypatch)
    made_up_runs.stop_clock(monkeypatch)
    run(tmp_path / "alone", made_up_runs.ID, made_up_runs.OTHER_ID)
    expected = tree(tmp_path / "alone")
    for number in range(3):
        out = tmp_path / f"out{number}"
        command = ["reproduce", "run", made_up_runs.ID, "--scale", "smoke", "--out", str(out)]
        other = [*command[:2], made_up_runs.OTHER_ID, *command[3:]]
        children = [
            fork(lambda words=words: main(words)) for _ in range(8) for words in (command, other)
        ]
        assert [ended(child) for child in children] == [0] * len(children)
        assert tree(out) == expected
