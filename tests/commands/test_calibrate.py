"""``softmargin calibrate`` as a user types it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from softmargin._files import seal
from softmargin.calibration import CalibrationMetrics
from softmargin.calibration.result import LABELS
from softmargin.calibration.scaling import TemperatureScaling, VectorScaling, cross_validated
from softmargin.cli import main
from softmargin.commands.parser import build_parser

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
    assert re.search(r"Over-confident by \d+\.\d\d % \[\d+\.\d\d, \d+\.\d\d\]: mean con", shown)
    assert re.search(r"\nECE +\d+\.\d\d % \[\d+\.\d\d, \d+\.\d\d\] +\d+\.\d\d % \[", shown)
    scaler = TemperatureScaling.load("t.json")
    assert f"T = {scaler.temperature.item():.6g}" in shown
    page = (folder / "report" / "index.html").read_text()
    assert page.count('aria-label="Reliability diagram') == 2
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert {path.name for path in folder.iterdir()} == {"a.npz", "p.npz", "t.json", "report"}


@pytest.mark.slow
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
    "positive": ({"logits": [0.0, 1.0]}, ["--positive", "1"], "one of them 1"),
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
        (["a.npz", "--save", "t.json", "--scaling", "none"], "--save: needs --scaling other than"),
        (
            ["a.npz", "--folds", "1"],
            "argument --folds: must be a whole number from 2 to 3000, the rows of 'a.npz'",
        ),
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


def test_the_first_try_needs_no_file(folder, capsys):
    assert main(["calibrate", "--example", "--scaling", "temperature"]) == 0
    shown = capsys.readouterr().out
    assert "600 predictions, 10 classes" in shown
    assert "Report: softmargin-example-calibration/index.html\n" in shown
    assert shown.endswith("\nNext: softmargin calibrate FILE, with predictions of your own.\n")
    assert (folder / "softmargin-example-calibration" / "index.html").is_file()


@pytest.mark.slow
def test_what_to_do_next_can_be_done(folder, capsys):
    """The last line is a command that works, and so is the one after it."""
    assert main(["calibrate", "a.npz"]) == 0
    (line,) = re.findall("\nNext: (.*)", capsys.readouterr().out)
    command, method = re.fullmatch(r"softmargin (.*) keeps what (\w+) scaling.*", line).groups()
    assert main(command.split()) == 0
    shown = capsys.readouterr().out
    assert f"Calibrator: calibrator.json, by {method} scaling" in shown
    assert shown.endswith(
        "Next: softmargin apply calibrator.json FILE calibrates other predictions of this model.\n"
    )


@pytest.mark.slow
def test_of_two_calibrators_the_better_one_is_kept(folder, capsys):
    assert main(["calibrate", "a.npz", "--save", "c.json"]) == 0
    shown = capsys.readouterr().out
    content = json.loads((folder / "c.json").read_text())
    assert f"Calibrator: c.json, by {content['kind']} scaling" in shown
    assert main(["calibrate", "a.npz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    nll = {name: found[name]["metrics"]["nll"]["value"] for name in ("temperature", "vector")}
    assert content["kind"] == min(nll, key=nll.get)


@pytest.mark.slow
def test_confidence_and_correctness(folder, data, capsys):
    """The metrics of the top label are those of all classes, and there are no others."""
    logits, labels = data
    confidence, predicted = logits.double().softmax(1).max(1)
    correct = (predicted == labels).int()
    np.savez("c.npz", confidence=confidence, correct=correct)
    found = {}
    for name in ("p.npz", "c.npz"):
        assert main(["calibrate", name, "--json", "--scaling", "none"]) == 0
        found[name] = json.loads(capsys.readouterr().out)["results"]["given"]["metrics"]
    for name, value in found["c.npz"].items():
        assert value == pytest.approx(found["p.npz"][name], rel=1e-9), name
    assert {"ece", "accuracy", "overconfidence"} < found["c.npz"].keys()
    assert not {"nll", "brier", "top_k_accuracy", "classwise_ece"} & found["c.npz"].keys()
    assert main(["calibrate", "c.npz"]) == 0
    assert "for these, store the logits or probabilities of all classes" in capsys.readouterr().out
    assert main(["calibrate", "c.npz", "--save", "c.json"]) == 2
    assert "--save: needs predictions of all classes" in capsys.readouterr().err


def test_the_folder_of_a_run(folder, data, capsys):
    np.savez("a.npz", logits=data[0], labels=data[1])
    (folder / "run").mkdir()
    (folder / "run" / "predictions.npz").write_bytes(seal((folder / "a.npz").read_bytes()))
    assert main(["calibrate", "run", "--scaling", "none"]) == 0
    assert "Report: run/predictions-npz-calibration/index.html" in capsys.readouterr().out
    content = bytearray((folder / "run" / "predictions.npz").read_bytes())
    content[1000] ^= 1
    (folder / "run" / "predictions.npz").write_bytes(content)
    assert main(["calibrate", "run", "--scaling", "none"]) == 2
    assert "does not match its checksum" in capsys.readouterr().err


@pytest.mark.slow
def test_as_a_process(folder):
    command = [sys.executable, "-m", "softmargin.cli", "calibrate", "p.npz", "--scaling", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "probabilities from 'probabilities'" in done.stdout
    assert done.stderr == ""
    failed = subprocess.run([*command, "--labels", "q"], capture_output=True, text=True)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr


@pytest.mark.slow
def test_shares_are_in_percent_everywhere_and_fractions_in_json(folder, capsys):
    """One unit in table, sentence and page; NLL and Brier scores are plain numbers."""
    assert main(["calibrate", "a.npz", "--scaling", "temperature", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)["results"]["given"]["metrics"]
    assert main(["calibrate", "a.npz", "--scaling", "temperature"]) == 0
    shown = capsys.readouterr().out
    page = (folder / "a-npz-calibration" / "index.html").read_text()
    page = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)
    for name, label in LABELS.items():
        value, low, high = (given[name][key] for key in ("value", "low", "high"))
        plain = name in ("nll", "brier") or name.startswith("brier")
        cell = f"{value:.4f} [{low:.4f}, {high:.4f}]"
        if not plain:
            cell = f"{100 * value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"
        for text in (shown, page):
            assert re.search(
                rf"{re.escape(label.format(k=5).strip())}\W.*?{re.escape(cell)}", text, re.S
            )
    assert f"Over-confident by {100 * given['overconfidence']['value']:.2f} % [" in shown
    assert f"ECE {100 * given['ece']['value']:.2f} %" in page
    assert not re.search(r"ECE[^0-9]{0,12}0\.\d{3}", shown + page)
    assert "points" not in shown + page


@pytest.mark.slow
def test_each_input_has_a_folder_of_its_own(folder, data, capsys):
    """Neither another input nor the demo writes to it; where it is, is said."""
    logits, labels = data
    for place in ("one", "two"):
        (folder / place).mkdir()
        shutil.copy("a.npz", folder / place / "a.npz")
        np.save(folder / place / "y.npy", labels[:300])
    np.save("logits.npy", logits[:300])
    parser, places = build_parser(), set()
    for inputs in (
        *(["a.npz"], ["p.npz"], ["one/a.npz"], ["two/a.npz"]),
        *(["logits.npy", "one/y.npy"], ["logits.npy", "two/y.npy"]),
    ):
        assert main(["calibrate", *inputs, "--scaling", "none"]) == 0
        (place,) = re.findall("Report: (.*)", capsys.readouterr().out)
        assert inputs[0].split(".")[0] in place
        places.add((folder / place).resolve())
    assert len(places) == 6
    demo = parser.parse_args(["demo"]).out
    assert all(place.is_file() and demo.name not in place.parts for place in places)
    with pytest.raises(SystemExit):
        main(["calibrate", "--help"])
    assert "predictions-npz-calibration" in capsys.readouterr().out


def test_places_are_checked_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr(
        "softmargin.calibration.predictions.open_predictions", lambda *_, **__: pytest.fail("read")
    )
    (folder / "blocked").write_text("")
    saving = ["--scaling", "temperature", "--save"]
    for options, named in (
        (["--out", "blocked"], "argument --out: must be a folder that can be written to, but"),
        (["--out", "blocked/below"], "argument --out: must be a folder that can be written to"),
        ([*saving, "blocked/t.json"], "argument --save: must be a file that can be written, but"),
        ([*saving, "nowhere/t.json"], "argument --save: must be a file that can be written, but"),
        ([*saving, "."], "argument --save: must be a file that can be written, but '.' is not"),
        ([*saving, "./a.npz"], "argument --save: must not be the file that is read, 'a.npz'"),
    ):
        assert main(["calibrate", "a.npz", *options]) == 2
        error = capsys.readouterr().err
        assert named in error
        assert error.count("\n") == 1
    assert {path.name for path in folder.iterdir()} == {"a.npz", "p.npz", "blocked"}


def test_errors_are_in_the_words_of_the_command(folder, capsys):
    """No Python argument, no path of a source file, no empty list, and what to do instead."""
    np.savez("few.npz", logits=[[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]], labels=[0, 1, 0])
    (folder / "zero.csv").write_text("")
    (folder / "twice.csv").write_text("labels,labels,z0,z1\n0,1,1,2\n")
    cases = {
        "a.npz --probabilities": "must hold probabilities from 0 to 1",
        "p.npz --logits": "--logits says that 'probabilities' in 'p.npz' holds logits",
        "zero.csv": "FILE 'zero.csv' must hold names in its first line, but that is empty",
        "twice.csv": "'labels' occurs more than once in 'twice.csv'",
        "few.npz --folds 4": "argument --folds: must be a whole number from 2 to 3",
    }
    for words, named in cases.items():
        assert main(["calibrate", *words.split()]) == 2
        shown = capsys.readouterr()
        assert named in shown.err
        assert shown.err.count("\n") == 1
        for wrong in ("from_logits", "predictions must", "folds must", ".py", "of  in", "[Errno"):
            assert wrong not in shown.err


@pytest.mark.slow
def test_warnings_are_part_of_the_output(folder):
    np.savez("few.npz", logits=[[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]], labels=[0, 1, 0])
    command = [sys.executable, "-m", "softmargin.cli", "calibrate", "few.npz", "--folds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "3 predictions in 10 bins say little about calibration; use fewer bins." in done.stdout
    assert ".py" not in done.stdout
    assert "Warning" not in done.stdout


def test_control_characters_of_files_are_not_printed(folder, capsys):
    evil = "\x1b[31m\x07"
    (folder / f"{evil}.csv").write_text("z0,z1,label\n1,2,0\n2,1,1\n1,3,0\n3,1,1\n")
    assert main(["calibrate", f"{evil}.csv", "--scaling", "none"]) == 0
    np.savez("b.npz", **{f"logits{evil}": [[1.0, 2.0]], "labels": [0]})
    assert main(["calibrate", "b.npz"]) == 2
    np.savez("b.npz", **{f"{evil}a": [[1.0, 2.0]], f"label{evil}": [0]})
    arguments = ["--predictions", f"{evil}a", "--labels", f"label{evil}", "--logits"]
    assert main(["calibrate", "b.npz", "--scaling", "none", *arguments]) == 0
    for options in (["--labels", evil], ["--predictions", evil], ["--out", f"a.npz/{evil}"]):
        assert main(["calibrate", "a.npz", *options]) == 2
    assert main(["calibrate", f"{evil}.npz"]) == 2
    shown = "".join(capsys.readouterr())
    assert "\\x1b[31m" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_no_room_for_a_temporary_copy(folder, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name, fail in (
        ("tempfile.tempdir", str(folder / "nowhere")),
        ("softmargin.calibration._files.TemporaryFile", full),
        ("softmargin.calibration._files.TemporaryFile", FullFile),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(name, fail)
            assert main(["calibrate", "a.npz", "--out", "report"]) == 2
        error = capsys.readouterr().err
        assert "temporary copy of the predictions cannot be written" in error
        assert "TMPDIR" in error
        assert error.count("\n") == 1


class FullFile:
    """A temporary file on a full disk."""

    def __init__(self, **_):
        pass

    def close(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_the_page_in_a_browser(folder):
    assert main(["calibrate", "a.npz"]) == 0
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --enable-logging=stderr"
    )
    page = folder / "a-npz-calibration" / "index.html"
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={folder / 'browser'}"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.count('aria-label="Reliability diagram') == 3
    assert "Over-confident by" in done.stdout
    assert "CONSOLE" not in done.stderr
