"""Where runs happen: here in order, in processes, or as tasks of a Ray cluster."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from softmargin._files import write_file
from softmargin._processes import LOOK_EVERY, leave_interrupts_to_parent, run_side_by_side
from softmargin._ray import LOCAL, RETRIES, connected
from softmargin.tuning.checks import ContractError
from softmargin.tuning.runs import FailedRunError, Kept, Run, attempt

Told = Callable[[Run], None]
Place = Callable[[Sequence[Run], Kept, Told], None]
"""Runs some runs to their end, keeps what is left of them, and tells of each."""

ERROR = ".error.json"


def here(runs: Sequence[Run], kept: Kept, told: Told) -> None:
    """Run in this process, one after the other."""
    for run in runs:
        try:
            arrays = run.arrays()
        except ContractError:
            raise
        except Exception as error:
            raise FailedRunError(run.failure(error)) from error
        kept.write(run, arrays)
        told(run)


def in_processes(jobs: int) -> Place:
    """Return a place that runs so many at a time, each in a process of its own."""
    threads = max(1, torch.get_num_threads() // jobs)

    def place(runs: Sequence[Run], kept: Kept, told: Told) -> None:
        died: set[int] = set()

        def ended(number: int, code: int) -> bool:
            run = runs[number]
            error = _error_file(kept.path(run))
            if error.exists():
                said, contract = json.loads(error.read_text("utf-8"))
                error.unlink()
                raise _failed(said, contract)
            if code != 0 and not kept.path(run).exists():
                if number in died:
                    raise FailedRunError(f"train failed for {run.label}: its process died twice.")
                died.add(number)
                return True
            told(run)
            return False

        check_importable(runs[0])
        for run in runs:  # what a killed process has left
            _error_file(kept.path(run)).unlink(missing_ok=True)
        given = [(run, str(kept.path(run)), threads) for run in runs]
        run_side_by_side(
            _run_alone, given, jobs, preload=__name__, look=lambda _: None, ended=ended
        )

    return place


def _run_alone(run: Run, path: str, threads: int) -> None:
    """Run in a process of its own; what is left of it, or what went wrong, is in a file."""
    leave_interrupts_to_parent()
    found = attempt(run, threads)
    if isinstance(found, dict):
        Kept(Path(path).parent).write(run, found)
    else:
        write_file(_error_file(Path(path)), json.dumps(found))


def _error_file(path: Path) -> Path:
    return path.with_suffix(ERROR)


def check_importable(run: Run) -> None:
    """Refuse what another process could not be given."""
    try:
        pickle.dumps((run.train, run.criterion))
    except Exception as error:
        said = str(error).rstrip(".")
        raise ContractError(
            "train and criterion must be functions that other processes can import, not ones "
            f"defined inside another function, for jobs above 1: {said}."
        ) from None


@contextmanager
def on_ray(address: str, jobs: int | None) -> Iterator[tuple[Place, int]]:
    """Connect to a cluster; give a place that runs there, and how many at a time."""
    threads = torch.get_num_threads()
    if address == LOCAL and jobs is not None:  # they share this machine's cores
        threads = max(1, threads // jobs)
    cpus = max(os.cpu_count() or 1, threads * (jobs or 1))
    with connected(address, cpus) as ray:
        nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        own = min(threads, max(1, *map(int, nodes)))
        gpus = int(ray.cluster_resources().get("GPU", 0))
        width = jobs or gpus or max(1, int(sum(nodes)) // own)
        options = {"max_retries": RETRIES, "num_cpus": own, "num_gpus": int(gpus > 0)}
        task = ray.remote(**options)(attempt)

        def place(runs: Sequence[Run], kept: Kept, told: Told) -> None:
            waiting, running = list(runs), dict[Any, Run]()
            while waiting or running:
                while waiting and len(running) < width:
                    run = waiting.pop(0)
                    running[task.options(name=run.label).remote(run, own)] = run
                done, _ = ray.wait(list(running), timeout=LOOK_EVERY)
                for reference in done:
                    run = running.pop(reference)
                    kept.write(run, _received(ray, reference, run))
                    told(run)

        yield place, width


def _received(ray: Any, reference: Any, run: Run) -> dict[str, Any]:
    try:
        found: dict[str, Any] | tuple[str, bool] = ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        why = f"its worker died {RETRIES + 1} times"
        raise FailedRunError(f"train failed for {run.label}: {why}.") from None
    except ray.exceptions.RayError as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise FailedRunError(f"train failed for {run.label}: {why}.") from None
    if not isinstance(found, dict):
        raise _failed(*found)
    return found


def _failed(said: str, contract: bool) -> Exception:
    return ContractError(said) if contract else FailedRunError(said)
