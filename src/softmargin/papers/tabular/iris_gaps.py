"""Angles of ag-fig1 as gaps, gradients, charts and tables.

ArcGrad's loss of a sample is the cross-entropy of logits -s·θ_j, so that its gradient with respect
to an angle is ∂J/∂θ_j = -s·p_j for the other classes and s·(1 - p_c) for its own. Angles are
arrays of shape (..., samples, classes) in radians.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from softmargin import theory
from softmargin.charts import Chart, Series
from softmargin.papers.outcome import Entry, ResultTable
from softmargin.papers.printed import printed_means

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
SPECIES = ("setosa", "versicolor", "virginica")
CURVE = 81  # points of a theoretical curve


def gradients(angles: Floats, y: Classes, scale: float) -> Floats:
    """Return |∂J/∂θ| of every sample and class, from angles (..., samples, classes)."""
    logits = -scale * (angles - angles.min(-1, keepdims=True))
    p = np.exp(logits)
    p /= p.sum(-1, keepdims=True)
    magnitudes: Floats = scale * np.abs(p - _own(angles, y))
    return magnitudes


def gaps(angles: Floats, y: Classes) -> Floats:
    """Return how much nearer each sample is to its own class weight than to the next (eq. 13)."""
    own = _own(angles, y)
    others = np.where(own, np.inf, angles).min(-1)
    gap: Floats = others - np.where(own, angles, 0.0).sum(-1)
    return gap


def angle_chart(angles: Floats, y: Classes, scale: float, phase: str, size: str) -> Chart:
    """Return angles of one seed against their gradients: own class by class, others together."""
    pull, degrees, own = gradients(angles, y, scale), np.degrees(angles), _own(angles, y)
    series = [
        Series(f"{name} to its own weight", *_points(degrees, pull, own & (y == k)[:, None]))
        for k, name in enumerate(SPECIES)
    ]
    series.append(Series("any to another weight", *_points(degrees, pull, ~own)))
    word = phase.split()[0]
    return Chart(
        f"angles-s{scale:g}-{word}",
        f"s = {scale:g}, {phase}: angles and their gradients",
        "points",
        "angle between feature and class weight (degrees)",
        "∣∂J/∂θ∣ (nats per radian)",
        series,
        note=f"{size}, seed 0: one point per sample and class weight, on training rows.",
    )


def gap_chart(angles: Floats, y: Classes, scale: float, phases: Sequence[str], size: str) -> Chart:
    """Return each sample's gap against its gradient in all phases, over the theoretical curve."""
    series = []
    for phase, here in zip(phases, angles, strict=True):
        pull = np.where(_own(here, y), gradients(here, y, scale), 0.0).sum(-1)
        series.append(Series(phase, _plain(np.degrees(gaps(here, y))), _plain(pull)))
    classes = angles.shape[-1]
    every = np.degrees(gaps(angles, y))
    degrees = np.linspace(min(0.0, every.min()), max(every.max(), 10.0), CURVE)
    weight = (classes - 1) * np.exp(-scale * np.radians(degrees))
    curve = scale * weight / (1 + weight)
    series.append(
        Series("all other classes at the gap", _plain(degrees), _plain(curve), dashed=True)
    )
    gap = float(np.degrees(theory.gap(classes, scale)))
    series.append(Series(f"theoretical gap {gap:.1f}°", [gap, gap], [0.0, scale], dashed=True))
    return Chart(
        f"gaps-s{scale:g}",
        f"s = {scale:g}: gap and gradient of every sample",
        "points",
        "gap between the nearest other class and its own (degrees)",
        "∣∂J/∂θ∣ of its own angle (nats per radian)",
        series,
        note=f"{size}; drawn is seed 0, training rows.",
    )


def gap_table(
    angles: Floats, y: Classes, scales: Sequence[float], phases: Sequence[str], size: str
) -> ResultTable:
    """Return the theoretical gap, and the median gap of the samples in every phase."""
    classes = angles.shape[-1]
    entries = []
    for i, scale in enumerate(scales):
        row, expected = f"s = {scale:g}", float(np.degrees(theory.gap(classes, scale)))
        paper = printed_means("ag-fig1").get(row, {}).get("theoretical")
        entries.append(Entry(row, "theoretical", (round(expected, 4),), paper=paper))
        for k, phase in enumerate(phases):
            found = np.median(np.degrees(gaps(angles[k, i], y)), -1)
            entries.append(Entry(row, phase, _plain(found)))
    return ResultTable(
        "Gap between a sample's own class weight and the nearest other",
        "degrees",
        entries,
        row_heading="scale",
        note=f"{size}. Median over training rows; ± is the standard deviation over seeds.",
    )


def pull_table(
    angles: Floats, y: Classes, scales: Sequence[float], phases: Sequence[str], size: str
) -> ResultTable:
    """Return how many samples are within the theoretical gap, and how hard they are pulled."""
    entries = []
    for i, scale in enumerate(scales):
        for k, phase in enumerate(phases):
            within = inside(angles[k, i], y, scale)
            own = _own(angles[k, i], y)
            pull = 100 / scale * np.where(own, gradients(angles[k, i], y, scale), 0.0).sum(-1)
            row = f"s = {scale:g}, {phase}"
            entries.append(Entry(row, "samples within the gap", _plain(100 * within.mean(-1))))
            for name, chosen in (("within", within), ("beyond", ~within)):
                some = [float(p[c].mean()) for p, c in zip(pull, chosen, strict=True) if c.any()]
                if some:
                    column = f"gradient {name}, of the largest possible"
                    entries.append(Entry(row, column, _plain(np.array(some))))
    return ResultTable(
        "Samples within the theoretical gap, and mean gradients within and beyond it",
        "%",
        entries,
        row_heading="scale and phase",
        note=(
            f"{size}. The largest possible gradient is s. ± is over seeds, of those that have such "
            "samples."
        ),
    )


def inside(angles: Floats, y: Classes, scale: float) -> NDArray[np.bool_]:
    """Return which samples have less than the theoretical gap."""
    within: NDArray[np.bool_] = gaps(angles, y) < theory.gap(angles.shape[-1], scale)
    return within


def _own(angles: Floats, y: Classes) -> NDArray[np.bool_]:
    """Return where the class is the sample's own, in the shape of the angles."""
    own: NDArray[np.bool_] = np.arange(angles.shape[-1]) == y[:, None]
    return np.broadcast_to(own, angles.shape)


def _points(x: Floats, y: Floats, where: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    return _plain(x[where]), _plain(y[where])


def _plain(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
