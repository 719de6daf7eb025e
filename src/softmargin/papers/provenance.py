"""Which copies of data sets results were computed from, and what older cells leave out of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from softmargin.data.registry import ENTRIES
from softmargin.papers.core import Array, Cell, Finished, Result
from softmargin.papers.grid import TITLES

KEPT = ("classes", "is_subset", "note", "files")
AFTERWARDS = "afterwards"  # of a copy that was looked up when the cell had long been finished


def of_cell(cell: Cell) -> dict[str, Any]:
    """Return by name which copy of its data set is on this machine, if it has one."""
    name = cell.config.get("data")
    copy = copy_here(name) if isinstance(name, str) else None
    return {} if copy is None else {str(name): dict(copy)}


@cache
def copy_here(name: str) -> Mapping[str, Any] | None:
    """Return the facts of the copy of a data set on this machine, or None where there is none.

    Data that come without a split have ``rows``, others ``train`` and ``test``.
    """
    if name not in ENTRIES:
        return None
    from softmargin import data
    from softmargin.data.errors import MissingDataError

    try:
        dataset = data.load(name, download=False)
    except MissingDataError:
        return None
    described, sizes = dataset.describe(), (len(dataset.train), len(dataset.test))
    split = ENTRIES[name].has_split
    counts = {"train": sizes[0], "test": sizes[1]} if split else {"rows": sum(sizes)}
    return {**counts, **{fact: described[fact] for fact in KEPT}}


def completed(cell: Cell, result: Result) -> Result:
    """Return a result of an earlier version with what a present one has, as far as it follows.

    Reliability diagrams follow from test logits. The copy of the data is taken to be the one on
    this machine if it has the same classes, which is noted with it.
    """
    numbers, data = result.numbers, result.data
    if not data and numbers.get("classes"):
        copies = of_cell(cell).items()
        data = {
            name: {**copy, "recorded": AFTERWARDS}
            for name, copy in copies
            if copy["classes"] == numbers["classes"]
        }
    logits, labels = (result.arrays.get(name) for name in ("test_logits", "test_labels"))
    if "bins" not in numbers and logits is not None and labels is not None:
        numbers = {**numbers, **_diagrams(logits, labels)}
    return replace(result, numbers=numbers, data=data)


def _diagrams(logits: Array, labels: Array) -> dict[str, Any]:
    import torch

    from softmargin.papers.measure import diagram, side_by_side

    y = torch.from_numpy(np.asarray(labels)).long()
    rows = [Result({"bins": diagram(torch.from_numpy(np.asarray(each)), y)}) for each in logits]
    return side_by_side(rows).numbers


# --- of results


def of_results(finished: Finished) -> dict[str, Any]:
    """Return by name the copies that results were computed from.

    Where there are several of one data set, a list of them; where none was recorded, nothing.
    """
    found: dict[str, list[Any]] = {}
    for _, result in finished:
        for name, copy in result.data.items():
            known = found.setdefault(name, [])
            if copy not in known:
                known.append(copy)
    return {name: own[0] if len(own) == 1 else own for name, own in found.items()}


def other_copies(committed: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    """Yield of which data sets two results have used different copies, in words."""
    for name in committed.keys() & own.keys():
        files = [[copy["files"] for copy in _copies(each[name])] for each in (committed, own)]
        if files[0] != files[1]:
            yield f"{name} is another copy: the checksums of its files differ"
    for name in sorted(committed.keys() ^ own.keys()):
        yield f"which copy of {name} was used is recorded of one only"


def _copies(stored: Any) -> Sequence[Mapping[str, Any]]:
    return stored if isinstance(stored, list) else [stored]


# --- in words

NOT_RECORDED = "which copy was used was not recorded"
LOOKED_UP = "looked up after training"
SHOWN = 12  # characters of a checksum


def data_of(meta: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by data set of a result the tasks that were trained on it, if tasks have names."""
    common, found = meta["configuration"]["common"], dict[str, list[str]]()
    for cell in meta["configuration"]["cells"]:
        config = {**common, **cell["config"]}
        if isinstance(config.get("data"), str):
            tasks = found.setdefault(config["data"], [])
            tasks += [task for task in [config.get("task")] if task and task not in tasks]
    return found


def told(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return by the title of each data set which copy a result was computed from."""
    found = {}
    for name in data_of(meta):
        copies = _copies(meta["data"].get(name, []))
        text = "; another copy: ".join(map(_told, copies)) or NOT_RECORDED
        found[title_of(name)] = text
    return found


def _told(copy: Mapping[str, Any]) -> str:
    said = [f"{copy['classes']} classes", size_of(copy)]
    if copy["is_subset"]:
        said.append("a part of the published set")
    said += [copy["note"]] if copy["note"] else []
    said += [f"{name} {checksum[:SHOWN]}…" for name, checksum in copy["files"].items()]
    said += [LOOKED_UP] if copy.get("recorded") == AFTERWARDS else []
    return ", ".join(said)


def size_of(copy: Mapping[str, Any]) -> str:
    """Return how many samples a copy has, in words."""
    if "rows" in copy:
        return f"{copy['rows']:,} rows"
    return f"{copy['train']:,} training and {copy['test']:,} test images"


def title_of(name: str) -> str:
    """Return what a data set is called in tables and on pages."""
    if name in TITLES:
        return TITLES[name]
    return ENTRIES[name].title.partition(",")[0] if name in ENTRIES else name


def not_comparable(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return why the paper's numbers are not of the same test, by task or data set.

    A copy with fewer classes, or with fewer test images, gives another test. Where a result has
    one data set only, the key is empty: it is about every number.
    """
    found, data = dict[str, str](), data_of(meta)
    for name, tasks in data.items():
        reasons = [_other_test(name, copy) for copy in _copies(meta["data"].get(name, []))]
        if any(reasons):
            why = next(filter(None, reasons))
            found |= dict.fromkeys(tasks if len(data) > 1 else [""], why)
    return found


def _other_test(name: str, copy: Mapping[str, Any]) -> str:
    published, said = ENTRIES.get(name), []
    if published is None or "test" not in copy:
        return ""
    if copy["classes"] != published.num_classes:
        said.append(f"{copy['classes']} of {published.num_classes} classes")
    if copy["test"] < published.test:
        said.append(f"{copy['test']:,} of {published.test:,} test images")
    return f"our copy of {title_of(name)} has {' and '.join(said)}" if said else ""
