"""Results as files: numbers, figures and a page for each experiment, and pages over all.

``results/<id>/`` holds ``numbers.json`` (everything, for programs), one SVG for each chart and
``README.md``. No file holds a date, so that the same run writes the same bytes. ``numbers.json``
has its own checksum and those of the figures: what was changed afterwards is refused.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softmargin._files import DamagedFileError, write_file, write_json
from softmargin._papers import in_order
from softmargin.charts.vega import svg
from softmargin.papers.core import Cell, Experiment, Scope, experiments
from softmargin.papers.outcome import Outcome, plain
from softmargin.papers.pages import claims_page, index_page, result_page
from softmargin.papers.store import checksum, read_format

FORMAT = 2
NUMBERS, PAGE = "numbers.json", "README.md"
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
ONE_LINE = 96
REMEDY = "restore it, or delete it and run its id again"
SAID = ("id", "title", "paper", "where", "claim", "deviations", "scale", "seeds", "command")
META = (*SAID, "versions", "facts", "configuration")
DATA = "data"  # which copies; results of earlier versions did not record them


def write_result(
    experiment: Experiment,
    scope: Scope,
    outcome: Outcome,
    folder: Path,
    facts: Mapping[str, str] | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Write the numbers, figures and page of a result; each file is whole or not there.

    Args:
        experiment: what was run.
        scope: at which scale, with which seeds.
        outcome: what was concluded.
        folder: the experiment's own folder, such as ``results/gd-tab1``; made where missing.
        facts: what else is worth keeping, by name.
        data: which copies of data sets it was computed from, by name.
    """
    names = [chart.name for chart in outcome.charts]
    for name in names:
        if not FILE_NAME.fullmatch(name) or names.count(name) > 1:
            raise ValueError(
                "charts must have names of their own made of a-z, 0-9, '.', '_' and '-', "
                f"but got {name!r}."
            )
    meta = plain({**_meta(experiment, scope, facts or {}), DATA: data or {}})
    page = result_page(meta, outcome)
    folder.mkdir(parents=True, exist_ok=True)
    outdated = _figures_in(folder)
    sums = _draw(outcome, folder)
    write_file(folder / PAGE, page)
    for name in outdated - set(sums):  # before the numbers, which say that they were there
        (folder / name).unlink(missing_ok=True)
    content = {"format": FORMAT, **meta, **outcome.as_dict(), "figures": sums}
    write_json(folder / NUMBERS, content, dumps)


def _draw(outcome: Outcome, folder: Path) -> dict[str, str]:
    """Draw the figures of a result, and return their checksums."""
    sums = {}
    for chart in outcome.charts:
        text = svg(chart, outcome.charts)
        write_file(folder / f"{chart.name}.svg", text)
        sums[f"{chart.name}.svg"] = checksum(text.encode())
    return sums


def _figures_in(folder: Path) -> set[str]:
    """Return the names of the figures that an earlier run has left here."""
    try:
        return {f"{chart.name}.svg" for chart in read_result(folder)[1].charts}
    except ValueError:
        return set()


def read_result(folder: Path, name: str = "") -> tuple[dict[str, Any], Outcome]:
    """Read back what :func:`write_result` wrote: what was run, and the outcome.

    Args:
        folder: of the result.
        name: the id that it must have, by default any.
    """
    values = read_numbers(folder)
    try:
        if name and values["id"] != name:
            reason = f"it has the results of {values['id']!r}"
            raise DamagedFileError(folder / NUMBERS, reason, REMEDY)
        meta = {name: values[name] for name in META}
        return {**meta, DATA: values.get(DATA, {})}, Outcome.from_dict(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"results must be whole, but got {str(folder / NUMBERS)!r}, in which {error} is "
            f"missing or wrong: {REMEDY}."
        ) from None


def read_numbers(folder: Path) -> dict[str, Any]:
    """Return all that ``numbers.json`` holds.

    Raises:
        ValueError: in one sentence, where it is missing, damaged or of another version.
    """
    path = folder / NUMBERS
    try:
        return read_format(path, "results", FORMAT, REMEDY)
    except OSError as error:
        raise ValueError(
            f"results must be folders with a readable {NUMBERS}, but got {str(path)!r}: "
            f"{error.strerror}."
        ) from None


