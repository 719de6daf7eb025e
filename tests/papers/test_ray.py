"""Cells on a Ray cluster: the same results, whatever happens to workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if find_spec("ray") is None:
    pytest.skip("needs ray", allow_module_level=True)

from softmargin import _ray as connecting
from softmargin._ray import AUTHENTICATION, BEYOND_LOOPBACK, alone, check_answers
from softmargin.papers import core
from softmargin.papers import ray as on_ray
from softmargin.papers.core import Cell, Result
from softmargin.papers.ray import Place, place_of, run_cell, run_on_ray
from softmargin.papers.run import run_cells
from softmargin.papers.store import CELLS, CellStore

# the name under which a worker finds this file on its path, whatever pytest calls it
WORK = "test_ray:count_up"
STEPS, HELD_AT, PAUSE = 30, 5, 0.01


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 240  # a busy machine takes long to start workers
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def count_up(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    """Draw random numbers and sum them up, slowly, with checkpoints; write down who does it."""
    if config.get("fail"):
        raise RuntimeError("it was asked to")
    state = folder / "kept" / "state.json"
    state.parent.mkdir(exist_ok=True)
    total, done = json.loads(state.read_text()) if state.exists() else (0.0, 0)
    if "pids" in config:
        with Path(config["pids"], str(config["seed"])).open("a") as file:
            file.write(f"{os.getpid()} {done}\n")
    for step in range(done, STEPS):
        time.sleep(config["pause"])
        if "pids" in config and step == HELD_AT:  # until a test has killed what it wants to kill
            wait_for(Path(config["pids"], "go"))
        total += float(np.random.default_rng([config["seed"], step]).normal())
        new = state.with_suffix(".new")
        new.write_text(json.dumps([total, step + 1]))
        new.replace(state)
        progress((step + 1) / STEPS)
    draws = np.random.default_rng(config["seed"]).normal(size=100)
    return Result({"total": total}, {"draws": draws})


def cells(count: int, **more: Any) -> list[Cell]:
    return [
        Cell(WORK, {"seed": seed, "pause": PAUSE, **more}, f"seed {seed}") for seed in range(count)
    ]


def results(store: CellStore, some: list[Cell]) -> list[tuple[dict[str, Any], bytes]]:
    found = [store.result(cell) for cell in some]
    return [(result.numbers, result.arrays["draws"].tobytes()) for result in found]


def drive(address: str, out: str, *options: str) -> None:
    """Run cells as a driver does, in a process of its own, and print what failed."""
    failing = Cell(WORK, {"seed": 9, "fail": True}, "fails")
    place = place_of(CellStore(Path(out)), 1)
    if "blind" in options:  # as on a machine that does not share the folder
        blind = replace(place, root=str(Path(out).parent / "not-there"))
        on_ray.place_of = lambda store, threads: blind
    tally = run_on_ray([*slow_cells(out), failing], CellStore(Path(out)), address)
    print(json.dumps([[cell.label, why] for cell, why in tally.failed]))


def slow_cells(out: str | Path) -> list[Cell]:
    return cells(2, pids=str(Path(out).parent))


@dataclass
class Cluster:
    """A running cluster, and what a driver needs to be let in."""

    address: str
    client: str
    environment: dict[str, str]

    def start(self, out: Path, *options: str, client: bool = False) -> subprocess.Popen[str]:
        code = "import sys, test_ray; test_ray.drive(*sys.argv[1:])"
        address = self.client if client else self.address
        command = [sys.executable, "-c", code, address, str(out), *options]
        out.parent.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a cluster whose workers can import this file."""
    if " " in sys.executable:
        pytest.skip("Ray cannot start its server for clients from a path with spaces")
    with socket.socket() as free, socket.socket() as other:
        free.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, client = free.getsockname()[1], other.getsockname()[1]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += [f"--port={port}", f"--ray-client-server-port={client}"]
    command += ["--num-cpus=2", "--include-dashboard=false"]
    command += ["--object-store-memory=100000000", "--disable-usage-stats"]
    environment = {name: value for name, value in os.environ.items() if name not in AUTHENTICATION}
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    # its server for clients forks among threads of gRPC, which hangs one time in four with this on
    environment |= {"GRPC_ENABLE_FORK_SUPPORT": "false"}
    # a token of its own; whatever the user has is left alone
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
    log = tmp_path_factory.mktemp("ray") / "log.txt"
    with log.open("w") as file:
        head = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        deadline = time.monotonic() + 240  # a busy machine takes long to start workers
        while "Ray runtime started" not in log.read_text():
            assert head.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        check_answers(f"127.0.0.1:{port}")
        yield Cluster(f"127.0.0.1:{port}", f"ray://127.0.0.1:{client}", environment)
    finally:
        head.terminate()  # with --block it takes its own processes with it, and no others
        head.wait(timeout=120)


