"""Charts as data: drawn here for paper, and by the interactive report on a screen.

An experiment describes what is to be seen (lines, points, bars, with their units and intervals);
how it looks is decided in one place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

KINDS = ("line", "points", "bars", "histogram", "reliability", "ranks")


@dataclass(frozen=True)
class Series:
    """One curve, cloud or set of bars.

    Attributes:
        name: as in the legend, such as ``"β = 0.1"``.
        x: places; for bars their names may stand in ``Chart.categories`` and x be 0, 1, 2, ...
        y: values.
        low: lower ends of intervals, or empty.
        high: upper ends, or empty.
        beta: the β that it belongs to, which gives its colour; None for another colour.
        dashed: whether it is a reference or a theoretical curve.
        size: samples behind every value, where that counts (reliability), or empty.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    beta: float | None = None
    dashed: bool = False
    size: Sequence[float] = ()


@dataclass(frozen=True)
class Chart:
    """One panel.

    Attributes:
        name: file name without its ending, unique in the experiment.
        title: what it shows.
        kind: one of ``KINDS``. ``histogram``: y are counts of bins whose left edges are x, the
            last x is the last right edge. ``reliability``: x mean confidence, y accuracy, size
            samples of each bin. ``ranks``: y holds one average rank per series.
        x_label: with its unit.
        y_label: with its unit.
        series: what is drawn.
        log_x: whether the x axis is logarithmic.
        log_y: whether the y axis is logarithmic.
        categories: names of the places on the x axis of bars.
        note: one sentence under it: scale, seeds, what the bands are.
        extra: numbers that a kind needs besides, such as the critical difference of ranks;
            ``equal`` makes a unit as long on both axes.
    """

    name: str
    title: str
    kind: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    categories: Sequence[str] = ()
    note: str = ""
    extra: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, with five significant digits, ready for JSON."""
        rounded: dict[str, Any] = _rounded(asdict(self))
        return rounded

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Chart:
        """Return the chart of plain values."""
        series = [Series(**each) for each in values["series"]]
        return cls(**{**values, "series": series})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
