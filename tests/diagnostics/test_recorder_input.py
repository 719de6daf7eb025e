"""What the confidence recorder refuses, and what it says of itself."""

import pytest
import torch

from softmargin.diagnostics import ConfidenceRecorder

GOOD = torch.arange(2), torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
BAD_STEPS = [
    ((torch.tensor([0, 9]), *GOOD[1:]), None, IndexError, "index .* 0 to 3, but got 9"),
    ((torch.tensor([-1, 0]), *GOOD[1:]), None, IndexError, "index .* 0 to 3, but got -1"),
    ((torch.tensor([0.0, 1.0]), *GOOD[1:]), None, TypeError, "index .* got torch.float32"),
    (([0, 1], *GOOD[1:]), None, TypeError, "index must be a tensor .* got list"),
    ((torch.arange(3), *GOOD[1:]), None, ValueError, r"index .* \(2,\) .* got \(3,\)"),
    ((GOOD[0], torch.zeros(2, 3, 1), GOOD[2]), None, ValueError, r"logits .* \(B, C\)"),
    ((GOOD[0], torch.zeros(2, 1), GOOD[2]), None, ValueError, "at least 2 classes"),
    ((GOOD[0], torch.zeros(2, 3).long(), GOOD[2]), None, TypeError, "logits .* torch.int64"),
    ((GOOD[0], [[0.0, 1.0]], GOOD[2]), None, TypeError, "logits .* got list"),
    ((*GOOD[:2], torch.tensor([0, 3])), None, IndexError, "target .* 0 to 2, but got 3"),
    ((*GOOD[:2], torch.zeros(2)), None, TypeError, "target .* torch.float32"),
    (GOOD, 2, ValueError, r"logits must have shape \(2, B, C\) .* got \(2, 3\)"),
    ((GOOD[0], torch.zeros(3, 2, 3), GOOD[2]), 2, ValueError, r"got \(3, 2, 3\)"),
    ((torch.zeros(3, 2).long(), torch.zeros(2, 2, 3), GOOD[2]), 2, ValueError, r"\(2, 2\) or"),
    ((torch.tensor([0, -2]), torch.zeros(2, 2, 3), GOOD[2]), 2, IndexError, "-1 for padding"),
]


@pytest.mark.parametrize(("step", "models", "error", "message"), BAD_STEPS)
def test_a_bad_step_is_refused_in_one_sentence(step, models, error, message):
    recorder = ConfidenceRecorder(4, models)
    with pytest.raises(error, match=message):
        recorder.update(*step)
    with pytest.raises(ValueError, match="end_epoch needs at least one update"):
        recorder.end_epoch()


@pytest.mark.parametrize("wrong", [0, 2])
def test_bad_values_in_a_later_step_are_found_at_the_end_at_the_latest(wrong):
    bad = list(GOOD)
    bad[wrong] = torch.tensor([0, 7])
    recorder = ConfidenceRecorder(4)
    recorder.update(*GOOD)
    recorder.update(*bad)
    with pytest.raises(IndexError, match="but got 7"):
        recorder.end_epoch()


def test_other_bad_input_is_refused():
    for bad in (0, -3):
        with pytest.raises(ValueError, match=f"num_samples must be at least 1, but got {bad}"):
            ConfidenceRecorder(bad)
    with pytest.raises(TypeError, match="num_samples must be a whole number, but got 2.5"):
        ConfidenceRecorder(2.5)
    with pytest.raises(ValueError, match="models must be at least 1, but got 0"):
        ConfidenceRecorder(2, models=0)
    recorder = ConfidenceRecorder(3)
    with pytest.raises(ValueError, match="index must have shape"):
        recorder.record_pass(torch.zeros(2, 2), torch.tensor([0, 1]))
    recorder.record_pass(torch.zeros(3, 2), torch.tensor([0, 1, 0]))
    with pytest.raises(IndexError, match="epoch must be from -1 to 0, but got 1"):
        recorder.histogram(1)
    with pytest.raises(IndexError, match="0 to 2, but got 3"):
        recorder.traces([3])
    with pytest.raises(ValueError, match=r"\(3, None\), but got \(4, None\)"):
        recorder.load_state_dict(ConfidenceRecorder(4).state_dict())


def test_it_says_what_it_holds():
    recorder = ConfidenceRecorder(3, models=2)
    assert repr(recorder) == "ConfidenceRecorder(num_samples=3, models=2, epochs=0)"


@pytest.mark.parametrize("models", [None, 2])
def test_an_empty_step_is_no_mistake(models):
    lead = () if models is None else (models,)
    recorder = ConfidenceRecorder(2, models)
    none = torch.empty(0, dtype=torch.int64)
    recorder.update(none, torch.zeros(*lead, 0, 3), none)
    recorder.update(torch.arange(2), torch.zeros(*lead, 2, 3), torch.zeros(2, dtype=torch.int64))
    recorder.end_epoch()
    assert recorder.final_confidence.flatten().tolist() == pytest.approx(
        [1 / 3] * 2 * (models or 1)
    )


def test_odd_samples_and_epochs_are_refused():
    recorder = ConfidenceRecorder(3)
    recorder.record_pass(torch.zeros(3, 2), torch.tensor([0, 1, 0]))
    assert recorder.traces([]).shape == (1, 0)
    for odd in ("x", [None], [[1], [2, 3]], [0.5]):
        with pytest.raises(TypeError, match="samples must .* whole numbers, but got"):
            recorder.traces(odd)
    for odd in (0.5, True, "x", None):
        with pytest.raises(TypeError, match="epoch must be a whole number, but got"):
            recorder.histogram(odd)
