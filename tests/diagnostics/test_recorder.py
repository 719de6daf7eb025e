"""The confidence recorder against plain loops, in any split, precision and number of models."""

import io
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorder_reference import SlowRecorder, groups, observe

from softmargin.diagnostics import ConfidenceRecorder, _epoch
from softmargin.diagnostics._epoch import measure
from softmargin.functional import embedded_bias

N, C = 37, 5
FIELDS = ("confidence", "variability", "correctness", "aum", "forgetting", "never_learned")


def made_up_epochs(seed=0, epochs=4, models=None, num_samples=N, scale=3.0):
    """Return epochs of batches (index, logits, target) with repeats, and samples left out."""
    generator = torch.Generator().manual_seed(seed)
    lead = () if models is None else (models,)
    made = []
    for _ in range(epochs):
        steps = []
        for size in (11, 11, 4, 13):
            index = torch.randint(0, num_samples, (*lead, size), generator=generator)
            logits = scale * torch.randn(*lead, size, C, generator=generator)
            steps.append((index, logits, torch.randint(0, C, (*lead, size), generator=generator)))
        made.append(steps)
    return made


def record(recorder, epochs):
    for steps in epochs:
        for step in steps:
            recorder.update(*step)
        recorder.end_epoch()
    return recorder


def assert_equal_bits(a, b):
    """Raise unless two recorders hold the same, bit for bit, where NaN is NaN."""
    torch.testing.assert_close(a.state_dict(), b.state_dict(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("seed", range(3))
def test_every_result_is_that_of_plain_loops(seed):
    epochs = made_up_epochs(seed)
    recorder, slow = record(ConfidenceRecorder(N), epochs), record(SlowRecorder(N), epochs)
    confidence = slow.column(0)
    assert np.isnan(confidence).any()
    assert recorder.epochs == 4
    np.testing.assert_allclose(recorder.confidence, confidence, atol=2.5e-4)
    np.testing.assert_allclose(recorder.final_confidence, confidence[-1], rtol=2e-6)
    np.testing.assert_allclose(recorder.mean_bias, slow.mean_bias(), rtol=1e-6)
    for epoch in range(-4, 4):
        assert recorder.histogram(epoch).tolist() == slow.histogram(epoch)
    found = recorder.data_map()
    for i in range(N):
        ours = [getattr(found, name)[i].item() for name in FIELDS]
        assert ours == pytest.approx(slow.data_map(i), rel=2e-6, abs=1e-7, nan_ok=True)
    curves, members = groups(recorder.confidence.tolist(), 5, slow.column(0)[-1].tolist())
    assert recorder.groups().members.tolist() == members
    np.testing.assert_allclose(recorder.groups().curves, curves, rtol=1e-12)
    np.testing.assert_array_equal(recorder.traces([3, 0]), recorder.confidence[:, [3, 0]].float())


def test_mean_bias_is_the_mean_of_the_embedded_bias():
    (steps,) = made_up_epochs(epochs=1)
    index, logits, target = torch.arange(11), *steps[0][1:]
    recorder = record(ConfidenceRecorder(N), [[(index, logits, target)]])
    expected = embedded_bias(logits.double(), target).mean()
    assert recorder.mean_bias.tolist() == pytest.approx([expected.item()], rel=1e-6)


def test_the_sums_of_many_samples_are_the_same_alone_and_together():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 40_001, 3, generator=generator)
    target = torch.randint(0, 3, (2, 40_001), generator=generator)
    together = ConfidenceRecorder(40_001, models=2)
    together.record_pass(logits, target)
    alone = ConfidenceRecorder(40_001)
    alone.record_pass(logits[1], target[1])
    assert together.mean_bias[1].equal(alone.mean_bias)
    assert together.final_confidence[1].equal(alone.final_confidence)


@pytest.mark.parametrize("shared", [True, False])
def test_many_models_are_as_many_recorders(shared):
    epochs = made_up_epochs(models=3)
    if shared:
        epochs = [[(i[0], z, y[0]) for i, z, y in steps] for steps in epochs]
    together = record(ConfidenceRecorder(N, models=3), epochs)
    for k in range(3):
        own = [
            [(i if shared else i[k], z[k], y if shared else y[k]) for i, z, y in steps]
            for steps in epochs
        ]
        alone = record(ConfidenceRecorder(N), own)
        for name in ("confidence", "final_confidence", "mean_bias"):
            ours, single = getattr(together, name)[k], getattr(alone, name)
            torch.testing.assert_close(ours, single, rtol=0, atol=0, equal_nan=True)
        assert together.histogram(1)[k].equal(alone.histogram(1))
        assert together.groups().members[k].equal(alone.groups().members)
        np.testing.assert_array_equal(together.traces([5])[k], alone.traces([5]))
        for name in FIELDS:
            ours, single = getattr(together.data_map(), name)[k], getattr(alone.data_map(), name)
            torch.testing.assert_close(ours, single, rtol=0, atol=0, equal_nan=True)


def test_padding_is_not_recorded():
    index = torch.tensor([[0, 1, 2], [1, -1, -1]])
    logits = torch.randn(2, 3, C, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[0, 1, 2], [3, 0, 0]])
    recorder = record(ConfidenceRecorder(3, models=2), [[(index, logits, target)]])
    assert recorder.confidence[1, 0].isnan().tolist() == [True, False, True]
    expected, _, _, bias = observe(logits[1, 0].tolist(), 3)
    assert recorder.final_confidence[1, 1].item() == pytest.approx(expected, rel=1e-6)
    assert recorder.mean_bias[1].item() == pytest.approx(bias, rel=1e-6)
    expected = [observe(row, t)[0] for row, t in zip(logits[0].tolist(), [0, 1, 2], strict=True)]
    assert recorder.final_confidence[0].tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("waiting", [1, 60, 300, 1 << 16])
