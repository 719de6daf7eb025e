"""The streaming accumulator: the same numbers in any split, order, precision and process."""

import json
import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from calibration_reference import simulate
from counted_batches import LOGITS, TARGET, counted
from torch.profiler import ProfilerActivity, profile

from softmargin.calibration import (
    CalibrationMetrics,
    accuracy,
    brier_decomposition,
    brier_score,
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
    top_k_accuracy,
    top_label,
)
from softmargin.calibration.result import LABELS


def assert_same(result, expected, tolerance=1e-12):
    assert result.samples == expected.samples
    for name in LABELS:
        assert getattr(result, name) == pytest.approx(getattr(expected, name), abs=tolerance), name
    assert result.classwise_errors.tolist() == pytest.approx(
        expected.classwise_errors.tolist(), abs=tolerance
    )
    assert result.bins.counts.tolist() == expected.bins.counts.tolist()


@pytest.fixture(scope="module")
def whole():
    return counted((LOGITS, TARGET)).compute(0.95, resamples=50)


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("closed", ["right", "left"])
def test_every_number_is_that_of_its_function(from_logits, closed):
    predictions = LOGITS if from_logits else LOGITS.double().softmax(1)
    said = {"from_logits": from_logits}
    result = calibration_metrics(predictions, TARGET, **said, bins=15, closed=closed, top_k=3)
    confidence, correct = top_label(predictions, TARGET, **said)
    for name, function in (
        ("ece", expected_calibration_error),
        ("mce", maximum_calibration_error),
        ("rms_error", rms_calibration_error),
        ("debiased_error", debiased_calibration_error),
    ):
        value = function(confidence, correct, 15, closed=closed)
        assert getattr(result, name) == pytest.approx(value, abs=1e-12)
    assert result.mean_confidence == pytest.approx(confidence.mean().item(), abs=1e-12)
    assert result.overconfidence == pytest.approx(overconfidence(confidence, correct), abs=1e-12)
    assert result.accuracy == pytest.approx(accuracy(predictions, TARGET), abs=1e-12)
    assert result.top_k_accuracy == pytest.approx(top_k_accuracy(predictions, TARGET, 3), abs=1e-12)
    assert result.nll == pytest.approx(negative_log_likelihood(predictions, TARGET, **said))
    assert result.brier == pytest.approx(brier_score(predictions, TARGET, **said), abs=1e-12)
    binned = {**said, "bins": 15, "closed": closed}
    parts = brier_decomposition(predictions, TARGET, **binned)
    ours = result.brier_reliability, result.brier_resolution, result.brier_uncertainty
    assert ours == pytest.approx(parts, abs=1e-12)
    classwise = classwise_calibration_error(predictions, TARGET, **binned)
    assert result.classwise_ece == pytest.approx(classwise, abs=1e-12)


def test_streamed_approximations_are_close_and_bounded():
    """A cell is cut by each boundary between bins; no more than its residual can go astray."""
    for seed, spread in ((0, 1.0), (1, 3.0), (2, 30.0)):
        logits, target = simulate(20_000, 10, seed, spread=spread)
        result = calibration_metrics(logits, target, from_logits=True)
        confidence, correct = top_label(logits, target, from_logits=True)
        exact = equal_mass_calibration_error(confidence, correct)
        assert result.equal_mass_ece == pytest.approx(exact, abs=1e-3)
        exact = ks_calibration_error(confidence, correct)
        assert exact - 1e-3 < result.ks_error <= exact + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_any_split_order_and_merge_gives_the_same(whole, seed):
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(2000, generator=generator)
    cuts = torch.randint(0, 2001, (7,), generator=generator).sort().values.tolist()
    batches = [order[a:b] for a, b in zip([0, *cuts], [*cuts, 2000], strict=True)]
    parts = [counted((LOGITS[rows], TARGET[rows])) for rows in batches]
    assert_same(counted(*((LOGITS[rows], TARGET[rows]) for rows in batches)).compute(), whole)
    first = parts.pop(seed)
    merged = first.merge(*parts[:2]).merge(parts[3].merge(*parts[4:]), parts[2])
    assert_same(merged.compute(), whole)
    intervals = merged.compute(0.95, resamples=50).intervals
    for name, interval in whole.intervals.items():
        assert intervals[name] == pytest.approx(interval, abs=1e-9)


