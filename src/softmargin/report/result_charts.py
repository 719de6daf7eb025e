"""What the interactive report draws a chart from: its numbers, its colours, and its statistics.

Everything that is computed is computed here; the page's script only draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from softmargin.calibration.intervals import wilson_interval
from softmargin.charts import Chart, Series
from softmargin.papers.statistics import cliques
from softmargin.report.figures import Tone
from softmargin.report.panels import looks_of
from softmargin.report.reliability import bins_of


def drawing(chart: Chart) -> dict[str, Any]:
    """Return what a chart's script needs beside the chart itself, as plain values.

    ``looks`` has a colour, dashes and a marker for every series; ``bins`` the error of each
    reliability diagram and its intervals; ``groups`` the methods that ranks do not tell apart.

    Example:
        >>> curve = Series("β = 1", [0, 1], [1, 0], beta=1.0)
        >>> drawing(Chart("g", "Gradient", "line", "p", "G", [curve]))
        {'looks': [{'tone': '--tone-1f2328', 'dashes': [], 'marker': 'o'}]}
    """
    found: dict[str, Any] = {
        "looks": [
            {"tone": look.tone.variable, "dashes": _dashes(look.line), "marker": look.marker}
            for look in looks_of(chart)
        ]
    }
    if chart.kind == "reliability":
        found["bins"] = [_bins(each, chart.name) for each in chart.series]
    if chart.kind == "ranks":
        found["groups"] = cliques([each.y[0] for each in chart.series], chart.extra["cd"])
    return found


def tones_of(charts: Iterable[Chart]) -> dict[Tone, None]:
    """Return the tones that charts use, each once, in a fixed order."""
    return dict.fromkeys(look.tone for chart in charts for look in looks_of(chart))


def _dashes(line: Any) -> list[float]:
    """Return matplotlib's dashes, in widths of the line; none for a solid line."""
    return [] if isinstance(line, str) else list(line[1])


def _bins(series: Series, chart: str) -> dict[str, Any]:
    """Return the calibration error of a diagram, and Wilson's interval of each bin."""
    bins = bins_of(series, chart)
    counts, accuracy = bins.counts.double().numpy(), bins.accuracy.numpy()
    filled = counts > 0
    ends = np.full((2, len(counts)), np.nan)
    ends[:, filled] = wilson_interval(accuracy[filled].clip(0, 1), counts[filled])
    low, high = ([None if np.isnan(x) else round(float(x), 4) for x in end] for end in ends)
    error = bins.expected_calibration_error() if filled.any() else None
    return {"ece": error, "low": low, "high": high}
