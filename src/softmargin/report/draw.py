"""Draw charts for paper: one look for all of them, as figures and as SVG files.

The files stand alone: white paper, text as text, the same bytes for the same chart.
"""

from __future__ import annotations

import textwrap
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from softmargin._files import write_file
from softmargin.charts import KINDS, Chart
from softmargin.functional._checks import check_choice
from softmargin.report.figures import MUTED, house_style
from softmargin.report.panels import INCHES_PER_LETTER, looks_of, panel_figure
from softmargin.report.ranks import critical_difference_figure
from softmargin.report.reliability import reliability_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(chart: Chart) -> Figure:
    """Draw a chart.

    ``ranks`` needs ``extra["cd"]``, the critical difference, and ``extra["sets"]``, the number
    of data sets, and takes ``extra["level"]``. ``reliability`` has one panel per series and one
    place per bin, where an empty bin has size 0. None and NaN are gaps in every kind.

    Args:
        chart: what to draw.

    Returns:
        A figure that belongs to no window.

    Example:
        >>> from softmargin.charts import Series
        >>> curve = Series("β = 1", [0, 1], [1, 0], beta=1.0)
        >>> figure = draw(Chart("g", "Gradient", "line", "p", "|∂J/∂z|", [curve]))
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['β = 1']
    """
    _check(chart)
    with house_style():
        if chart.kind == "ranks":
            figure = _ranks(chart)
        elif chart.kind == "reliability":
            figure = reliability_figure(chart, [look.tone for look in looks_of(chart)])
        else:
            figure = panel_figure(chart)
        _frame(figure, chart)
        _settle(figure)
    return figure


def standalone_svg(chart: Chart) -> str:
    """Return a chart as the text of an SVG file."""
    figure, buffer = draw(chart), StringIO()
    # no metadata: neither a date nor links
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with house_style():
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="white", dpi=144)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].strip() + "\n"
    head, _, rest = svg.partition(">")
    return f'{head} role="img">\n <title>{escape(chart.title)}</title>{rest}'


def write_svg(chart: Chart, path: Path) -> None:
    """Write a chart to an SVG file."""
    write_file(path, standalone_svg(chart))


def _check(chart: Chart) -> None:
    """Refuse what cannot be drawn, in one sentence."""
    check_choice("kind", chart.kind, KINDS)
    if not chart.series:
        raise ValueError(f"series of chart {chart.name!r} must hold at least one, but got none.")
    if chart.kind == "ranks":
        return
    for each in chart.series:
        places = len(each.x) - (chart.kind == "histogram")
        for name in ("y", "low", "high", "size"):
            length = len(getattr(each, name))
            if length != places and (length or name == "y"):
                raise ValueError(
                    f"{name} of {each.name!r} in chart {chart.name!r} must hold {places} values "
                    f"to go with its x, but got {length}."
                )


def _ranks(chart: Chart) -> Figure:
    missing = [name for name in ("cd", "sets") if name not in chart.extra]
    if missing:
        raise ValueError(
            f"extra of chart {chart.name!r} must hold {' and '.join(missing)} for ranks, "
            f"but got {dict(chart.extra)}."
        )
    ranks = {each.name: float(each.y[0]) for each in chart.series}
    level = chart.extra.get("level", 0.95)
    return critical_difference_figure(ranks, chart.extra["cd"], int(chart.extra["sets"]), level)


def _frame(figure: Figure, chart: Chart) -> None:
    """Write the title above and the note below, in as many lines as they need."""
    width, height = figure.get_size_inches()
    letters = int(0.95 * width / INCHES_PER_LETTER)
    title = textwrap.fill(chart.title, int(0.8 * letters))  # bold is wide
    note = textwrap.fill(chart.note, int(1.1 * letters))
    lines = title.count("\n") + 1 + (note.count("\n") + 1 if note else 0)
    figure.set_size_inches(width, height + 0.2 * lines)
    figure.suptitle(title, x=0.012, ha="left", size="medium", weight="bold")
    if note:
        figure.supxlabel(note, x=0.012, ha="left", size="small", color=MUTED.light)


def _settle(figure: Figure) -> None:
    """Lay the figure out for good, in round numbers: the solver's last bits vary between runs."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(x, 5) for x in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))
