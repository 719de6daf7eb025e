"""Reliability diagrams: accuracy against confidence, with counts and intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softmargin.calibration.metrics import BinStatistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


def wilson_interval(share: Floats, counts: Floats, z: float = 1.959964) -> tuple[Floats, Floats]:
    """Return Wilson's score interval of a share, 95 % by default, which never leaves [0, 1].

    Args:
        share: observed shares, such as the accuracy per bin.
        counts: how many observations each share comes from, at least 1.
        z: quantile of the normal distribution.

    Example:
        >>> import numpy as np
        >>> low, high = wilson_interval(np.array([1.0]), np.array([10.0]))
        >>> [round(float(bound[0]), 4) for bound in (low, high)]
        [0.7225, 1.0]
    """
    scale = 1 + z**2 / counts
    centre = (share + z**2 / (2 * counts)) / scale
    half = z * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2)) / scale
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def reliability_diagram(
    axes: Axes,
    statistics: BinStatistics,
    histogram_axes: Axes | None = None,
    *,
    color: str = "C0",
) -> None:
    """Draw accuracy per bin of confidence, and how many predictions each bin holds.

    Bars are accuracies with Wilson's 95 % interval. The hatched part of a bin is its gap, from
    accuracy to mean confidence; the ECE, written at the top right, is their weighted mean. Empty
    bins are not drawn.

    Args:
        axes: where to draw; matplotlib axes.
        statistics: from :func:`softmargin.calibration.bin_statistics`.
        histogram_axes: where to draw the counts; by default a strip below ``axes``.
        color: colour of the bars.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from softmargin.calibration import bin_statistics, reliability_diagram
        >>> statistics = bin_statistics(torch.tensor([0.6, 0.9]), torch.tensor([1, 1]))
        >>> reliability_diagram(Figure().add_subplot(), statistics)
    """
    if histogram_axes is None:
        histogram_axes = axes.inset_axes((0.0, -0.35, 1.0, 0.3))
    filled = statistics.counts.cpu().numpy() > 0
    edges = statistics.edges.cpu().numpy()
    left, width = edges[:-1][filled], np.diff(edges)[filled]
    counts = statistics.counts.cpu().numpy()[filled].astype(np.float64)
    accuracy = statistics.accuracy.cpu().numpy()[filled]
    confidence = statistics.confidence.cpu().numpy()[filled]
    _draw_accuracy(axes, left, width, accuracy, confidence, counts, color)
    _draw_counts(histogram_axes, left, width, counts, color)
    error = statistics.expected_calibration_error()
    axes.set_title(f"ECE {100 * error:.1f} %", loc="right")
    for each in (axes, histogram_axes):
        each.set_xlim(0, 1)
        each.set_xticks(np.linspace(0, 1, 6))
    axes.tick_params(labelbottom=False)


def _draw_accuracy(
    axes: Axes,
    left: Floats,
    width: Floats,
    accuracy: Floats,
    confidence: Floats,
    counts: Floats,
    color: str,
) -> None:
    import matplotlib as mpl

    ink = mpl.rcParams["text.color"]
    axes.plot([0, 1], [0, 1], color=ink, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.bar(left, accuracy, width, align="edge", color=color, alpha=0.5, linewidth=0, zorder=2)
    axes.bar(
        left,
        np.abs(confidence - accuracy),
        width,
        np.minimum(confidence, accuracy),
        align="edge",
        facecolor="none",
        edgecolor=ink,
        hatch="/////",
        linewidth=0.6,
        zorder=3,
    )
    low, high = wilson_interval(accuracy, counts)
    axes.vlines(left + width / 2, low, high, color=ink, linewidth=1.5, zorder=4)
    axes.set_ylim(0, 1)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_ylabel("accuracy")
    axes.grid(visible=False, axis="x")


def _draw_counts(axes: Axes, left: Floats, width: Floats, counts: Floats, color: str) -> None:
    axes.bar(left, counts, width, align="edge", color=color, alpha=0.5, linewidth=0)
    for start, step, count in zip(left, width, counts, strict=True):
        axes.annotate(
            f"{count:.0f}" if count < 1e4 else f"{count / 1e3:.0f}k",
            (start + step / 2, count),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="center",
            fontsize="x-small",
        )
    axes.set_ylim(0, 1.35 * counts.max())
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.set_xlabel("confidence")
    axes.set_ylabel("count")
