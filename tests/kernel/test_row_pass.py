"""The numbers that metrics need of every row: by the kernel as by PyTorch's operations."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from softmargin.calibration import CalibrationMetrics, _rows, calibration_metrics
from softmargin.functional import _fused

SHAPES = [(1, 2), (7, 3), (40, 10), (9, 16), (33, 17), (5, 100), (3, 1000)]


@pytest.mark.parametrize("copy", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_those_of_pytorch(kernel, shape, dtype, copy):
    if copy > kernel.instructions:
        pytest.skip("this CPU does not have these instructions")
    logits = (torch.randn(shape) * 5).round(decimals=1).to(dtype)  # with ties
    logits[0, 0] = 300.0
    target = torch.randint(0, shape[1], shape[:1])
    _, expected = _rows._measure_chunk(logits, target, True, True)
    with _fused.using(kernel, copy):
        found = _rows._measure_by_kernel(logits, target)
    for name in ("lowest", "highest", "own", "rank"):
        assert getattr(found, name).equal(getattr(expected, name).double()), name
    for name in ("total", "squares"):
        torch.testing.assert_close(
            getattr(found, name), getattr(expected, name), rtol=1e-13, atol=0
        )


def test_rows_anywhere_in_memory(kernel):
    wide = torch.randn(50, 40)
    target = torch.randint(0, 20, (50,))
    part = wide[::2, 3:23]
    _, expected = _rows._measure_chunk(part, target[::2], True, True)
    with _fused.using(kernel):
        found = _rows._measure_by_kernel(part, target[::2])
    torch.testing.assert_close(found.total, expected.total, rtol=1e-13, atol=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 5, 18])
def test_impossible_logits_are_refused_alike(kernel, value, place):
    logits, target = torch.randn(8, 19), torch.arange(8)
    logits[3, place] = value
    messages = []
    for wanted in (kernel, None):
        with _fused.using(wanted), pytest.raises(ValueError) as error:
            calibration_metrics(logits, target, from_logits=True, classwise=False)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def _counted(logits, target, weight, **settings):
    settings = {"bins": 15, "classwise": False, **settings}
    metrics = CalibrationMetrics(logits.shape[1], from_logits=True, **settings)
    metrics.update(logits, target, weight)
    return metrics._sums


BATCHES = [(1, 2), (7, 3), (255, 10), (256, 16), (257, 17), (33_000, 5), (70_001, 2), (600, 1000)]


@pytest.mark.parametrize("copy", range(3))
@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize("weighted", [None, "alike", "each"], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", BATCHES, ids=str)
def test_sums_are_those_of_pytorch(kernel, shape, dtype, weighted, closed, copy):
    if copy > kernel.instructions:
        pytest.skip("this CPU does not have these instructions")
    rows, classes = shape
    logits = (torch.randn(shape) * 5).round(decimals=1).to(dtype)  # with ties
    logits[0, 0] = 300.0
    logits[::3] = torch.rand(logits[::3].shape, dtype=dtype)  # looks like probabilities, or may
    logits[::6] /= logits[::6].sum(1, keepdim=True)
    logits[1::7] = 0.0  # a confidence on an edge
    target = torch.randint(0, classes, (rows,))
    weight = {"alike": torch.tensor(0.3).double().expand(rows), "each": torch.rand(2 * rows)[::2]}
    given = logits, target, weight.get(weighted)
    with _fused.using(kernel, copy):
        found = _counted(*given, closed=closed, top_k=2)
    with _fused.using(None):
        expected = _counted(*given, closed=closed, top_k=2)
    assert found.cells[0].equal(expected.cells[0])
    assert found.totals[4] == expected.totals[4]
    for name, one, two in zip(found._fields, found, expected, strict=True):
        # 1 - confidence and its like are small differences
        torch.testing.assert_close(
            one, two, rtol=1e-11, atol=1e-13 * rows, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_sums_go_on_where_they_were(kernel):
    logits, target = torch.randn(900, 6), torch.randint(0, 6, (900,))
    for wanted in (kernel, None):
        with _fused.using(wanted):
            metrics = CalibrationMetrics(6, from_logits=True, classwise=False)
            for part in (slice(0, 0), slice(0, 300), slice(300, 900)):
                metrics.update(logits[part], target[part])
            whole = _counted(logits, target, None, bins=10)
        for one, two in zip(metrics._sums, whole, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_a_batch_that_is_refused_does_not_count(kernel):
    logits, target = torch.randn(40_000, 6), torch.randint(0, 6, (40_000,))
    metrics = CalibrationMetrics(6, from_logits=True, classwise=False)
    logits[-1, 2] = torch.inf
    with _fused.using(kernel), pytest.raises(ValueError, match="row 39999"):
        metrics.update(logits, target)
    assert all(not bool(each.any()) for each in metrics._sums)


def test_the_kernel_does_what_it_is_for(kernel):
    calls = []

    def tally(packed):
        calls.append(packed)
        return kernel.tally(packed)

    with _fused.using(dataclasses.replace(kernel, tally=tally)):
        _counted(torch.randn(9, 4), torch.zeros(9, dtype=torch.int64), None)
        _counted(torch.randn(4, 9).t(), torch.zeros(9, dtype=torch.int64), None)  # by columns
    assert len(calls) == 1


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("classes", [3, 50])
def test_sums_do_not_depend_on_threads(kernel, classes, weighted):
    logits, target = torch.randn(40_000, classes), torch.randint(0, classes, (40_000,))
    weight = torch.rand(40_000) if weighted else None
    assert all(
        one.equal(two)
        for one, two in zip(*_by_threads(kernel, _counted, logits, target, weight), strict=True)
    )


def _by_threads(kernel, function, *given):
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with _fused.using(kernel):
                found.append(function(*given))
    finally:
        torch.set_num_threads(before)
    return found


@pytest.mark.parametrize("classes", [3, 50])
def test_rows_do_not_depend_on_threads(kernel, classes):
    logits, target = torch.randn(40_000, classes), torch.randint(0, classes, (40_000,))
    found = _by_threads(kernel, _rows._measure_by_kernel, logits, target)
    assert all(one.equal(two) for one, two in zip(*found, strict=True))
