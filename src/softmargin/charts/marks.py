"""The marks of each kind of chart, as layers of Altair over columns of numbers.

Every series is one row of data whose columns are lists (see :func:`columns`); Vega makes one row
for each value of them. So a specification holds each number once.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import altair as alt

from softmargin.charts import Chart
from softmargin.charts.tones import INK, SOLID, Look, Tone

Rows = list[dict[str, Any]]
Paint = Callable[[Tone], str]

HEIGHT = 280
LETTER = 6.6  # pixels
LINE = 44  # letters of an axis title, so that it fits on a telephone
MOST_LINES = 4  # of a name under an axis
SLANTED = 24  # letters of a line of it, where it stands at a slant
MARKED_UP_TO = 15  # values of a line, whose places are then worth seeing
FADED = 0.08
NUMBER = ".5~g"
AS_GIVEN = alt.Order("place_in_line:Q")  # else Vega sorts the points of a line by x


@dataclass(frozen=True)
class Drawing:
    """A specification, and what goes with it.

    Attributes:
        specification: without data.
        data: by the name that the specification has for it; what can be read is in ``rows``.
        headings: of the columns of ``rows``.
        item: pixels of one panel or one entry of the legend: as many stand side by side as fit.
    """

    specification: dict[str, Any]
    data: dict[str, Rows]
    headings: dict[str, str]
    item: int


class Pen:
    """The channels that tell series apart, and the choice of series by the legend."""

    def __init__(self, chart: Chart, looks: Sequence[Look], paint: Paint, symbol: str | None):
        """Make them; ``symbol`` is the legend's: "" for those of the points, None for no legend."""
        self.paint = paint
        self.shown = alt.selection_point(
            name="shown", fields=["series"], bind="legend", toggle="true"
        )
        legend: Any = None
        if symbol is not None:
            legend = alt.Legend(symbolType=symbol) if symbol else alt.Legend()
        names = [each.name for each in chart.series]

        def channel(kind: Any, values: list[Any]) -> Any:
            scale = alt.Scale(domain=names, range=values)
            return kind("series:N", title=None, scale=scale, legend=legend)

        pairs = list(zip(chart.series, looks, strict=True))
        shapes = ["stroke" if each.dashed else look.shape for each, look in pairs]
        # where shapes tell series apart, only a reference is dashed
        dashes = [list(look.dashes if each.dashed or symbol else SOLID[0]) for each, look in pairs]
        self.color = channel(alt.Color, [paint(look.tone) for look in looks])
        self.shape = channel(alt.Shape, shapes)
        self.dashes = channel(alt.StrokeDash, dashes)

    def opacity(self, value: float) -> Any:
        """Return an opacity for what the legend has chosen; the rest fades."""
        chosen = alt.when(self.shown).then(alt.value(value))
        return chosen.otherwise(alt.value(min(value, FADED)))


def panel(chart: Chart, looks: Sequence[Look], paint: Paint) -> Drawing:
    """Draw a chart with two axes: lines, points, bars or a histogram."""
    draw, symbol = _KINDS[chart.kind]
    if chart.kind == "line" and any(len(each.x) <= MARKED_UP_TO for each in chart.series):
        symbol = ""
    if chart.kind == "bars" and len(chart.series) > 1 and len(_places(chart)) == 1:
        # a single place: the names of the series stand under their bars instead of in a legend
        series = [replace(each, x=[i]) for i, each in enumerate(chart.series)]
        chart = replace(chart, series=series, categories=[each.name for each in series])
        symbol = None
    return draw(chart, Pen(chart, looks, paint, symbol))


def columns(chart: Chart, shift: Mapping[str, float] | None = None) -> Rows:
    """Return each series as one row: where it is drawn (``at``), and its values as lists.

    ``shift`` moves series of charts with named places sideways, by their name.
    """
    rows = []
    for each in chart.series:
        row: dict[str, Any] = {"series": each.name, "dashed": each.dashed}
        if chart.categories:
            row["place"] = [_named(chart, x) for x in each.x]
            by = (shift or {}).get(each.name, 0.0)
            row["at"] = [None if x is None else round(x + by, 5) for x in each.x]
        else:
            row["at"] = [_above_0(x, chart.log_x) for x in each.x]
        row["y"] = [_above_0(y, chart.log_y) for y in each.y]
        if _has_intervals(chart):
            row["low"] = [_above_0(y, chart.log_y) for y in each.low]
            row["high"] = [_above_0(y, chart.log_y) for y in each.high]
        rows.append(row)
    return rows


