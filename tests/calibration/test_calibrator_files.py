"""Calibrators in files: every bit comes back, and damage is seen."""

import json
import math

import pytest
import torch
from scaling_cases import (
    BOTH,
    WITHOUT_WARNINGS,
    numbers,
    synthetic,
)

from softmargin.calibration.scaling import (
    CalibrationWarning,
    TemperatureScaling,
    VectorScaling,
)

pytestmark = WITHOUT_WARNINGS


@BOTH
def test_a_file_brings_back_every_bit(scaler_class, tmp_path):
    path = tmp_path / "calibrator.json"
    logits, target = synthetic()
    scaler = scaler_class().fit(logits, target)
    path.write_text("something older")
    scaler.save(str(path))
    loaded = scaler_class.load(path)
    assert torch.equal(numbers(loaded), numbers(scaler))
    assert numbers(loaded).dtype == torch.float64
    assert loaded.num_classes == 10
    assert torch.equal(loaded.transform(logits), scaler.transform(logits))
    content = json.loads(path.read_text())
    assert (content["version"], content["kind"]) == (1, scaler.kind)
    assert [p.name for p in tmp_path.iterdir()] == ["calibrator.json"]


def test_a_file_keeps_the_warning(tmp_path):
    logits, _ = synthetic()
    with pytest.warns(CalibrationWarning):
        scaler = TemperatureScaling().fit(logits, logits.argmax(1))
    scaler.save(tmp_path / "calibrator.json")
    assert TemperatureScaling.load(tmp_path / "calibrator.json").notes == scaler.notes


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "calibrator.json"
    scaler = TemperatureScaling().fit(*synthetic())
    scaler.save(path)
    before = path.read_text()

    def full_disk(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        scaler.save(path)
    assert path.read_text() == before
    assert len(list(tmp_path.iterdir())) == 1


def damaged(**changes):
    content = {"format": "softmargin calibrator", "version": 1, "kind": "temperature"}
    content |= {"num_classes": 3, "parameters": {"temperature": 1.5}} | changes
    return json.dumps({key: value for key, value in content.items() if value != "gone"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged: it cannot be read as JSON"),
        (damaged()[:-5], "is damaged: it cannot be read as JSON"),
        (b"\xff\xfe\x00", "is damaged: it cannot be read as JSON"),
        ("[1, 2]", "is damaged: it holds no names and values"),
        (damaged(format="other"), "that a calibrator's save has written, but .* is not"),
        (damaged(sha257="00"), "is damaged: it holds an unknown 'sha257'"),
        (damaged(version=2), "of version 1, but .* is of version 2"),
        (damaged(kind="vector"), "of kind 'temperature' for TemperatureScaling, but .* 'vector'"),
        (damaged(parameters="gone"), "has no parameters"),
        (damaged(parameters={}), "is damaged: 'temperature'"),
        (damaged(parameters=[1]), "is damaged"),
        (damaged(parameters={"temperature": -1}), "temperature must be a finite number above 0"),
        (damaged(parameters={"temperature": math.nan}), "is damaged: temperature must be a finite"),
        (damaged(parameters={"temperature": "hot"}), "is damaged"),
        (damaged(parameters={"temperature": [1.0]}), r"is damaged: temperature must have shape"),
    ],
)
def test_a_file_that_is_no_calibrator_gets_one_sentence(text, message, tmp_path):
    path = tmp_path / "calibrator.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as caught:
        TemperatureScaling.load(path)
    assert "\n" not in str(caught.value)
    assert "calibrator.json" in str(caught.value)


@BOTH
def test_a_file_with_any_byte_changed_or_cut_off_is_refused(scaler_class, tmp_path):
    """Whatever is damaged, loading gives one sentence, or the very numbers that were saved."""
    path = tmp_path / "calibrator.json"
    scaler = scaler_class().fit(*synthetic(500, 3))
    scaler.save(path)
    whole, refusals = path.read_bytes(), []
    flipped = [
        whole[:i] + bytes([whole[i] ^ 1 << i % 7]) + whole[i + 1 :] for i in range(len(whole))
    ]
    for content in (*flipped, *(whole[:length] for length in range(0, len(whole), 7))):
        path.write_bytes(content)
        try:
            again = scaler_class.load(path)
        except ValueError as error:
            refusals.append(str(error))
        else:
            assert torch.equal(numbers(again), numbers(scaler))
    assert len(refusals) > 0.9 * len(flipped)  # all but blanks between the entries
    assert all("calibrator.json" in each and "\n" not in each for each in refusals)


def test_files_of_vector_scaling_are_checked_too(tmp_path):
    path = tmp_path / "calibrator.json"
    path.write_text(damaged(kind="vector", parameters={"scale": [1, 2], "bias": [0, 0]}))
    with pytest.raises(ValueError, match="scale must hold 3 numbers, but got 2"):
        VectorScaling.load(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        VectorScaling.load(tmp_path / "missing.json")
