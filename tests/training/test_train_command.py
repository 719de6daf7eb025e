"""What ``softmargin train`` says, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from softmargin import _progress
from softmargin.cli import main
from softmargin.commands import train as command
from softmargin.training import RunFolder, TrainingConfig, train

SMALL = ["train", "--data", "iris", "--model", "mlp", "--epochs", "4", "--batch", "45"]
MISTAKES = {
    "data": (["--data", "digitz"], "--data must be a data set such as digits, but got 'digitz'."),
    "model": (["--model", "fccn"], "--model must be a model such as fcnn"),
    "head": (["--head", "arcfac"], "--head must be a name such as arcface"),
    "beta": (["--beta", "-1"], "--beta must be a finite number above 0, but got -1.0."),
    "option": (["--head", "linear", "--margin", "1"], "--margin: an option of head LinearHead"),
    "lr": (["--lr", "0"], "--lr must be a finite number above 0"),
    "rate": (["--lr-schedule", "stepp"], "--lr-schedule must be one of constant"),
    "smoothing": (["--label-smoothing", "2"], "--label-smoothing must be between 0.0 and 1.0"),
    "schedule": (["--schedule", "beta=linear:1"], "--schedule must have 3 numbers"),
    "batch": (["--batch", "9999"], "--batch must be at most the 135 training samples"),
    "device": (["--device", "abacus"], "--device must be auto, cpu, or one that is here"),
    "augment": (["--augment"], "--augment must be left out for iris, which holds no pictures"),
    "config": (["--config", "no.yaml"], "--config must be a readable YAML file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named_as_typed_and_leave_nothing(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    options, message = MISTAKES[name]
    for out in ("run", "new/deep/run"):
        assert main([*SMALL, "--out", out, *options]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"softmargin train: {message}")
        assert error.count("\n") == 1
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    assert main([*SMALL, "--out", "mine", *options]) == 2
    assert "notes.txt" in os.listdir("mine")


def test_other_options_are_named_as_typed(tmp_path, capsys):
    run = ["--out", str(tmp_path / "run")]
    assert main([*SMALL, *run, "--beta", "2"]) == 0
    capsys.readouterr()
    for options, message in (
        (["--beta", "3"], "--beta must be as when the run in"),
        ([], "--beta must be as when the run in"),
        (["--beta", "2", "--tau", "2"], "--tau must be as when the run in"),
    ):
        assert main([*SMALL, *run, *options]) == 2
        assert capsys.readouterr().err.startswith(f"softmargin train: {message}")


def test_shares_are_shown_in_percent(tmp_path, capsys):
    """As everywhere on the command line; JSON has fractions."""
    out = str(tmp_path / "run")
    assert main([*SMALL, "--out", out]) == 0
    trained = capsys.readouterr().out
    assert main(["evaluate", out, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert main(["evaluate", out]) == 0
    for text in (trained, capsys.readouterr().out):
        for name in ("accuracy", "ece", "mce", "mean confidence"):
            number = numbers[name.replace(" ", "_")]
            assert f"{name:18}{100 * number:.2f} %\n" in text
        assert f"{'nll':18}{numbers['nll']:.4f}\n" in text


def test_out_is_checked_before_the_work(tmp_path, monkeypatch, capsys):
    from softmargin import data

    monkeypatch.setattr(data, "load", lambda *_, **__: pytest.fail("data were loaded"))
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        assert main([*SMALL, "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert "argument --out: must be a folder that can be written to" in error
        assert "Errno" not in error
    with RunFolder(tmp_path / "busy").locked():
        assert main([*SMALL, "--out", str(tmp_path / "busy")]) == 2
    assert "--out must be a folder that no other run is working in" in capsys.readouterr().err


def test_progress_says_epoch_step_and_loss_once_there_is_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_progress, "SAY_EVERY", 0.001)
    monkeypatch.setattr(command, "EVERY", 0.0)
    assert main([*SMALL, "--out", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "starting"
    told = [line for line in lines if line != "starting"]
    assert told
    for line in told:
        assert re.fullmatch(r"\d+ %(, .* left)?: epoch \d of 4, step \d+, loss \d\.\d{4}", line)


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("softmargin.training.trainer.Trainer.run", interrupt)
    assert main([*SMALL, "--out", str(tmp_path / "run")]) == 130
    assert "the same command resumes where it stopped" in capsys.readouterr().err


class StoppedError(Exception):
    """A run was stopped."""


@pytest.mark.slow
def test_another_number_of_threads_is_said(tmp_path, capsys):
    config = TrainingConfig(data="iris", model="mlp", epochs=2, batch=45)

    def stop(epoch: int, step: int, loss: float) -> None:
        if epoch == 1:
            raise StoppedError

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        for name in ("same", "other"):
            with pytest.raises(StoppedError):
                train(config, tmp_path / name, device="cpu", progress=stop)
        arguments = ["train", "--data", "iris", "--model", "mlp", "--epochs", "2", "--batch", "45"]
        assert main([*arguments, "--device", "cpu", "--out", str(tmp_path / "same")]) == 0
        assert "thread" not in capsys.readouterr().err
        arguments += ["--threads", "2"]
        assert main([*arguments, "--device", "cpu", "--out", str(tmp_path / "other")]) == 0
    finally:
        torch.set_num_threads(before)
    lines = [line for line in capsys.readouterr().err.splitlines() if "thread" in line]
    assert len(lines) == 1
    assert lines[0].startswith("softmargin: warning: this run was begun with 1 thread and goes on")
    state = torch.load(tmp_path / "other" / "checkpoint.pt", weights_only=True)
    assert state["threads"] == [1, 2]


@pytest.mark.slow
def test_two_processes_that_start_in_one_folder(tmp_path):
    """One trains; the other says one sentence, or finds the run finished."""
    line = "import sys; from softmargin.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = [sys.executable, "-c", line, *SMALL, "--out", str(tmp_path / "run")]
    started = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [(*process.communicate(), process.returncode) for process in started]
    assert 0 in [code for *_, code in ended]
    for out, err, code in ended:
        if code:
            assert code == 2
            assert err.startswith("softmargin train: --out must be a folder that no other run")
            assert err.count("\n") == 1
        else:
            assert "accuracy" in out


def test_a_run_that_diverges_says_what_to_do(tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*SMALL, "--out", str(out), "--lr", "1e12"]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(
        r"softmargin train: training diverged at step \d+: lower --lr, or set --clip, and start "
        r"again with --overwrite or in another folder\.\n",
        error,
    )
    assert main([*SMALL, "--out", str(out), "--overwrite"]) == 0
    assert RunFolder(out).result() is not None


@pytest.mark.slow
def test_overwrite_removes_the_run_and_nothing_else(tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*SMALL, "--out", str(out), "--record"]) == 0
    (out / "notes.txt").write_text("keep")
    assert main([*SMALL, "--out", str(out), "--beta", "3", "--overwrite"]) == 0
    assert (out / "notes.txt").read_text() == "keep"
    assert not (out / "confidence").exists()
    assert RunFolder(out).config().loss_options == {"beta": 3.0}
    capsys.readouterr()
    before = (out / "result.json").read_bytes()
    assert main([*SMALL, "--out", str(out), "--overwrite", "--batch", "9999"]) == 2
    assert (out / "result.json").read_bytes() == before, "a mistake removes nothing"


def test_a_run_ends_with_a_page_of_its_own(tmp_path, capsys):
    """Curves, reliability, what to do next; self-contained, and written once."""
    out = tmp_path / "run"
    options = ["--held-out", "0.75", "--schedule", "beta=calibrated", "--batch", "12"]
    assert main([*SMALL, "--out", str(out), *options]) == 0
    assert capsys.readouterr().out.endswith(f"Run: {out}\nReport: {out / 'index.html'}\n")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3 + 2
    assert "confident" in page
    assert "A temperature fitted on the held-out rows" in page
    assert f"softmargin calibrate {out / 'predictions.npz'}" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_quiet_and_threads(tmp_path, capsys):
    before = torch.get_num_threads()
    assert main([*SMALL, "--out", str(tmp_path / "run"), "--quiet", "--threads", "2"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert torch.get_num_threads() == before
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["threads"] == 2


def test_help_shows_defaults(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for part in ("(default: 60)", "(default: 0.05)", "--data NAME|PATH", "--target COLUMN"):
        assert part in text


def test_a_mistyped_command_is_guessed(capsys):
    with pytest.raises(SystemExit):
        main(["trian"])
    assert "did you mean train?" in capsys.readouterr().err