def lines(chart: Chart, pen: Pen) -> Drawing:
    """Draw curves with bands, and markers where they have few values or one between gaps."""
    rows = columns(chart)
    for row in rows:
        few = len(row["y"]) <= MARKED_UP_TO and not row["dashed"]
        around = [None, *row["y"], None]
        alone = [a is None and b is None for a, b in zip(around, around[2:], strict=False)]
        row["marked"] = [int(few or each) for each in alone]
    marked = any(any(row["marked"]) for row in rows)
    if not marked:
        rows = [{k: v for k, v in row.items() if k != "marked"} for row in rows]
    base = _base(chart, "y", *(["marked"] if marked else []))
    y, opaque = y_channel(chart), pen.opacity(1)
    curve = base.mark_line(strokeWidth=1.8)
    layers = [curve.encode(y, pen.dashes, AS_GIVEN, opacity=opaque)]
    if _has_intervals(chart):
        ends = y_channel(chart, "low"), alt.Y2("high:Q")
        layers.insert(0, base.mark_area().encode(*ends, opacity=pen.opacity(0.15)))
    if marked:
        marks = base.transform_filter("datum.marked").mark_point(filled=True, size=42)
        layers.append(marks.encode(y, pen.shape, opacity=opaque))
    layers.append(_reading(base, chart))
    return _drawing(chart, pen, layers, rows)


def points(chart: Chart, pen: Pen) -> Drawing:
    """Draw clouds with intervals; at named places, series stand side by side."""
    clouds = [each for each in chart.series if not each.dashed]
    step = 0.7 / max(len(clouds), 1)
    shift = {each.name: step * (i - (len(clouds) - 1) / 2) for i, each in enumerate(clouds)}
    rows = columns(chart, shift)
    total = sum(len(each.x) for each in clouds)
    size = 60 if total <= 200 else 28 if total <= 1000 else 14
    base = _base(chart, "y")
    y = y_channel(chart)
    cloud = base.transform_filter("!datum.dashed")
    marks = cloud.mark_point(filled=True, size=size)
    layers = [marks.encode(y, pen.shape, opacity=pen.opacity(0.85))]
    if _has_intervals(chart):
        layers.insert(0, _whiskers(cloud, chart, pen))
    if len(clouds) < len(chart.series):
        curve = base.transform_filter("datum.dashed").mark_line(strokeWidth=1.5)
        layers.insert(0, curve.encode(y, pen.dashes, AS_GIVEN, opacity=pen.opacity(1)))
    layers.append(_reading(cloud, chart))
    return _drawing(chart, pen, layers, rows)


def bars(chart: Chart, pen: Pen) -> Drawing:
    """Draw bars, side by side at each place; those of a reference are outlines."""
    places = _places(chart)
    room = min((b - a for a, b in pairwise(places)), default=1.0)
    beside = 1 if all(len(each.x) == 1 for each in chart.series) else len(chart.series)
    width = 0.8 * room / beside
    rows = columns(chart)
    for place, row in enumerate(rows):
        offset = width * (place % beside - (beside - 1) / 2)
        at = [x + offset for x in row["at"]]
        row["at"] = _rounded(at)
        row["left"] = _rounded(x - 0.46 * width for x in at)
        row["right"] = _rounded(x + 0.46 * width for x in at)
    base = _base(chart, "y", "left", "right").transform_calculate(floor=repr(_floor(chart)))
    edges: Any = {"x2": alt.X2("right:Q"), "y2": alt.Y2("floor:Q"), "tooltip": _tips(chart)}
    y = y_channel(chart)
    filled = base.transform_filter("!datum.dashed").mark_rect()
    layers = [filled.encode(y, **edges, opacity=pen.opacity(0.8))]
    if any(each.dashed for each in chart.series):
        outline = base.transform_filter("datum.dashed").mark_rect(
            filled=False, strokeWidth=1.5, strokeDash=[4, 3]
        )
        layers.append(outline.encode(y, **edges, opacity=pen.opacity(1)))
    if _has_intervals(chart):
        whiskers = _whiskers(base, chart, pen)
        layers.append(whiskers.encode(x_channel(chart), color=alt.value(pen.paint(INK))))
    x = x_channel(chart, "left", [places[0] - room / 2, places[-1] + room / 2])
    return _drawing(chart, pen, layers, rows, x=x)


