"""The critical-difference diagram: everything on it is true, legible and inside the figure."""

import itertools
import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from softmargin.report.figures import GREEN, INK, house_style, to_svg
from softmargin.report.ranks import critical_difference_figure

SEVEN = {
    "Soft": 5.03,
    "Center": 5.17,
    "M-Soft": 3.43,
    "ArcFace": 4.37,
    "AdaCos": 5.20,
    "ArcGrad 30": 2.77,
    "ArcGrad 5": 2.03,
}
TEN = {
    "Soft": 6.9,
    "Center": 6.83,
    "M-Soft": 4.5,
    "ArcFace": 5.9,
    "AdaCos": 7.07,
    "ArcGrad 30": 3.5,
    "ArcGrad 5": 2.57,
    "gradient decay β = 5": 5.87,
    "gradient decay β = 0.1": 7.2,
    "logit regulariser λ = 0.3": 4.67,
}
ALL_TIED = dict.fromkeys("abcde", 3.0)
TWO = {"plain": 1.9, "margin": 1.1}
CASES = [(SEVEN, 2.33), (TEN, 3.5), (TEN, 0.8), (ALL_TIED, 1.58), (TWO, 0.51), (TWO, 4.0)]


def drawn(figure):
    """Lay the figure out, as saving does, and return its texts and their boxes in pixels."""
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = [t for t in (*axes.texts, axes.title, axes._left_title) if t.get_text()]
    return [(t.get_text(), t.get_window_extent().padded(-0.5)) for t in texts]


def lines_of(figure, tone):
    lines = figure.axes[0].lines
    return [line for line in lines if line.get_color() == tone.light]


@pytest.mark.parametrize(("ranks", "cd"), CASES)
def test_no_text_overlaps_another_or_leaves_the_figure(ranks, cd):
    figure = critical_difference_figure(ranks, cd, 15)
    boxes = drawn(figure)
    assert len(boxes) == 2 * len(ranks) + 3  # names, numbers, title, difference, what bars mean
    for (first, a), (second, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), (first, second)
    for text, box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text


@pytest.mark.parametrize("ranks", [SEVEN, TEN])
def test_axis_keeps_half_the_width_and_no_line_runs_through_a_text(ranks):
    figure = critical_difference_figure(ranks, 2.33, 15)
    boxes = drawn(figure)
    axes = figure.axes[0]
    assert axes.get_window_extent().width > 0.45 * figure.bbox.width
    for line in axes.lines:
        corners = line.get_transform().transform(line.get_xydata())
        for start, end in itertools.pairwise(corners):
            along = start + np.linspace(0, 1, 200)[:, None] * (end - start)
            for text, box in boxes:
                inside = [box.contains(*point) for point in along]
                assert not any(inside), (text, line.get_xydata())


def test_every_method_is_named_with_its_rank_and_marked_on_the_axis():
    figure = critical_difference_figure(SEVEN, 2.33, 15)
    texts = [text for text, _ in drawn(figure)]
    for name, rank in SEVEN.items():
        on_a_side = {f"{name}  {rank:.2f} ", f" {rank:.2f}  {name}"}
        assert len(on_a_side.intersection(texts)) == 1
    dots = [line.get_xdata()[0] for line in lines_of(figure, INK) if line.get_marker() == "o"]
    assert sorted(dots) == sorted(SEVEN.values())


def test_better_half_stands_on_the_left_best_on_top():
    figure = critical_difference_figure(SEVEN, 2.33, 15)
    boxes = dict(drawn(figure))
    left = [text for text, box in boxes.items() if re.search(r"\S  \d\.\d\d $", text)]
    heights = [boxes[text].y0 for text in left]
    assert [text.rsplit("  ", 1)[0] for text in left] == [
        "ArcGrad 5",
        "ArcGrad 30",
        "M-Soft",
        "ArcFace",
    ]
    assert heights == sorted(heights, reverse=True)


