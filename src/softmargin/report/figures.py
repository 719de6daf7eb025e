"""The shared look of all figures, the panels they are made of, and their way into a page.

Figures are drawn in the colours for light paper. :func:`to_svg` turns each colour into a CSS
variable, for which the page also knows the colour for dark paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin.calibration.binning import BinStatistics
from softmargin.calibration.reliability import reliability_diagram
from softmargin.charts.tones import GREEN, GRID, INK, MUTED, Tone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAGE_TONES = (INK, MUTED, GRID, GREEN)
LARGEST = 115  # pixels per inch of a figure that stands alone, whose text grows with it
RELIABILITY = (
    "Bars: accuracy in each bin of confidence, with its 95 % interval; hatched: the gap to "
    "mean confidence; dashed: perfect calibration. Below: how many predictions each bin holds."
)
"""The caption of reliability diagrams."""


@dataclass(frozen=True)
class Style:
    """How one configuration looks, in every figure of a page."""

    label: str
    tone: Tone
    marker: str = "o"
    line: str = "-"


@contextmanager
def house_style() -> Iterator[None]:
    """Set matplotlib to the look of the reports, for drawing and for :func:`to_svg`."""
    import matplotlib as mpl

    style: Any = {
        "font.size": 11.5,
        "axes.titlesize": "medium",
        "axes.labelsize": "medium",
        "xtick.labelsize": "small",
        "ytick.labelsize": "small",
        "legend.fontsize": "small",
        "legend.frameon": False,
        "legend.handlelength": 1.6,
        "text.color": INK.light,
        "axes.labelcolor": INK.light,
        "axes.edgecolor": MUTED.light,
        "xtick.color": MUTED.light,
        "ytick.color": MUTED.light,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID.light,
        "grid.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "figure.constrained_layout.use": True,
        "lines.linewidth": 1.7,
        "hatch.linewidth": 0.7,
        "svg.fonttype": "none",  # text stays text: sharp, searchable, in the page's own font
        "svg.hashsalt": "softmargin",
    }
    with mpl.rc_context(style):
        yield


def new_figure(width: float = 5.0, height: float = 3.5) -> Figure:
    """Return an empty figure, in inches; it belongs to no window and no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def to_svg(figure: Figure, name: str, description: str, tones: Iterable[Tone]) -> str:
    """Return a figure as an inline SVG element that fits its container.

    Args:
        figure: the figure, drawn within :func:`house_style`.
        name: a word that keeps the element ids of several figures on one page apart.
        description: what the figure shows, for those who cannot see it.
        tones: the tones used, beside :data:`PAGE_TONES`.
    """
    buffer = StringIO()
    # no metadata: neither a date nor links
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for tone in (*PAGE_TONES, *tones):
        svg = svg.replace(tone.light, f"var({tone.variable})")
    label = escape(description, quote=True)
    largest = f"--largest: {LARGEST * figure.get_figwidth():.0f}px"
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}" style="{largest}"', 1)


def draw_gradients(
    axes: Axes,
    series: Style,
    curve: tuple[ArrayLike, ArrayLike],
    points: tuple[ArrayLike, ArrayLike],
) -> None:
    """Draw one theoretical curve of gradient magnitude over confidence, and measured points."""
    axes.plot(*curve, color=series.tone.light, linewidth=1.2, zorder=2)
    axes.plot(
        *points,
        color=series.tone.light,
        marker=series.marker,
        markersize=4,
        linestyle="none",
        label=series.label,
        zorder=3,
    )
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.02, 1.02))


def draw_curves(axes: Axes, series: Style, by_seed: Sequence[Sequence[float]]) -> None:
    """Draw the median over seeds by epoch, and a band from the lowest to the highest seed."""
    from matplotlib.ticker import MaxNLocator

    values = np.asarray(by_seed, dtype=np.float64)
    epochs = np.arange(1, values.shape[1] + 1)
    tone = series.tone.light
    axes.fill_between(epochs, values.min(0), values.max(0), color=tone, alpha=0.15, linewidth=0)
    middle = np.median(values, axis=0)
    axes.plot(epochs, middle, color=tone, linestyle=series.line, label=series.label)
    axes.set_xlabel("epoch")
    axes.set_xlim(1, len(epochs))
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))


def draw_spread(axes: Axes, place: int, series: Style, values: Sequence[float]) -> None:
    """Draw one dot per seed, and a bar at their mean."""
    tone = series.tone.light
    mean = float(np.mean(values))
    axes.hlines(mean, place - 0.32, place + 0.32, color=tone, linewidth=2.4, zorder=3)
    spots = place + _beeswarm(len(values))
    axes.plot(
        spots,
        values,
        linestyle="none",
        marker=series.marker,
        markersize=4.5,
        color=tone,
        alpha=0.6,
        markeredgewidth=0,
        zorder=2,
    )


def _beeswarm(count: int) -> NDArray[np.float64]:
    """Return small sideways offsets that keep dots of equal value apart."""
    return np.linspace(-0.2, 0.2, count) if count > 1 else np.zeros(1)


def reliability_panel(
    name: str,
    bins: BinStatistics,
    tone: Tone,
    description: str,
    *,
    title: str = "",
    error: str = "",
    width: float = 3.6,
) -> str:
    """Return a reliability diagram above the counts of its bins, see :func:`to_svg`.

    Args:
        name: a word that keeps the element ids of several figures on one page apart.
        bins: what each bin of confidence holds.
        tone: the colour of the bars.
        description: what the figure shows, for those who cannot see it.
        title: what stands above it at the left.
        error: what stands above it at the right, such as the ECE.
        width: of the figure, in inches.
    """
    figure = new_figure(width, 4.4)
    axes, histogram = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
    reliability_diagram(axes, bins, histogram, color=tone.light)
    axes.set_title(title, loc="left")
    axes.set_title(error, loc="right")
    return to_svg(figure, name, description, [tone])