@pytest.mark.slow
def test_one_row_at_a_time_gives_the_same(whole):
    rows = ((LOGITS[i : i + 1], TARGET[i : i + 1]) for i in range(2000))
    assert_same(counted(*rows).compute(), whole)


@pytest.mark.parametrize("classes", [10, 100])
def test_more_rows_than_a_block_hold_together(classes):
    logits, target = simulate(70_000, classes)
    large = calibration_metrics(logits, target, from_logits=True)
    small = CalibrationMetrics(classes, from_logits=True)
    for part in torch.arange(70_000).split(9_999):
        small.update(logits[part], target[part])
    assert_same(small.compute(), large)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("classes", [12, 60])
def test_other_precisions_are_upcast(dtype, classes):
    logits, target = simulate(500, classes, dtype=dtype)
    expected = calibration_metrics(logits.double(), target, from_logits=True)
    assert_same(calibration_metrics(logits, target, from_logits=True), expected)
    probabilities = logits.double().softmax(1).to(dtype)
    result = calibration_metrics(probabilities, target, from_logits=False)
    rough = calibration_metrics(logits, target, from_logits=True)
    assert result.ece == pytest.approx(rough.ece, abs=0.01)
    assert result.brier == pytest.approx(rough.brier, abs=0.01)


def test_layouts_of_predictions_make_no_difference(whole):
    assert_same(counted((LOGITS.t().contiguous().t(), TARGET)).compute(), whole)
    assert_same(counted((LOGITS.repeat(1, 2)[:, :12], TARGET)).compute(), whole)
    images = LOGITS.view(20, 10, 10, 12).movedim(-1, 1), TARGET.view(20, 10, 10)
    assert_same(counted(images).compute(), whole)


def test_ignored_rows_do_not_count(whole):
    generator = torch.Generator().manual_seed(0)
    extra = torch.randn(500, 12, generator=generator)
    extra[3] = math.nan  # not looked at either
    order = torch.randperm(2500, generator=generator)
    logits = torch.cat([LOGITS, extra])[order]
    target = torch.cat([TARGET, torch.full((500,), -100)])[order]
    assert_same(counted((logits, target), ignore_index=-100).compute(), whole)
    weight = torch.cat([torch.ones(2000), torch.zeros(500)])[order]
    assert_same(counted((logits, target.clamp_min(0), weight)).compute(), whole)
    nothing = counted((LOGITS[:5], torch.full((5,), -100)), ignore_index=-100)
    with pytest.raises(ValueError, match="at least one counted prediction"):
        nothing.compute()


def test_weights_are_repetitions():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(0, 4, (2000,), generator=generator)
    repeated = LOGITS.repeat_interleave(weight, 0), TARGET.repeat_interleave(weight)
    expected = counted(repeated).compute()
    for scale in (1, 0.125):
        result = counted((LOGITS, TARGET, scale * weight)).compute()
        assert result.samples == int((weight > 0).sum())
        for name in LABELS:
            if name != "debiased_error":  # whose noise depends on how many samples there were
                assert getattr(result, name) == pytest.approx(getattr(expected, name), abs=1e-12)
        assert result.bins.mass.tolist() == pytest.approx((scale * expected.bins.mass).tolist())


def test_without_classes_the_rest_is_the_same(whole):
    metrics = counted((LOGITS, TARGET), classwise=False)
    result = metrics.compute(0.95, resamples=50)
    names = {each.name for each in result.estimates()}
    missing = {"classwise_ece", "brier_reliability", "brier_resolution", "brier_uncertainty"}
    assert names == set(LABELS) - missing == set(result.intervals)
    for name in names:
        assert getattr(result, name) == pytest.approx(getattr(whole, name), rel=1e-12)
    assert sum(each.numel() for each in metrics._sums) == 4 * 2 * len(metrics._cells) + 30