def test_bars_are_the_cliques_and_the_yardstick_is_the_difference():
    figure = critical_difference_figure(SEVEN, 2.33, 15)
    bars = [line.get_xdata() for line in lines_of(figure, GREEN)]
    # 2.03 to 4.37 is 2.34: not joined; 2.77 to 5.03 is; 3.43 to 5.20 is
    joined = np.array([[2.03, 3.43], [2.77, 5.03], [3.43, 5.20]])
    overhang = (bars - joined) * [-1, 1]
    assert ((overhang > 0) & (overhang < 0.1)).all()
    yardstick = [line for line in lines_of(figure, INK) if line.get_marker() == "|"]
    assert [np.ptp(line.get_xdata()) for line in yardstick] == [pytest.approx(2.33)]


@pytest.mark.parametrize(
    ("ranks", "cd", "bars_by_row"),
    [
        (TEN, 0.8, [3]),  # 4.5 to 4.67, 5.87 to 5.9, 6.83 to 7.2
        (SEVEN, 2.33, [1, 1, 1]),
        (dict(zip("abcdef", (1.0, 1.5, 4.0, 4.8, 5.6, 6.0), strict=True)), 1.0, [3, 1]),
    ],
)
def test_bars_in_one_row_do_not_touch(ranks, cd, bars_by_row):
    rows = {}
    for line in lines_of(critical_difference_figure(ranks, cd, 15), GREEN):
        rows.setdefault(line.get_ydata()[0], []).append(tuple(line.get_xdata()))
    assert [len(rows[height]) for height in sorted(rows)] == bars_by_row
    for bars in rows.values():
        for (_, end), (start, _) in itertools.pairwise(bars):
            assert end < start


def test_lines_to_the_left_and_to_the_right_never_look_like_one():
    boxes = drawn(critical_difference_figure(TEN, 3.5, 15))
    names = [(text, box) for text, box in boxes if re.search(r"\d\.\d\d", text)]
    heights = [round((box.y0 + box.y1) / 2) for text, box in names if "critical" not in text]
    assert len(set(heights)) == len(TEN)


def test_says_what_it_shows():
    words = " ".join(t for t, _ in drawn(critical_difference_figure(SEVEN, 2.326, 15, level=0.9)))
    assert "Average rank over 15 data sets (1 is best)" in words
    assert "critical difference 2.33 (Nemenyi, 90 %)" in words
    assert "no two of its methods are significantly different" in words
    apart = critical_difference_figure({"a": 1.0, "b": 2.0}, 0.5, 30)
    assert "all methods are significantly different" in " ".join(t for t, _ in drawn(apart))
    assert not lines_of(apart, GREEN)


def test_a_yardstick_longer_than_the_axis_ends_in_an_arrow():
    figure = critical_difference_figure(TWO, 4.0, 3)
    ends = [line.get_xdata().max() for line in lines_of(figure, INK) if line.get_marker() in "|>"]
    assert ends == [2.0, 2.0]
    assert "longer than the axis" in " ".join(text for text, _ in drawn(figure))


def test_goes_into_a_page_without_a_colour_of_its_own():
    with house_style():
        svg = to_svg(critical_difference_figure(SEVEN, 2.33, 15), "cd", "Average ranks", [])
    assert "ArcGrad 30" in svg
    left = set(re.findall(r"#[0-9a-f]{6}\b", svg))
    assert not left, left


@pytest.mark.parametrize(
    ("ranks", "cd", "sentence"),
    [
        ({"a": 1.0}, 1.0, "ranks must hold at least 2 methods, but got 1."),
        (
            {"a": 1.0, "b": 2.5},
            1.0,
            "ranks must be from 1 to the number of methods, 2, but got 2.5 for 'b'.",
        ),
        (
            {"a": 1.0, "b": float("nan")},
            1.0,
            "ranks must be from 1 to the number of methods, 2, but got nan for 'b'.",
        ),
        (TWO, -1.0, "cd must be a finite number above 0, but got -1.0."),
    ],
)
def test_bad_input_gets_one_sentence(ranks, cd, sentence):
    with pytest.raises(ValueError) as raised:
        critical_difference_figure(ranks, cd, 15)
    assert str(raised.value) == sentence
