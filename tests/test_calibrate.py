"""``softmargin calibrate`` as a user types it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from softmargin.calibration import CalibrationMetrics
from softmargin.calibration.scaling import TemperatureScaling, VectorScaling, cross_validated
from softmargin.cli import main

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def data():
    """Logits twice as large as they should be, and labels drawn from the right ones."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3000, 6, generator=generator) * 1.5
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits * 2, labels


@pytest.fixture
def folder(tmp_path, data, monkeypatch):
    logits, labels = data
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "p.npz", probabilities=logits.double().softmax(1), labels=labels)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_numbers_are_those_of_the_library(folder, data, capsys):
    assert main(["calibrate", "a.npz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    logits, labels = data
    metrics = CalibrationMetrics(6, from_logits=True)
    metrics.update(logits, labels)
    expected = metrics.compute(0.95).as_dict()
    assert found["results"]["given"] == json.loads(json.dumps(expected))
    for name, method in (("temperature", TemperatureScaling), ("vector", VectorScaling)):
        scaled = cross_validated(method, logits, labels)
        metrics = CalibrationMetrics(6, from_logits=True)
        metrics.update(scaled.logits, labels)
        expected = metrics.compute(0.95)
        ours = found["results"][name]["metrics"]
        assert ours["nll"]["value"] == pytest.approx(expected.nll, rel=1e-9)
        assert ours["ece"]["value"] == pytest.approx(expected.ece, abs=1e-7)
    temperature = found["calibrators"]["temperature"]["temperature"]
    assert temperature == pytest.approx(2.0, rel=0.1)
    assert found["samples"] == 3000


def test_table_sentence_page_and_calibrator(folder, capsys):
    arguments = ["calibrate", "a.npz", "--scaling", "temperature", "--save", "t.json"]
    assert main([*arguments, "--out", "report"]) == 0
    shown = capsys.readouterr().out
    assert "a.npz: logits from 'logits', labels from 'labels'; 3000 predictions" in shown
    assert re.search(r"Over-confident by \d+\.\d points \[\d+\.\d, \d+\.\d\]: mean confid", shown)
    assert re.search(r"ECE +0\.\d{4} \[0\.\d{4}, 0\.\d{4}\] +0\.\d{4} \[", shown)
    scaler = TemperatureScaling.load("t.json")
    assert f"T = {scaler.temperature.item():.6g}" in shown
    page = (folder / "report" / "index.html").read_text()
    assert page.count('aria-label="Reliability diagram') == 2
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert {path.name for path in folder.iterdir()} == {"a.npz", "p.npz", "t.json", "report"}


def test_probabilities_give_the_numbers_of_their_logits(folder, capsys):
    results = []
    for name in ("a.npz", "p.npz"):
        assert main(["calibrate", name, "--json", "--scaling", "temperature"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    for key in ("given", "temperature"):
        for metric in ("ece", "nll", "brier", "accuracy"):
            a, b = (r["results"][key]["metrics"][metric]["value"] for r in results)
            assert a == pytest.approx(b, rel=1e-5), metric


MISTAKES = {
    "nan": ({"logits": [[0.0, 1.0], [np.nan, 0.0]]}, [], "row 1"),
    "infinite": ({"logits": [[0.0, 1.0], [np.inf, 0.0]]}, [], "row 1"),
    "sums": ({"probs": [[0.5, 0.5], [0.5, 0.8]]}, [], "0.3"),
    "logits as probabilities": ({"logits": [[3.0, 1.0], [0.0, 1.0]]}, ["--probabilities"], "1"),
    "labels": ({"logits": [[0.0, 1.0], [0.0, 1.0]], "labels": [0, 2]}, [], "2"),
    "one class": ({"logits": [[0.0], [1.0]]}, [], "1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_bad_values_get_one_sentence_and_nothing_is_written(tmp_path, monkeypatch, capsys, name):
    arrays, options, named = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", **{"labels": [0, 0], **arrays})
    assert main(["calibrate", "a.npz", "--scaling", "none", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("softmargin calibrate: ")
    assert named in error
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_probabilities_said_to_be_logits_are_refused(folder, capsys):
    assert main(["calibrate", "p.npz", "--logits", "--scaling", "none"]) == 2
    assert "probabilities" in capsys.readouterr().err


def test_bad_options(folder, capsys):
    for options, message in (
        (["a.npz", "--save", "t.json"], "--save: needs --scaling temperature or --scaling vector"),
        (["a.npz", "--folds", "1"], "folds must be an integer from 2"),
        (["no.npz"], "FILE must be a file that exists"),
        (["a.npz", "--predictions", "q"], "--predictions must be one of logits, labels"),
    ):
        assert main(["calibrate", *options]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    (folder / "blocked").write_text("")
    assert main(["calibrate", "a.npz", "--scaling", "none", "--out", "blocked"]) == 2
    assert "argument --out: must be a folder that can be written to" in capsys.readouterr().err


def test_as_a_process(folder):
    command = [sys.executable, "-m", "softmargin.cli", "calibrate", "p.npz", "--scaling", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "probabilities from 'probabilities'" in done.stdout
    assert done.stderr == ""
    failed = subprocess.run([*command, "--labels", "q"], capture_output=True, text=True)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_the_page_in_a_browser(folder):
    assert main(["calibrate", "a.npz"]) == 0
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --enable-logging=stderr"
    )
    page = folder / "softmargin-report" / "index.html"
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={folder / 'browser'}"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.count('aria-label="Reliability diagram') == 3
    assert "Over-confident by" in done.stdout
    assert "CONSOLE" not in done.stderr
