"""Cells in processes of their own: what signals do to the driver, to workers and to cells."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from softmargin.papers import core
from softmargin.papers.core import Cell, Result
from softmargin.papers.run import Tally, run_cells
from softmargin.papers.store import CellStore

HANGS = 600.0  # seconds, after which something is taken to hang
HELD = "test_workers:held"  # as workers find it, whatever pytest calls this file


def held(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    """Write down which process does it; in the first tries wait to be killed."""
    pids = folder.parent / f"{config['name']}.pids"
    with pids.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if len(pids.read_text().split()) <= config["deaths"]:
        time.sleep(HANGS)
        raise TimeoutError("nobody has killed it")
    return Result({"name": config["name"]})


def cell(name: str, deaths: int = 0) -> Cell:
    return Cell(HELD, {"name": name, "deaths": deaths}, name)


def pids(out: Path, name: str) -> list[int]:
    path = out / ".cells" / f"{name}.pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return not Path("/proc/self").exists()


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers find this file."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.slow
@pytest.mark.usefixtures("importable")
def test_only_the_cell_of_a_dead_worker_was_tried(tmp_path: Path) -> None:
    store, once, twice = CellStore(tmp_path), cell("once", 1), cell("twice", 2)
    others = [cell(name) for name in "abcd"]
    found: list[Tally] = []
    driver = threading.Thread(
        target=lambda: found.append(run_cells([once, twice, *others], store, jobs=2))
    )
    driver.start()
    for name, death in (("once", 1), ("twice", 1), ("twice", 2)):
        wait_until(lambda n=name, d=death: len(pids(tmp_path, n)) >= d or not driver.is_alive())
        os.kill(pids(tmp_path, name)[death - 1], signal.SIGKILL)
    driver.join(HANGS)
    (tally,) = found
    assert tally.failed == [(twice, "its process died twice")]
    assert store.error(twice) == "its process died twice"
    tries = {name: len(pids(tmp_path, name)) for name in ("once", "twice", *"abcd")}
    assert tries == {"once": 2, "twice": 2, "a": 1, "b": 1, "c": 1, "d": 1}
    assert all(store.is_finished(each) for each in (once, *others))
    again = run_cells([once, twice, *others], store, jobs=2)  # a new call, a new chance
    assert (again.skipped, again.failed) == (5, [])
    assert store.error(twice) is None
    left = {path.name for path in store.folder(twice).iterdir()}
    assert left - {".lock"} == {"cell.json", "result.json"}, "no mark is left"


def test_processes_that_cannot_start_fail_their_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softmargin.papers.run._run_alone", os.abort)  # ends at once
    tally = run_cells([cell("a"), cell("b")], CellStore(tmp_path), jobs=2)
    assert {why for _, why in tally.failed} == {"its process died twice"}
    assert not list(tmp_path.rglob("*.pids")), "no cell was tried"


def no_space(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_ends_the_run(tmp_path: Path, jobs: int) -> None:
    store = CellStore(tmp_path)
    some = [Cell("test_workers:no_space", {"seed": seed}, f"seed {seed}") for seed in range(5)]
    with pytest.raises(OSError, match="No space left") as caught:
        run_cells(some, store, jobs)
    assert caught.value.errno == errno.ENOSPC
    assert not any(store.is_finished(each) or store.error(each) for each in some)


SCRIPT = """
import sys
from pathlib import Path
import test_workers
from softmargin.papers.run import run_cells
from softmargin.papers.store import CellStore
cells = [test_workers.cell(str(n), deaths=9) for n in range(5)]
try:
    run_cells(cells, CellStore(Path(sys.argv[1])), 2, lambda *_: print("begun", flush=True))
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
"""


def start(out: Path) -> subprocess.Popen[str]:
    """Start a driver of five cells that never end, two at a time, in a group of its own."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(out)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def begun(out: Path, driver: subprocess.Popen[str]) -> list[int]:
    """Wait until both workers run a cell; return their ids."""

    def found() -> list[int]:
        assert driver.poll() is None
        return [pid for n in range(5) for pid in pids(out, str(n))]

    wait_until(lambda: len(found()) >= 2)
    return found()


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["driver", "group"])
@pytest.mark.parametrize("when", ["starting", "running"])
def test_an_interrupt_ends_all_at_once(tmp_path: Path, whom: str, when: str) -> None:
    driver = start(tmp_path)
    assert driver.stdout is not None
    driver.stdout.readline()
    workers = begun(tmp_path, driver) if when == "running" else []
    (os.killpg if whom == "group" else os.kill)(driver.pid, signal.SIGINT)
    _, errors = driver.communicate(timeout=HANGS / 2)  # cells take longer
    assert (driver.returncode, errors) == (0, "interrupted\n")
    assert not any(is_alive(pid) for pid in workers), "workers ended before the driver"
    assert sum(len(pids(tmp_path, str(n))) for n in range(5)) <= 2, "no queued cell was begun"


@pytest.mark.slow
def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    driver = start(tmp_path)
    workers = begun(tmp_path, driver)
    driver.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in workers))
    driver.communicate()
    assert sum(len(pids(tmp_path, str(n))) for n in range(5)) == 2
