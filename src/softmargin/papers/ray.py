"""Running cells on a Ray cluster: the same cells as elsewhere, each a task.

A worker that sees the results folder (it finds the driver's mark in it) works there, as a local
process does. One that does not works in a temporary folder of its own and sends the files of the
cell back, which the driver then writes. A cell whose worker dies is run again, from its last
checkpoint where that is still there.
"""

from __future__ import annotations

import getpass
import logging
import os
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from softmargin._files import write_file
from softmargin.papers.core import Cell
from softmargin.papers.plan import is_for_gpu
from softmargin.papers.run import LOOK_EVERY, Show, Tally, begin, quiet
from softmargin.papers.store import ARRAYS, CELLS, ERROR, RESULT, CellStore

LOCAL = "local"
ANSWER_WITHIN = 5.0  # seconds, for a port
HEALTHY_WITHIN = 10.0  # seconds, for the cluster behind it
CONNECTIONS = 5  # tries
RETRIES = 3  # of a cell whose worker has died
LOCAL_OBJECTS = 100 << 20  # bytes: what comes back from cells is small
AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
# despite its name: without it, Ray keeps to the loopback on any system
BEYOND_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
MARK = ".folder-id"
SENT = ("cell.json", ARRAYS, ERROR, RESULT)  # the last one says "finished"


@dataclass(frozen=True)
class Place:
    """The driver's results folder, and how a worker can tell whether it sees the same one."""

    root: str
    mark: str
    version: str
    threads: int

    def is_seen(self) -> bool:
        """Whether the folder of that name here is the driver's."""
        try:
            return (Path(self.root) / CELLS / MARK).read_text(encoding="utf-8") == self.mark
        except OSError:
            return False


def run_on_ray(
    cells: Sequence[Cell],
    store: CellStore,
    address: str,
    jobs: int | None = None,
    show: Show = quiet,
) -> Tally:
    """Run the cells that are not finished on a cluster; one that fails does not stop the rest.

    Args:
        cells: what to run.
        store: where results go.
        address: of a running cluster, ``"host:port"`` or ``"ray://host:port"``; ``"local"``
            starts one here, and stops it in the end.
        jobs: how many at a time, by default as many as the cluster takes.
        show: told how far the cells are.

    Raises:
        ConnectionError: where no cluster answers there.
    """
    tally = begin(cells, store, show)
    waiting = list(tally.waiting)
    if not waiting:
        return tally
    threads = torch.get_num_threads()
    if address == LOCAL and jobs is not None:  # they share this machine's cores
        threads = max(1, threads // jobs)
    cpus = max(os.cpu_count() or 1, threads * (jobs or 1))
    with connected(address, cpus) as ray:
        # a task that wants more cores than the largest machine has would wait for ever
        nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        place = place_of(store, min(threads, max(1, *map(int, nodes))))
        gpus = bool(ray.cluster_resources().get("GPU"))
        task = ray.remote(max_retries=RETRIES, num_cpus=place.threads)(run_cell)
        running: dict[Any, Cell] = {}
        while waiting or running:
            while waiting and len(running) < (jobs or len(cells)):
                cell = waiting.pop(0)
                options = {"name": cell.label, "num_gpus": int(gpus and is_for_gpu(cell))}
                running[task.options(**options).remote(place, cell)] = cell
            done, _ = ray.wait(list(running), timeout=LOOK_EVERY)
            for reference in done:
                cell = running.pop(reference)
                _receive(ray, reference, store, cell)
                tally.end(cell)
            for cell in running.values():
                tally.note(cell, store.progress(cell))
    return tally


def place_of(store: CellStore, threads: int = 1) -> Place:
    """Return the folder of a store with its mark, which is made where there is none.

    Args:
        store: the cells.
        threads: that a worker computes with, and so how many cores it takes.
    """
    from softmargin import __version__

    root = store.root.resolve()
    mark = root / CELLS / MARK
    mark.parent.mkdir(parents=True, exist_ok=True)
    if not mark.exists():
        write_file(mark, uuid.uuid4().hex)
    return Place(str(root), mark.read_text(encoding="utf-8"), __version__, threads)


def run_cell(place: Place, cell: Cell) -> dict[str, bytes] | OSError:
    """Run a cell in a worker; return the files to write at the driver, or that a disk is full."""
    from softmargin import __version__

    if __version__ != place.version:
        why = f"softmargin is {__version__} at the worker, {place.version} at the driver"
        return {ERROR: why.encode()}
    torch.set_num_threads(place.threads)  # Ray sets one; sums differ in their last digits
    store = CellStore(Path(place.root))
    if not place.is_seen():
        # the mark stays the same when the driver starts again, so that checkpoints are found
        name = f"softmargin-{getpass.getuser()}-{place.mark}"
        store = CellStore(Path(tempfile.gettempdir()) / name)
    try:
        store.run(cell)
    except OSError as error:
        return error
    if place.is_seen():
        return {}
    folder = store.folder(cell)
    files = {name: (folder / name).read_bytes() for name in SENT if (folder / name).exists()}
    if RESULT in files or not any(path.is_dir() for path in folder.iterdir()):
        shutil.rmtree(folder)  # checkpoints of a cell that failed may be of use
    return files


def _receive(ray: Any, reference: Any, store: CellStore, cell: Cell) -> None:
    """Write the files that a worker has sent back, or why it has sent none."""
    try:
        sent: dict[str, bytes] | OSError = ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        sent = {ERROR: f"its worker died {RETRIES + 1} times".encode()}
    except ray.exceptions.RayError as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        sent = {ERROR: why.encode()}
    if isinstance(sent, OSError):
        raise sent
    if sent:
        folder = store.folder(cell)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ERROR).unlink(missing_ok=True)
        for name, content in sent.items():
            write_file(folder / name, content)


