"""The numbers that metrics need of every row: by the kernel as by PyTorch's operations."""

from __future__ import annotations

import pytest
import torch

from softmargin.calibration import _rows, calibration_metrics
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
    for name in ("lowest", "highest", "own", "above", "from_own_on"):
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


@pytest.mark.parametrize("classes", [3, 50])
def test_metrics_do_not_depend_on_threads(kernel, classes):
    logits, target = torch.randn(40_000, classes), torch.randint(0, classes, (40_000,))
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with _fused.using(kernel):
                found.append(_rows._measure_by_kernel(logits, target))
    finally:
        torch.set_num_threads(before)
    assert all(one.equal(two) for one, two in zip(*found, strict=True))
