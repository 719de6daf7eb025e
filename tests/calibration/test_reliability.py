"""What a reliability diagram draws."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from softmargin import calibration
from softmargin.calibration import (
    CalibrationMetrics,
    bin_statistics,
    confidence_diagram,
    reliability_diagram,
    reliability_diagrams,
)
from softmargin.calibration.intervals import wilson_interval
from softmargin.calibration.reliability import _short

CONFIDENCE = torch.tensor([0.62, 0.64, 0.68, 0.95, 1.0])
CORRECT = torch.tensor([1, 0, 1, 1, 1])


def drawn(histogram=True):
    figure = Figure()
    axes, below = figure.subplots(2, 1)
    statistics = bin_statistics(CONFIDENCE, CORRECT)
    reliability_diagram(axes, statistics, below if histogram else None)
    return figure, axes, below


def test_only_bins_with_predictions_have_bars():
    _, axes, below = drawn()
    accuracy, gap = axes.containers
    assert [bar.get_x() for bar in accuracy] == pytest.approx([0.6, 0.9])
    assert [bar.get_height() for bar in accuracy] == pytest.approx([2 / 3, 1.0])
    (counts,) = below.containers
    assert [bar.get_height() for bar in counts] == [3, 2]
    assert [text.get_text() for text in below.texts] == ["3", "2"]
    assert len(gap) == 2


def test_the_gap_reaches_from_accuracy_to_mean_confidence():
    _, axes, _ = drawn()
    lower = [bar.get_y() for bar in axes.containers[1]]
    upper = [bar.get_y() + bar.get_height() for bar in axes.containers[1]]
    assert lower == pytest.approx([1.94 / 3, 0.975])
    assert upper == pytest.approx([2 / 3, 1.0])


def test_the_error_is_written_in():
    _, axes, _ = drawn()
    error = bin_statistics(CONFIDENCE, CORRECT).expected_calibration_error()
    assert axes.get_title("right") == f"ECE {100 * error:.1f} %"


def test_it_makes_room_for_counts_where_none_is_given():
    figure, axes, _ = drawn(histogram=False)
    assert len(axes.child_axes) == 1
    figure.canvas.draw()


def test_interval_bars_are_wilsons():
    _, axes, _ = drawn()
    (bars,) = (each for each in axes.collections if len(each.get_segments()) == 2)
    low, high = wilson_interval(np.array([2 / 3, 1.0]), np.array([3.0, 2.0]))
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(np.stack([low, high], 1), abs=1e-6)
    assert [segment[0, 0] for segment in bars.get_segments()] == pytest.approx([0.65, 0.95])


def test_intervals_are_those_of_the_level_and_the_weights():
    widths = []
    for level, weight in ((0.95, None), (0.5, None), (0.95, [4.0, 1.0, 1.0, 1.0, 1.0])):
        weight = None if weight is None else torch.tensor(weight)
        statistics = bin_statistics(CONFIDENCE, CORRECT, sample_weight=weight)
        axes, below = Figure().subplots(2, 1)
        reliability_diagram(axes, statistics, below, confidence_level=level)
        (bars,) = (each for each in axes.collections if len(each.get_segments()) == 2)
        widths.append(np.ptp(bars.get_segments()[0][:, 1]))
    assert widths[1] < widths[0] < widths[2]  # three samples that weigh as two


def test_the_bins_of_an_accumulator_can_be_drawn():
    metrics = CalibrationMetrics(3, from_logits=True)
    metrics.update(torch.randn(200, 3), torch.randint(0, 3, (200,)))
    bins = metrics.compute().bins
    axes, below = Figure().subplots(2, 1)
    reliability_diagram(axes, bins, below)
    filled = [count for count in bins.counts.tolist() if count]
    assert [bar.get_height() for bar in below.containers[0]] == filled


def test_before_and_after_stand_side_by_side():
    figure = Figure(figsize=(8, 4), layout="constrained")
    before = bin_statistics(CONFIDENCE, CORRECT)
    after = bin_statistics(CONFIDENCE * 0.9, CORRECT)
    reliability_diagrams(figure, [before, after], ["as trained", "scaled"])
    figure.canvas.draw()
    top = [axes for axes in figure.axes if axes.get_title("left")]
    assert [axes.get_title("left") for axes in top] == ["as trained", "scaled"]
    assert [axes.get_title("right") for axes in top] == [
        f"ECE {100 * each.expected_calibration_error():.1f} %" for each in (before, after)
    ]
    assert len(figure.axes) == 4
    left, right = (axes.get_position() for axes in top)
    assert left.x1 < right.x0
    with pytest.raises(ValueError, match="one entry per diagram, but got 1, 2 and 2"):
        reliability_diagrams(Figure(), [before])


def test_the_confidence_diagram_has_both_means():
    axes = Figure().add_subplot()
    confidence_diagram(axes, bin_statistics(CONFIDENCE, CORRECT))
    (bars,) = axes.containers
    assert [bar.get_height() for bar in bars] == pytest.approx([0.6, 0.4])
    assert [line.get_xdata()[0] for line in axes.lines] == pytest.approx(
        [CONFIDENCE.mean().item(), 0.8]
    )
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["mean confidence 77.8 %", "accuracy 80.0 %"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (9999, "9999"), (12_345, "12k"), (999_600, "1M"), (3e6, "3M")]
)
def test_counts_are_short(count, text):
    assert _short(count) == text


def test_the_old_name_of_the_confidence_diagram_still_draws():
    axes = Figure().add_subplot()
    with pytest.warns(DeprecationWarning, match="renamed to confidence_diagram"):
        calibration.confidence_histogram(axes, bin_statistics(CONFIDENCE, CORRECT))
    assert len(axes.lines) == 2