@contextmanager
def connected(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Connect to a cluster for a while; yield the module ``ray``.

    Where the server of ``ray://`` fails to start a process for us, it is asked again: it forks
    among threads, which now and then hangs until it gives up.

    Args:
        address: ``"host:port"``, ``"ray://host:port"``, or ``"local"`` to start one here.
        cpus: how many cores a local one has to give, by default those of this machine.

    Raises:
        ImportError: where Ray is not installed.
        ConnectionError: where no cluster answers, in one sentence.
    """
    with alone() if address == LOCAL else nullcontext():
        ray = require_ray()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == LOCAL:
            options |= {"num_cpus": cpus or os.cpu_count(), "include_dashboard": False}
            options |= {"object_store_memory": LOCAL_OBJECTS}
        else:
            check_answers(address)
        for left in reversed(range(CONNECTIONS)):
            try:
                ray.init(address=address, **options)
                break
            except Exception as error:  # each kind of address fails in ways of its own
                if not (left and isinstance(error, ConnectionAbortedError)):
                    raise _refused(address, f"{type(error).__name__}: {error}") from None
                ray.shutdown()
        try:
            yield ray
        finally:
            ray.shutdown()


def require_ray() -> Any:
    """Return the module ``ray``, or say what to install."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry unless the user wants it
    try:
        import grpc  # noqa: F401
        import ray
        import ray.exceptions
    except ImportError:
        raise ImportError(
            '--ray needs ray, which is missing: pip install "softmargin[lab,ray]".'
        ) from None
    return ray


def check_answers(address: str) -> None:
    """Raise ``ConnectionError`` where nothing, or no Ray, answers at an address in time."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 1 << 16):
        raise _refused(address, "it is not of the form host:port")
    try:
        socket.create_connection((host, int(port)), ANSWER_WITHIN).close()
    except OSError as error:
        raise _refused(address, str(error.strerror or error)) from None
    import grpc

    # Ray itself would notice much later that what answers does not speak its protocol
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=HEALTHY_WITHIN)
        except grpc.FutureTimeoutError:
            raise _refused(address, "what answers there is no Ray cluster") from None


@contextmanager
def alone() -> Iterator[None]:
    """Keep a cluster started here to this machine, and leave nothing of it behind.

    It listens on the loopback only. It has a token that ends with it, unless the user has set one:
    Ray would otherwise write a token to the home folder, and from then on ask for it everywhere.
    Ray reads both settings when it is imported; if that has happened, the token is left alone.
    """
    settings = {BEYOND_LOOPBACK: "0"}
    if "ray" not in sys.modules and not any(name in os.environ for name in AUTHENTICATION):
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    constants: Any = sys.modules.get("ray._private.ray_constants")
    reaches = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    if constants is not None:
        constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if constants is not None:
            constants.ENABLE_RAY_CLUSTER = reaches


def _refused(address: str, why: str) -> ConnectionError:
    reason = " ".join(why.split()).rstrip(".")[:300]
    return ConnectionError(
        "argument --ray: must be local or the address of a Ray cluster that answers, such as "
        f"10.0.0.1:6379 or ray://10.0.0.1:10001, but got {address!r}: {reason}."
    )
