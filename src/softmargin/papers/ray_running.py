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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from softmargin._files import write_file
from softmargin.papers.core import Cell
from softmargin.papers.planning import is_for_gpu
from softmargin.papers.ray_cluster import LOCAL, connected
from softmargin.papers.running import Report, Tally, begin
from softmargin.papers.store import CELLS, CellStore
from softmargin.papers.workers import Ended, attempt

MARK = ".folder-id"
SENT = ("cell.json", "arrays.npz", "error.txt", "result.json")  # the last one says "finished"
RETRIES = 3


@dataclass(frozen=True)
class Place:
    """The driver's results folder, and how a worker can tell whether it sees the same one."""

    root: str
    mark: str
    version: str
    threads: int

    def store(self) -> CellStore:
        """Return the cells of that folder, or of a temporary one where it cannot be seen."""
        return CellStore(Path(self.root) if self.is_seen() else self._own())

    def is_seen(self) -> bool:
        """Whether the folder of that name here is the driver's."""
        try:
            return (Path(self.root) / CELLS / MARK).read_text(encoding="utf-8") == self.mark
        except OSError:
            return False

    def _own(self) -> Path:
        # the mark stays the same when the driver starts again, so that checkpoints are found
        return Path(tempfile.gettempdir()) / f"softmargin-{getpass.getuser()}-{self.mark}"


def run_on_ray(
    cells: Sequence[Cell],
    store: CellStore,
    address: str,
    jobs: int | None = None,
    report: Report | None = None,
) -> Tally:
    """Run the cells that are not finished on a cluster; one that fails does not stop the rest.

    Args:
        cells: what to run.
        store: where results go.
        address: of a running cluster, ``"host:port"`` or ``"ray://host:port"``; ``"local"``
            starts one here, and stops it in the end.
        jobs: how many at a time, by default as many as the cluster takes.
        report: told how far the cells are.

    Raises:
        ConnectionError: where no cluster answers there.
    """
    tally, waiting = begin(cells, store)
    if not waiting:
        return tally
    threads = torch.get_num_threads()
    if address == LOCAL and jobs is not None:  # they share this machine's cores
        threads = max(1, threads // jobs)
    cpus = max(os.cpu_count() or 1, threads * (jobs or 1))
    with connected(address, cpus) as ray:
        place = place_of(store, min(threads, _largest_node(ray)))
        gpus = bool(ray.cluster_resources().get("GPU"))
        task = ray.remote(max_retries=RETRIES, num_cpus=place.threads)(run_cell)
        at_once = jobs or len(waiting)
        running: dict[Any, Cell] = {}
        while waiting or running:
            while waiting and len(running) < at_once:
                cell = waiting.pop(0)
                options = {"name": cell.label, "num_gpus": int(gpus and is_for_gpu(cell))}
                running[task.options(**options).remote(place, cell)] = cell
            done, _ = ray.wait(list(running), timeout=0.5)
            for reference in done:
                cell = running.pop(reference)
                if why := _receive(ray, reference, store.folder(cell).path):
                    tally.failed.append((cell, why))
                tally.shares[cell.key] = 1.0
            for cell in running.values():
                tally.shares[cell.key] = store.progress(cell)
            if report is not None:
                report(tally)
    return tally


def _largest_node(ray: Any) -> int:
    """Return how many cores the largest machine has: a task that wants more waits for ever."""
    nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
    return max(1, *map(int, nodes))


def place_of(store: CellStore, threads: int = 1) -> Place:
    """Return the folder of a store with its mark, which is made where there is none.

    Args:
        store: the cells.
        threads: that a worker computes with, and so how many cores it takes.
    """
    from softmargin import __version__

    folder = store.root.resolve() / CELLS
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MARK).exists():
        write_file(folder / MARK, uuid.uuid4().hex)
    mark = (folder / MARK).read_text(encoding="utf-8")
    return Place(str(store.root.resolve()), mark, __version__, threads)


def run_cell(place: Place, cell: Cell) -> Ended:
    """Run a cell in a worker."""
    from softmargin import __version__

    if __version__ != place.version:
        return Ended(f"softmargin is {__version__} at the worker, {place.version} at the driver")
    torch.set_num_threads(place.threads)  # Ray sets one; sums differ in their last digits
    store = place.store()
    ended, folder = attempt(store, cell), store.folder(cell).path
    if place.is_seen():
        return ended
    files = {name: (folder / name).read_bytes() for name in SENT if (folder / name).exists()}
    if ended.error is None or not any(path.is_dir() for path in folder.iterdir()):
        shutil.rmtree(folder)  # checkpoints of a cell that failed may be of use
    return replace(ended, files=files)


def _receive(ray: Any, reference: Any, folder: Path) -> str | None:
    """Write what a worker has sent back; return why the cell failed, if it did."""
    try:
        ended: Ended = ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        return f"its worker died {RETRIES + 1} times"
    except ray.exceptions.RayError as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if ended.full is not None:
        raise OSError(*ended.full)
    folder.mkdir(parents=True, exist_ok=True)
    if "result.json" in ended.files:
        (folder / "error.txt").unlink(missing_ok=True)
    for name in SENT:
        if name in ended.files:
            write_file(folder / name, ended.files[name])
    return ended.error
