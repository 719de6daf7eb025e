"""States of the recorder that are damaged, or of another recorder."""

import pytest
import torch

from softmargin.diagnostics import ConfidenceRecorder


def recorded(seed):
    """Return a recorder of two epochs of two models, with a step of a third."""
    generator = torch.Generator().manual_seed(seed)
    recorder = ConfidenceRecorder(4, models=2)
    for epoch in range(3):
        logits = torch.randn(2, 4, 3, generator=generator)
        recorder.update(torch.arange(4), logits, torch.tensor([0, 1, 2, 0]))
        if epoch < 2:
            recorder.end_epoch()
    return recorder


def changed(state, path, value):
    """Return a state in which one entry, named by the way to it, has another value or none."""
    first, *rest = path
    entry = changed(state[first], rest, value) if rest else value
    if isinstance(state, list):
        return [*state[:first], entry, *state[first + 1 :]]
    kept = {name: each for name, each in state.items() if name != first}
    return kept if entry is GONE else {**kept, first: entry}


GONE = object()
BAD_STATES = [
    *(((name,), GONE, f"{name!r} is missing") for name in ConfidenceRecorder(1).state_dict()),
    (("num_samples",), 3, r"\(4, 2\), but got \(3, 2\)"),
    (("models",), None, r"\(4, 2\), but got \(4, None\)"),
    (("under_way",), torch.zeros(1, 3), r"'under_way'. must .* \(8, 3\), but .* \(1, 3\)"),
    (("final",), torch.zeros(2, 4), "'final'. must .* torch.float64 .* got torch.float32"),
    (("final",), "x", "'final'. must be a tensor .* but got str"),
    (("totals",), 3, "'totals'. must be a dict, but got int"),
    (("totals", "seen"), GONE, "'totals'. must hold seen, .* 'seen' is missing"),
    (("totals", "mean"), torch.zeros(4).double(), r"'mean'. must .* \(2, 4\), but"),
    (("confidences",), "x", "'confidences'. must be a list, but got str"),
    (("confidences",), [], r"as many confidences, .* but got \[0, 2, 2\]"),
    (("confidences", 1), torch.zeros(2, 5).half(), r"'confidences'.\[1\] must .* \(2, 5\)"),
    (("confidences", 1), torch.full((2, 4), 7.0).half(), r"\[1\] must be between 0 and 1"),
    (("histograms", 0), torch.zeros(2, 4).long(), r"'histograms'.\[0\] must .* \(2, 5\), but"),
    (("biases", 0), torch.zeros(2), "'biases'.* torch.float64 .* but got torch.float32"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD_STATES)
def test_a_state_that_is_none_is_refused_and_changes_nothing(path, value, message):
    state, recorder = recorded(0).state_dict(), recorded(1)
    before = recorder.state_dict()
    with pytest.raises(ValueError, match=message):
        recorder.load_state_dict(changed(state, path, value))
    torch.testing.assert_close(recorder.state_dict(), before, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("state", [{}, [], None, "x", 3])
def test_what_is_no_state_at_all_is_refused(state):
    with pytest.raises(ValueError, match="state must (be a dict|hold num_samples)"):
        ConfidenceRecorder(2).load_state_dict(state)
