"""What a results folder lacks: experiments without a result, and cells that failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from softmargin._files import read_json
from softmargin.papers.core import SCALES, Experiment, usual_folder
from softmargin.papers.store import CELLS, CellStore

NOT_RUN = "not run"


@dataclass(frozen=True)
class Failure:
    """A cell that failed: what it was, of which experiments, and the first line of its error."""

    label: str
    ids: tuple[str, ...]
    error: str


def failures(folder: Path, known: Mapping[str, Experiment]) -> list[Failure]:
    """Return the cells of a results folder that failed when they were last run."""
    failed = [
        path.parent
        for path in sorted((folder / CELLS).glob("*/error.txt"))
        if not (path.parent / "result.json").exists()
    ]
    if not failed:
        return []
    owners = _owners(known)
    return [
        Failure(_label(cell), owners.get(cell.name, ()), _first_line(cell / "error.txt"))
        for cell in failed
    ]


def missing(
    folder: Path, known: Mapping[str, Experiment], found: Collection[str]
) -> dict[str, str]:
    """Return why each experiment without a result has none, in one sentence, by id."""
    store = CellStore(folder)
    return {
        name: _how_far(experiment, store) for name, experiment in known.items() if name not in found
    }


def _how_far(experiment: Experiment, store: CellStore) -> str:
    command = f"softmargin reproduce run {experiment.id}"
    for scale in reversed(SCALES):
        cells = experiment.cells(experiment.scope(scale))
        done = sum(store.is_finished(cell) for cell in cells)
        if done:
            here = "" if store.root == usual_folder(scale) else f" --out {quote(str(store.root))}"
            return (
                f"Begun: {done} of {len(cells)} cells are finished at {scale} scale; "
                f"{command} --scale {scale}{here} goes on."
            )
    return f"No result yet; {command} makes it."


def _owners(known: Mapping[str, Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the ids that each cell belongs to, by its key, with the usual numbers of seeds."""
    owners: dict[str, tuple[str, ...]] = {}
    for name, experiment in known.items():
        keys = {c.key for scale in SCALES for c in experiment.cells(experiment.scope(scale))}
        for key in keys:
            owners[key] = (*owners.get(key, ()), name)
    return owners


def _label(cell: Path) -> str:
    try:
        return str(read_json(cell / "cell.json", "")["label"])
    except (OSError, ValueError, KeyError):
        return cell.name


def _first_line(path: Path) -> str:
    return next(iter(path.read_text(encoding="utf-8", errors="replace").splitlines()), "")
