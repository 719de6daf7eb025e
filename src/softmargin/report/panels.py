"""Panels of charts: lines, points, bars and histograms with their legend, and their colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softmargin.charts import Chart, Series
from softmargin.report.figures import GREEN, INK, MUTED, Tone, beta_tones, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

# what has no β: first those that are also far from the blues and oranges of β
OTHERS = (
    GREEN,
    Tone("#b5369a", "#e68ad2"),
    Tone("#2f7fc4", "#5aa9ea"),
    Tone("#d1670f", "#f09a4f"),
    INK,
    Tone("#7a5cc7", "#ae9af0"),
    Tone("#9a7b00", "#d6b83e"),
    Tone("#17a2ad", "#52d0d9"),
    Tone("#8f3f3a", "#dd908a"),
    MUTED,
)
MARKERS = "osD^vPX*<>"
SOLID: tuple[Any, ...] = ("-", (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
DASHED: tuple[Any, ...] = ((0, (4, 2.5)), (0, (2, 1.5)), (0, (7, 2, 2, 2)))

WIDTH, HEIGHT = 6.8, 3.9
INCHES_PER_LETTER = 0.08
LONG_NAME = 22  # longer ones leave too little room beside them: their legend goes on top
MARKED_UP_TO = 15  # points of a line, so that a lone one between gaps is seen
RASTER_FROM = 3000  # points of a cloud, beyond which an image is smaller


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    tone: Tone
    line: Any
    marker: str

    @property
    def color(self) -> str:
        """The colour on white paper."""
        return self.tone.light


def looks_of(chart: Chart) -> list[Look]:
    """Return the look of every series: its tone by β, or in a fixed order of other tones.

    A dashed series without β is a reference, and grey. Series of one tone differ in their line.

    Example:
        >>> plain, other = Series("β = 1", [0], [0], beta=1.0), Series("centre", [0], [0])
        >>> chart = Chart("a", "A", "line", "x", "y", [plain, other])
        >>> [look.tone == tone for look, tone in zip(looks_of(chart), (INK, GREEN))]
        [True, True]
    """
    by_beta = beta_tones(each.beta for each in chart.series if each.beta is not None)
    others = cycle(OTHERS)
    seen: Counter[tuple[str, bool]] = Counter()
    looks = []
    for place, each in enumerate(chart.series):
        if each.beta is not None:
            tone = by_beta[each.beta]
        else:
            tone = MUTED if each.dashed else next(others)
        lines = DASHED if each.dashed else SOLID
        line = lines[seen[tone.light, each.dashed] % len(lines)]
        seen[tone.light, each.dashed] += 1
        looks.append(Look(tone, line, MARKERS[place % len(MARKERS)]))
    return looks


def panel_figure(chart: Chart) -> Figure:
    """Draw a chart whose kind is one of ``PANELS``, without its title and note."""
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.add_subplot()
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    PANELS[chart.kind](axes, chart, looks_of(chart))
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    if chart.categories:
        longest = max(map(len, chart.categories))
        crowded = longest * len(chart.categories) * INCHES_PER_LETTER > 0.7 * WIDTH
        turned: Any = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        axes.set_xticks(range(len(chart.categories)), chart.categories, **turned)
        axes.grid(visible=False, axis="x")
    if chart.extra.get("equal"):
        axes.set_aspect("equal", adjustable="datalim")
    _legend(axes, chart)
    return figure


def _lines(axes: Axes, chart: Chart, looks: list[Look]) -> None:
    for each, look in zip(chart.series, looks, strict=True):
        x, y = _floats(each.x), _floats(each.y)
        if len(each.low) and len(each.high):
            low, high = _floats(each.low), _floats(each.high)
            axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0)
        few = len(x) <= MARKED_UP_TO and not each.dashed
        marker: Any = {"marker": look.marker, "markersize": 4.5} if few else {}
        axes.plot(x, y, color=look.color, linestyle=look.line, label=each.name, **marker)


def _points(axes: Axes, chart: Chart, looks: list[Look]) -> None:
    clouds = [each for each in chart.series if not each.dashed]
    total = sum(len(each.x) for each in clouds)
    size = 5.5 if total <= 200 else 3.5 if total <= 1000 else 2.0
    # several series at the same named places stand side by side
    step = 0.7 / len(clouds) if chart.categories and clouds else 0.0
    place = count()
    for each, look in zip(chart.series, looks, strict=True):
        x, y = _floats(each.x), _floats(each.y)
        if each.dashed:
            axes.plot(x, y, color=look.color, linestyle=look.line, linewidth=1.3, label=each.name)
            continue
        x = x + step * (next(place) - (len(clouds) - 1) / 2)
        _intervals(axes, each, x, look.color)
        axes.plot(
            x,
            y,
            linestyle="none",
            marker=look.marker if total <= 1000 else "o",
            markersize=size,
            markeredgewidth=0,
            color=look.color,
            alpha=1.0 if total <= 200 else 0.6,
            label=each.name,
            rasterized=total >= RASTER_FROM,
        )


def _bars(axes: Axes, chart: Chart, looks: list[Look]) -> None:
    places = np.unique(np.concatenate([_floats(each.x) for each in chart.series]))
    room = float(np.diff(places).min()) if len(places) > 1 else 1.0
    width = 0.8 * room / len(chart.series)
    for place, (each, look) in enumerate(zip(chart.series, looks, strict=True)):
        x = _floats(each.x) + width * (place - (len(chart.series) - 1) / 2)
        fill: Any = {"color": look.color, "alpha": 0.75, "linewidth": 0}
        outline: Any = {"facecolor": "none", "edgecolor": look.color, "linestyle": "--"}
        look_of_bar = outline if each.dashed else fill
        axes.bar(x, _floats(each.y), 0.92 * width, label=each.name, **look_of_bar)
        _intervals(axes, each, x, INK.light)
    if not chart.categories:
        axes.set_xticks(places)
        axes.grid(visible=False, axis="x")


def _histogram(axes: Axes, chart: Chart, looks: list[Look]) -> None:
    from matplotlib.colors import to_rgba

    counts = np.concatenate([_floats(each.y) for each in chart.series])
    # a logarithmic axis has no 0 to stand on: it begins below the smallest count
    floor = 0.5 * counts[counts > 0].min(initial=1.0) if chart.log_y else 0.0
    for each, look in zip(chart.series, looks, strict=True):
        axes.stairs(
            _floats(each.y).clip(min=floor),
            _floats(each.x),
            baseline=floor,
            fill=True,
            facecolor="none" if each.dashed else to_rgba(look.color, 0.14),
            edgecolor=look.color,
            linestyle=look.line,
            linewidth=1.4,
            label=each.name,
        )
    axes.set_ylim(bottom=floor)


PANELS: dict[str, Callable[[Axes, Chart, list[Look]], None]] = {
    "line": _lines,
    "points": _points,
    "bars": _bars,
    "histogram": _histogram,
}


def _intervals(axes: Axes, series: Series, x: Floats, color: str) -> None:
    if len(series.low) and len(series.high):
        low, high = _floats(series.low), _floats(series.high)
        axes.vlines(x, low, high, color=color, linewidth=1.4, zorder=3)


def _legend(axes: Axes, chart: Chart) -> None:
    """Put the legend beside the panel, or on top of it where names are long: never on data."""
    longest = max(len(each.name) for each in chart.series)
    spots = sum(len(each.x) for each in chart.series) > 1000 and chart.kind == "points"
    scale: Any = {"markerscale": 3.0} if spots else {}
    if longest <= LONG_NAME:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, **scale)
        return
    columns = max(1, int(0.85 * WIDTH / (INCHES_PER_LETTER * longest + 0.5)))
    above: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1.01), "ncols": columns}
    axes.legend(borderaxespad=0, **above, **scale)


def _floats(values: Iterable[float | None]) -> Floats:
    """Return numbers, where None is a gap as NaN is."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
