"""Results as files: numbers, figures and a page for each experiment, and pages over all.

``results/<id>/`` holds ``numbers.json`` (everything, for programs), one SVG for each chart and
``README.md``. No file holds a date, so that the same run writes the same bytes. ``numbers.json``
has its own checksum and those of the figures: what was changed afterwards is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softmargin._files import write_file, write_json
from softmargin._papers import in_order
from softmargin.charts import Chart
from softmargin.charts.vega import svg
from softmargin.papers.core import Cell, Experiment, Scope
from softmargin.papers.outcome import Outcome
from softmargin.papers.pages import claims_page, index_page, result_page
from softmargin.papers.store import read_format

FORMAT = 2
NUMBERS, PAGE = "numbers.json", "README.md"
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
ONE_LINE = 96
REMEDY = "restore it, or delete it and run its id again"
SAID = ("id", "title", "paper", "where", "claim", "deviations", "scale", "seeds", "command")
META = (*SAID, "versions", "facts", "configuration")


def write_result(
    experiment: Experiment,
    scope: Scope,
    outcome: Outcome,
    folder: Path,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write the numbers, figures and page of a result; each file is whole or not there.

    Args:
        experiment: what was run.
        scope: at which scale, with which seeds.
        outcome: what was concluded.
        folder: the experiment's own folder, such as ``results/gd-tab1``; made where missing.
        facts: what else is worth keeping, by name; ``command`` replaces the usual command.
    """
    names = [chart.name for chart in outcome.charts]
    for name in names:
        if not FILE_NAME.fullmatch(name) or names.count(name) > 1:
            raise ValueError(
                "charts must have names of their own made of a-z, 0-9, '.', '_' and '-', "
                f"but got {name!r}."
            )
    meta = plain(_meta(experiment, scope, dict(facts or {})))
    folder.mkdir(parents=True, exist_ok=True)
    outdated = _charts_in(folder) - set(names)
    sums = _write_figures(outcome.charts, folder)
    write_file(folder / PAGE, result_page(meta, outcome))
    for name in outdated:  # before the numbers, which are what says that they were there
        (folder / f"{name}.svg").unlink(missing_ok=True)
    content = plain({"format": FORMAT, **meta, **outcome.as_dict(), "figures": sums})
    write_json(folder / NUMBERS, content, dumps)


def redraw(results: Path) -> None:
    """Draw the figures of all results in a folder again, from their stored numbers."""
    for path in sorted(results.glob(f"*/{NUMBERS}")):
        _, outcome = read_result(path.parent)
        values = read_numbers(path.parent)
        values["figures"] = _write_figures(outcome.charts, path.parent)
        write_json(path, values, dumps)


def _write_figures(charts: Sequence[Chart], folder: Path) -> dict[str, str]:
    """Write a file for each chart and return their checksums, by file name."""
    figures = {f"{chart.name}.svg": svg(chart, charts) for chart in charts}
    for name, text in figures.items():
        write_file(folder / name, text)
    return {name: checksum(text.encode()) for name, text in figures.items()}


def read_result(folder: Path) -> tuple[dict[str, Any], Outcome]:
    """Read back what :func:`write_result` wrote: what was run, and the outcome."""
    values = read_numbers(folder)
    path = folder / NUMBERS
    try:
        outcome = Outcome.from_dict(_with_nan(values))
        return {name: values[name] for name in META}, outcome
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"results must be whole, but got {str(path)!r}, in which {error} is missing or wrong: "
            f"{REMEDY}."
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
    found = [read_result(path.parent) for path in results.glob(f"*/{NUMBERS}")]
    return sorted(found, key=lambda each: in_order(each[0]["paper"], each[0]["id"]))


def write_index(results: Path) -> None:
    """Write the page over all results in a folder, in the order of the papers."""
    found = read_results(results)
    results.mkdir(parents=True, exist_ok=True)
    write_file(results / PAGE, index_page(found))


def write_pages(results: Path, known: Mapping[str, Experiment], claims: Path | None = None) -> None:
    """Write the pages of all results in a folder again, from their numbers; nothing is trained.

    Args:
        results: the folder of all results.
        known: experiments by id; results take their titles and claims as they are now.
        claims: where the page of all claims goes, too, if it is wanted.
    """
    for path in results.glob(f"*/{NUMBERS}"):
        numbers = read_numbers(path.parent)
        if (experiment := known.get(numbers["id"])) is not None:
            declared = _declared(experiment, numbers["scale"])
            if any(numbers[name] != text for name, text in declared.items()):
                write_json(path, {**numbers, **declared}, dumps)
    found = read_results(results)
    pages = {results / meta["id"] / PAGE: result_page(meta, outcome) for meta, outcome in found}
    pages[results / PAGE] = index_page(found)
    if claims is not None:
        pages[claims] = claims_page(found)
    for path, text in pages.items():
        write_file(path, text)


def checksum(content: bytes) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(content).hexdigest()


def plain(value: Any) -> Any:
    """Return values as JSON has them: NumPy's as Python's, and None for what is not finite.

    Example:
        >>> plain({"a": (1.0, float("inf"), np.float32(0.5))})
        {'a': [1.0, None, 0.5]}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def dumps(value: Any) -> str:
    """Return JSON in which what is short, or a row of numbers, stands on one line."""
    return _dumps(plain(value), "")


def _dumps(value: Any, indent: str) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    nested = isinstance(value, (dict, list)) and bool(value)
    row = isinstance(value, list) and not any(isinstance(x, (dict, list)) for x in value)
    if not nested or row or len(indent) + len(text) <= ONE_LINE:
        return text
    deeper = indent + " "
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_dumps(each, deeper)}"
            for key, each in value.items()
        ]
    else:
        parts = [_dumps(each, deeper) for each in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    inside = ",\n".join(deeper + part for part in parts)
    return f"{first}\n{inside}\n{indent}{last}"


def _meta(experiment: Experiment, scope: Scope, facts: dict[str, str]) -> dict[str, Any]:
    from softmargin import __version__

    command = f"softmargin reproduce run {experiment.id} --scale {scope.scale}"
    if experiment.spread:
        command += f" --seeds {len(scope.seeds)}"
    return {
        "id": experiment.id,
        **_declared(experiment, scope.scale),
        "scale": scope.scale,
        "seeds": scope.seeds,
        "command": facts.pop("command", command),
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


def _charts_in(folder: Path) -> set[str]:
    """Return the names of the charts that an earlier run has left here."""
    try:
        return {chart.name for chart in read_result(folder)[1].charts}
    except ValueError:
        return set()


def _with_nan(value: Any) -> Any:
    """Return stored values with NaN where a number is missing in a list."""
    if isinstance(value, list):
        return [math.nan if each is None else _with_nan(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_nan(each) for key, each in value.items()}
    return value