def test_when_it_computes_does_not_matter(monkeypatch, waiting):
    epochs = made_up_epochs(models=2)
    usual = record(ConfidenceRecorder(N, models=2), epochs)
    monkeypatch.setattr(_epoch, "WAITING", waiting)
    assert_equal_bits(record(ConfidenceRecorder(N, models=2), epochs), usual)


def test_rows_are_computed_alike_in_any_company():
    generator = torch.Generator().manual_seed(0)
    logits = 20 * torch.randn(1000, 17, generator=generator)
    target = torch.randint(0, 17, (1000,), generator=generator)
    whole = measure(logits, target)
    for size in (1, 7, 64):
        parts = zip(logits.split(size), target.split(size), strict=True)
        assert torch.cat([measure(*part) for part in parts]).equal(whole)


@pytest.mark.parametrize("waiting", [1, 1 << 16])
@pytest.mark.parametrize("models", [None, 2])
def test_the_last_of_a_sample_counts(monkeypatch, waiting, models):
    monkeypatch.setattr(_epoch, "WAITING", waiting)
    lead = () if models is None else (models,)
    logits = torch.randn(*lead, 6, C, generator=torch.Generator().manual_seed(1))
    index, target = torch.tensor([1, 0, 1, 2, 1, 0]), torch.tensor([0, 1, 2, 3, 4, 0])
    twice = ConfidenceRecorder(3, models)
    twice.update(index[:4], logits[..., :4, :], target[:4])
    twice.update(index[4:], logits[..., 4:, :], target[4:])
    twice.end_epoch()
    once = ConfidenceRecorder(3, models)
    last = torch.tensor([3, 4, 5])
    once.update(index[last], logits[..., last, :], target[last])
    once.end_epoch()
    assert_equal_bits(twice, once)


@pytest.mark.parametrize("models", [None, 2])
@pytest.mark.parametrize("step", [0, 2, 4])
def test_resuming_in_an_epoch_changes_nothing(models, step):
    epochs = made_up_epochs(models=models)
    whole = record(ConfidenceRecorder(N, models), epochs)
    first = record(ConfidenceRecorder(N, models), epochs[:2])
    for each in epochs[2][:step]:
        first.update(*each)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = ConfidenceRecorder(N, models)
    second.update(*epochs[0][0])  # must be gone after loading
    second.load_state_dict(torch.load(file, weights_only=True))
    for each in epochs[2][step:]:
        second.update(*each)
    second.end_epoch()
    record(second, epochs[3:])
    assert_equal_bits(second, whole)
    assert second.histogram(0).equal(whole.histogram(0))


