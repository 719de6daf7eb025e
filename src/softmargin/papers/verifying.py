"""Verifying results: everything that is written is computed again from what it was made of.

Where the finished cells of a result are there, its tables, charts and verdict are concluded again
from them and compared with ``numbers.json``, and stored test logits are scored again
(:mod:`softmargin.papers.scoring`). A fresh clone has no cells: there, and everywhere else,
numbers that follow from others of the same file, and the pages, are checked against each other
(:mod:`softmargin.papers.consistency`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softmargin import data
from softmargin._files import DamagedFileError
from softmargin.data.errors import MissingDataError
from softmargin.papers.consistency import (
    Place,
    chart_place,
    entry_place,
    figure_differences,
    first_difference,
    index_differences,
    number_differences,
    page_differences,
)
from softmargin.papers.core import Array, Cell, Experiment, Result, Scope, experiments
from softmargin.papers.scoring import scored_again
from softmargin.papers.store import CellStore
from softmargin.papers.write import NUMBERS, plain, read_numbers, read_result


@dataclass
class Checked:
    """What was found about one result: how it was checked, and a line for each thing wrong.

    Attributes:
        id: of the experiment.
        cells: from how many finished cells it was concluded again; 0 where none are there.
        scores: how many scores of stored logits were computed again.
        problems: one line each.
    """

    id: str
    cells: int = 0
    scores: int = 0
    problems: list[str] = field(default_factory=list)


def results_in(out: Path, wanted: Sequence[str] = ()) -> list[str]:
    """Return the ids that have results in a folder: all, or the wanted ones, which must be there.

    Raises:
        ValueError: in one sentence, where there are none.
    """
    there = sorted(path.parent.name for path in out.glob(f"*/{NUMBERS}"))
    if not there:
        raise ValueError(f"argument --out: must be a folder with results, but got {str(out)!r}.")
    for name in wanted:
        if name not in there:
            raise ValueError(
                f"ID must be one that {str(out)!r} has results of, such as "
                f"{', '.join(there[:8])}, but got {name!r}."
            )
    return [name for name in there if not wanted or name in wanted]


def verify(out: Path, wanted: Sequence[str] = ()) -> Iterator[Checked]:
    """Check the results in a folder one by one, and in the end the page over all of them."""
    store, scored = CellStore(out), set[str]()
    damaged = False
    for name in results_in(out, wanted):
        checked = Checked(name)
        try:
            _check_result(out / name, store, checked, scored)
        except DamagedFileError as error:
            damaged = True
            checked.problems.append(str(error))
        yield checked
    if not wanted and not damaged:
        yield Checked("README.md", problems=index_differences(out))


def _check_result(folder: Path, store: CellStore, checked: Checked, scored: set[str]) -> None:
    meta, outcome = read_result(folder)
    stored = read_numbers(folder)
    if meta["id"] != checked.id:
        checked.problems.append(f"numbers.json is of {meta['id']}")
    checked.problems += number_differences(outcome)
    cells = _stored_cells(meta, checked)
    if cells and all(store.is_finished(cell) for cell in cells):
        _check_cells(stored, cells, store, checked, scored)
    checked.problems += page_differences(folder, meta, outcome)
    checked.problems += figure_differences(folder, stored)


def _stored_cells(meta: Mapping[str, Any], checked: Checked) -> list[Cell]:
    """Return the cells that a result was made of, where this version still has the same ones."""
    common = meta["configuration"]["common"]
    for each in meta["configuration"]["cells"]:
        cell = Cell(each["work"], {**common, **each["config"]}, each["label"])
        if cell.key != each["key"]:
            checked.problems.append(
                f"cell {cell.label!r}: its configuration has the key {cell.key}, but "
                f"{each['key']} is written"
            )
    experiment = experiments().get(meta["id"])
    expected = [] if experiment is None else list(experiment.cells(_setting(meta)))
    if {cell.key for cell in expected} != {each["key"] for each in meta["configuration"]["cells"]}:
        checked.problems.append("it is of a recipe that this version does not have: run it again")
        return []
    return expected


def _setting(meta: Mapping[str, Any]) -> Scope:
    return Scope(meta["scale"], tuple(meta["seeds"]))


def _check_cells(
    stored: Mapping[str, Any],
    cells: Sequence[Cell],
    store: CellStore,
    checked: Checked,
    scored: set[str],
) -> None:
    """Conclude again from finished cells, and score their logits again."""
    finished = []
    for cell in cells:
        result = _result(store, cell, checked)
        if result is None:
            return
        finished.append((cell, result))
        if cell.key not in scored:  # experiments share cells
            scored.add(cell.key)
            _check_scores(cell, result, checked)
    checked.cells = len(finished)
    experiment = experiments()[stored["id"]]
    checked.problems += _concluded_again(experiment, _setting(stored), finished, stored)


def _result(store: CellStore, cell: Cell, checked: Checked) -> Result | None:
    try:
        return store.result(cell)
    except (ValueError, OSError) as error:
        checked.problems.append(f"cell {cell.label!r} ({cell.key}): cannot be read: {error}")
        return None


def _check_scores(cell: Cell, result: Result, checked: Checked) -> None:
    for score in scored_again(cell, result, _test_labels):
        checked.scores += 1
        if not score.agrees:
            checked.problems.append(
                f"cell {cell.label!r} ({cell.key}): {score.where} is stored as {score.stored:.8g}, "
                f"but the logits give {score.found:.8g} (to {score.allowed:.1g})"
            )


def _test_labels(cell: Cell) -> Array | None:
    """Return the test labels of a cell's data set, where it is on this machine."""
    try:
        dataset = data.load(cell.config["data"], seed=cell.config["seed"], download=False)
    except (MissingDataError, KeyError):
        return None
    labels: Array = dataset.test.y.numpy()
    return labels


def _concluded_again(
    experiment: Experiment,
    setting: Scope,
    finished: Sequence[tuple[Cell, Result]],
    stored: Mapping[str, Any],
) -> Iterator[str]:
    """Yield where what is written is not what the cells give: a line for each entry and curve."""
    try:
        fresh = plain(experiment.conclude(setting, finished).as_dict())
    except Exception as error:  # numbers that were tampered with may break anything
        yield f"its cells cannot be concluded from: {type(error).__name__}: {error}"
        return
    for part in ("verdict", "notes", "setup"):
        if difference := first_difference(stored[part], fresh[part]):
            yield f"{part}{difference}"
    for kind, items, place in (
        ("tables", "entries", entry_place),
        ("charts", "series", chart_place),
    ):
        yield from _compared(stored[kind], fresh[kind], items, place)


def _compared(
    stored: Sequence[Mapping[str, Any]],
    fresh: Sequence[Mapping[str, Any]],
    items: str,
    place: Place,
) -> Iterator[str]:
    if len(stored) != len(fresh):
        yield f"{len(stored)} are written where the cells give {len(fresh)}: {items}"
    for ours, theirs in zip(stored, fresh, strict=False):
        if difference := first_difference(_without(ours, items), _without(theirs, items)):
            yield f"{place(ours, None)}{difference}"
        if len(ours[items]) != len(theirs[items]):
            yield f"{place(ours, None)}: {len(ours[items])} {items}, not {len(theirs[items])}"
        for own, other in zip(ours[items], theirs[items], strict=False):
            if difference := first_difference(own, other):
                yield f"{place(ours, own)}{difference}"


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
