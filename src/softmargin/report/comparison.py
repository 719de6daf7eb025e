"""The page that ``softmargin compare`` writes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from softmargin.calibration.comparing import METRICS, Comparison, Difference
from softmargin.calibration.intervals import wilson_interval
from softmargin.calibration.result import IN_PERCENT, LABELS, CalibrationResult
from softmargin.charts.tones import BLUES, GREEN, INK, MUTED, ORANGES, Tone
from softmargin.report.calibration import shown
from softmargin.report.figures import house_style, new_figure, to_svg
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    FigureGroup,
    Page,
    Section,
    Table,
    Text,
    render_page,
)

# of as many models as the command takes, the first in ink
TONES: tuple[Tone, ...] = (INK, ORANGES[0], BLUES[0], GREEN, ORANGES[1], BLUES[1])
MARKERS = "osD^vP"
LEAD = (
    "Models on the same test rows. Differences are taken row by row, so that their intervals are "
    "narrower than those of the values suggest."
)
ECE_NOTE = (
    "The interval of a difference of ECEs is wide: it allows for all that noise in the bins may "
    "have added to either. NLL and Brier score compare models more sharply."
)


def table(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the headings and one row per metric: values, then differences from the first."""
    first = found.names[0]
    headings = ["", *found.names, *(f"{name} − {first}" for name in found.names[1:])]
    rows = []
    for place, metric in enumerate(METRICS):
        percent = metric in IN_PERCENT
        values = [
            shown(getattr(each, metric), *each.intervals[metric], percent) for each in found.results
        ]
        gaps = [
            shown(each[place].value, each[place].low, each[place].high, percent)
            for each in found.differences
        ]
        rows.append([LABELS[metric], *values, *gaps])
    return headings, rows


def legend(found: Comparison) -> str:
    """Return an explanation of the brackets."""
    rows = f"{found.results[0].samples} rows"
    return f"In brackets: {100 * found.confidence_level:g} % intervals, each on its own; {rows}."


def sentences(found: Comparison) -> list[str]:
    """Return what is clear about each model, and what is not."""
    return [
        _sentence(name, found.names[0], differences)
        for name, differences in zip(found.names[1:], found.differences, strict=True)
    ]


def _sentence(name: str, first: str, differences: tuple[Difference, ...]) -> str:
    def listed(wanted: bool | None) -> str:
        return ", ".join(
            LABELS[each.metric].split(",")[0] for each in differences if each.better is wanted
        )

    parts = [
        f"{word} by {names}"
        for word, names in (("better", listed(True)), ("worse", listed(False)))
        if names
    ]
    if unclear := listed(None):
        parts.append(f"no clear difference in {unclear}")
    return f"{name} against {first}: {'; '.join(parts)}."


def as_dict(found: Comparison) -> dict[str, Any]:
    """Return everything that was found, ready for JSON."""
    return {
        "models": list(found.names),
        "confidence_level": found.confidence_level,
        "results": [each.as_dict() for each in found.results],
        "differences": [
            {
                each.metric: {"value": each.value, "low": each.low, "high": each.high}
                for each in differences
            }
            for differences in found.differences
        ],
    }


def comparison_page(found: Comparison, command: str) -> str:
    """Return the comparison as one HTML page."""
    headings, rows = table(found)
    with house_style():
        sections = [
            Section("What was found", [Bullets(sentences(found))]),
            Section("The numbers", [Table(legend(found), headings, rows), Text(ECE_NOTE)]),
            Section("Confidence against accuracy", [_diagram(found)]),
            Section(
                "How this was made",
                [Code(command), Download("comparison.json", json.dumps(as_dict(found), indent=1))],
            ),
        ]
    tones = TONES[: len(found.names)]
    return render_page(Page("Which model is better?", LEAD, sections, tones))


def _diagram(found: Comparison) -> FigureGroup:
    figure = new_figure(5.4, 5.2 + 0.2 * len(found.names))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=MUTED.light, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    for place, (name, result) in enumerate(zip(found.names, found.results, strict=True)):
        _draw(axes, name, result, place)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="mean confidence in a bin", ylabel="accuracy")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)  # above, not on lines
    errors = ", ".join(
        f"{name} ECE {shown(result.ece, None, None, True)}"
        for name, result in zip(found.names, found.results, strict=True)
    )
    description = f"Reliability diagram of all models: {errors}."
    svg = to_svg(figure, "reliability", description, TONES[: len(found.names)])
    caption = (
        "Accuracy against mean confidence in every bin that is not empty, with its 95 % interval; "
        "dashed: perfect calibration. Below the line, a model is over-confident."
    )
    return FigureGroup([svg], caption, 300)


def _draw(axes: Any, name: str, result: CalibrationResult, place: int) -> None:
    bins, tone = result.bins, TONES[place].light
    filled = bins.counts.numpy() > 0
    x, y = bins.confidence.numpy()[filled], bins.accuracy.numpy()[filled].clip(0, 1)
    low, high = wilson_interval(y, bins.counts.double().numpy()[filled])
    order = np.argsort(x)
    axes.vlines(x, low, high, color=tone, linewidth=1.0, alpha=0.6, zorder=2)
    label = f"{name}, ECE {shown(result.ece, None, None, True)}"
    axes.plot(
        x[order],
        y[order],
        color=tone,
        marker=MARKERS[place],
        markersize=4.5,
        linewidth=1.4,
        label=label.replace("$", r"\$"),
        zorder=3,
        clip_on=False,  # marks at 0 and 1 are whole
    )
