"""Charts as they are drawn: complete, legible, with gaps where there is nothing."""

import itertools
import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from matplotlib.colors import to_hex

from softmargin.charts import KINDS, Chart, Series
from softmargin.report.draw import draw, standalone_svg, write_svg
from softmargin.report.figures import INK, MUTED, beta_tones
from softmargin.report.panels import OTHERS, looks_of

EPOCHS = list(range(1, 41))
BETAS = (5.0, 2.0, 1.0, 0.1, 0.01)
METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad s = 30", "ArcGrad s = 5")
LONG = "logit regulariser with the symmetric divergence, λ = 0.3"
NOTE = "Desk scale, 5 seeds. Lines: mean over seeds; bands: from the lowest to the highest seed."
TITLE = "Accuracy on the test images after every epoch, for a network of three layers, by β"


def by_epoch(name, slope, **rest):
    y = [100 * (1 - math.exp(-slope * epoch)) for epoch in EPOCHS]
    return Series(name, EPOCHS, y, [v - 1 for v in y], [v + 1 for v in y], **rest)


def of_beta(beta):
    return by_epoch(f"β = {beta:g}", 0.1 / math.sqrt(beta), beta=beta)


def reliability_series(name, shift=0.1, empty=3, **rest):
    middle = [(i + 0.5) / 10 for i in range(10)]
    size = [0] * empty + [1234] * (10 - empty)
    x = [None if n == 0 else v for v, n in zip(middle, size, strict=True)]
    y = [None if v is None else v - shift for v in x]
    return Series(name, x, y, size=size, **rest)


def chart(kind, series, **rest):
    given = {"x_label": "epoch", "y_label": "accuracy, %", "title": TITLE, "note": NOTE, **rest}
    return Chart("name", kind=kind, series=series, **given)


def bars(**rest):
    y = [[903.0, 310.0, 57000.0], [828.0, None, 58000.0]]
    series = [
        Series("β = 1", [0, 1, 2], y[0], [800, 300, 56000], [1000, 320, 57500], beta=1.0),
        Series("β = 0.5, paper", [0, 1, 2], y[1], beta=0.5, dashed=True),
    ]
    names = ("0 to 0.2", "0.2 to 0.8", "0.8 to 1")
    return chart("bars", series, categories=names, x_label="confidence", **rest)


def histogram(**rest):
    edges = [0.0, 10.0, 20.0, 30.0, 40.0]
    series = [Series("epoch 1", edges, [0, 3, 50, 900]), Series("epoch 40", edges, [800, 60, 2, 0])]
    return chart("histogram", series, x_label="angle, degrees", y_label="samples", **rest)


def ranks(**extra):
    series = [Series(m, [0], [r]) for m, r in zip(METHODS, range(1, 8), strict=True)]
    return chart("ranks", series, extra={"cd": 2.3, "sets": 15, **extra})


def cloud(count, names=METHODS):
    draws = np.random.default_rng(0).normal(size=(len(names), 2, count)).tolist()
    return chart("points", [Series(n, x, y) for n, (x, y) in zip(names, draws, strict=True)])


