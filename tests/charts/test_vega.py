"""Charts as specifications: valid, complete, with gaps where there is nothing; and as files."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

import altair as alt

from softmargin.charts import KINDS, Chart, Series
from softmargin.charts.tones import GREEN, INK, beta_tone
from softmargin.charts.vega import caption, png, script, specification, svg

EPOCHS = list(range(1, 41))
BETAS = (5.0, 2.0, 1.0, 0.1, 0.01)
METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad s = 30", "ArcGrad s = 5")
SETS = ("breast cancer Wisconsin", "ionosphere", "iris", "vehicle silhouettes", "wine")
NOTE = "Desk scale, 5 seeds. Lines: mean over seeds; bands: from the lowest to the highest seed."
TITLE = "Accuracy on the test images after every epoch, for a network of three layers, by β"


def by_epoch(name, slope, **rest):
    y = [100 * (1 - math.exp(-slope * epoch)) for epoch in EPOCHS]
    return Series(name, EPOCHS, y, [v - 1 for v in y], [v + 1 for v in y], **rest)


def of_beta(beta):
    return by_epoch(f"β = {beta:g}", 0.1 / math.sqrt(beta), beta=beta)


def bins(name, shift=0.1, empty=3, **rest):
    middle = [(i + 0.5) / 10 for i in range(10)]
    size = [0] * empty + [1234] * (10 - empty)
    x = [None if n == 0 else v for v, n in zip(middle, size, strict=True)]
    y = [None if v is None else v - shift for v in x]
    return Series(name, x, y, size=size, **rest)


def chart(kind, series, **rest):
    given = {"x_label": "epoch", "y_label": "accuracy, %", "title": TITLE, "note": NOTE, **rest}
    return Chart("name", kind=kind, series=series, **given)


def bars(**rest):
    series = [
        Series("β = 1", [0, 1, 2], [903, 310, 57e3], [800, 300, 56e3], [1e3, 320, 57500], beta=1.0),
        Series("β = 0.5, paper", [0, 1, 2], [828, None, 58e3], beta=0.5, dashed=True),
    ]
    names = ("0 to 0.2", "0.2 to 0.8", "0.8 to 1")
    return chart("bars", series, categories=names, x_label="confidence", **rest)


def histogram(**rest):
    edges = [0.0, 10.0, 20.0, 30.0, 40.0]
    series = [Series("epoch 1", edges, [0, 3, 50, 900]), Series("epoch 40", edges, [800, 60, 2, 0])]
    return chart("histogram", series, x_label="angle, degrees", y_label="samples", **rest)


def ranks(values=range(1, 8), **extra):
    series = [Series(m, [0], [r]) for m, r in zip(METHODS, values, strict=False)]
    return chart("ranks", series, extra={"cd": 2.3, "sets": 15, **extra})


def cloud(count, **rest):
    draws = np.random.default_rng(0).normal(size=(len(METHODS), 2, count)).tolist()
    series = [Series(n, x, y) for n, (x, y) in zip(METHODS, draws, strict=True)]
    return chart("points", series, **rest)


CASES = {
    "line": chart("line", [of_beta(b) for b in BETAS]),
    "line, log": chart("line", [Series("ours", [0.01, 0.1, 1, 10], [3, 2, 1, 5])], log_x=True),
    "line, reference": chart(
        "line", [of_beta(1.0), by_epoch("0.01 → 0.1", 0.2), by_epoch("paper", 0.3, dashed=True)]
    ),
    "points": chart("points", [by_epoch("measured", 0.1), by_epoch("theory", 0.1, dashed=True)]),
    "points, named places": chart(
        "points", [Series(m, range(5), range(90, 95)) for m in METHODS], categories=SETS
    ),
    "points, equal": cloud(50, extra={"equal": 1}),
    "bars": bars(),
    "bars, log": bars(log_y=True),
    "bars, one place": chart("bars", [Series(m, [0], [i + 1]) for i, m in enumerate(METHODS)]),
    "histogram": histogram(),
    "histogram, log": histogram(log_y=True),
    "reliability": chart("reliability", [bins("β = 1", beta=1.0)]),
    "reliability, five": chart("reliability", [bins(f"β = {b:g}", beta=b) for b in BETAS]),
    "ranks": ranks(),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def rows(case, name="rows"):
    return specification(case)["datasets"][name]


def inside(value, name):
    """Return everything that stands under a name, however deep."""
    if isinstance(value, dict):
        found = [value[name]] if name in value else []
        return found + [each for v in value.values() for each in inside(v, name)]
    if isinstance(value, list):
        return [each for v in value for each in inside(v, name)]
    return []


def test_cases_cover_every_kind():
    assert {case.kind for case in CASES.values()} == set(KINDS)


@every_case
@pytest.mark.parametrize("page", [pytest.param(False, marks=pytest.mark.slow), True])
def test_specifications_are_valid_and_the_same_twice(case, page):
    found = specification(case, page=page)
    alt.Chart.from_dict(found, validate=True)
    assert found == specification(case, page=page)
    json.dumps(found, allow_nan=False)


@every_case
def test_colours_are_for_paper_or_variables_of_the_page(case):
    assert "var(--" not in json.dumps(specification(case))
    assert not re.search(r"#[0-9a-f]{6}", json.dumps(specification(case, page=True)))


@every_case
def test_every_series_can_be_read(case):
    found = specification(case, page=True)
    names = [row["series"] for row in found["datasets"]["rows"]]
    assert sorted(names) == sorted(each.name for each in case.series)
    assert all(name in found["description"] for name in names)
    for row in found["datasets"]["rows"]:
        assert all(isinstance(row[field], list) for field in found["usermeta"]["headings"])
    assert any(inside(found, "tooltip"))


@pytest.mark.parametrize("kind", ["line", "points", "histogram", "bars"])
def test_the_legend_chooses_series(kind):
    found = specification(CASES[kind], page=True)
    shown = next(each for each in found["params"] if each["name"] == "shown")
    assert shown["bind"] == "legend"
    assert "near" not in [each["name"] for each in specification(CASES[kind])["params"]]
    assert isinstance(found["encoding"]["color"]["legend"], dict)


def test_colours_and_dashes_of_the_legend_are_those_of_the_series():
    found = specification(CASES["line, reference"])
    colours = found["encoding"]["color"]["scale"]["range"]
    assert colours[:2] == [INK.light, GREEN.light]
    dashes = inside(found["layer"], "strokeDash")[0]["scale"]["range"]
    assert dashes[0] == [1, 0]
    assert dashes[2] not in dashes[:2]


@pytest.mark.parametrize("gap", [None, math.nan])
def test_gaps_stay_gaps(gap):
    y = [1.0, 2.0, gap, 4.0, gap, 6.0]
    (row,) = rows(chart("line", [Series("ours", range(6), y, y, y)]))
    assert row["y"] == row["low"] == [1.0, 2.0, None, 4.0, None, 6.0]
    series = Series("ours", range(20), [gap, 1.0, gap, *range(17)])
    (row,) = rows(chart("line", [series]))
    assert row["marked"] == [0, 1, *[0] * 18]  # alone between two gaps
    for kind in ("bars", "points"):
        assert rows(chart(kind, [Series("a", [0, 1], [1.0, gap])]))[0]["y"] == [1.0, None]
    counts = chart("histogram", [Series("a", [0, 1, 2, 3], [4, gap, 5])])
    assert rows(counts)[0]["y"] == [4, None, 5]
    assert rows(counts, "outlines")[0]["y"] == [0, 4, 0, 5, 5, 0]


def test_a_logarithmic_axis_has_no_place_for_0():
    (row,) = rows(chart("line", [Series("a", [0, 1, 10], [0, 2, 3])], log_x=True, log_y=True))
    assert (row["at"], row["y"]) == ([None, 1, 10], [None, 2, 3])
    ticks = inside(specification(bars(log_y=True)), "values")
    assert [100.0, 1000.0, 10000.0, 100000.0] in ticks
    floor = inside(specification(bars(log_y=True)), "calculate")[0]
    assert 0 < float(floor) < 300


def test_empty_bins_are_not_drawn_and_full_ones_are_where_they_belong():
    (row,) = rows(chart("reliability", [bins("plain", empty=4)]))
    assert row["from"] == [0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert row["samples"] == [1234] * 6
    assert row["ece"] == "ECE 10.0 %"
    between = zip(row["low"], row["accuracy"], row["high"], strict=True)
    assert all(low < accuracy < high for low, accuracy, high in between)


def test_reliability_has_a_panel_for_each_series_in_its_colour():
    found = specification(CASES["reliability, five"])
    assert [panel["title"]["text"] for panel in found["concat"]] == [f"β = {b:g}" for b in BETAS]
    colours = inside(found["concat"][0], "color")[0]["scale"]["range"]
    assert colours == [beta_tone(beta).light for beta in BETAS]
    assert "Outlined: the gap" in caption(CASES["reliability, five"])


def test_bars_of_one_place_stand_side_by_side():
    first, second = rows(bars())
    assert all(a < b for a, b in zip(first["right"], second["left"], strict=True))
    assert all(a < b for a, b in zip(second["right"], first["left"][1:], strict=False))


def test_bars_of_a_single_place_have_their_names_under_them():
    found = specification(CASES["bars, one place"])
    assert json.dumps([[name] for name in METHODS]) in inside(found, "labelExpr")[0]
    assert not any(inside(found["layer"], "legend"))


def test_equal_axes_have_units_of_one_length():
    found = specification(CASES["points, equal"])
    assert found["width"] == found["height"]
    x = found["encoding"]["x"]["scale"]["domain"]
    y = found["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert x[1] - x[0] == pytest.approx(y[1] - y[0])


# ---- ranks -----------------------------------------------------------------------------------

SEVEN = (5.03, 5.17, 3.43, 4.37, 5.20, 2.77, 2.03)


def spans(found):
    groups = found["datasets"]["groups"]
    return [(each["rank"], each["end"]) for each in groups]


def test_every_method_has_a_row_best_on_top():
    found = specification(ranks(SEVEN, cd=2.33))
    names = [row["row"] for row in found["datasets"]["rows"]]
    assert names[:2] == ["ArcGrad s = 5 (2.03)", "ArcGrad s = 30 (2.77)"]
    assert [row["rank"] for row in found["datasets"]["rows"]] == [[r] for r in sorted(SEVEN)]
    order = inside(found["layer"], "domain")[1]
    assert order[0] == "critical difference 2.33"
    assert order[-7:] == names


def test_bars_are_the_groups_and_the_yardstick_is_the_difference():
    found = specification(ranks(SEVEN, cd=2.33))
    # 2.03 to 4.37 is 2.34: not joined; 2.77 to 5.03 is; 3.43 to 5.20 is
    assert spans(found) == [(2.03, 3.43), (2.77, 5.03), (3.43, 5.20)]
    (ruler,) = found["datasets"]["yardstick"]
    assert ruler["end"] - ruler["rank"] == pytest.approx(2.33)
    assert spans(specification(ranks((1.0, 2.0), cd=0.5))) == []
    assert spans(specification(ranks((3.0,) * 5, cd=1.5))) == [(3.0, 3.0)]


def test_a_yardstick_longer_than_the_axis_makes_the_axis_longer():
    found = specification(ranks((1.1, 1.9), cd=4.0))
    assert inside(found["layer"], "domain")[0] == [1, 5]
    assert "(Nemenyi, 90 %)" in caption(ranks(level=0.9))


# ---- files -----------------------------------------------------------------------------------


FILES_TOO = ("bars", "reliability", "ranks", "points")


@pytest.mark.parametrize(
    "name",
    ["line", *(pytest.param(n, marks=pytest.mark.slow) for n in FILES_TOO)],
)
def test_a_file_is_svg_with_its_words_and_without_date_or_links(name):
    case = CASES[name]
    text = svg(case)
    root = ElementTree.fromstring(text)
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert root.find("svg:title", space).text == TITLE
    words = " ".join(" ".join(each.itertext()) for each in root.iter() if each.tag.endswith("text"))
    for expected in (*TITLE.split(), *NOTE.split(), *case.series[0].name.split()):
        assert expected in words
    assert not re.search(r"\b20\d\d-\d\d-\d\d", text)
    allowed = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r'https?://[^"]*', text)) <= allowed
    stored = json.loads(json.dumps(case.as_dict()))
    assert svg(Chart.from_dict(stored)) == text


def test_files_beside_each_other_agree_on_colours():
    other = chart("line", [Series("first", [0, 1], [0, 1]), Series("ours", [0, 1], [1, 0])])
    case = replace(CASES["line, log"], name="other")
    assert GREEN.light in svg(case)
    assert GREEN.light not in svg(case, [other, case])


def test_a_picture_is_there_too():
    assert png(CASES["histogram"], scale=1).startswith(b"\x89PNG")


def test_many_points_stay_small():
    assert len(svg(cloud(500))) < 1_000_000


@pytest.mark.slow
def test_the_script_can_stand_in_a_page():
    found = script()
    assert "</script" not in found.lower()
    assert len(found.encode()) < 1_200_000


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
        (chart("ranks", [Series("a", [0], [1.0])]), "extra of chart 'name' must hold cd and sets"),
        (ranks((1.0,)), "ranks must hold at least 2 methods, but got 1."),
        (ranks((1.0, 2.5)), "from 1 to the number of methods, 2, but got 2.5 for 'Center'."),
        (ranks((1.0, math.nan)), "from 1 to the number of methods, 2, but got None for 'Center'."),
        (ranks((1.0, 2.0), cd=-1.0), "cd must be a finite number above 0, but got -1.0."),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(wrong, words):
    with pytest.raises(ValueError, match=words) as caught:
        specification(wrong)
    assert str(caught.value).count("\n") == 0


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_a_missing_package_is_named(missing):
    code = (
        f"import sys; sys.modules['{missing}'] = None\n"
        "from softmargin.charts import Chart, Series\n"
        "from softmargin.charts.vega import svg\n"
        "svg(Chart('a', 'A', 'line', 'x', 'y', [Series('s', [0, 1], [0, 1])]))"
    )
    sentence = f'Charts need {missing}, which is missing: pip install "softmargin[lab]".'
    assert python(code) == f"ModuleNotFoundError: {sentence}"


def test_charts_as_data_need_no_package_that_draws():
    code = (
        "import sys, softmargin.charts, softmargin.charts.vega;"
        "print({'altair', 'vl_convert', 'matplotlib'} & set(sys.modules))"
    )
    assert python(code) == "set()"


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_long_names_under_an_axis_are_not_cut(count):
    name = "CIFAR-10, residual network, no augmentation"
    series = [Series("β = 1", list(range(count)), [1.0] * count)]
    text = svg(chart("bars", series, categories=(name,) * count, x_label="data"))
    shown = " ".join(re.findall(r"<t[^>]*>([^<]+)<", text))
    assert shown.count(name) == count
    assert "…" not in shown
