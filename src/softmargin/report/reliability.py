"""Reliability diagrams of a chart: one panel per series, with its counts below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from softmargin.calibration import reliability_diagram
from softmargin.calibration.binning import BinStatistics, bin_edges
from softmargin.charts import Chart, Series
from softmargin.report.figures import INK, MUTED, Tone, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_WIDTH, PANEL_HEIGHT, LINE_HEIGHT = 3.1, 4.0, 0.27
MOST_COLUMNS = 3
COUNT_POINTS = 6.5  # four digits fit over a bin


def reliability_figure(chart: Chart, tones: Sequence[Tone]) -> Figure:
    """Draw bars of accuracy, their gaps to confidence, and counts, for every series.

    Args:
        chart: of kind ``reliability``; every series has one place per bin of equal width.
        tones: the colour of each series.
    """
    columns = 2 if len(chart.series) == 4 else min(MOST_COLUMNS, len(chart.series))
    rows = math.ceil(len(chart.series) / columns)
    lines = 3 if columns == 1 else 1  # what is explained on top fits beside each other, or not
    explained = LINE_HEIGHT * lines
    figure = new_figure(max(PANEL_WIDTH * columns, 4.0), PANEL_HEIGHT * rows + explained)
    heights = (explained, *(3.0, 1.0) * rows)
    grid = figure.add_gridspec(1 + 2 * rows, columns, height_ratios=heights)
    _explain(figure.add_subplot(grid[0, :]), tones[0] if len(tones) == 1 else MUTED, 4 - lines)
    for place, (series, tone) in enumerate(zip(chart.series, tones, strict=True)):
        row, column = divmod(place, columns)
        axes = figure.add_subplot(grid[1 + 2 * row, column])
        counts = figure.add_subplot(grid[2 + 2 * row, column])
        reliability_diagram(axes, bins_of(series, chart.name), counts, color=tone.light)
        axes.set_title(series.name, loc="left")
        counts.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label if column == 0 else "")
        counts.set_ylabel("samples" if column == 0 else "")
        for label in counts.texts:
            label.set_fontsize(COUNT_POINTS)
    return figure


def bins_of(series: Series, chart: str) -> BinStatistics:
    """Return the bins of a series.

    Args:
        series: one place per bin; where ``size`` is 0 the bin is empty.
        chart: its name, for what is said about a mistake.

    Example:
        >>> two = Series("plain", x=[None, 0.8], y=[None, 0.7], size=[0, 50])
        >>> round(bins_of(two, "a").expected_calibration_error(), 6)
        0.1
    """
    if not len(series.size):
        raise ValueError(f"size of {series.name!r} in chart {chart!r} must hold samples per bin.")
    if len(series.low) or len(series.high):
        raise ValueError(
            f"low and high of {series.name!r} in chart {chart!r} must be empty: "
            "Wilson's interval is drawn, which follows from size."
        )
    columns = [
        torch.tensor([math.nan if value is None else value for value in values]).double()
        for values in (series.size, series.x, series.y)
    ]
    counts, confidence, accuracy = columns
    counts = torch.where(confidence.isnan() | accuracy.isnan(), 0.0, counts)
    return BinStatistics(bin_edges(len(counts)), counts.long(), confidence, accuracy)


def _explain(axes: Axes, tone: Tone, columns: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.set_axis_off()
    axes.legend(
        handles=[
            Patch(facecolor=tone.light, alpha=0.5, label="accuracy, 95 % interval"),
            Patch(facecolor="none", edgecolor=INK.light, hatch="/////", label="gap to confidence"),
            Line2D([], [], color=INK.light, linewidth=0.8, linestyle=(0, (4, 3)), label="no gap"),
        ],
        loc="center left",
        ncols=columns,
        borderaxespad=0,
    )
