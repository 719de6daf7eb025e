"""Reliability diagrams, and the diagram of average ranks with their critical difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from softmargin.charts import Chart, Series
from softmargin.charts.marks import NUMBER, Drawing, Paint, Rows
from softmargin.charts.tones import GREEN, GRID, INK, MUTED, Look

SQUARE, COUNTS = 220, 56  # pixels
MOST_COLUMNS = 3
ROW = 22  # pixels
HIDDEN = "\u200b"  # has no width


def reliability(chart: Chart, looks: Sequence[Look], paint: Paint) -> Drawing:
    """Draw bars of accuracy, their gaps to confidence, and counts below, for every series."""
    rows = [_bins(each, chart.name) for each in chart.series]
    tones = alt.Scale(
        domain=[each.name for each in chart.series], range=[paint(look.tone) for look in looks]
    )
    panel = _panel(chart, alt.Color("series:N", scale=tones, legend=None), paint)
    panels = [
        panel
        | {"title": {"text": row["series"], "subtitle": row["ece"], "fontSize": 12.5, "offset": 4}}
        | {"transform": [{"filter": {"field": "series", "equal": row["series"]}}]}
        for row in rows
    ]
    columns = min(MOST_COLUMNS, len(panels))
    found: dict[str, Any] = {"$schema": alt.SCHEMA_URL, "data": {"name": "rows"}}
    found |= {"concat": panels, "columns": columns, "spacing": 24}
    return Drawing(found, {"rows": rows}, _titles(chart), SQUARE + 80)


def ranks(chart: Chart, paint: Paint) -> Drawing:
    """Draw the average rank of each method in a row of its own, under the critical difference.

    A bar spans the ranks of methods that are not significantly different.
    """
    _check_ranks(chart)
    ordered = sorted(chart.series, key=lambda each: each.y[0])
    values = [each.y[0] for each in ordered]
    cd = chart.extra["cd"]
    yardstick = f"critical difference {cd:.2f}"
    methods = [f"{each.name} ({each.y[0]:.2f})" for each in ordered]
    groups = _groups(values, cd)
    # rows need names of their own; only the first of these is shown
    bars = ["no difference found" + HIDDEN * place for place in range(len(groups))]
    order = [yardstick, *bars, *methods]
    data: dict[str, Rows] = {
        "rows": [
            {"series": each.name, "rank": [each.y[0]], "row": row, "top": order[1], "best": 1}
            for each, row in zip(ordered, methods, strict=True)
        ],
        "yardstick": [{"row": yardstick, "rank": 1, "end": 1 + cd}],
        "groups": [
            {"row": row, "rank": values[first], "end": values[last]}
            for row, (first, last) in zip(bars, groups, strict=True)
        ],
    }
    last = math.ceil(max(len(ordered), 1 + cd))
    x = alt.X(
        "rank:Q",
        title=chart.x_label or "average rank",
        scale=alt.Scale(domain=[1, last], nice=False, padding=8),
        axis=alt.Axis(values=list(range(1, last + 1)), orient="top", labelOverlap=True),
    )
    labels = alt.Axis(
        labelExpr=f"indexof(datum.value, '{HIDDEN}') < 0 ? datum.value : ''",
        labelColor=paint(INK),
        labelLimit=170,
    )
    scale = alt.Scale(domain=order)
    y = alt.Y("row:N", title=None, scale=scale, axis=labels)
    dots = alt.Chart(alt.NamedData("rows")).transform_flatten(["rank"])
    thin = dots.mark_rule(color=paint(GRID), strokeWidth=1)
    bar = alt.Chart(alt.NamedData("groups")).mark_rule(color=paint(GREEN), strokeWidth=5)
    ruler = alt.Chart(alt.NamedData("yardstick")).mark_rule(color=paint(INK), strokeWidth=2)
    tips = [
        alt.Tooltip("series:N", title="method"),
        alt.Tooltip("rank:Q", title="average rank", format=".2f"),
    ]
    layers = alt.layer(
        thin.encode(x, alt.Y("top:N", title=None, scale=scale, axis=labels), alt.Y2("row:N")),
        thin.encode(x, y, alt.X2("best:Q")),
        ruler.encode(x, y, alt.X2("end:Q")),
        bar.encode(x, y, alt.X2("end:Q")),
        dots.mark_point(filled=True, size=70, color=paint(INK), opacity=1).encode(
            x, y, tooltip=tips
        ),
    )
    found: dict[str, Any] = layers.to_dict(validate=False)
    found |= {"width": "container", "height": ROW * len(order)}
    return Drawing(found, data, {"rank": "average rank"}, SQUARE)


def _bins(series: Series, chart: str) -> dict[str, Any]:
    """Return one series: its bins with Wilson's intervals, and its calibration error."""
    from softmargin.calibration.intervals import wilson_interval

    if not len(series.size):
        raise ValueError(f"size of {series.name!r} in chart {chart!r} must hold samples per bin.")
    if len(series.low) or len(series.high):
        raise ValueError(
            f"low and high of {series.name!r} in chart {chart!r} must be empty: "
            "Wilson's interval is drawn, which follows from size."
        )
    bins = zip(series.x, series.y, series.size, strict=True)
    filled = [(i, *each) for i, each in enumerate(bins) if None not in each and each[-1]]
    place, confidence, accuracy, samples = np.array(filled, float).reshape(-1, 4).T
    low, high = wilson_interval(accuracy.clip(0.0, 1.0), samples)
    columns = {
        "from": place / len(series.size),
        "to": (place + 1) / len(series.size),
        "middle": (place + 0.5) / len(series.size),
        "confidence": confidence,
        "accuracy": accuracy,
        "low": low,
        "high": high,
        "samples": samples,
    }
    row: dict[str, Any] = {"series": series.name}
    row |= {name: [float(f"{x:.5g}") for x in values] for name, values in columns.items()}
    gaps = samples @ np.abs(confidence - accuracy)
    return row | {"ece": f"ECE {100 * gaps / samples.sum():.1f} %" if filled else ""}