def histogram(chart: Chart, pen: Pen) -> Drawing:
    """Draw the outlines of counts, lightly filled."""
    floor = _floor(chart)
    rows = columns(chart)
    outlines: Rows = []
    for row in rows:
        edges, counts = row["at"], [floor if y is None else y for y in row["y"]]
        row["at"] = _rounded((a + b) / 2 for a, b in pairwise(edges))
        row |= {"from": edges[:-1], "to": edges[1:]}
        around = {"at": [edges[0], *edges, edges[-1]], "y": [floor, *counts, counts[-1], floor]}
        outlines.append({"series": row["series"], **around})
    outline = _base(chart, "y", data="outlines").transform_calculate(floor=repr(floor))
    y = y_channel(chart)
    layers = [
        outline.mark_area(interpolate="step-after").encode(
            y, alt.Y2("floor:Q"), opacity=pen.opacity(0.13)
        ),
        outline.mark_line(interpolate="step-after", strokeWidth=1.5).encode(
            y, pen.dashes, opacity=pen.opacity(1)
        ),
        _reading(_base(chart, "y", "from", "to"), chart),
    ]
    return _drawing(chart, pen, layers, rows, outlines=outlines)


def x_channel(chart: Chart, field: str = "at", domain: list[float] | None = None) -> alt.X:
    """Return the horizontal axis: of numbers, or of names at 0, 1, 2, ..."""
    title = lines_of(chart.x_label)
    if not chart.categories:
        scale = _scale(chart.log_x)
        scale["nice"] = chart.kind == "points"
        if chart.extra.get("equal"):
            domain, scale["nice"] = _square(chart, "x"), False
        if domain:
            scale["domain"] = domain
        axis = _numbers(chart.log_x, [x for each in chart.series for x in each.x])
        return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)
    scale = alt.Scale(domain=[-0.5, len(chart.categories) - 0.5], nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=_names(chart.categories))


