"""The report over all results: one interactive page that needs nothing but itself.

What can be read stands in the page as HTML, so that it is there for every reader and printer.
Vega draws the charts from specifications that travel with the page; ``templates/results.js``
sorts tables and filters the overview.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from softmargin._files import read_json
from softmargin._papers import PAPERS
from softmargin.charts import Chart
from softmargin.charts.tones import looks_of
from softmargin.charts.vega import caption, script, specification
from softmargin.papers.core import SCALES, Experiment, experiments, usual_folder
from softmargin.papers.layout import DETAILS, NOTHING, Layout, layout
from softmargin.papers.outcome import VERDICTS, Outcome, Verdict
from softmargin.papers.pages import LONGEST_OPEN, capital, seeds_told, setup_of, source, whose
from softmargin.papers.provenance import not_comparable
from softmargin.papers.store import CELLS, ERROR, RESULT, CellStore
from softmargin.papers.write import read_results
from softmargin.report.page import asset, content_policy, render, style_of

NOT_RUN = "not run"
# a sign beside each word, so that colour never speaks alone
SIGNS = {
    "holds": "✓",
    "holds in part": "◐",
    "does not hold": "✗",
    "left open": "?",
    "shown": "◇",
    "path only": "…",
    NOT_RUN: NOTHING,
}
HERE = "softmargin.papers"
MEANINGS = {**VERDICTS, NOT_RUN: "no result in this folder yet"}


@dataclass(frozen=True)
class Part:
    """The section of one result: its figures are charts with caption and specification."""

    meta: Mapping[str, Any]
    outcome: Outcome
    tables: Sequence[Layout]
    figures: Sequence[tuple[Chart, str, str]]
    setup: Mapping[str, str]


def results_page(folder: Path) -> str:
    """Return the report over a results folder as HTML that loads nothing from anywhere.

    Args:
        folder: with a folder for each experiment, as ``softmargin reproduce run`` writes them.

    Raises:
        ValueError: where some results cannot be read.
    """
    known, found = experiments(), read_results(folder)
    looks = looks_of(chart for _, outcome in found for chart in outcome.charts)
    tones = dict.fromkeys(look.tone for of_chart in looks for look in of_chart)
    rest, parts = iter(looks), []
    for meta, outcome in found:
        specs = [specification(chart, next(rest), page=True) for chart in outcome.charts]
        figures = [
            (chart, caption(chart), _island(spec))
            for chart, spec in zip(outcome.charts, specs, strict=True)
        ]
        other = not_comparable(meta)
        tables = [layout(table, len(meta["seeds"]), other) for table in outcome.tables]
        parts.append(Part(meta, outcome, tables, figures, setup_of(meta, outcome)))
    lines = _lines(found, known, CellStore(folder))
    counts = Counter(verdict.word for _, verdict in lines)
    style = style_of(tones, asset("style.css"), asset("results.css", HERE))
    scripts = [script(), asset("results.js", HERE)]
    return render(
        "results.html.j2",
        style,
        scripts,
        content_policy(style, scripts),
        HERE,
        lines=lines,
        parts=parts,
        failed=_failures(folder, known),
        counts={word: counts[word] for word in dict.fromkeys((*SIGNS, *counts)) if counts[word]},
        papers={key: PAPERS[key].subject for key in dict.fromkeys(m["paper"] for m, _ in lines)},
        signs=SIGNS,
        meanings=MEANINGS,
        details=DETAILS,
        nothing=NOTHING,
        longest_open=LONGEST_OPEN,
        capital=capital,
        seeds_told=seeds_told,
        source=source,
        whose=whose,
    )


def _lines(
    found: Sequence[tuple[Mapping[str, Any], Outcome]],
    known: Mapping[str, Experiment],
    store: CellStore,
) -> list[tuple[Mapping[str, Any], Verdict]]:
    """Return the overview: all that is known in its order, then results of unknown ids."""
    results = {meta["id"]: (meta, outcome.verdict) for meta, outcome in found}
    lines = []
    for name, each in known.items():
        declared = {"id": name, "paper": each.paper, "where": each.where, "title": each.title}
        if name in results:
            lines.append(results.pop(name))
        else:
            verdict = Verdict(NOT_RUN, remark=_how_far(each, store))
            lines.append(({**declared, "scale": "", "seeds": []}, verdict))
    return [*lines, *results.values()]


def _how_far(experiment: Experiment, store: CellStore) -> str:
    """Return why an experiment has no result, in one sentence."""
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


def _failures(folder: Path, known: Mapping[str, Experiment]) -> list[tuple[str, list[str], str]]:
    """Return the cells that failed when they were last run: label, ids, and what the error says."""
    failed = [
        path.parent
        for path in sorted((folder / CELLS).glob(f"*/{ERROR}"))
        if not (path.parent / RESULT).exists()
    ]
    owners: dict[str, list[str]] = {path.name: [] for path in failed}
    for name, experiment in known.items() if failed else ():
        scopes = [experiment.scope(scale) for scale in SCALES]
        for key in {cell.key for scope in scopes for cell in experiment.cells(scope)}:
            if key in owners:
                owners[key].append(name)
    return [(_label(path), owners[path.name], _first_line(path / ERROR)) for path in failed]


def _label(cell: Path) -> str:
    try:
        return str(read_json(cell / "cell.json", "")["label"])
    except (OSError, ValueError, KeyError):
        return cell.name


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]


def _island(data: Any) -> str:
    """Return JSON that can stand inside a script element whatever its texts hold."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
