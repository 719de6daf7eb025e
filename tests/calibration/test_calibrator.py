"""What both calibrators share: inputs, outputs, and their use as modules."""

import math

import numpy as np
import pytest
import torch
from scaling_cases import BOTH, GOOD, INFINITE, LABELS, NAN, WITHOUT_WARNINGS, numbers, synthetic
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from softmargin.calibration import _batch
from softmargin.calibration.scaling import (
    TemperatureScaling,
    VectorScaling,
)

pytestmark = WITHOUT_WARNINGS


@pytest.mark.slow
@BOTH
def test_the_size_of_chunks_does_not_matter(scaler_class, monkeypatch):
    logits, target = synthetic()
    whole = numbers(scaler_class().fit(logits, target))
    for size in (1, 170, 10**9):
        monkeypatch.setattr(_batch, "CHUNK_SIZE", size)
        parts = numbers(scaler_class().fit(logits, target))
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)


class LargestFloat64(TorchDispatchMode):
    """Remember the largest float64 tensor that was made."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        made = [t.numel() for t in tree_leaves(result) if getattr(t, "dtype", 0) == torch.float64]
        self.size = max([self.size, *made])
        return result


@BOTH
def test_there_is_never_a_float64_copy_of_the_logits(scaler_class):
    logits, target = synthetic(50_000)
    with LargestFloat64() as largest:
        scaler_class().fit(logits, target)
    assert 1000 < largest.size <= 2 * _batch.CHUNK_SIZE


@BOTH
def test_the_input_is_not_changed(scaler_class):
    logits, target = synthetic()
    logits = logits.double()
    before = logits.clone()
    scaler_class().fit(logits, target).transform(logits)
    assert torch.equal(logits, before)


@BOTH
def test_whole_weights_are_repetitions(scaler_class):
    logits, target = synthetic(600, 4)
    weight = torch.arange(600) % 4
    weighted = scaler_class().fit(logits, target, sample_weight=weight)
    repeated = scaler_class().fit(
        logits.repeat_interleave(weight, 0), target.repeat_interleave(weight)
    )
    torch.testing.assert_close(numbers(weighted), numbers(repeated), rtol=1e-9, atol=1e-9)
    huge = scaler_class().fit(logits, target, sample_weight=1e307 * weight.double())
    torch.testing.assert_close(numbers(huge), numbers(repeated), rtol=1e-9, atol=1e-9)


@BOTH
def test_ignored_rows_do_not_count_whatever_they_hold(scaler_class):
    logits, target = synthetic(1000)
    kept = torch.arange(1000) % 3 > 0
    target[~kept] = -100
    logits[0] = torch.nan
    with_all = scaler_class().fit(logits, target, ignore_index=-100)
    with_some = scaler_class().fit(logits[kept], target[kept])
    torch.testing.assert_close(numbers(with_all), numbers(with_some), rtol=1e-12, atol=1e-12)


@BOTH
def test_numpy_arrays_are_answered_in_kind(scaler_class, tmp_path):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    np.save(tmp_path / "logits.npy", logits.numpy())
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    for array in (mapped, logits.numpy()[::-1], logits.numpy().astype(">f4")):
        order = -1 if array.strides[0] < 0 else 1
        for kind in (np.int32, np.uint8, np.int64):
            classes = target.numpy()[::order].astype(kind)
            again = scaler_class().fit(array, classes)
            torch.testing.assert_close(numbers(again), numbers(scaler), rtol=1e-9, atol=1e-9)
    result = scaler.transform(logits.numpy())
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    assert np.array_equal(result, scaler.transform(logits).numpy())


@BOTH
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_transform_keeps_at_least_float32(scaler_class, dtype, result):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    scaled = scaler.transform(logits.to(dtype))
    assert scaled.dtype == result
    torch.testing.assert_close(
        scaled.double(), scaler.transform(logits.to(dtype).double()), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(scaler.transform(logits[0].to(dtype)), scaled[0])


@BOTH
@pytest.mark.parametrize(
    ("logits", "target", "options", "message"),
    [
        ([[1.0, 2.0]], LABELS, {}, "logits must be a Tensor or a NumPy array, but got list."),
        (GOOD, [0, 1, 2], {}, "target must be a Tensor or a NumPy array, but got list."),
        (GOOD.long(), LABELS, {}, "logits must be floating-point numbers, but got torch.int64."),
        (np.array(["a"]), LABELS, {}, "logits must hold numbers, but got <U1."),
        (GOOD[0], LABELS, {}, r"logits must have shape \(N, C\) with at least one .* got \(3,\)."),
        (GOOD[:0], LABELS[:0], {}, r"at least one row, but got \(0, 3\)."),
        (GOOD[:, :1], LABELS, {}, r"logits must hold at least 2 classes .* got shape \(3, 1\)."),
        (GOOD, LABELS[:2], {}, r"target must have shape \(3,\) for these .*, but got \(2,\)."),
        (GOOD, LABELS.float(), {}, "target must hold integer class indices, but got torch.float"),
        (GOOD, LABELS + 1, {}, "target must hold classes from 0 to 2, but got 3 in row 1."),
        (GOOD, LABELS - 1, {}, "target must hold classes from 0 to 2, but got -1 in row 0."),
        (GOOD, LABELS - 1, {"ignore_index": 0}, "0 to 2 or ignore_index 0, but got -1 in row 0."),
        (GOOD, LABELS * 0, {"ignore_index": 0}, "at least one class, but all are ignore_index 0."),
        (GOOD, LABELS, {"ignore_index": 0.5}, "ignore_index must be an integer or None, .* 0.5."),
        (NAN, LABELS, {}, "logits must be finite numbers .*, but row 1 holds nan."),
        (NAN, LABELS, {"ignore_index": 0}, "logits must be finite .*, but row 1 holds nan."),
        (INFINITE, LABELS, {}, "logits must be finite numbers .*, but row 2 holds -inf."),
        (1e200 * GOOD.double(), LABELS, {}, r"up to 1e\+100, but row 0 holds 1e\+200."),
        (GOOD, LABELS, {"sample_weight": GOOD}, r"numbers of shape \(3,\), .* \(3, 3\)."),
        (GOOD, LABELS, {"sample_weight": -GOOD[0]}, "of at least 0, but got -1 in row 0."),
        (GOOD, LABELS, {"sample_weight": NAN[1]}, "finite numbers .*, but got nan in row 2."),
        (GOOD, LABELS, {"sample_weight": 0 * GOOD[0]}, "sample_weight must be above 0 in a row"),
    ],
)
def test_bad_input_gets_one_sentence(scaler_class, logits, target, options, message):
    scaler = scaler_class()
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        scaler.fit(logits, target, **options)
    assert "\n" not in str(caught.value)
    assert not scaler.fitted


@BOTH
def test_transform_says_what_it_needs(scaler_class):
    with pytest.raises(RuntimeError, match="must be fitted first: call fit"):
        scaler_class().transform(GOOD)
    with pytest.raises(RuntimeError, match="must be fitted before it is saved"):
        scaler_class().save("nowhere.json")
    scaler = scaler_class().fit(*synthetic(500, 3))
    with pytest.raises(ValueError, match=r"shape \(N, 3\) or \(3,\) for .*, but got \(3, 2\)"):
        scaler.transform(GOOD[:, :2])
    with pytest.raises(ValueError, match=r"but got \(1, 3, 3\)"):
        scaler.transform(GOOD[None])
    with pytest.raises(TypeError, match=r"floating-point numbers, but got torch\.int64"):
        scaler.transform(GOOD.long())
    with pytest.raises(TypeError, match="but got list"):
        scaler.transform([[1.0, 2.0, 3.0]])
    assert scaler.transform(NAN)[1].isnan().any()


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_bad_number_among_many_is_found(scaler_class, dtype, value):
    logits, target = synthetic(5000)
    logits[4321, 7] = value
    with pytest.raises(ValueError, match=f"but row 4321 holds {value:g}"):
        scaler_class().fit(logits.to(dtype), target)


def test_a_failed_fit_leaves_the_old_one():
    scaler = TemperatureScaling().fit(*synthetic(500, 3))
    before = scaler.temperature.clone()
    with pytest.raises(ValueError):
        scaler.fit(NAN, LABELS)
    assert scaler.temperature == before


def test_logits_that_only_resemble_probabilities_are_fitted():
    logits, target = synthetic(600, 5)
    probabilities = logits.softmax(1)
    one_other = probabilities.clone()
    one_other[599] *= 2
    TemperatureScaling().fit(one_other, target)
    fitted = TemperatureScaling().fit(probabilities.log(), target)
    direct = TemperatureScaling().fit(logits, target)
    assert fitted.temperature.item() == pytest.approx(direct.temperature.item(), rel=1e-5)
    deliberate = TemperatureScaling().fit(1 + probabilities, target)  # as the sentence says
    assert deliberate.temperature < 0.5
    TemperatureScaling().fit(0.9 * probabilities, target)  # from 0 to 1, with another sum
    assert direct.transform(probabilities).shape == (600, 5)  # transform looks at no values


def test_calibrators_are_found_where_the_metrics_are():
    import softmargin.calibration

    for name in ("TemperatureScaling", "VectorScaling", "cross_validated", "CalibrationWarning"):
        assert getattr(softmargin.calibration, name) is getattr(
            softmargin.calibration.scaling, name
        )
        assert name in softmargin.calibration.__all__


@BOTH
def test_it_stands_behind_a_model_and_in_its_state_dict(scaler_class, tmp_path):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    model = torch.nn.Sequential(torch.nn.Linear(4, 10), scaler)
    x = torch.randn(5, 4)
    torch.testing.assert_close(model(x), scaler.transform(model[0](x)))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    for start in (scaler_class(), scaler_class().fit(*synthetic(500, 3))):
        fresh = torch.nn.Sequential(torch.nn.Linear(4, 10), start)
        fresh.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
        assert torch.equal(fresh(x), model(x))
        assert torch.equal(numbers(fresh[1]), numbers(scaler))
        assert fresh[1].num_classes == 10
    assert not list(scaler.parameters())


@BOTH
def test_half_precision_models_do_not_round_the_calibrator(scaler_class):
    scaler = scaler_class().fit(*synthetic())
    before = numbers(scaler)
    assert torch.equal(numbers(scaler.half()), before)
    assert torch.equal(numbers(scaler.to(torch.bfloat16)), before)


@BOTH
def test_gradients_flow_to_the_logits(scaler_class):
    scaler = scaler_class().fit(*synthetic(500, 3))
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(scaler, logits)


@BOTH
def test_a_fit_in_inference_mode_can_be_used_in_training(scaler_class):
    with torch.inference_mode():
        scaler = scaler_class().fit(*synthetic(500, 3))
    logits = torch.randn(4, 3, requires_grad=True)
    scaler(logits).sum().backward()
    assert logits.grad is not None


@pytest.mark.slow
@BOTH
def test_transform_compiles_whole(scaler_class):
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    for function in (scaler, scaler.transform):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(logits), scaler.transform(logits))
        torch.testing.assert_close(compiled(logits.half()), scaler.transform(logits.half()))
    mapped = torch.func.vmap(scaler)(logits)
    torch.testing.assert_close(mapped, scaler.transform(logits))


def test_repr_shows_the_numbers():
    assert repr(TemperatureScaling()) == "TemperatureScaling(not fitted)"
    scaler = VectorScaling().fit(*synthetic())
    assert repr(scaler).startswith("VectorScaling(scale=<10 values from 0.")
    scaler = TemperatureScaling()
    scaler.temperature = 2.0
    assert scaler.transform(GOOD).equal(GOOD / 2)
    with pytest.raises(ValueError, match="temperature must be a finite number above 0"):
        scaler.temperature = -2.0
