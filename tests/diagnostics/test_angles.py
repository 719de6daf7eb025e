"""Angles, features and gradients against references in high precision, loops and closed forms."""

import math
from functools import partial
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

import softmargin
from softmargin import functional, theory
from softmargin.diagnostics import (
    ConfidenceRecorder,
    angle_histogram,
    angle_statistics,
    feature_spread,
    gradient_by_confidence,
    intra_class_angles,
)


def exact_angle(a, b):
    """Return the angle with 60 digits, from the numbers as they are stored."""
    with mpmath.workdps(60):
        a, b = ([mpmath.mpf(float(v)) for v in each] for each in (a, b))
        inner = mpmath.fdot(a, b)
        lengths = mpmath.sqrt(mpmath.fdot(a, a) * mpmath.fdot(b, b))
        return float(mpmath.acos(max(-1, min(1, inner / lengths))))


def made_up(seed=0, spread=1.0, num_classes=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(num_classes, 6, generator=generator, dtype=dtype)
    target = torch.randint(0, num_classes, (60,), generator=generator)
    noise = torch.randn(60, 6, generator=generator, dtype=dtype)
    return 3 * weight[target] + spread * noise, target, weight


@pytest.mark.parametrize("spread", [1.0, 1e-5])
def test_angle_statistics_are_exact_also_where_vectors_almost_agree(spread):
    features, target, weight = made_up(spread=spread)
    centres = [features[target == c].double().mean(0).tolist() for c in range(4)]
    pairs = [(i, j) for i in range(4) for j in range(i)]
    found = angle_statistics(features, target, weight)
    expected = np.mean([exact_angle(centres[c], weight[c]) for c in range(4)])
    assert found.wc_intra == pytest.approx(expected, rel=1e-9)
    for value, rows in ((found.w_inter, weight), (found.c_inter, centres)):
        expected = np.mean([exact_angle(rows[i], rows[j]) for i, j in pairs])
        assert value == pytest.approx(expected, rel=1e-12)
    degrees = found.degrees()
    assert degrees.w_inter == math.degrees(found.w_inter)
    assert (found.unit, degrees.unit, degrees.degrees()) == ("radians", "degrees", degrees)


def test_weights_that_almost_agree_are_told_apart():
    weight = torch.tensor([[1.0, 0.0], [1.0, 1e-6], [-1.0, 0.0]])
    found = angle_statistics(torch.eye(2)[[0, 0, 0]], torch.tensor([0, 1, 2]), weight)
    expected = np.mean([exact_angle(weight[i], weight[j]) for i, j in ((0, 1), (0, 2), (1, 2))])
    assert found.w_inter == pytest.approx(expected, rel=1e-14)
    assert found.c_inter == 0


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_the_smallest_angles_between_weights_are_resolved(size):
    generator = torch.Generator().manual_seed(0)
    a, noise = torch.randn(2, 30, generator=generator, dtype=torch.float64)
    weight = torch.stack([a, a + size * noise])
    found = angle_statistics(weight, torch.tensor([0, 1]), weight)
    expected = exact_angle(*weight)
    assert found.w_inter == pytest.approx(expected, rel=1e-6)
    assert found.c_inter == pytest.approx(expected, rel=1e-6)


def test_classes_that_do_not_occur_are_left_out_and_named():
    features, target, weight = made_up()
    kept = (target != 1) & (target != 3)
    found = angle_statistics(features[kept], target[kept], weight)
    assert found.missing == (1, 3)
    chosen = target[kept] // 2
    expected = angle_statistics(features[kept], chosen, weight[[0, 2]])
    assert (found.wc_intra, found.c_inter) == (expected.wc_intra, expected.c_inter)
    assert found.w_inter == angle_statistics(features, target, weight).w_inter
    one = angle_statistics(features[:1], target[:1], weight)
    assert math.isnan(one.c_inter)
    assert len(one.missing) == 3


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
def test_intra_class_angles_are_exact(spread):
    features, target, weight = made_up(spread=spread)
    found = intra_class_angles(features.requires_grad_(), target, weight)
    expected = [exact_angle(x, weight[c]) for x, c in zip(features.detach(), target, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    double = features.detach().double()
    centres = torch.stack([double[target == c].mean(0) for c in range(4)])
    expected = [exact_angle(x, centres[c]) for x, c in zip(double, target, strict=True)]
    np.testing.assert_allclose(intra_class_angles(features, target), expected, rtol=1e-7)


def test_angle_histograms_have_fixed_edges_closed_on_the_right():
    generator = torch.Generator().manual_seed(0)
    angles = math.pi * torch.rand(500, generator=generator)
    counts, edges = angle_histogram(angles, 18)
    expected = [sum(a < v <= b for v in angles.tolist()) for a, b in pairwise(edges.tolist())]
    assert counts.tolist() == expected
    ends = torch.tensor([0.0, math.pi / 2, math.pi], dtype=torch.float64)
    assert angle_histogram(ends, 2).counts.tolist() == [2, 1]
    assert angle_histogram(torch.tensor([math.pi]), 2).counts.tolist() == [0, 1]
    assert edges[0] == 0
    assert edges[-1] == math.pi


def test_feature_spread_is_that_of_numpy():
    features, target, _ = made_up()
    kept = target != 1
    x, y = features[kept].double().numpy(), target[kept].numpy()
    found = feature_spread(features[kept], target[kept])
    centres = {c: x[y == c].mean(0) for c in (0, 2, 3)}
    assert found.counts.tolist() == [(y == c).sum() for c in range(4)]
    assert found.centres[1].isnan().all()
    for c, centre in centres.items():
        np.testing.assert_allclose(found.centres[c], centre, rtol=1e-12)
        expected = math.sqrt(((x[y == c] - centre) ** 2).sum(1).mean())
        assert found.spread[c].item() == pytest.approx(expected, rel=1e-12)
    squares = [((v - centres[c]) ** 2).sum() for v, c in zip(x, y, strict=True)]
    assert found.within == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-12)
    between = [np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 2), (0, 3), (2, 3))]
    assert found.between == pytest.approx(np.mean(between), rel=1e-12)