def _titles(chart: Chart) -> dict[str, str]:
    """Return what each number of a bin is called."""
    return {
        "from": "bin, from",
        "to": "bin, to",
        "accuracy": chart.y_label,
        "low": "lower end",
        "high": "upper end",
        "confidence": chart.x_label,
        "samples": "samples",
    }


def _panel(chart: Chart, color: alt.Color, paint: Paint) -> dict[str, Any]:
    """Return the diagram of one series, and how many samples each bin holds."""
    titles = _titles(chart)
    rows = alt.Chart(alt.NamedData("rows"))
    base = rows.transform_flatten([*titles, "middle"])
    ticks: Any = {"values": [0, 0.2, 0.4, 0.6, 0.8, 1], "format": "~g"}
    unit = alt.Scale(domain=[0, 1], nice=False)
    ink = paint(INK)
    hidden = alt.Axis(labels=False, ticks=False, values=ticks["values"])
    x = alt.X("from:Q", title=None, scale=unit, axis=hidden)

    def up(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=chart.y_label, scale=unit, axis=alt.Axis(**ticks))

    tips = [alt.Tooltip(f"{name}:Q", title=title, format=NUMBER) for name, title in titles.items()]
    bars: Any = {"x2": alt.X2("to:Q"), "tooltip": tips}
    to_0 = alt.Y2(datum=0)
    square = alt.layer(
        base.mark_rect(opacity=0.6).encode(x, up("accuracy"), to_0, color, **bars),
        base.mark_rect(fill=ink, fillOpacity=0.1, stroke=ink, strokeWidth=1).encode(
            x, up("accuracy"), alt.Y2("confidence:Q"), **bars
        ),
        base.mark_rule(strokeWidth=1.5, color=ink).encode(
            alt.X("middle:Q", scale=unit, title=None), up("low"), alt.Y2("high:Q")
        ),
        rows.mark_rule(strokeDash=[4, 3], color=paint(MUTED)).encode(
            alt.XDatum(0), alt.YDatum(0), alt.X2Datum(1), alt.Y2Datum(1)
        ),
    ).properties(width=SQUARE, height=SQUARE)
    counts = base.mark_rect(opacity=0.6).encode(
        alt.X("from:Q", title=chart.x_label, scale=unit, axis=alt.Axis(**ticks)),
        alt.Y("samples:Q", title="samples", axis=alt.Axis(tickCount=2, format=",~g")),
        to_0,
        color,
        **bars,
    )
    both = alt.vconcat(square, counts.properties(width=SQUARE, height=COUNTS), spacing=8)
    found: dict[str, Any] = both.to_dict(validate=False)
    return {name: value for name, value in found.items() if name in ("vconcat", "spacing")}


def _check_ranks(chart: Chart) -> None:
    from softmargin.functional._checks import check_number

    check_number("cd", chart.extra["cd"])
    count = len(chart.series)
    if count < 2:
        raise ValueError(f"ranks must hold at least 2 methods, but got {count}.")
    for each in chart.series:
        rank = each.y[0]
        if rank is None or not 1 <= rank <= count:
            raise ValueError(
                f"ranks must be from 1 to the number of methods, {count}, "
                f"but got {rank} for {each.name!r}."
            )


def _groups(ranks: Sequence[float], cd: float) -> list[tuple[int, int]]:
    """Return first and last of the largest groups of ordered ranks that differ by less than cd.

    Example:
        >>> _groups([1.0, 1.9, 2.5, 3.1], cd=1.0)
        [(0, 1), (1, 2), (2, 3)]
    """
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(i for i, other in enumerate(ranks) if other < rank + cd)
        if last > max(first, groups[-1][1] if groups else 0):
            groups.append((first, last))
    return groups
