"""Histograms, groups and data maps of plain tensors against plain loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorder_reference import groups, histogram

from softmargin.diagnostics import confidence_groups, confidence_histogram, data_map

VALUES = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, math.nan])
TABLES = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=4)
)


def test_edges_belong_to_the_bin_below():
    edges = [0.2, 0.4, 0.6, 0.8]
    for dtype in (torch.float32, torch.float64):
        assert confidence_histogram(torch.tensor(edges, dtype=dtype)).tolist() == [1, 1, 1, 1, 0]
    above = np.nextafter(edges, 1)
    assert confidence_histogram(torch.tensor(above)).tolist() == [0, 1, 1, 1, 1]
    assert confidence_histogram(torch.tensor([0.0, 1.0])).tolist() == [1, 0, 0, 0, 1]


@given(TABLES)
@settings(max_examples=80)
def test_histograms_are_those_of_loops(rows):
    table = torch.tensor(rows, dtype=torch.float64)
    assert confidence_histogram(table).tolist() == [histogram(row) for row in rows]


@given(TABLES, st.integers(1, 6))
@settings(max_examples=120)
def test_groups_are_those_of_loops_with_ties_and_gaps(rows, count):
    table = torch.tensor(rows, dtype=torch.float64)
    curves, members = groups(rows, count)
    found = confidence_groups(table, count)
    assert found.members.tolist() == members
    np.testing.assert_allclose(found.curves, curves, atol=1e-15)
    both = confidence_groups(torch.stack([table, 1 - table]), count)
    assert both.members[0].tolist() == members
    np.testing.assert_array_equal(both.curves[0], found.curves)


def test_groups_are_equal_and_go_from_hard_to_easy():
    final = torch.rand(1, 103, generator=torch.Generator().manual_seed(0))
    found = confidence_groups(final)
    sizes = found.members.bincount()
    assert sizes.max() - sizes.min() == 1
    assert found.curves[0].diff().gt(0).all()


def test_groups_follow_a_more_precise_order():
    rounded = torch.full((1, 4), 1.0)
    final = torch.tensor([0.9999, 0.9997, 0.9998, 0.9996])
    assert confidence_groups(rounded, 2, final).members.tolist() == [1, 0, 1, 0]


def test_a_data_map_of_tensors_is_that_of_numpy():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(2, 6, 30, generator=generator)
    confidence[torch.rand(2, 6, 30, generator=generator) < 0.2] = math.nan
    confidence[:, :, 4] = math.nan
    right = torch.rand(2, 6, 30, generator=generator) < 0.5
    margin = torch.randn(2, 6, 30, generator=generator)
    found = data_map(confidence, right, margin)
    for k in range(2):
        for i in range(30):
            p, r, m = (x[k, :, i].double().numpy() for x in (confidence, right, margin))
            seen = ~np.isnan(p)
            ours = [
                getattr(found, name)[k, i].item()
                for name in ("confidence", "variability", "correctness", "aum")
            ]
            if not seen.any():
                assert np.isnan(ours).all()
                assert not found.never_learned[k, i]
                continue
            p, r, m = p[seen], r[seen], m[seen]
            assert ours == pytest.approx([p.mean(), p.std(), r.mean(), m.mean()], abs=1e-12)
            assert found.forgetting[k, i] == ((r[:-1] == 1) & (r[1:] == 0)).sum()
            assert found.never_learned[k, i] == (not r.any())


def test_what_was_not_seen_needs_neither_margin_nor_correctness():
    gaps = torch.full((2, 3), math.nan)
    assert confidence_histogram(gaps).tolist() == [[0] * 5] * 2
    assert confidence_groups(gaps).members.tolist() == [-1] * 3
    found = data_map(gaps, gaps, gaps)
    assert bool(found.aum.isnan().all())
    assert not bool(found.never_learned.any())


P = torch.full((2, 3), 0.25)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: confidence_histogram([0.1]), TypeError, "confidence must be a floating"),
        (lambda: confidence_histogram(torch.tensor([1.5])), ValueError, "0 and 1, but got 1.5"),
        (lambda: confidence_histogram(torch.empty(0)), ValueError, "must not be empty"),
        (lambda: confidence_groups(torch.rand(3)), ValueError, r"\(\.\.\., E, N\)"),
        (lambda: confidence_groups(torch.rand(2, 3), 0), ValueError, "count must be at least 1"),
        (
            lambda: confidence_groups(torch.rand(2, 3), 2, torch.rand(2)),
            ValueError,
            r"final must have shape \(3,\), but got \(2,\)",
        ),
        (
            lambda: data_map(torch.rand(2, 3), torch.rand(2, 3) > 0, torch.rand(2, 4)),
            ValueError,
            r"margin must have confidence's shape \(2, 3\), but got \(2, 4\)",
        ),
        (lambda: confidence_groups(torch.rand(2, 3), 2, [0.1] * 3), TypeError, "final .* got list"),
        (lambda: data_map(P, [[1.0]], P), TypeError, "correct must be a tensor, but got list"),
        (lambda: data_map(P, P > 0, 3), TypeError, "margin must be a tensor, but got int"),
        (lambda: data_map(P, P, P), ValueError, "correct must hold 0 and 1, but got 0.25"),
        (lambda: data_map(P, (P > 0) * 2, P), ValueError, "correct must hold 0 and 1, but got 2"),
        (
            lambda: data_map(P, P > 0, P * math.nan),
            ValueError,
            "margin must be a number wherever confidence is, but 6 of 6 are NaN",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