def test_a_state_is_a_copy():
    epochs = made_up_epochs()
    recorder = record(ConfidenceRecorder(N), epochs[:1])
    state = recorder.state_dict()
    other = ConfidenceRecorder(N)
    other.load_state_dict(state)
    record(recorder, epochs[1:])
    record(other, epochs[2:])
    fresh = ConfidenceRecorder(N)
    fresh.load_state_dict(state)
    assert_equal_bits(fresh, record(ConfidenceRecorder(N), epochs[:1]))


def test_a_state_in_an_epoch_is_a_copy():
    steps = made_up_epochs()[0]
    recorder = ConfidenceRecorder(N)
    recorder.update(*steps[0])
    state = recorder.state_dict()
    recorder.update(*steps[1])
    recorder.end_epoch()
    other = ConfidenceRecorder(N)
    other.load_state_dict(state)
    other.end_epoch()
    assert_equal_bits(other, record(ConfidenceRecorder(N), [steps[:1]]))


def test_counts_and_order_do_not_come_from_float16():
    p = torch.tensor([0.20001, 0.99991, 0.99990, 0.19999], dtype=torch.float64)
    assert p.half().double()[0] < 0.2
    recorder = ConfidenceRecorder(4)
    for row in (p.flip(0), p):
        logits = torch.stack([row.logit(), torch.zeros(4, dtype=torch.float64)], 1)
        recorder.record_pass(logits, torch.zeros(4, dtype=torch.int64))
    assert recorder.histogram(0).tolist() == recorder.histogram(1).tolist() == [1, 1, 0, 0, 2]
    assert recorder.groups(4).members.tolist() == [1, 3, 2, 0]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
@settings(max_examples=50)
def test_the_last_of_each_place(places):
    last = {place: number for number, place in enumerate(places)}
    assert sorted(_epoch._last_of_each(torch.tensor(places)).tolist()) == sorted(last.values())


class LastWriteLoses:
    """Rows in which the first of equal places wins once, as a parallel copy may have it."""

    def __init__(self, rows):
        self.rows, self.calls = rows, 0

    def index_copy_(self, dim, place, values):
        order = torch.arange(len(place))
        self.rows.index_copy_(
            dim, *(x[order if self.calls else order.flip(0)] for x in (place, values))
        )
        self.calls += 1

    def index_select(self, *arguments):
        return self.rows.index_select(*arguments)


def test_the_last_counts_whatever_the_order_of_writing():
    epoch = _epoch.Epoch(3, None, torch.device("cpu"))
    epoch.rows = LastWriteLoses(epoch.rows)
    values = torch.arange(15.0).view(5, 3)
    epoch._write(torch.tensor([1, 2, 1, 2, 0]), values)
    assert epoch.rows.calls == 2
    assert epoch.rows.rows.tolist() == values[[4, 2, 3]].tolist()


def test_what_was_given_may_change_afterwards_and_gets_no_gradient():
    index, logits, target = made_up_epochs()[0][0]
    expected = record(ConfidenceRecorder(N), [[(index, logits, target)]])
    leaf = logits.clone().requires_grad_()
    given = index.clone(), leaf * 1, target.clone()
    recorder = ConfidenceRecorder(N)
    recorder.update(*given)
    for each in given:
        each.detach().zero_()
    recorder.end_epoch()
    assert_equal_bits(recorder, expected)
    assert not recorder.final_confidence.requires_grad


def test_inference_mode_and_training_take_turns():
    epochs = [steps[:2] for steps in made_up_epochs()]  # of one shape: the buffer is used again
    recorder = ConfidenceRecorder(N)
    for number, steps in enumerate(epochs):
        with torch.inference_mode(number % 2 == 0):
            record(recorder, [steps])
    assert_equal_bits(recorder, record(ConfidenceRecorder(N), epochs))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision_is_computed_in_float64(dtype):
    epochs = [[(i, z.to(dtype), y.to(torch.uint8)) for i, z, y in e] for e in made_up_epochs()]
    recorder, slow = record(ConfidenceRecorder(N), epochs), record(SlowRecorder(N), epochs)
    np.testing.assert_allclose(recorder.final_confidence, slow.column(0)[-1], rtol=1e-6)