def _names(names: Sequence[str]) -> alt.Axis:
    """Return an axis of names: in a few short lines, or where they do not fit there, at a slant."""
    room = max(1, LINE // len(names))
    lines = [_wrapped(name, room) for name in names]
    fits = all(len(each) <= MOST_LINES and max(map(len, each)) <= room for each in lines)
    laid: Any = {"labelAngle": 0}
    if not fits:
        lines = [_wrapped(name, SLANTED) for name in names]
        laid = {"labelAngle": -35, "labelAlign": "right"}
    return alt.Axis(
        values=list(range(len(names))),
        labelExpr=f"{json.dumps(lines)}[datum.value]",
        labelLimit=0,
        grid=False,
        labelOverlap=False,
        **laid,
    )


def _wrapped(name: str, width: int) -> list[str]:
    return textwrap.wrap(name, width, break_long_words=False) or [""]


def y_channel(chart: Chart, field: str = "y") -> alt.Y:
    """Return the vertical axis."""
    scale = _scale(chart.log_y)
    if chart.extra.get("equal"):
        scale["domain"], scale["nice"] = _square(chart, "y"), False
    axis = _numbers(chart.log_y, [y for s in chart.series for y in (*s.y, *s.low, *s.high)])
    return alt.Y(f"{field}:Q", title=lines_of(chart.y_label), scale=scale, axis=axis)


def _square(chart: Chart, axis: str) -> list[float]:
    """Return the range of an axis, as long as that of the other one: 5 % more than they need."""
    ends = {}
    for name in ("x", "y"):
        values = [v for each in chart.series for v in getattr(each, name) if v is not None]
        ends[name] = min(values, default=0.0), max(values, default=1.0)
    half = 0.525 * max(high - low for low, high in ends.values()) or 1.0
    middle = sum(ends[axis]) / 2
    return [middle - half, middle + half]


def lines_of(text: str, letters: int = LINE) -> Any:
    """Return a text in lines that fit, or None for no text."""
    return textwrap.wrap(text, letters) or None


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log") if log else alt.Scale(type="linear", zero=False)


def _numbers(log: bool, values: Sequence[float | None]) -> alt.Axis:
    """Return an axis of numbers; a logarithmic one has powers of ten, of few also 2 and 5 times."""
    above = [value for value in values if value is not None and value > 0]
    if not log or not above:
        return alt.Axis()
    low, high = math.floor(math.log10(min(above))), math.ceil(math.log10(max(above)))
    factors = (1,) if high - low > 2 else (1, 2, 5)
    ticks = [float(f"{factor}e{power}") for power in range(low, high + 1) for factor in factors]
    return alt.Axis(values=ticks, format=",~g", labelOverlap=True)


def _base(chart: Chart, *more: str, data: str = "rows") -> alt.Chart:
    fields: list[Any] = ["at", *more]
    if data == "rows":
        fields += ["place"] * bool(chart.categories) + ["low", "high"] * _has_intervals(chart)
    flat = alt.Chart(alt.NamedData(data)).transform_flatten(fields)
    return flat.transform_window(place_in_line="row_number()")


def _drawing(
    chart: Chart,
    pen: Pen,
    layers: list[alt.Chart],
    rows: Rows,
    x: alt.X | None = None,
    **more: Rows,
) -> Drawing:
    """Put layers over each other; all have the horizontal axis and the colours in common."""
    layers[0] = layers[0].properties(name="first").add_params(pen.shown)
    together = alt.layer(*layers).encode(x or x_channel(chart), pen.color)
    found: dict[str, Any] = together.to_dict(validate=False)
    found["width"] = HEIGHT if chart.extra.get("equal") else "container"
    found["height"] = HEIGHT
    longest = max(len(each.name) for each in chart.series)
    entry = math.ceil(LETTER * longest + 36)  # with its symbol and some air
    return Drawing(found, {"rows": rows, **more}, _headings(chart), entry)


def _reading(base: alt.Chart, chart: Chart) -> alt.Chart:
    """Return what is seen of the value nearest to the pointer: a ring, and a text."""
    near = alt.selection_point(
        name="near", on="pointerover", clear="pointerout", nearest=True, empty=False
    )
    seen = alt.when(near).then(alt.value(1)).otherwise(alt.value(0))
    ring = base.mark_point(filled=False, size=90, strokeWidth=2, shape="circle")
    encoded: alt.Chart = ring.encode(y_channel(chart), opacity=seen, tooltip=_tips(chart))
    return encoded.properties(name="reading").add_params(near)


def _whiskers(base: alt.Chart, chart: Chart, pen: Pen) -> alt.Chart:
    ends = y_channel(chart, "low"), alt.Y2("high:Q")
    rules: alt.Chart = base.mark_rule(strokeWidth=1.5).encode(*ends, opacity=pen.opacity(1))
    return rules


def _tips(chart: Chart) -> list[alt.Tooltip]:
    """Return what is read at a mark: its series, and its values under their headings."""
    tips = [alt.Tooltip("series:N", title="series")]
    for field, title in _headings(chart).items():
        named = field == "place"
        tip = alt.Tooltip(f"{field}:{'N' if named else 'Q'}", title=title)
        tips.append(tip if named else tip.format(NUMBER))
    return tips


def _headings(chart: Chart) -> dict[str, str]:
    x = chart.x_label or "x"
    if chart.categories:
        found = {"place": chart.x_label or "what"}
    elif chart.kind == "histogram":
        found = {"from": f"{x}, from", "to": f"{x}, to"}
    else:
        found = {"at": x}
    found["y"] = chart.y_label or "y"
    return found | ({"low": "lower end", "high": "upper end"} if _has_intervals(chart) else {})


def _has_intervals(chart: Chart) -> bool:
    return any(len(each.low) and len(each.high) for each in chart.series)


def _places(chart: Chart) -> list[float]:
    return sorted({x for each in chart.series for x in each.x})


def _floor(chart: Chart) -> float:
    """Return where bars stand: 0, or on a logarithmic axis below the smallest value."""
    above = [y for each in chart.series for y in (*each.y, *each.low) if y is not None and y > 0]
    return 0.5 * min(above, default=1.0) if chart.log_y else 0.0


def _above_0(value: float | None, log: bool) -> float | None:
    return None if value is None or (log and value <= 0) else value


def _named(chart: Chart, place: float) -> str:
    known = place == int(place) and 0 <= place < len(chart.categories)
    return chart.categories[int(place)] if known else ""


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


# how each kind is drawn, and the symbol of its legend
_KINDS: dict[str, tuple[Callable[[Chart, Pen], Drawing], str | None]] = {
    "line": (lines, "stroke"),
    "points": (points, ""),
    "bars": (bars, "square"),
    "histogram": (histogram, "stroke"),
}
