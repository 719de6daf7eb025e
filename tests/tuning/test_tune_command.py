"""``softmargin tune``: what it prints, writes, resumes and refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tuned_functions

from softmargin.cli import main

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(tuned_functions.PLACE, str(tmp_path))


def write_features(path, rows=200, names=("cat", "dog"), width=4):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(rows) % len(names)
    x = torch.randn(rows, width, generator=generator) + y[:, None]
    np.savez(path, x=x.numpy(), y=np.array(names)[y])


def test_a_function(capsys, tmp_path):
    words = ["tune", "tuned_functions:train", "--betas", "2,5", "--seeds", "2", "--out", "tuned"]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "5 ←" in output
    assert "Best on held-out rows: β = 5." in output
    assert "Do this next: try larger values" in output
    assert {path.name for path in (tmp_path / "tuned").glob("*.npz")} == {
        f"beta-{beta}-seed-{seed}.npz" for beta in (1.0, 2.0, 5.0) for seed in (0, 1)
    }
    page = (tmp_path / "tuned" / "index.html").read_text("utf-8")
    assert "Which β for tuned_functions:train?" in page
    assert json.loads((tmp_path / "tuned" / "result.json").read_text())["best_beta"] == 5


def test_features(capsys, tmp_path):
    write_features(tmp_path / "features.npz")
    words = ["tune", "features.npz", "--betas", "1,5", "--epochs", "5", "--seeds", "1", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["beta"] for each in found["candidates"]] == [1, 5, 1]
    assert found["rows"] == 200
    assert os.listdir(tmp_path) == ["features.npz"], "nothing is written unless asked for"


def test_features_judged_by_others(capsys, tmp_path):
    write_features(tmp_path / "features.npz")
    write_features(tmp_path / "other.npz", 120)
    words = ["tune", "features.npz", "--betas", "1,5", "--seeds", "1", "--json"]
    assert main([*words, "--held-out", "other.npz", "--weight-decay", "0.001"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 120


REFUSED = {
    "tuned_functions:nothing": "WHAT must be a function that can be imported",
    "no_such_module:train": "No module named 'no_such_module'",
    "tuned_functions:ROWS": "WHAT must be a function, but 'tuned_functions:ROWS' is none",
    "tuned_functions:failing": "train failed for β = 1, seed 0: KeyError",
    "tuned_functions:of_wrong_shape": "got shapes (100,) and (100,)",
    "tuned_functions:of_few_rows": "at least 100 rows to choose by, but got 20",
    "tuned_functions:held_out": "train must take a criterion",
    "tuned_functions:train --ray nowhere": "must be local or the address of a Ray cluster",
    "few.npz": "features must have at least 100 rows, but got 20",
    "few.npz --target z": "argument --target:",
    "features.npz --heads arcfac": "arcface",
    "text.npz": "FILE 'text.npz' cannot be read: it is no .npz archive.",
    "bare.npz": "FILE 'bare.npz' must have an array of classes beside its features, but has none.",
    "features.npz --held-out nowhere.npz": "--held-out: must be an .npz file that exists",
    "features.npz --held-out table.csv": "--held-out: must be an .npz file that exists",
    "features.npz --held-out few.npz": "--held-out: features must have at least 100 rows",
    "features.npz --held-out wide.npz": "--held-out: must have features of shape (M, 4), as",
    "features.npz --held-out bare.npz": "--held-out: FILE 'bare.npz' must have an array of",
    "features.npz --held-out text.npz": "--held-out: FILE 'text.npz' cannot be read",
    "features.npz --held-out more.npz": "no classes that WHAT has not, but got 'emu'.",
    "features.npz --weight-decay -1": "--weight-decay: must be at least 0, but got -1",
    "tuned_functions:train --held-out few.npz": "--held-out: must be left out unless WHAT is",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_mistake_is_one_sentence(line, capsys, tmp_path):
    write_features(tmp_path / "few.npz", 20)
    write_features(tmp_path / "features.npz")
    write_features(tmp_path / "more.npz", names=("cat", "dog", "emu"))
    write_features(tmp_path / "wide.npz", width=5)
    np.savez(tmp_path / "bare.npz", x=np.zeros((200, 4)))
    (tmp_path / "table.csv").write_text("x,y\n1,cat\n")
    (tmp_path / "text.npz").write_text("no archive")
    before = sorted(os.listdir(tmp_path))
    assert main(["tune", *line.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (sentence,) = said.err.splitlines()
    assert sentence.startswith("softmargin tune: ")
    assert REFUSED[line] in sentence
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.slow
def test_kill_9_loses_nothing_that_has_ended(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *sys.path])}
    words = ["tune", "tuned_functions:dying_once", "--betas", "2,5,20", "--out", "tuned", "--json"]
    code = "import sys; from softmargin.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *words]
    killed = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True)
    assert killed.returncode == -9
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "tuned").glob("*.npz")}
    assert {path.name for path in kept} == {"beta-1.0-seed-0.npz", "beta-2.0-seed-0.npz"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["best_beta"] == 5
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