def read_results(results: Path) -> list[tuple[dict[str, Any], Outcome]]:
    """Read all results in a folder, in the order of the papers."""
    found = [read_result(path.parent, path.parent.name) for path in results.glob(f"*/{NUMBERS}")]
    return sorted(found, key=lambda each: in_order(each[0]["paper"], each[0]["id"]))


def write_index(results: Path) -> None:
    """Write the page over all results in a folder, in the order of the papers."""
    found = read_results(results)
    results.mkdir(parents=True, exist_ok=True)
    write_file(results / PAGE, index_page(found))


def write_pages(results: Path, claims: Path | None = None, *, figures: bool = False) -> int:
    """Write the pages of all results in a folder again, from their numbers; nothing is trained.

    Results take the titles and claims that experiments have now.

    Args:
        results: the folder of all results.
        claims: where the page of all claims goes, too, if it is wanted.
        figures: whether to draw the figures again as well.

    Returns:
        How many results there are.
    """
    known = experiments()
    for path in results.glob(f"*/{NUMBERS}"):
        numbers = read_numbers(path.parent)
        fresh: dict[str, Any] = {}
        if figures:
            fresh["figures"] = _draw(Outcome.from_dict(numbers), path.parent)
        if numbers["id"] in known:
            fresh |= _declared(known[numbers["id"]], numbers["scale"])
        if any(numbers.get(name) != value for name, value in fresh.items()):
            write_json(path, {**numbers, **fresh}, dumps)
    found = read_results(results)
    for meta, outcome in found:
        write_file(results / meta["id"] / PAGE, result_page(meta, outcome))
    write_index(results)
    if claims is not None:
        write_file(claims, claims_page(found))
    return len(found)


def dumps(value: Any) -> str:
    """Return JSON in which what is short, or a row of numbers, stands on one line."""
    return _dumps(plain(value), "")


def _dumps(value: Any, indent: str) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    row = isinstance(value, list) and not any(isinstance(x, (dict, list)) for x in value)
    if not isinstance(value, (dict, list)) or row or len(indent) + len(text) <= ONE_LINE:
        return text
    deeper = indent + " "
    if isinstance(value, dict):
        names = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value]
        parts = [name + _dumps(value[key], deeper) for key, name in zip(value, names, strict=True)]
    else:
        parts = [_dumps(each, deeper) for each in value]
    inside = ",\n".join(deeper + part for part in parts)
    return f"{text[0]}\n{inside}\n{indent}{text[-1]}"


def _meta(experiment: Experiment, scope: Scope, facts: Mapping[str, str]) -> dict[str, Any]:
    from softmargin import __version__

    command = f"softmargin reproduce run {experiment.id} --scale {scope.scale}"
    if experiment.spread:
        command += f" --seeds {len(scope.seeds)}"
    return {
        "id": experiment.id,
        **_declared(experiment, scope.scale),
        "scale": scope.scale,
        "seeds": scope.seeds,
        "command": command,
        "versions": {
            "softmargin": __version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "facts": facts,
        "configuration": _configuration(experiment.cells(scope)),
    }


def _declared(experiment: Experiment, scale: str) -> dict[str, str]:
    """Return what is said about a result and was not measured."""
    return {
        "title": experiment.title_at(scale),
        "paper": experiment.paper,
        "where": experiment.where,
        "claim": experiment.claim,
        "deviations": experiment.deviations.get(scale, ""),
    }


def _configuration(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return what all cells have in common once, and for each what is its own."""
    configs = [plain(cell.config) for cell in cells]
    first = configs[0] if configs else {}
    common = {
        key: value
        for key, value in first.items()
        if all(key in each and each[key] == value for each in configs)
    }
    own = [
        {"label": cell.label, "key": cell.key, "work": cell.work}
        | {"config": {key: value for key, value in config.items() if key not in common}}
        for cell, config in zip(cells, configs, strict=True)
    ]
    return {"common": common, "cells": own}
