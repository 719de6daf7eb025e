"""Damaged files of a run: one sentence that names the file, or the same numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from softmargin.cli import main
from softmargin.training import RunFolder, TrainingConfig, train

TRAIN = ["train", "--data", "iris", "--model", "mlp", "--epochs", "2", "--batch", "45", "--record"]
CONFIG = TrainingConfig(data="iris", model="mlp", epochs=2, batch=45, record=True)
FILES = ["checkpoint.pt", "config.json", "metrics.jsonl", "predictions.npz", "result.json"]


class StoppedError(Exception):
    """A run was stopped."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Return a finished run and one that was stopped in its second epoch."""
    root = tmp_path_factory.mktemp("runs")
    train(CONFIG, root / "finished")

    def stop(epoch: int, step: int, loss: float) -> None:
        if step == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(CONFIG, root / "stopped", checkpoint_steps=2, progress=stop)
    return {name: root / name for name in ("finished", "stopped")}


def damages(content: bytes) -> dict[str, bytes]:
    """Return a file emptied, cut off, and with single bytes flipped all over it."""
    made = {"empty": b"", "half": content[: len(content) // 2], "cut": content[:-1]}
    for position in range(0, len(content), max(1, len(content) // 25)):
        flipped = bytearray(content)
        flipped[position] ^= 0x11
        made[f"byte {position}"] = bytes(flipped)
    return made


def outcome(command: list[str], capsys) -> tuple[int, str, str]:
    code = main(command)
    out, err = capsys.readouterr()
    return code, out.split("\n\nRun:")[0].split("nothing was run.\n")[-1].strip(), err


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_damage_is_named_or_harmless(tmp_path, capsys, runs, state: str, name: str) -> None:
    if not (runs[state] / name).exists():
        pytest.skip("a stopped run has no such file")
    expected = outcome([*TRAIN, "--out", str(runs["finished"])], capsys)[1]
    named = 0
    for what, content in damages((runs[state] / name).read_bytes()).items():
        run = tmp_path / what
        shutil.copytree(runs[state], run)
        (run / name).write_bytes(content)
        commands = [[*TRAIN, "--out", str(run)]]
        if state == "finished":
            commands.insert(0, ["evaluate", str(run)])
        for command in commands:
            code, out, err = outcome(command, capsys)
            if code == 0:
                assert out == expected, what
                continue
            named += 1
            assert code == 2
            assert (name in err, "damaged" in err) == (True, True), (what, err)
            assert "run the same" in err
            assert err.count("\n") == 1
        shutil.rmtree(run)
    assert named >= 5 or name == "metrics.jsonl" or (state, name) == ("finished", "checkpoint.pt")


@pytest.mark.slow
def test_the_advice_works(tmp_path, capsys, runs) -> None:
    """Delete what is damaged, run again: the same numbers."""
    expected = outcome([*TRAIN, "--out", str(runs["finished"])], capsys)[1]
    for names in (["checkpoint.pt"], ["config.json"], ["result.json"], FILES[-2:], FILES):
        for state in runs:
            run = tmp_path / f"{state}-{len(names)}-{names[0]}"
            shutil.copytree(runs[state], run)
            for name in names:
                (run / name).unlink(missing_ok=True)
            assert outcome([*TRAIN, "--out", str(run)], capsys)[:2] == (0, expected)
            if (run / "checkpoint.pt").exists():  # a finished run is not run again without it
                assert RunFolder(run).metrics() == RunFolder(runs["finished"]).metrics()
            written = (run / "metrics.jsonl").read_bytes()
            assert written == (runs["finished"] / "metrics.jsonl").read_bytes()


def test_without_its_configuration_a_run_still_refuses_another(tmp_path, capsys, runs) -> None:
    for state in runs:
        run = tmp_path / state
        shutil.copytree(runs[state], run)
        (run / "config.json").unlink()
        code, _, err = outcome([*TRAIN, "--out", str(run), "--lr", "0.5"], capsys)
        assert code == 2
        assert "--lr must be as when the run in" in err
    (run / "result.json").write_text("{}")
    (run / "checkpoint.pt").unlink()
    assert "nothing that says of what" in outcome([*TRAIN, "--out", str(run)], capsys)[2]


def test_a_checkpoint_of_something_else(tmp_path, capsys, runs) -> None:
    shutil.copytree(runs["stopped"], tmp_path / "run")
    torch.save({"step": 3}, tmp_path / "run" / "checkpoint.pt")
    code, _, err = outcome([*TRAIN, "--out", str(tmp_path / "run")], capsys)
    assert code == 2
    assert "checkpoint.pt' is damaged: it is not of this model and data; delete it" in err
