"""The page that ``softmargin tune`` writes."""

from __future__ import annotations

import json

from softmargin.charts.tones import INK, Tone
from softmargin.report.figures import house_style, new_figure, to_svg
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    FigureGroup,
    Page,
    Section,
    Table,
    render_page,
)
from softmargin.tuning.result import LABELS, TuningResult

TONES: tuple[Tone, ...] = (INK,)
LEAD = (
    "How a model does on held-out rows when it is trained with each β, beside β = 1 with a "
    "temperature that was fitted on other held-out rows than it is judged by."
)


def tuning_page(found: TuningResult, source: str, command: str) -> str:
    """Return the result as one HTML page."""
    headings, rows = found.cells()
    with house_style():
        sections = [
            Section("What was found", [Bullets(found.sentences())]),
            Section("Candidates", [_figure(found)]),
            Section("The numbers", [Table(found.legend(), headings, rows)]),
            Section(
                "How this was made",
                [Code(command), Download("tune.json", json.dumps(found.as_dict(), indent=1))],
            ),
        ]
    return render_page(Page(f"Which β for {source}?", LEAD, sections, TONES))


def _figure(found: TuningResult) -> FigureGroup:
    figure = new_figure(6.4, 4.4)
    axes = found.plot(figure.subplots())
    ticks = sorted({each.beta for each in found.candidates})
    axes.set_xticks(ticks, [f"{beta:g}" for beta in ticks])
    axes.set_xticks([], minor=True)
    label = LABELS[found.scoring]
    text = f"{label} on held-out rows by β, with 95 % intervals; dashed: β = 1 with a temperature."
    return FigureGroup([to_svg(figure, "candidates", text, TONES)], text, 480)
