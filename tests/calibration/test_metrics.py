"""Calibration metrics against independent slow implementations, and at the edges."""

import inspect
import math

import numpy as np
import pytest
import torch
from calibration_reference import (
    simulate,
    slow_bin,
    slow_bins,
    slow_classwise,
    slow_ece,
    slow_equal_mass,
    slow_ks,
)
from hypothesis import given
from hypothesis import strategies as st

from softmargin import calibration
from softmargin.calibration import (
    accuracy,
    bin_statistics,
    brier_decomposition,
    brier_score,
    calibration_error,
    calibration_metrics,
    classwise_calibration_error,
    debiased_calibration_error,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    overconfidence,
    rms_calibration_error,
    smooth_calibration_error,
    top_k_accuracy,
    top_label,
)
from softmargin.calibration.binning import ConfidenceCells, bin_edges, bin_index

CLOSED = pytest.mark.parametrize("closed", ["right", "left"])


@CLOSED
@pytest.mark.parametrize("bins", [1, 2, 7, 10, 15, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_binned_errors_agree_with_a_slow_loop(bins, dtype, closed):
    generator = torch.Generator().manual_seed(bins)
    confidence = torch.rand(500, generator=generator, dtype=torch.float64).to(dtype)
    correct = torch.rand(500, generator=generator) < confidence
    filled = slow_bins(confidence.double().tolist(), correct.tolist(), bins, closed=closed)
    gaps = [abs(c - a) for _, c, a in filled]
    squared = math.fsum(n * gap**2 for (n, _, _), gap in zip(filled, gaps, strict=True)) / 500
    noise = math.fsum(n * a * (1 - a) / (n - 1) for n, _, a in filled if n > 1) / 500
    lone = math.fsum(gap**2 for (n, _, _), gap in zip(filled, gaps, strict=True) if n == 1) / 500
    for function, expected in (
        (expected_calibration_error, slow_ece(confidence.tolist(), correct, bins, closed=closed)),
        (maximum_calibration_error, max(gaps)),
        (rms_calibration_error, math.sqrt(squared)),
        (debiased_calibration_error, math.sqrt(max(squared - noise - lone, 0.0))),
    ):
        assert function(confidence, correct, bins, closed=closed) == pytest.approx(
            expected, abs=1e-12
        )


def test_every_norm_is_that_of_its_function_and_of_the_bins():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(200, generator=generator, dtype=torch.float64)
    correct = torch.rand(200, generator=generator) < confidence
    weight = torch.rand(200, generator=generator)
    statistics = bin_statistics(confidence, correct, 7, sample_weight=weight, closed="left")
    for norm, function in (
        ("l1", expected_calibration_error),
        ("l2", rms_calibration_error),
        ("max", maximum_calibration_error),
        ("debiased_l2", debiased_calibration_error),
    ):
        settings = {"sample_weight": weight, "closed": "left"}
        value = calibration_error(confidence, correct, 7, norm=norm, **settings)
        assert value == function(confidence, correct, 7, **settings)
        assert value == statistics.calibration_error(norm)
    with pytest.raises(ValueError, match="norm must be one of l1, l2, max, debiased_l2, but got 2"):
        calibration_error(confidence, correct, norm=2)


def test_sample_weights_are_repetitions():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(300, generator=generator, dtype=torch.float64)
    correct = torch.rand(300, generator=generator) < confidence
    weight = torch.randint(0, 4, (300,), generator=generator)
    repeated = confidence.repeat_interleave(weight), correct.repeat_interleave(weight)
    for function in (
        expected_calibration_error,
        maximum_calibration_error,
        rms_calibration_error,
        equal_mass_calibration_error,
        ks_calibration_error,
        smooth_calibration_error,
        overconfidence,
    ):
        ours = function(confidence, correct, sample_weight=weight)
        assert ours == pytest.approx(function(*repeated), abs=1e-12)
        scaled = function(confidence, correct, sample_weight=weight * 0.125)
        assert scaled == pytest.approx(ours, abs=1e-12)


@pytest.mark.parametrize("bins", [1, 3, 10, 15])
def test_equal_mass_agrees_with_a_slow_reference(bins):
    confidence, correct = top_label(*simulate(997, 10), from_logits=True)
    expected = slow_equal_mass(confidence.tolist(), correct.tolist(), bins)
    ours = equal_mass_calibration_error(confidence, correct, bins)
    assert ours == pytest.approx(expected, abs=1e-12)
    # with ties, of which none comes first whatever the order
    tied = (confidence * 8).round() / 8
    expected = slow_equal_mass(tied.tolist(), correct.tolist(), bins)
    for order in (torch.arange(997), torch.randperm(997)):
        ours = equal_mass_calibration_error(tied[order], correct[order], bins)
        assert ours == pytest.approx(expected, abs=1e-12)


def test_equal_mass_is_sort_and_split_where_that_is_defined():
    confidence, correct = top_label(*simulate(1000, 10), from_logits=True)
    parts = np.array_split((confidence - correct.double())[confidence.argsort()].numpy(), 10)
    expected = sum(abs(part.sum()) for part in parts) / 1000
    assert equal_mass_calibration_error(confidence, correct) == pytest.approx(expected, abs=1e-12)


def test_ks_agrees_with_a_slow_reference():
    confidence, correct = top_label(*simulate(500, 5), from_logits=True)
    for each in (confidence, (confidence * 8).round() / 8):
        expected = slow_ks(each.tolist(), correct.tolist())
        assert ks_calibration_error(each, correct) == pytest.approx(expected, abs=1e-12)


@CLOSED
@pytest.mark.parametrize("classes", [2, 7, 40])
def test_classwise_agrees_with_a_slow_reference(classes, closed):
    logits, target = simulate(300, classes)
    probabilities = logits.double().softmax(1)
    for bins in (1, 4, 15):
        slow = slow_classwise(probabilities.tolist(), target.tolist(), bins, closed)
        for predictions, from_logits in ((logits, True), (probabilities, False)):
            settings = {"from_logits": from_logits, "bins": bins, "closed": closed}
            ours = classwise_calibration_error(predictions, target, **settings)
            assert ours == pytest.approx(sum(slow) / classes, abs=1e-12)
            result = calibration_metrics(predictions, target, **settings)
            assert result.classwise_errors.tolist() == pytest.approx(slow, abs=1e-12)


def test_a_class_that_never_occurs_counts_in_the_classwise_error():
    p = torch.tensor([[0.5, 0.3, 0.2]] * 10)
    error = classwise_calibration_error(p, torch.tensor([0, 1] * 5), from_logits=False)
    assert error == pytest.approx((0.0 + 0.2 + 0.2) / 3, abs=1e-7)


def test_brier_parts_are_murphys_where_bins_hold_one_value():
    generator = torch.Generator().manual_seed(0)
    kinds = torch.tensor([[0.05, 0.15, 0.8], [0.35, 0.25, 0.4], [0.65, 0.05, 0.3]]).double()
    kind = torch.randint(0, 3, (400,), generator=generator)
    target = torch.randint(0, 3, (400,), generator=generator)
    parts = brier_decomposition(kinds[kind], target, from_logits=False)
    reliability = resolution = uncertainty = 0.0
    for k in range(3):
        share = float((target == k).double().mean())
        uncertainty += share * (1 - share)
        for p in kinds[:, k].unique():
            inside = kinds[kind][:, k] == p
            there = float((target[inside] == k).double().mean())
            reliability += float(inside.double().mean()) * (float(p) - there) ** 2
            resolution += float(inside.double().mean()) * (there - share) ** 2
    assert parts == pytest.approx((reliability, resolution, uncertainty), abs=1e-12)


def test_brier_parts_add_up():
    logits, target = simulate(500, 8)
    parts = brier_decomposition(logits, target, from_logits=True)
    total = parts.reliability - parts.resolution + parts.uncertainty
    assert total == pytest.approx(brier_score(logits, target, from_logits=True), abs=1e-12)
    assert min(parts) > 0


def test_ties_go_to_the_first_class():
    predictions = torch.tensor([[1.0, 1.0, 0.0, 1.0]] * 4)
    target = torch.arange(4)
    assert top_label(predictions, target, from_logits=True).correct.tolist() == [1, 0, 0, 0]
    shares = [top_k_accuracy(predictions, target, k) for k in (1, 2, 3, 4)]
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert accuracy(predictions, target) == 0.25


@pytest.mark.parametrize("classes", [3, 50])
def test_top_k_is_torchs(classes):
    logits, target = simulate(400, classes)
    for k in (1, 2, 5):
        if k <= classes:
            expected = (logits.topk(k).indices == target.unsqueeze(1)).any(1).double().mean()
            assert top_k_accuracy(logits, target, k) == pytest.approx(float(expected))
    assert top_k_accuracy(logits, target, 1000) == 1.0


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


def test_a_probability_of_zero_makes_the_nll_infinite():
    p = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    assert negative_log_likelihood(p, torch.tensor([1, 0]), from_logits=False) == math.inf
    result = calibration_metrics(p, torch.tensor([1, 0]), from_logits=False, bins=2)
    assert result.nll == math.inf
    assert result.as_dict()["metrics"]["nll"] is None


def test_arrays_do_as_well_as_tensors():
    logits, target = simulate(100, 4)
    expected = calibration_metrics(logits, target, from_logits=True)
    ours = calibration_metrics(logits.numpy(), target.numpy().astype(np.int32), from_logits=True)
    assert repr(ours) == repr(expected)
    confidence, correct = top_label(logits.numpy(), target.numpy(), from_logits=True)
    ece = expected_calibration_error(confidence.numpy(), correct.numpy())
    assert ece == pytest.approx(expected.ece, abs=1e-15)


def test_nothing_is_left_on_the_graph():
    logits, target = simulate(100, 4)
    logits.requires_grad_()
    confidence, _ = top_label(logits, target, from_logits=True)
    assert not confidence.requires_grad
    assert logits.grad is None


def test_everything_public_is_documented():
    for name in calibration.__all__:
        assert getattr(calibration, name).__doc__
    for parameter in inspect.signature(calibration_metrics).parameters:
        assert f"\n    {parameter}: " in calibration_metrics.__doc__


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


def test_anything_but_a_tensor_or_array_is_refused():
    with pytest.raises(TypeError, match="confidence must be a Tensor or a NumPy array"):
        bin_statistics([0.5], torch.tensor([1]))
    with pytest.raises(ValueError, match="confidence must hold real numbers"):
        bin_statistics(torch.tensor([0.5 + 0j]), torch.tensor([1]))
    with pytest.raises(ValueError, match="k must be an integer of at least 1, but got 0"):
        top_k_accuracy(torch.ones(1, 2), torch.tensor([0]), k=0)


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
