"""What the streaming accumulator refuses, and odd batches that it takes."""

import math

import numpy as np
import pytest
import torch
from counted_batches import LOGITS, TARGET, counted

from softmargin.calibration import (
    CalibrationMetrics,
    accuracy,
    brier_score,
    calibration_metrics,
    classwise_calibration_error,
    negative_log_likelihood,
    top_label,
)

P = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
Y = torch.tensor([0, 1])
BAD_BATCHES = [
    (P * 4 - 1, Y, {}, ValueError, "from 0 to 1 \\(from_logits=False was given\\), but got 2.6"),
    (P - 0.2, Y, {}, ValueError, "from 0 to 1 .*, but got -0.1 in row 0"),
    (P * torch.tensor([[1.0], [0.5]]), Y, {}, ValueError, "sum is 0.5 in row 1, a deviation of"),
    (P * math.nan, Y, {}, ValueError, "but got nan in row 0"),
    (P, torch.tensor([0, 2]), {}, ValueError, "classes from 0 to 1, but got 2 in row 1"),
    (P, torch.tensor([0, -1]), {}, ValueError, "classes from 0 to 1, but got -1 in row 1"),
    (P, torch.tensor([0, 3]), {"ignore_index": -1}, ValueError, "1 or ignore_index -1, but got 3"),
    (P, torch.tensor([0.0, 1.0]), {}, TypeError, "target must hold integer class indices"),
    (P, torch.tensor([0, 1, 1]), {}, ValueError, "target must have shape \\(2,\\)"),
    (P.long(), Y, {}, TypeError, "predictions must be floating-point numbers, but got torch"),
    (P[:, 0], Y, {}, ValueError, "predictions must have shape \\(N, C\\)"),
    (P[:, :1], Y, {}, ValueError, "at least 2 classes .* the two columns 1 - p and p"),
    (P.repeat(1, 2) / 2, Y, {}, ValueError, "must hold 2 classes in dimension 1, but got 4"),
    (P.tolist(), Y, {}, TypeError, "predictions must be a Tensor or a NumPy array"),
]


@pytest.mark.parametrize(("predictions", "target", "settings", "kind", "message"), BAD_BATCHES)
def test_bad_batches_get_one_sentence_and_do_not_count(
    predictions, target, settings, kind, message
):
    metrics = CalibrationMetrics(2, from_logits=False, **settings)
    with pytest.raises(kind, match=message) as caught:
        metrics.update(predictions, target)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="compute needs at least one counted prediction"):
        metrics.compute()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(3), "sample_weight must hold real numbers of shape \\(2,\\)"),
        (torch.tensor([1.0, -2.0]), "of at least 0, but got -2 in row 1"),
        (torch.tensor([math.inf, 1.0]), "of at least 0, but got inf in row 0"),
    ],
)
def test_bad_weights_get_one_sentence(weight, message):
    with pytest.raises(ValueError, match=message):
        CalibrationMetrics(2, from_logits=False).update(P, Y, weight)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"num_classes": 1}, ValueError, "num_classes must be an integer of at least 2, but got 1"),
        ({"bins": 0}, ValueError, "bins must be an integer of at least 1, but got 0"),
        ({"top_k": 0}, ValueError, "top_k must be an integer of at least 1, but got 0"),
        ({"closed": "none"}, ValueError, "closed must be one of right, left"),
        ({"from_logits": None}, TypeError, "from_logits must be True or False, but got None"),
        ({"ignore_index": 1.5}, TypeError, "ignore_index must be an integer or None"),
    ],
)
def test_bad_settings_get_one_sentence(settings, kind, message):
    with pytest.raises(kind, match=message):
        CalibrationMetrics(**{"num_classes": 2, "from_logits": True, **settings})


def test_the_largest_deviation_of_all_rows_is_named():
    p = torch.full((100_000, 4), 0.25)
    p[10] *= 1.01
    p[99_999] *= 0.7
    with pytest.raises(
        ValueError, match="sum is 0.7 in row 99999, a deviation of 0.3, the largest"
    ):
        CalibrationMetrics(4, from_logits=False).update(p, torch.zeros(100_000, dtype=torch.int64))


def test_rows_are_named_as_they_were_given():
    logits, target = LOGITS.clone(), TARGET.clone()
    target[:40] = -1
    logits[50] = math.nan
    with pytest.raises(ValueError, match="in row 50"):
        counted((logits, target), ignore_index=-1)


def test_probabilities_said_to_be_logits_are_refused():
    p = LOGITS.softmax(1)
    metrics = counted((p, TARGET))
    with pytest.raises(ValueError, match="said to be logits .* like probabilities"):
        metrics.compute()
    metrics.update(LOGITS, TARGET)  # not all of them are
    metrics.compute()
    counted((p + 1, TARGET)).compute()  # what the message says helps
    for function in (negative_log_likelihood, brier_score, classwise_calibration_error, top_label):
        with pytest.raises(ValueError, match="said to be logits"):
            function(p, TARGET, from_logits=True)
    accuracy(p, TARGET)  # which does not depend on it


def test_probabilities_a_little_off_are_taken():
    p = torch.tensor([[1.0000001, -1e-8], [0.4999, 0.5]])
    result = calibration_metrics(p, Y, from_logits=False, bins=2)
    assert result.bins.counts.tolist() == [1, 1]
    assert result.bins.confidence.max() == 1.0
    rounded = LOGITS.softmax(1).bfloat16()
    assert 0 < calibration_metrics(rounded, TARGET, from_logits=False).ece < 1


def test_few_samples_are_counted_with_a_warning():
    with pytest.warns(UserWarning, match="3 predictions in 10 bins say little"):
        result = counted((LOGITS[:3], TARGET[:3])).compute(0.95, resamples=20)
    assert 0 <= result.ece <= 1
    with pytest.warns(UserWarning, match="1 predictions"):
        single = counted((LOGITS[:1], TARGET[:1])).compute(0.95, resamples=20)
    assert np.isnan(single.intervals["nll"]).all()
    empty = CalibrationMetrics(12, from_logits=True)
    empty.update(LOGITS[:0], TARGET[:0])
    with pytest.raises(ValueError, match="there is none"):
        empty.compute()


@pytest.mark.parametrize(
    ("target", "scale"), [("random", 1.0), ("opposed", 1.0), ("separable", 1.0), ("right", 100.0)]
)
def test_hard_inputs_get_finite_numbers(target, scale):
    labels = {
        "random": torch.randint(0, 12, (2000,), generator=torch.Generator().manual_seed(0)),
        "opposed": LOGITS.argmin(1),
        "separable": LOGITS.argmax(1),
        "right": TARGET,
    }[target]
    result = counted((scale * LOGITS, labels)).compute(0.95, resamples=20)
    for each in result.estimates():
        assert math.isfinite(each.value)
        assert each.low <= each.value <= each.high