def test_state_is_kept_reset_and_restored(whole, tmp_path):
    metrics = counted((LOGITS[:800], TARGET[:800]))
    torch.save(metrics.state_dict(), tmp_path / "state.pt")
    resumed = CalibrationMetrics(12, from_logits=True)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt"))
    resumed.update(LOGITS[800:], TARGET[800:])
    assert_same(resumed.compute(), whole)
    before = metrics.state_dict()
    metrics.update(LOGITS[800:], TARGET[800:])
    assert int(before["totals"][0]) == 800  # a copy
    metrics.reset()
    with pytest.raises(ValueError, match="there is none"):
        metrics.compute()
    metrics.update(LOGITS, TARGET)
    assert_same(metrics.to("cpu").compute(), whole)
    with pytest.raises(ValueError, match="state must be of an accumulator with the settings"):
        CalibrationMetrics(12, from_logits=True, bins=3).load_state_dict(before)
    with pytest.raises(ValueError, match="merge needs accumulators with the same settings"):
        metrics.merge(CalibrationMetrics(12, from_logits=False))
    assert repr(metrics).startswith("CalibrationMetrics(num_classes=12, from_logits=True, bins=10")


def test_the_state_does_not_grow():
    metrics = CalibrationMetrics(10, from_logits=True)
    size = sum(each.numel() for each in metrics._sums)
    metrics.update(*simulate(5000, 10))
    assert sum(each.numel() for each in metrics._sums) == size < 40_000


def peak_bytes(batches, rows):
    """Return the peak of what counting some batches and computing allocates."""
    logits, target = simulate(rows, 10)
    metrics = CalibrationMetrics(10, from_logits=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        for _ in range(batches):
            metrics.update(logits, target)
        metrics.compute()
    events = record.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    total = peak = 0
    for _, change in sorted(changes, key=lambda event: event[0]):
        total += change
        peak = max(peak, total)
    return peak


@pytest.mark.slow
def test_memory_does_not_depend_on_how_much_is_streamed():
    few, many = peak_bytes(2, 20_000), peak_bytes(20, 20_000)
    assert many <= 1.01 * few
    # and one large batch needs little more than a few numbers per row
    assert peak_bytes(1, 300_000) < 40_000_000 + 300_000 * 40


def _count_in_process(rank, path):
    dist.init_process_group(
        "gloo", init_method=f"file://{path}/rendezvous", rank=rank, world_size=2
    )
    torch.set_num_threads(1)
    part = slice(0, 700) if rank == 0 else slice(700, None)
    metrics = counted((LOGITS[part], TARGET[part]))
    together = metrics.all_reduce()
    torch.save(together.state_dict(), f"{path}/{rank}.pt")
    again = metrics.all_reduce()  # what one process has counted is as it was
    assert all(torch.equal(a, b) for a, b in zip(together._sums, again._sums, strict=True))
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_the_same(whole, tmp_path):
    mp.spawn(_count_in_process, (str(tmp_path),), nprocs=2)
    for rank in (0, 1):
        metrics = CalibrationMetrics(12, from_logits=True)
        metrics.load_state_dict(torch.load(tmp_path / f"{rank}.pt"))
        assert_same(metrics.compute(), whole)


def test_results_are_readable(whole):
    text = repr(whole)
    assert "2,000 predictions, 10 bins, with 95 % intervals" in text
    assert f"ECE                       {whole.ece:.4f}  [" in text
    plain = counted((LOGITS, TARGET), top_k=3).compute()
    assert "[" not in repr(plain)
    assert "top-3 accuracy" in repr(plain)
    content = json.loads(json.dumps(whole.as_dict(), allow_nan=False))
    assert content["metrics"]["ece"]["value"] == whole.ece
    assert content["bins"]["accuracy"][0] is None
    assert sum(content["bins"]["counts"]) == 2000
    assert plain.as_dict()["metrics"]["ece"] == plain.ece