SETS = ("breast cancer Wisconsin", "ionosphere", "iris", "vehicle silhouettes", "wine")
CASES = {
    "line": chart("line", [of_beta(b) for b in BETAS]),
    "line, log": chart("line", [Series("ours", [0.01, 0.1, 1, 10], [3, 2, 1, 5])], log_x=True),
    "line, long names": chart("line", [of_beta(1.0), by_epoch(LONG, 0.1)]),
    "line, reference": chart(
        "line", [of_beta(1.0), by_epoch("0.01 → 0.1", 0.2), by_epoch("paper", 0.3, dashed=True)]
    ),
    "points": chart("points", [by_epoch("measured", 0.1), by_epoch("theory", 0.1, dashed=True)]),
    "points, named places": chart(
        "points", [Series(m, range(5), range(90, 95)) for m in METHODS], categories=SETS
    ),
    "points, many": cloud(500),
    "bars": bars(),
    "bars, log": bars(log_y=True),
    "histogram": histogram(),
    "histogram, log": histogram(log_y=True),
    "reliability": chart("reliability", [reliability_series("β = 1", beta=1.0)]),
    "reliability, three": chart(
        "reliability", [reliability_series(f"β = {b:g}", beta=b) for b in BETAS[:3]]
    ),
    "reliability, five": chart(
        "reliability", [reliability_series(f"β = {b:g}", beta=b) for b in BETAS]
    ),
    "ranks": ranks(),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


_drawn = {}


def drawn(case):
    """Draw each case once; the tests below only look at it."""
    if id(case) not in _drawn:
        _drawn[id(case)] = draw(case)
    return _drawn[id(case)]


def texts_of(figure):
    """Return all that is written."""
    found = [figure._suptitle, figure._supxlabel]
    for axes in figure.axes:
        found += [axes.title, axes._left_title, axes._right_title, *axes.texts]
        if axes.axison:
            found += [axes.xaxis.label, axes.yaxis.label]
            for axis, (low, high) in zip((axes.xaxis, axes.yaxis), _limits(axes), strict=True):
                ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
                found += [tick.label1 for tick in ticks if tick.label1.get_visible()]
        if axes.get_legend():
            found += axes.get_legend().get_texts()
    return [text for text in found if text is not None and text.get_text()]


def _limits(axes):
    return sorted(axes.get_xlim()), sorted(axes.get_ylim())


def test_cases_cover_every_kind():
    assert {case.kind for case in CASES.values()} == set(KINDS)


@every_case
def test_every_series_is_named(case):
    figure = drawn(case)
    if case.kind == "ranks":
        words = " ".join(text.get_text() for text in figure.axes[0].texts)
        assert all(each.name in words for each in case.series)
        return
    if case.kind == "reliability":
        names = [axes.get_title(loc="left") for axes in figure.axes]
        names = [name for name in names if name]
    else:
        names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert names == [each.name for each in case.series]


@every_case
def test_title_note_and_labels_are_there(case):
    figure = drawn(case)
    words = " ".join(text.get_text().replace("\n", " ") for text in texts_of(figure))
    assert TITLE in words
    assert NOTE in words
    if case.kind != "ranks":
        assert case.x_label in words
        assert case.y_label in words


@every_case
def test_no_text_is_clipped_or_lies_on_another(case):
    figure = drawn(case)
    boxes = [(t.get_text(), t.get_rotation(), t.get_window_extent()) for t in texts_of(figure)]
    for words, _, box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, words
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, words
    upright = [(words, box.padded(-0.5)) for words, turn, box in boxes if turn in (0, 90)]
    for (first, a), (second, b) in itertools.combinations(upright, 2):
        assert not a.overlaps(b), (first, second)


@every_case
def test_legend_lies_outside_the_panel(case):
    figure = drawn(case)
    for axes in figure.axes:
        if axes.axison and axes.get_legend():
            legend, panel = axes.get_legend().get_window_extent(), axes.get_window_extent()
            assert not legend.padded(-1).overlaps(panel)
            assert panel.width > 0.5 * figure.bbox.width


@every_case
def test_same_bytes_twice_without_date_or_links(case, tmp_path):
    for name in ("first.svg", "second.svg"):
        write_svg(case, tmp_path / name)
    first = (tmp_path / "first.svg").read_bytes()
    assert first == (tmp_path / "second.svg").read_bytes()
    text = first.decode()
    assert not re.search(r"\b20\d\d-\d\d-\d\d|Matplotlib v", text)
    assert set(re.findall(r'https?://[^"]*', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_file_is_svg_on_white_paper_with_its_title():
    root = ElementTree.fromstring(standalone_svg(CASES["line"]))
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["width"].endswith("pt")
    assert root.find("svg:title", space).text == TITLE
    paper = root.find(".//svg:g[@id='patch_1']/svg:path", space)
    assert "#ffffff" in paper.attrib["style"]
    assert "var(--" not in standalone_svg(CASES["line"])


@pytest.mark.parametrize("name", ["bars", "reliability", "ranks"])
def test_a_chart_read_back_from_its_numbers_is_the_same_file(name):
    stored = json.loads(json.dumps(CASES[name].as_dict()))
    assert standalone_svg(Chart.from_dict(stored)) == standalone_svg(CASES[name])


@pytest.mark.parametrize("gap", [None, math.nan])
def test_a_gap_in_a_line_is_a_gap(gap):
    y = [1.0, 2.0, gap, gap, 5.0, 6.0]
    series = Series("ours", range(6), y, y, y)
    axes = draw(chart("line", [series])).axes[0]
    (line,) = axes.lines
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, True, False, False]
    (band,) = axes.collections
    assert len(band.get_paths()) == 2
    assert draw(chart("line", [series])).axes[0].lines[0].get_marker() != "None"


@pytest.mark.parametrize("gap", [None, math.nan])
def test_gaps_in_bars_points_and_histograms_draw_nothing(gap):
    series = Series("ours", [0, 1, 2], [1.0, gap, 3.0], [0.5, gap, 2.5], [1.5, gap, 3.5])
    panel = draw(chart("bars", [series])).axes[0]
    assert [bar.get_height() > 0 for bar in panel.patches] == [True, False, True]
    for kind in ("bars", "points"):
        (whiskers,) = draw(chart(kind, [series])).axes[0].collections
        drawn = [s for s in whiskers.get_segments() if np.isfinite(s).all() and len(s)]
        assert [tuple(s[:, 1]) for s in drawn] == [(0.5, 1.5), (2.5, 3.5)]
    points = draw(chart("points", [series])).axes[0].lines[0].get_ydata()
    assert np.isnan(points[1])
    stairs = draw(chart("histogram", [Series("a", [0, 1, 2, 3], [4, gap, 5])])).axes[0].patches[0]
    assert np.isnan(stairs.get_data().values).tolist() == [False, True, False]


def test_empty_bins_are_not_drawn_and_full_ones_are_where_they_belong():
    figure = draw(chart("reliability", [reliability_series("plain", empty=4)]))
    panel, counts = figure.axes[1:]
    assert len(panel.patches) == 2 * 6  # accuracy and gap
    assert [round(bar.get_x(), 6) for bar in counts.patches] == [0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert [bar.get_height() for bar in counts.patches] == [1234] * 6
    assert panel.get_title(loc="right") == "ECE 10.0 %"


def test_bars_of_one_place_stand_side_by_side():
    first, second = np.array_split(draw(bars()).axes[0].patches, 2)
    for left, right in zip(first, second, strict=True):
        assert left.get_x() + left.get_width() <= right.get_x()


def test_colours_follow_beta_and_then_a_fixed_order():
    looks = looks_of(CASES["line"])
    tones = beta_tones(BETAS)
    assert [look.tone for look in looks] == [tones[beta] for beta in BETAS]
    assert [look.tone for look in looks_of(cloud(3))] == list(OTHERS[: len(METHODS)])
    plain, warm, paper = looks_of(CASES["line, reference"])
    assert (plain.tone, warm.tone, paper.tone) == (INK, OTHERS[0], MUTED)
    drawn = draw(CASES["line, reference"]).axes[0].lines
    assert [to_hex(line.get_color()) for line in drawn] == [INK.light, OTHERS[0].light, MUTED.light]
    assert [line.is_dashed() for line in drawn] == [False, False, True]


def test_series_of_one_beta_differ_in_their_line():
    looks = looks_of(chart("line", [of_beta(1.0), of_beta(1.0)]))
    assert looks[0].tone == looks[1].tone
    assert looks[0].line != looks[1].line


def test_many_points_become_an_image_and_stay_small():
    assert "data:image/png" in standalone_svg(cloud(1000))
    assert "data:image/png" not in standalone_svg(cloud(10))
    assert len(standalone_svg(cloud(5000))) < 400_000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (chart("pie", [of_beta(1.0)]), "kind must be one of line, .*, but got 'pie'"),
        (chart("line", []), "series of chart 'name' must hold at least one"),
        (chart("line", [Series("a", [1, 2], [1])]), "y of 'a' in chart 'name' must hold 2 values"),
        (chart("histogram", [Series("a", [1, 2], [1, 2])]), "y of 'a' .* must hold 1 values"),
        (chart("line", [Series("a", [1], [1], low=[1, 2])]), "low of 'a' .*, but got 2"),
        (chart("reliability", [Series("a", [0.5], [0.5])]), "size of 'a' .* samples per bin"),
        (
            chart("reliability", [Series("a", [0.5], [0.5], [0.4], [0.6], size=[3])]),
            "low and high of 'a' .* must be empty",
        ),
        (
            chart("ranks", [Series("a", [0], [1.0])]),
            "extra of chart 'name' must hold cd and sets",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(wrong, words):
    with pytest.raises(ValueError, match=words) as caught:
        draw(wrong)
    assert str(caught.value).count("\n") == 0


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "chart.svg"
    path.write_text("before")

    def fail(_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="full"):
        write_svg(Chart("g", "Gradient", "line", "p", "y", [Series("a", [0, 1], [1, 0])]), path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["chart.svg"]