def ended(driver: subprocess.Popen[str]) -> list[list[str]]:
    output, _ = driver.communicate(timeout=240)
    assert driver.returncode == 0
    failed: list[list[str]] = json.loads(output.splitlines()[-1])  # Ray may have said something
    return failed


def same_as_here(out: Path) -> None:
    """Check a folder against the same cells run one after the other in this process."""
    here, some = CellStore(out.parent / "here"), slow_cells(out)
    assert run_cells([Cell(f"{__name__}:count_up", c.config, c.label) for c in some], here)
    expected = results(here, [Cell(f"{__name__}:count_up", c.config, c.label) for c in some])
    assert results(CellStore(out), some) == expected


def wait_for_progress(store: CellStore, cell: Cell, driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240  # a busy machine takes long to start workers
    while store.progress(cell) == 0:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.ray
def test_a_killed_worker_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    store, first = CellStore(out), slow_cells(out)[0]
    driver = cluster.start(out)
    wait_for_progress(store, first, driver)
    os.kill(int((tmp_path / "0").read_text().split()[0]), signal.SIGKILL)
    (tmp_path / "go").touch()
    assert ended(driver) == [["fails", "RuntimeError: it was asked to"]]
    attempts = [line.split() for line in (tmp_path / "0").read_text().splitlines()]
    assert len(attempts) == 2
    assert attempts[0][0] != attempts[1][0]
    assert int(attempts[1][1]) > 0, "it went on from its checkpoint"
    failing = Cell(WORK, {"seed": 9, "fail": True}, "fails")
    assert "it was asked to" in (store.error(failing) or "")
    same_as_here(out)
    again = run_on_ray(slow_cells(out), store, "127.0.0.1:1")  # nothing to do: nobody is asked
    assert again.skipped == 2


@pytest.mark.ray
def test_a_killed_driver_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = cluster.start(out)
    wait_for_progress(CellStore(out), slow_cells(out)[0], driver)
    driver.kill()
    driver.communicate()
    (tmp_path / "go").touch()
    assert ended(cluster.start(out)) == [["fails", "RuntimeError: it was asked to"]]
    same_as_here(out)


@pytest.mark.ray
@pytest.mark.parametrize("client", [False, True])
def test_a_worker_that_does_not_see_the_folder_sends_its_files(
    cluster: Cluster, tmp_path: Path, client: bool
) -> None:
    out = tmp_path / "out"
    (tmp_path / "go").touch()
    driver = cluster.start(out, "blind", client=client)
    assert ended(driver) == [["fails", "RuntimeError: it was asked to"]]
    failing = Cell(WORK, {"seed": 9, "fail": True}, "fails")
    assert "it was asked to" in (CellStore(out).error(failing) or "")
    assert not (tmp_path / "not-there").exists()
    same_as_here(out)
    mark = place_of(CellStore(out)).mark
    (own,) = Path(tempfile.gettempdir()).glob(f"softmargin-*-{mark}")
    assert list((own / CELLS).iterdir()) == [], "what was sent is removed"
    shutil.rmtree(own)


def test_a_worker_without_the_folder_works_in_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    (cell,) = cells(1)
    cell = Cell(f"{__name__}:count_up", {**cell.config, "pause": 0.0}, "seed 0")
    place = place_of(CellStore(tmp_path / "out"))
    assert place_of(CellStore(tmp_path / "out")) == place, "the mark stays"
    assert place.is_seen()
    assert run_cell(place, cell) == {}
    assert CellStore(tmp_path / "out").is_finished(cell)
    blind = Place(str(tmp_path / "not-there"), place.mark, place.version, place.threads)
    sent = run_cell(blind, cell)
    assert set(sent) == {"cell.json", "arrays.npz", "result.json"}
    (own,) = (tmp_path / "temporary").iterdir()
    assert place.mark in own.name
    assert list((own / CELLS).iterdir()) == [], "what was sent is removed"
    other = Place(place.root, place.mark, "0.0.0", place.threads)
    assert b"0.0.0 at the driver" in run_cell(other, cell)["error.txt"]


def test_a_local_cluster_has_a_token_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AUTHENTICATION:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with alone():
        assert os.environ["RAY_AUTH_MODE"] == "token"
        assert len(os.environ["RAY_AUTH_TOKEN"]) == 32
    assert not any(name in os.environ for name in (*AUTHENTICATION, BEYOND_LOOPBACK))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # the user's word counts
    with alone():
        assert "RAY_AUTH_TOKEN" not in os.environ
    assert os.environ["RAY_AUTH_MODE"] == "disabled"


def cores(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    """Return how many cores this task was given and how many threads it has."""
    import ray
    import torch

    given = ray.get_runtime_context().get_assigned_resources().get("CPU")
    return Result({"given": given, "threads": torch.get_num_threads()})


def count_cores(address: str, out: str, jobs: str) -> None:
    cell, store = Cell("test_ray:cores", {"seed": 0}, "cores"), CellStore(Path(out))
    tally = run_on_ray([cell], store, address, int(jobs) or None)
    assert tally.failed == []
    print(json.dumps(store.result(cell).numbers))


@pytest.mark.ray
@pytest.mark.parametrize(
    ("threads", "jobs", "expected"),
    [(1, 0, 1), (2, 0, 2), (8, 0, 2)],  # more than any machine of the cluster has
)
def test_a_cell_takes_as_many_cores_as_it_has_threads(
    cluster: Cluster, tmp_path: Path, threads: int, jobs: int, expected: int
) -> None:
    code = "import sys, torch, test_ray; torch.set_num_threads(int(sys.argv[1]));"
    code += "test_ray.count_cores(*sys.argv[2:])"
    command = [sys.executable, "-c", code, str(threads), cluster.address, str(tmp_path), str(jobs)]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"given": expected, "threads": expected}


def listeners() -> set[str]:
    """Return the addresses at which the processes of this test listen."""
    places: dict[str, str] = {}
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A":  # listening
                places[f"socket:[{rest[5]}]"] = local.partition(":")[0]
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if b"test_ray_marker" not in (process / "environ").read_bytes():
                continue
            for handle in (process / "fd").iterdir():
                found.add(places.get(str(handle.readlink()), ""))
    return found - {""}


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def look_around(config: Mapping[str, Any], folder: Path, progress: core.Progress) -> Result:
    return Result({"listeners": sorted(listeners())})


def look_from_inside(out: str, imported: str) -> None:
    if imported == "before":
        import ray  # noqa: F401
    cell, store = Cell("test_ray:look_around", {"seed": 0}, "look"), CellStore(Path(out))
    tally = run_on_ray([cell], store, "local", 1)
    assert tally.failed == []
    print(json.dumps(store.result(cell).numbers["listeners"]))


@pytest.mark.ray
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
@pytest.mark.parametrize("imported", ["before", "after"])
def test_a_local_cluster_listens_on_the_loopback_only(tmp_path: Path, imported: str) -> None:
    code = "import sys, test_ray; test_ray.look_from_inside(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(tmp_path / "out"), imported]
    environment = {name: value for name, value in os.environ.items() if name not in AUTHENTICATION}
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment |= {"PYTHONPATH": path, "MARKER": "test_ray_marker", "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stdout.splitlines()[-1]))
    assert found, "it does listen"
    assert found <= LOOPBACK


@pytest.mark.parametrize(("failures", "connects"), [(0, True), (4, True), (5, False)])
def test_a_server_that_fails_to_start_a_session_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, connects: bool
) -> None:
    calls = []

    class Server:  # the real one fails by chance
        @staticmethod
        def init(**options: Any) -> None:
            calls.append("init")
            if calls.count("init") <= failures:
                raise ConnectionAbortedError("Initialization failure from server")

        @staticmethod
        def shutdown() -> None:
            calls.append("shutdown")

    monkeypatch.setattr(connecting, "require_ray", lambda: Server)
    monkeypatch.setattr(connecting, "check_answers", lambda address: None)
    refused = pytest.raises(ConnectionError, match="Initialization")
    with nullcontext() if connects else refused, connecting.connected("ray://10.0.0.1:10001"):
        pass
    assert calls.count("init") == min(failures + 1, 5)
    assert calls[-1] == ("shutdown" if connects else "init")


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", "ray://127.0.0.1:1", "host:x", ""])
def test_an_address_that_does_not_answer_is_refused_before_ray_tries(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "require_ray", lambda: None)  # it would try for a minute
    with pytest.raises(ConnectionError, match="argument --ray: must be local or the address") as e:
        run_on_ray(cells(1), CellStore(tmp_path / "out"), address)
    assert repr(address) in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.ray
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_something_else_that_answers_is_refused_in_time(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softmargin._ray.HEALTHY_WITHIN", 3.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"{scheme}127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="no .*Ray cluster"):
            run_on_ray(cells(1), CellStore(tmp_path / "out"), address)
    assert not (tmp_path / "out").exists()
