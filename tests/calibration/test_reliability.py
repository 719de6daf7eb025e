"""What a reliability diagram draws."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from softmargin.calibration import bin_statistics, reliability_diagram
from softmargin.calibration.reliability import wilson_interval

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


def test_wilson_interval_has_its_textbook_values():
    low, high = wilson_interval(np.array([1.0, 0.5, 0.0]), np.array([10.0, 10.0, 10.0]))
    assert low == pytest.approx([0.7225, 0.2366, 0.0], abs=1e-4)
    assert high == pytest.approx([1.0, 0.7634, 0.2775], abs=1e-4)


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (1, 1), (3, 7), (37, 40), (999, 1000)])
def test_wilson_interval_is_scipys(hits, count):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    low, high = wilson_interval(np.array([hits / count]), np.array([float(count)]))
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-7)
