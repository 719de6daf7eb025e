"""Reliability and confidence diagrams, drawn on the caller's matplotlib axes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin._docs import document_arguments
from softmargin.calibration.binning import BinStatistics
from softmargin.calibration.intervals import normal_quantile, wilson_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
ARGUMENTS = {
    "axes": "where to draw; matplotlib axes.",
    "statistics": """the bins, such as ``result.bins`` of a :class:`CalibrationResult`, or from
        :func:`softmargin.calibration.bin_statistics`.""",
    "histogram_axes": "where to draw the counts; by default a strip below ``axes``.",
    "color": "colour of the bars.",
    "confidence_level": "level of the intervals.",
}


class _FilledBins(NamedTuple):
    """The bins that are not empty, as arrays."""

    left: Floats
    width: Floats
    counts: Floats
    effective: Floats
    accuracy: Floats
    confidence: Floats

    def draw(self, axes: Axes, heights: Floats, **look: Any) -> None:
        """Draw one bar per bin."""
        axes.bar(self.left, heights, self.width, align="edge", **look)


@document_arguments(ARGUMENTS)
def reliability_diagram(
    axes: Axes,
    statistics: BinStatistics,
    histogram_axes: Axes | None = None,
    *,
    color: str = "C0",
    confidence_level: float = 0.95,
) -> None:
    """Draw accuracy per bin of confidence, and how many predictions each bin holds.

    Bars are accuracies with Wilson's interval. The hatched part of a bin is its gap, from
    accuracy to mean confidence; the ECE, shown at the top right, is the weighted mean of the gaps.
    Empty bins are not drawn.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from softmargin.calibration import bin_statistics, reliability_diagram
        >>> statistics = bin_statistics(torch.tensor([0.6, 0.9]), torch.tensor([1, 1]))
        >>> reliability_diagram(Figure().add_subplot(), statistics)
    """
    if histogram_axes is None:
        histogram_axes = axes.inset_axes((0.0, -0.35, 1.0, 0.3))
    bins = _filled(statistics)
    _draw_accuracy(axes, bins, color, confidence_level)
    _draw_counts(histogram_axes, bins, color)
    error = statistics.expected_calibration_error()
    axes.set_title(f"ECE {100 * error:.1f} %", loc="right")
    for each in (axes, histogram_axes):
        each.set(xlim=(0, 1), xticks=np.linspace(0, 1, 6))
    axes.tick_params(labelbottom=False)


@document_arguments(
    ARGUMENTS,
    figure="where to draw; an empty matplotlib figure.",
    statistics="the bins of each diagram.",
    labels="the title of each diagram.",
    colors="the colour of each diagram.",
)
def reliability_diagrams(
    figure: Figure,
    statistics: Sequence[BinStatistics],
    labels: Sequence[str] = ("before", "after"),
    *,
    colors: Sequence[str] = ("C0", "C1"),
    confidence_level: float = 0.95,
) -> None:
    """Draw reliability diagrams side by side, such as before and after scaling.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from softmargin.calibration import bin_statistics, reliability_diagrams
        >>> correct = torch.tensor([1, 0])
        >>> before = bin_statistics(torch.tensor([0.9, 1.0]), correct)
        >>> after = bin_statistics(torch.tensor([0.5, 0.6]), correct)
        >>> reliability_diagrams(Figure(figsize=(7, 4)), [before, after])
    """
    if not len(statistics) == len(labels) == len(colors):
        raise ValueError(
            "statistics, labels and colors must have one entry per diagram, "
            f"but got {len(statistics)}, {len(labels)} and {len(colors)}."
        )
    grid = figure.add_gridspec(2, len(statistics), height_ratios=(3.2, 1))
    for place, (each, label, color) in enumerate(zip(statistics, labels, colors, strict=True)):
        axes, below = figure.add_subplot(grid[0, place]), figure.add_subplot(grid[1, place])
        reliability_diagram(axes, each, below, color=color, confidence_level=confidence_level)
        axes.set_title(label, loc="left")
        if place:
            for shared in (axes, below):
                shared.set_ylabel("")


@document_arguments(ARGUMENTS)
def confidence_diagram(axes: Axes, statistics: BinStatistics, *, color: str = "C0") -> None:
    """Draw the share of predictions in each bin of confidence, with two vertical lines.

    The lines are mean confidence (solid) and accuracy (dashed): if confidence is to the right of
    accuracy, the model is over-confident.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from softmargin.calibration import bin_statistics, confidence_diagram
        >>> statistics = bin_statistics(torch.tensor([0.6, 0.9]), torch.tensor([1, 0]))
        >>> confidence_diagram(Figure().add_subplot(), statistics)
    """
    import matplotlib as mpl

    ink = mpl.rcParams["text.color"]
    bins = _filled(statistics)
    mass = statistics.mass.cpu().numpy()
    mass = mass[mass > 0] / mass.sum()
    bins.draw(axes, mass, color=color, alpha=0.5, linewidth=0)
    for name, values, line in (
        ("mean confidence", bins.confidence, "-"),
        ("accuracy", bins.accuracy, (0, (4, 3))),
    ):
        mean = float(mass @ values)
        label = f"{name} {100 * mean:.1f} %"
        axes.axvline(mean, 0, 0.75, color=ink, linestyle=line, linewidth=1.3, label=label)
    axes.set(xlim=(0, 1), xticks=np.linspace(0, 1, 6), xlabel="confidence")
    axes.set(ylim=(0, mass.max() / 0.72), ylabel="share of predictions")  # room for the legend
    axes.grid(visible=False, axis="x")
    axes.legend(loc="upper left")


def confidence_histogram(axes: Axes, statistics: BinStatistics, *, color: str = "C0") -> None:
    """Draw a confidence diagram; the deprecated name of :func:`confidence_diagram`."""
    warnings.warn(
        "softmargin.calibration.confidence_histogram has been renamed to confidence_diagram.",
        DeprecationWarning,
        stacklevel=2,
    )
    confidence_diagram(axes, statistics, color=color)


def _filled(statistics: BinStatistics) -> _FilledBins:
    edges = statistics.edges.cpu().numpy()
    filled = statistics.counts.cpu().numpy() > 0
    each = (
        edges[:-1],
        np.diff(edges),
        statistics.counts.double().cpu().numpy(),
        statistics.effective_counts.cpu().numpy(),
        statistics.accuracy.cpu().numpy(),
        statistics.confidence.cpu().numpy(),
    )
    return _FilledBins(*(values[filled] for values in each))


def _draw_accuracy(axes: Axes, bins: _FilledBins, color: str, confidence_level: float) -> None:
    import matplotlib as mpl

    ink = mpl.rcParams["text.color"]
    axes.plot([0, 1], [0, 1], color=ink, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    bins.draw(axes, bins.accuracy, color=color, alpha=0.5, linewidth=0, zorder=2)
    bins.draw(
        axes,
        np.abs(bins.confidence - bins.accuracy),
        bottom=np.minimum(bins.confidence, bins.accuracy),
        facecolor="none",
        edgecolor=ink,
        hatch="/////",
        linewidth=0.6,
        zorder=3,
    )
    z = normal_quantile(confidence_level)
    low, high = wilson_interval(bins.accuracy.clip(0, 1), bins.effective, z)
    axes.vlines(bins.left + bins.width / 2, low, high, color=ink, linewidth=1.5, zorder=4)
    axes.set(ylim=(0, 1), yticks=np.linspace(0, 1, 6), ylabel="accuracy")
    axes.grid(visible=False, axis="x")


def _draw_counts(axes: Axes, bins: _FilledBins, color: str) -> None:
    bins.draw(axes, bins.counts, color=color, alpha=0.5, linewidth=0)
    for start, step, count in zip(bins.left, bins.width, bins.counts, strict=True):
        axes.annotate(
            _short(count),
            (start + step / 2, count),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="center",
            fontsize="x-small",
        )
    axes.set(ylim=(0, 1.35 * bins.counts.max()), yticks=[], ylabel="count", xlabel="confidence")
    axes.grid(visible=False)


def _short(count: float) -> str:
    """Return a count in at most four characters, such as 9999, 12k or 3M."""
    if count < 1e4:
        return f"{count:.0f}"
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.0f}M"
