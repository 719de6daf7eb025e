"""Charts as Vega-Lite specifications, and as SVG and PNG files made from them.

Altair and vl-convert come with the extra ``lab`` and are imported where they are used.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from softmargin.charts import KINDS, Chart
from softmargin.charts.tones import GRID, INK, MUTED, Look, Tone, looks_of

if TYPE_CHECKING:
    from softmargin.charts.marks import Drawing, Paint

WIDTH, SQUARE = 560, 380
TITLE_LETTERS, NOTE_LETTERS = 72, 96
EXPLAINED = {
    "reliability": "Bars: accuracy in each bin, with Wilson's 95 % interval. Outlined: the gap to "
    "mean confidence. Dashed: no gap. Below: how many samples each bin holds.",
    "ranks": "Bars span methods that are not significantly different: their ranks differ by less "
    "than the critical difference (Nemenyi, {level:g} %).",
}
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'


def specification(chart: Chart, looks: Sequence[Look] | None = None, page: bool = False) -> Any:
    """Return the Vega-Lite specification of a chart, without its title and caption.

    Args:
        chart: what to draw.
        looks: of its series, from :func:`softmargin.charts.tones.looks_of` over all charts of the
            page; by default those of this chart alone.
        page: whether it is for a page that reacts to the reader: colours are CSS variables, which
            the page defines for light and dark paper, and what is pointed at can be read.

    Example:
        >>> from softmargin.charts import Series
        >>> curve = Series("β = 1", [0, 1], [1, 0], beta=1.0)
        >>> found = specification(Chart("g", "Gradient", "line", "p", "|∂J/∂z|", [curve]))
        >>> found["datasets"]["rows"][0]["series"]
        'β = 1'
    """
    check(chart)
    chart = Chart.from_dict(chart.as_dict())  # rounded, and None where there is no number
    looks = looks_of([chart])[0] if looks is None else looks
    paint = _variable if page else _light
    drawn = _drawn(chart, looks, paint)
    found = drawn.specification
    if not page and "layer" in found:
        found["layer"] = [each for each in found["layer"] if each.get("name") != "reading"]
        found["params"] = [each for each in found.get("params", []) if each["name"] != "near"]
    found["datasets"] = drawn.data
    found["usermeta"] = {"headings": drawn.headings, "item": drawn.item}
    found["config"] = _config(paint)
    found["config"]["legend"]["columns"] = max(1, WIDTH // drawn.item)
    found["description"] = _description(chart)
    if found.get("width") == "container":
        found["autosize"] = {"type": "fit-x", "contains": "padding"}
    return found


def svg(chart: Chart, beside: Sequence[Chart] = ()) -> str:
    """Return a chart as the text of an SVG file on white paper, with its title and note.

    Args:
        chart: what to draw.
        beside: all charts of the page that it stands on, so that what has one name looks alike.
    """
    found: str = _converter().vegalite_to_svg(_on_paper(chart, beside))
    head, _, rest = found.partition(">")
    return f'{head} role="img"><title>{escape(chart.title)}</title>{rest.strip()}\n'


def png(chart: Chart, beside: Sequence[Chart] = (), scale: float = 2.0) -> bytes:
    """Return a chart as a PNG file; arguments as for :func:`svg`, ``scale`` in pixels."""
    found: bytes = _converter().vegalite_to_png(_on_paper(chart, beside), scale=scale)
    return found


def caption(chart: Chart) -> str:
    """Return what stands under a chart: its note, and what marks mean that no legend explains."""
    explained = EXPLAINED.get(chart.kind, "").format(level=100 * chart.extra.get("level", 0.95))
    return " ".join(filter(None, (chart.note, explained)))


def script() -> str:
    """Return the script that draws specifications in a page, as ``vegaEmbed``: about 0.9 MB."""
    found: str = _converter().javascript_bundle()
    return found


def check(chart: Chart) -> None:
    """Refuse what cannot be drawn, in one sentence."""
    from softmargin.functional._checks import check_choice

    check_choice("kind", chart.kind, KINDS)
    if not chart.series:
        raise ValueError(f"series of chart {chart.name!r} must hold at least one, but got none.")
    if chart.kind == "ranks":
        missing = [name for name in ("cd", "sets") if name not in chart.extra]
        if missing:
            raise ValueError(
                f"extra of chart {chart.name!r} must hold {' and '.join(missing)} for ranks, "
                f"but got {dict(chart.extra)}."
            )
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


def _drawn(chart: Chart, looks: Sequence[Look], paint: Paint) -> Drawing:
    try:
        from altair.utils.schemapi import debug_mode

        from softmargin.charts import diagrams, marks
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    # the tests hold every kind against Vega-Lite's schema; here that would take most of the time
    with debug_mode(False):
        if chart.kind == "ranks":
            return diagrams.ranks(chart, paint)
        if chart.kind == "reliability":
            return diagrams.reliability(chart, looks, paint)
        return marks.panel(chart, looks, paint)


def _on_paper(chart: Chart, beside: Sequence[Chart]) -> Any:
    charts = list(beside) or [chart]
    found = specification(chart, looks_of(charts)[charts.index(chart)])
    if found.get("width") == "container":
        found["width"] = WIDTH
        del found["autosize"]
    elif chart.extra.get("equal"):
        found["width"] = found["height"] = SQUARE
    found["title"] = {
        "text": textwrap.wrap(chart.title, TITLE_LETTERS),
        "subtitle": textwrap.wrap(caption(chart), NOTE_LETTERS),
    }
    found["background"] = "white"
    found["padding"] = 12
    found["config"]["aria"] = False
    return found


def _converter() -> Any:
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return vl_convert


def _missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    name = str(error.name).partition(".")[0]
    return ModuleNotFoundError(
        f'Charts need {name}, which is missing: pip install "softmargin[lab]".'
    )


def _light(tone: Tone) -> str:
    return tone.light


def _variable(tone: Tone) -> str:
    return f"var({tone.variable})"


def _description(chart: Chart) -> str:
    axes = f"Horizontal: {chart.x_label}. Vertical: {chart.y_label}." if chart.y_label else ""
    names = ", ".join(each.name for each in chart.series)
    return f"{chart.title}. {axes} Series: {names}."


def _config(paint: Paint) -> dict[str, Any]:
    """Return the look that all charts share."""
    ink, muted, grid = paint(INK), paint(MUTED), paint(GRID)
    return {
        "font": FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": {
            "labelColor": muted,
            "labelFontSize": 12,
            "labelLimit": 150,
            "titleColor": ink,
            "titleFontSize": 12.5,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "domainColor": muted,
            "tickColor": muted,
            "gridColor": grid,
        },
        "axisX": {"grid": False},
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "symbolOpacity": 1,
            "labelColor": ink,
            "labelFontSize": 12,
            "labelLimit": 320,
            "symbolSize": 90,
            "symbolStrokeWidth": 2,
            "columnPadding": 14,
            "rowPadding": 3,
        },
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": ink,
            "fontSize": 14,
            "subtitleColor": muted,
            "subtitleFontSize": 11.5,
            "offset": 10,
        },
        "text": {"color": ink},
    }