def some_logits(seed=0, count=300):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 4, generator=generator)
    return logits, torch.randint(0, 4, (count,), generator=generator)


def one_by_one(logits, target, loss, bins):
    """Return mean confidence and gradient per bin, each sample's loss alone in its batch."""
    rows = [[] for _ in range(bins)]
    for z, c in zip(logits.double(), target, strict=True):
        z = z.clone().requires_grad_()
        loss(z[None], c[None]).sum().backward()
        p = z.softmax(0)[c].item()
        rows[max(0, math.ceil(p * bins) - 1)].append((p, abs(z.grad[c].item())))
    return np.array([np.mean(r, 0) if r else (math.nan,) * 2 for r in rows]), [*map(len, rows)]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "make",
    [
        partial(softmargin.GradientDecayLoss, 0.1),
        partial(softmargin.GradientDecayLoss, 5.0, tau=2.0),
        partial(softmargin.GradientDecayLoss, beta=torch.tensor([0.1, 1.0, 2.0, 0.5])),
        nn.CrossEntropyLoss,
        partial(softmargin.FocalLoss, 2.0),
    ],
)
def test_gradients_are_those_of_samples_one_by_one(make, reduction):
    logits, target = some_logits()
    loss = make(reduction=reduction)
    found = gradient_by_confidence(logits, target, loss, bins=8)
    expected, counts = one_by_one(logits, target, make(reduction="sum").double(), 8)
    assert found.counts.tolist() == counts
    np.testing.assert_allclose(found.confidence, expected[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found.magnitude, expected[:, 1], rtol=1e-6)
    assert loss.reduction == reduction
    assert (found.theory is None) == isinstance(loss, softmargin.FocalLoss)
    if found.theory is not None:
        np.testing.assert_allclose(found.theory, found.magnitude, rtol=1e-6)


def test_measured_gradients_lie_on_the_curve_of_theory():
    logits = torch.tensor([[-2.0, 0.0], [0.5, 0.0], [3.0, 0.0]])
    target = torch.zeros(3, dtype=torch.int64)
    found = gradient_by_confidence(logits, target, softmargin.GradientDecayLoss(0.2), bins=3)
    curve = theory.gradient_magnitude(found.confidence, 0.2)
    np.testing.assert_allclose(found.magnitude, curve, rtol=1e-6)
    np.testing.assert_allclose(found.theory, curve, rtol=1e-6)


def test_a_confidence_on_an_edge_belongs_to_the_bin_below():
    found = gradient_by_confidence(
        torch.zeros(3, 2), torch.tensor([0, 1, 0]), nn.CrossEntropyLoss(), 2
    )
    assert found.counts.tolist() == [3, 0]
    assert found.magnitude[0] == 0.5
    assert found.magnitude[1].isnan()


def test_a_function_may_return_one_value_per_sample():
    logits, target = some_logits()
    loss = partial(functional.gradient_decay_loss, beta=0.1, reduction="none")
    found = gradient_by_confidence(logits, target, loss)
    module = gradient_by_confidence(logits, target, softmargin.GradientDecayLoss(0.1))
    np.testing.assert_allclose(found.magnitude, module.magnitude, rtol=1e-6)
    assert found.theory is None
    smooth = nn.CrossEntropyLoss(torch.ones(4), label_smoothing=0.1)
    assert gradient_by_confidence(logits, target, smooth).theory is None
    assert smooth.weight.dtype == torch.float32  # it was a copy that went to float64
    with torch.no_grad():
        again = gradient_by_confidence(logits, target, loss)
    np.testing.assert_array_equal(again.magnitude, found.magnitude)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("classes", [157, 300])
def test_targets_of_any_whole_number_type_are_the_same(dtype, classes):
    """In uint8, -100 is 156: that class is no ignored target."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, 5, generator=generator) for n in (6, classes))
    logits, wide = x @ weight.T, torch.tensor([156, 0, 156, 3, 156, 100])
    narrow = wide.to(dtype)
    for loss in (
        CE,
        softmargin.GradientDecayLoss(0.5),
        softmargin.GradientDecayLoss(5.0, compensate=True),
        softmargin.FocalLoss(),
    ):
        found, expected = (gradient_by_confidence(logits, y, loss) for y in (narrow, wide))
        torch.testing.assert_close(vars(found), vars(expected), rtol=0, atol=0, equal_nan=True)
    recorders = [ConfidenceRecorder(6), ConfidenceRecorder(6)]
    for recorder, y in zip(recorders, (narrow, wide), strict=True):
        recorder.record_pass(logits, y)
    assert recorders[0].final_confidence.equal(recorders[1].final_confidence)
    assert angle_statistics(x, narrow, weight) == angle_statistics(x, wide, weight)
    assert intra_class_angles(x, narrow).equal(intra_class_angles(x, wide))
    assert feature_spread(x, narrow).counts.equal(feature_spread(x, wide).counts)


CE = nn.CrossEntropyLoss()
X, Y, W = torch.eye(2), torch.tensor([0, 1]), torch.eye(2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: angle_statistics(X, Y, torch.eye(3)), ValueError, "features must have shape"),
        (lambda: angle_statistics(X, Y[:1], W), ValueError, "target must have shape"),
        (lambda: angle_statistics(X, Y + 1, W), IndexError, "target .* but got 2"),
        (lambda: angle_statistics(X, Y, W[0]), ValueError, r"weight must have shape \(C, D\)"),
        (lambda: angle_statistics(X * math.nan, Y, W), ValueError, "features must be finite"),
        (lambda: angle_statistics(X, Y, W * math.nan), ValueError, "weight must be finite"),
        (lambda: intra_class_angles(X.long(), Y), TypeError, "features must be a floating"),
        (lambda: intra_class_angles(X, Y.float()), TypeError, "target must be a tensor of whole"),
        (lambda: intra_class_angles(X, Y - 1), IndexError, "target .* but got -1"),
        (lambda: angle_histogram(torch.tensor([4.0])), ValueError, "0 and π, but got 4.0"),
        (lambda: angle_histogram(X[0], 0), ValueError, "bins must be at least 1, but got 0"),
        (lambda: feature_spread(X[:0], Y[:0]), ValueError, "must not be empty"),
        (lambda: gradient_by_confidence(X[0], Y, nn.CrossEntropyLoss()), ValueError, r"\(N, C\)"),
        (lambda: feature_spread(X, Y * 10**12), IndexError, "from 0 to 9999999, but got 10{12}"),
        (lambda: intra_class_angles(X, Y * 10**12), IndexError, "0 to 9999999, but got 10{12}"),
        (lambda: feature_spread(X, [0, 1]), TypeError, "target .* whole numbers, but got list"),
        (lambda: angle_histogram([1.0]), TypeError, "angles must be a floating.* got list"),
        (lambda: angle_histogram(X * math.nan), ValueError, "angles must be finite, but 4 of 4"),
        (lambda: gradient_by_confidence(X, [0, 1], CE), TypeError, "target .* but got list"),
        (lambda: gradient_by_confidence(X, Y.float(), CE), TypeError, "target .* torch.float32"),
        (lambda: gradient_by_confidence(X, Y[:1], CE), ValueError, r"target .* \(2,\), but got"),
        (lambda: gradient_by_confidence(X, Y - 100, CE), IndexError, "but got -100"),
        (lambda: gradient_by_confidence(X, Y, None), TypeError, "loss must be .* but got None"),
        (
            lambda: gradient_by_confidence(X, Y, lambda z, y: torch.zeros(2)),
            ValueError,
            "loss must return a tensor with a gradient",
        ),
        (
            lambda: gradient_by_confidence(X * math.nan, Y, nn.CrossEntropyLoss()),
            ValueError,
            "those of 2 samples are",
        ),
        (
            lambda: gradient_by_confidence(X, Y, functional.gradient_decay_loss),
            ValueError,
            "loss must return one value per sample",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
