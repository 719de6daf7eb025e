"""The report over all results: one interactive page that needs nothing but itself.

What can be read stands in the page as HTML, so that it is there for every reader and printer.
Vega draws the charts from specifications that travel with the page; ``templates/results.js``
sorts tables and filters the overview.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmargin._files import write_file
from softmargin._papers import PAPERS
from softmargin.charts import Chart
from softmargin.charts.tones import Look, looks_of
from softmargin.charts.vega import caption, script, specification
from softmargin.papers.core import Experiment, experiments
from softmargin.papers.outcome import VERDICTS, Outcome
from softmargin.papers.pages import setup_of, source, whose
from softmargin.papers.report_state import NOT_RUN, failures, missing
from softmargin.papers.report_tables import TableView, table_view
from softmargin.papers.write import NUMBERS, read_result
from softmargin.report.page import asset, content_policy, render, style_of

# a sign beside each word, so that colour never speaks alone
SIGNS = {
    "holds": "✓",
    "holds in part": "◐",
    "does not hold": "✗",
    "left open": "?",
    "shown": "◇",
    "path only": "…",
    NOT_RUN: "–",
}
HERE = "softmargin.papers"
SHOWN = 130  # letters of a verdict in the overview
MEANINGS = {**VERDICTS, NOT_RUN: "no result in this folder yet"}


@dataclass(frozen=True)
class Line:
    """One line of the overview; ``has_result`` says whether there is a section to go to."""

    id: str
    paper: str
    where: str
    title: str
    scale: str
    seeds: int | None
    word: str
    sentence: str
    has_result: bool

    @property
    def begins(self) -> str:
        """The sentence as far as it is shown without a click: all of it, or whole words."""
        return textwrap.wrap(self.sentence, SHOWN)[0] if self.sentence.strip() else ""

    @property
    def goes_on(self) -> str:
        """The rest of the sentence."""
        return " ".join(self.sentence.split()).removeprefix(self.begins).strip()


@dataclass(frozen=True)
class Figure:
    """A chart, what stands under it, and its specification as JSON."""

    chart: Chart
    caption: str
    data: str


@dataclass(frozen=True)
class Part:
    """The section of one experiment."""

    meta: Mapping[str, Any]
    outcome: Outcome
    tables: Sequence[TableView]
    figures: Sequence[Figure]
    setup: Sequence[Sequence[str]]
    environment: Sequence[tuple[str, str]]


def results_page(folder: Path) -> str:
    """Return the report over a results folder as HTML that loads nothing from anywhere.

    Args:
        folder: with a folder for each experiment, as ``softmargin reproduce run`` writes them.

    Raises:
        ValueError: where the folder has no results, or some that cannot be read.
    """
    known = experiments()
    found = _results(folder, known)
    lines = _lines(found, known, missing(folder, known, found))
    looks = looks_of(chart for _, outcome in found.values() for chart in outcome.charts)
    tones = dict.fromkeys(look.tone for of_chart in looks for look in of_chart)
    rest = iter(looks)
    parts = [_part(meta, one, [next(rest) for _ in one.charts]) for meta, one in found.values()]
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
        failed=failures(folder, known),
        counts=_counts(lines),
        named=_named,
        source=source,
        whose=whose,
        papers={key: PAPERS[key].subject for key in dict.fromkeys(line.paper for line in lines)},
        signs=SIGNS,
        meanings=MEANINGS,
    )


def write_results_page(folder: Path, out: Path) -> None:
    """Write the report over a results folder to a file, whole or not at all.

    Args:
        folder: the results.
        out: the file, such as ``results/index.html``.

    Raises:
        ValueError: as :func:`results_page`.
        OSError: where the file cannot be written.
    """
    write_file(out, results_page(folder))


def _results(
    folder: Path, known: Mapping[str, Experiment]
) -> dict[str, tuple[dict[str, Any], Outcome]]:
    """Return all results by id: in the order of the papers, then those of unknown ids."""
    names = [path.parent.name for path in sorted(folder.glob(f"*/{NUMBERS}"))]
    if not names:
        raise ValueError(
            f"results must be a folder in which softmargin reproduce run has written some, "
            f"but {str(folder)!r} has none."
        )
    order = list(known)
    names.sort(key=lambda name: order.index(name) if name in known else len(order))
    found = {name: read_result(folder / name) for name in names}
    for name, (meta, _) in found.items():
        if meta["id"] != name:
            raise ValueError(
                f"results must be in a folder named by their id, but {str(folder / name)!r} holds "
                f"those of {meta['id']!r}."
            )
    return found


def _lines(
    found: Mapping[str, tuple[Mapping[str, Any], Outcome]],
    known: Mapping[str, Experiment],
    lacking: Mapping[str, str],
) -> list[Line]:
    """Return the overview: all that is known in its order, then results of unknown ids."""
    lines = []
    for name in dict.fromkeys((*known, *found)):
        if name in found:
            meta, outcome = found[name]
            says = outcome.verdict
            counted = name not in known or known[name].spread
            seeds = len(meta["seeds"]) if counted else None
            described = meta["paper"], meta["where"], meta["title"], meta["scale"], seeds
            lines.append(Line(name, *described, says.word, says.sentence, True))
        else:
            each = known[name]
            described = each.paper, each.where, each.title, "", None
            lines.append(Line(name, *described, NOT_RUN, lacking[name], False))
    return lines


def _counts(lines: Iterable[Line]) -> dict[str, int]:
    """Return how many there are of each verdict, in the order of the verdicts."""
    counts = Counter(line.word for line in lines)
    return {word: counts[word] for word in dict.fromkeys((*SIGNS, *counts)) if counts[word]}


def _part(meta: dict[str, Any], outcome: Outcome, looks: Sequence[Sequence[Look]]) -> Part:
    figures = [
        Figure(chart, caption(chart), _island(specification(chart, own, page=True)))
        for chart, own in zip(outcome.charts, looks, strict=True)
    ]
    environment = {**meta["versions"], **meta["facts"]}
    return Part(
        meta,
        outcome,
        [table_view(table, len(meta["seeds"])) for table in outcome.tables],
        figures,
        list(setup_of(meta, outcome).items()),
        [(key, str(value)) for key, value in environment.items()],
    )


def _named(title: str) -> str:
    """Return a title with a capital first letter, unless that is a symbol such as β."""
    return title[:1].upper() + title[1:] if title[:1].isascii() else title


def _island(data: Any) -> str:
    """Return JSON that can stand inside a script element whatever its texts hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
