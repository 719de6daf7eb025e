"""Bins of confidence: their edges, and which bin a value belongs to."""

import math

import numpy as np
import pytest
import torch
from calibration_reference import (
    slow_bin,
    slow_classwise,
)
from hypothesis import given
from hypothesis import strategies as st

from softmargin.calibration import (
    bin_statistics,
    calibration_metrics,
)
from softmargin.calibration.binning import ConfidenceCells, bin_edges, bin_index


@given(
    st.lists(st.floats(0, 1) | st.integers(0, 60).map(lambda i: i / 60), min_size=1, max_size=30),
    st.integers(1, 60),
    st.sampled_from(["right", "left"]),
)
def test_the_bin_is_the_one_searchsorted_finds(values, bins, closed):
    edges = bin_edges(bins)
    near = torch.tensor(values, dtype=torch.float64)
    near = torch.cat(
        [near, edges, *(torch.nextafter(edges, x * torch.ones(1)) for x in (0.0, 1.0))]
    )
    expected = torch.searchsorted(edges[1:-1], near, right=closed == "left")
    assert torch.equal(bin_index(near, edges, closed), expected)
    assert [slow_bin(x, bins, closed) for x in near.tolist()] == expected.tolist()
    cells = ConfidenceCells(bins, closed)
    place = cells.index(near)
    assert 0 <= int(place.min()) <= int(place.max()) < len(cells)
    assert torch.equal(cells.bin_of_cell[place], expected)
    order = near.argsort()
    assert (place[order].diff() >= 0).all()


def test_values_on_the_edges_belong_to_the_bin_on_their_left():
    edges = torch.tensor([m / 10 for m in range(11)], dtype=torch.float64)
    statistics = bin_statistics(edges, torch.ones(11), 10)
    assert statistics.counts.tolist() == [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]  # 0 joins 0.1
    left = bin_statistics(edges, torch.ones(11), 10, closed="left")
    assert left.counts.tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]  # 1 joins 0.9
    just_above = edges[:-1] + 1e-12
    assert bin_statistics(just_above, torch.ones(10), 10).counts.tolist() == [1] * 10


def test_empty_bins_are_nan_and_count_for_nothing():
    statistics = bin_statistics(torch.tensor([0.75]), torch.tensor([True]), 4)
    assert statistics.accuracy.isnan().tolist() == [True, True, False, True]
    assert statistics.gaps[2].item() == pytest.approx(-0.25)
    assert statistics.expected_calibration_error() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("confidence", "correct", "options", "message"),
    [
        ([], [], {}, "confidence must hold at least one value"),
        ([0.5, math.nan], [1, 0], {}, "from 0 to 1, but got nan in row 1"),
        ([0.5, 1.01], [1, 0], {}, "from 0 to 1, but got 1.01 in row 1"),
        ([-0.1, 0.2], [1, 0], {}, "from 0 to 1, but got -0.1 in row 0"),
        ([0.5, math.inf], [1, 0], {}, "from 0 to 1, but got inf in row 1"),
        ([0.5], [2], {}, "correct must hold 0 and 1"),
        ([0.5], [math.nan], {}, "correct must hold 0 and 1"),
        ([0.5], [1, 0], {}, "both have shape"),
        ([[0.5]], [[1]], {}, "both have shape"),
        ([0.5], [1], {"bins": 0}, "bins must be an integer of at least 1, but got 0"),
        ([0.5], [1], {"bins": 2.5}, "bins must be an integer of at least 1, but got 2.5"),
        ([0.5], [1], {"bins": True}, "bins must be an integer of at least 1, but got True"),
        ([0.5], [1], {"closed": "both"}, "closed must be one of right, left, but got 'both'"),
        ([0.5], [1], {"sample_weight": torch.zeros(1)}, "above 0 for at least one row"),
        ([0.5], [1], {"sample_weight": torch.ones(2)}, "of shape \\(1,\\), one per target"),
        ([0.5], [1], {"sample_weight": -torch.ones(1)}, "at least 0, but got -1 in row 0"),
    ],
)
def test_bad_confidences_get_one_sentence(confidence, correct, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        bin_statistics(torch.tensor(confidence), torch.tensor(correct), **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("as_array", [torch.DoubleTensor, np.array])
def test_a_confidence_of_m_out_of_bins_is_on_an_edge(closed, as_array):
    """Edges are m / M rounded correctly, as Python divides; 11 / 20 closes bin 11 of 20."""
    for bins in range(1, 201):
        edges = [m / bins for m in range(bins + 1)]
        assert bin_edges(bins).tolist() == edges
        found = bin_statistics(as_array(edges), as_array([1] * len(edges)), bins, closed=closed)
        expected = [1] * bins
        expected[0 if closed == "right" else -1] += 1  # 0 is in the first bin, 1 in the last
        assert found.counts.tolist() == expected
        assert found.edges.tolist() == edges


@pytest.mark.parametrize("bins", [3, 6, 10, 20, 49, 200])
def test_every_count_by_bins_uses_the_same_edges(bins):
    """The accumulator, its fine histogram and the bins of every class agree on the edges."""
    share = torch.tensor([m / bins for m in range(bins + 1)], dtype=torch.float64)
    predictions = torch.stack([share, 1 - share], 1)
    result = calibration_metrics(
        predictions, torch.zeros(bins + 1, dtype=torch.int64), from_logits=False, bins=bins
    )
    confidence = predictions.amax(1)
    expected = [0] * bins
    for each in confidence.tolist():
        expected[slow_bin(each, bins)] += 1
    assert result.bins.counts.tolist() == expected
    assert result.bins.edges.tolist() == share.tolist()
    by_class = slow_classwise(predictions.tolist(), [0] * (bins + 1), bins)
    assert result.classwise_errors.tolist() == pytest.approx(by_class, abs=1e-12)
    cells = ConfidenceCells(bins)
    for value in share.tolist():
        cell = cells.index(torch.tensor([value], dtype=torch.float64))
        assert int(cells.bin_of_cell[cell]) == slow_bin(value, bins)
