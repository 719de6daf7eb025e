"""Running cells on a Ray cluster: the same cells as elsewhere, each a task.

A worker that sees the results folder (it finds the driver's mark in it) works there, as a local
process does. One that does not works in a temporary folder of its own and sends the files of the
cell back, which the driver then writes. A cell whose worker dies is run again, from its last
checkpoint where that is still there.
"""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from softmargin._files import write_file
from softmargin._processes import LOOK_EVERY
from softmargin._ray import LOCAL, RETRIES, connected
from softmargin.papers.core import Cell
from softmargin.papers.plan import is_for_gpu
from softmargin.papers.run import Show, Tally, begin, quiet
from softmargin.papers.store import ARRAYS, CELLS, ERROR, RESULT, CellStore

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