def test_confidence_is_right_in_both_tails():
    logits = torch.tensor([[40.0, 0.0, 0.0], [0.0, 80.0, 0.0], [0.0, 0.0, 1e4]])
    recorder = ConfidenceRecorder(3)
    recorder.record_pass(logits, torch.tensor([1, 0, 2]))
    found = recorder.final_confidence.tolist()
    assert found[:2] == pytest.approx([math.exp(-40), math.exp(-80)], rel=1e-5)
    assert found[2] == 1


def test_ties_are_decided_as_argmax_does():
    logits = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])
    recorder = ConfidenceRecorder(3)
    recorder.record_pass(logits, torch.tensor([0, 1, 1]))
    assert recorder.data_map().correctness.tolist() == [1, 0, 1]


def test_masked_classes_are_no_mistake():
    logits = torch.tensor([[1.0, -math.inf, -math.inf], [0.0, 0.0, -math.inf]])
    recorder = ConfidenceRecorder(2)
    recorder.record_pass(logits, torch.tensor([0, 2]))
    assert recorder.final_confidence.tolist() == [1, 0]
    assert recorder.mean_bias.item() == pytest.approx(math.log(2) / 2)


@given(rights=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=12))
@settings(max_examples=60)
def test_forgetting_counts_what_was_right_and_then_wrong(rights):
    recorder, slow = ConfidenceRecorder(2), SlowRecorder(2)
    for right in rights:  # None: not seen in this epoch; sample 1 always is
        index = torch.tensor([1] if right is None else [1, 0])
        logits = torch.tensor([[2.0, 0.0], [1.0 if right else -1.0, 0.0]])[: len(index)]
        for each in (recorder, slow):
            each.update(index, logits, torch.zeros(len(index), dtype=torch.int64))
            each.end_epoch()
    found = recorder.data_map()
    ours = [getattr(found, name)[0].item() for name in FIELDS]
    assert ours == pytest.approx(slow.data_map(0), nan_ok=True, abs=1e-6)


def test_forgetting_by_hand():
    recorder = ConfidenceRecorder(4)
    for signs in ((1, -1, 1, -1), (-1, -1, 1, 1), (1, -1, 1, -1), (-1, -1, 1, 1)):
        logits = torch.tensor([[float(sign), 0.0] for sign in signs])
        recorder.record_pass(logits, torch.zeros(4, dtype=torch.int64))
    assert recorder.data_map().forgetting.tolist() == [2, 0, 0, 1]
    assert recorder.data_map().never_learned.tolist() == [False, True, False, False]


def test_constant_confidence_does_not_vary_at_all():
    recorder = ConfidenceRecorder(2)
    for _ in range(7):
        recorder.record_pass(torch.tensor([[0.3, 0.1], [1.7, 2.0]]), torch.tensor([0, 1]))
    assert recorder.data_map().variability.tolist() == [0, 0]


def test_nothing_recorded_has_the_right_shape():
    assert ConfidenceRecorder(3).confidence.shape == (0, 3)
    assert ConfidenceRecorder(3, models=2).confidence.shape == (2, 0, 3)
    assert ConfidenceRecorder(3, models=2).mean_bias.shape == (2, 0)
    for name in ("histogram", "groups", "data_map"):
        with pytest.raises(ValueError, match=f"{name} needs at least one recorded epoch"):
            getattr(ConfidenceRecorder(3), name)()


def test_nan_logits_are_counted_and_can_be_mended():
    recorder = ConfidenceRecorder(4)
    logits = torch.zeros(4, 3)
    logits[1, 0] = logits[2, 2] = math.nan
    target = torch.zeros(4, dtype=torch.int64)
    recorder.update(torch.arange(4), logits, target)
    for _ in range(2):
        with pytest.raises(ValueError, match="those of 2 of 4 samples in this epoch were"):
            recorder.end_epoch()
    assert recorder.epochs == 0
    recorder.update(torch.tensor([2, 1]), torch.zeros(2, 3), target[:2])
    recorder.end_epoch()
    assert recorder.final_confidence.tolist() == pytest.approx([1 / 3] * 4)
