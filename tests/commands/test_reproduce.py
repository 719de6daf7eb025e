"""``softmargin reproduce`` as it is typed: what it prints, and how it ends."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from softmargin.cli import main
from softmargin.papers import ids
from softmargin.papers.core import Cell, Experiment, Result, Scope
from softmargin.papers.outcome import Entry, Outcome, ResultTable, Verdict

Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Ran:
        try:
            code = main(["reproduce", *arguments])
        except SystemExit as end:
            code = int(str(end.code))
        return (code, *capsys.readouterr())

    return call


def refused(ran: Ran, *words: str) -> None:
    code, output, errors = ran
    assert code == 2, errors
    assert output == ""
    assert len(errors.strip().splitlines()) == 1, errors
    for word in ("softmargin reproduce", *words):
        assert word in errors


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Add an experiment of quick cells that have a β and a model."""

    def cells(setting: Scope) -> list[Cell]:
        return [
            Cell("nothing", {"model": model, "beta": beta, "seed": seed}, f"{model} {beta} {seed}")
            for model in ("resnet18", "vgg16")
            for beta in (0.1, 1.0)
            for seed in setting.seeds
        ]

    def conclude(setting: Scope, finished: Any) -> Outcome:
        table = ResultTable("Cells", "", [Entry("all", "count", [float(len(finished))])])
        return Outcome(Verdict("shown", remark=f"{len(finished)} cells."), [table])

    experiment = Experiment("gd-tab99", "made up", "GD", "Table 99", "none", cells, conclude)
    module = SimpleNamespace(EXPERIMENTS=(experiment,))
    monkeypatch.setitem(sys.modules, "softmargin.papers.made_up", module)
    monkeypatch.setitem(ids.MODULES, "made_up", [experiment.id])
    return experiment


def test_only_runs_a_part_and_says_what_is_missing(
    run: Run, made_up: Experiment, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path), "--scale", "smoke")
    code, output, _ = run("run", "gd-tab99", "--only", "beta=0.10,model=vgg16", *out)
    assert code == 0
    assert output == "gd-tab99: 6 of its 8 cells are missing, so that nothing is concluded.\n"
    assert not (tmp_path / "gd-tab99").exists()
    _, output, _ = run("status", "--only", "model=vgg16", *out)
    assert output.splitlines()[-1].split() == ["gd-tab99", "4", "2", "0", "50", "%", "-"]
    code, output, _ = run("run", "gd-tab99", "--only", "beta=1", *out)
    assert "2 of its 8 cells are missing" in output
    code, output, _ = run("run", "gd-tab99", "--only", "model=resnet18", *out)
    assert code == 0
    assert output.startswith("gd-tab99: shown. 8 cells.")
    assert "2 of 4 cells were finished before." in output
    assert run("verify", "--out", str(tmp_path))[:2] == (
        0,
        "gd-tab99: the same again from 8 cells\n",
    )


@pytest.mark.parametrize("action", ["run", "plan", "status"])
@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("gamma=1", ("--only", "'gamma'", "beta", "model")),
        ("beta=7", ("--only", "beta", "0.1, 1", "'7'")),
        ("beta", ("--only", "pairs such as")),
    ],
)
def test_unknown_filters_are_refused(
    run: Run,
    made_up: Experiment,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    action: str,
    only: str,
    words: tuple[str, ...],
) -> None:
    for module in set(ids.MODULES) - {"made_up"}:
        monkeypatch.delitem(ids.MODULES, module)
    names = () if action == "status" else (made_up.id,)
    out = () if action == "plan" else ("--out", str(tmp_path / "out"))
    refused(run(action, *names, "--only", only, *out), *words)
    assert not (tmp_path / "out").exists()


def test_plan_shows_cells_steps_and_time(run: Run) -> None:
    code, output, errors = run("plan", "gd-tab1", "gd-fig3", "gd-fig2", "--scale", "smoke")
    assert (code, errors) == (0, "")
    for words in (
        "gd-tab1 at smoke scale: 2 cells, 3,808 steps of single networks",
        "seeds 0, 1   7 variants × 2 seeds: fcnn widths 50-20 on digits, 8 epochs",
        "nothing: theory",
        "in all 3 cells",
    ):
        assert words in output
    assert "parameters" not in output
    refused(run("plan", "gd-tab"), "such as gd-tab", "'gd-tab'")
    refused(run("plan", "gd-tab1", "--seeds", "1"), "seeds must be at least 2")


@pytest.mark.slow
def test_plan_of_paper_scale_lists_or_tries_out(run: Run) -> None:
    only = ("--scale", "paper", "--only", "model=mobilenet_v1,data=cifar10,seed=0,beta=1")
    code, listed, _ = run("plan", "gd-tab2", *only, "--no-dry-run")
    assert code == 0
    assert "GPU hours" in listed
    assert "parameters" not in listed
    code, tried, _ = run("plan", "gd-tab2", *only)
    assert code == 0
    assert "parameters" in tried
    assert "GPU hours" in tried


@pytest.mark.slow
def test_paper_scale_without_gpu_or_data_says_what_it_would_take(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTMARGIN_DATA", str(tmp_path))
    monkeypatch.setenv("SOFTMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    out = ("--scale", "paper", "--out", str(tmp_path / "out"))
    refused(
        run("run", "gd-tab2", *out),
        "cells that would take about",
        "GPU hours",
        "no GPU here",
        "cifar10, cifar100",
        "must be fetched",
        "--yes",
    )
    assert not (tmp_path / "out").exists()
    assert run("run", "gd-fig2", *out)[0] == 0  # theory needs neither


def test_a_folder_of_another_version_is_refused_and_left_alone(
    run: Run, made_up: Experiment, tmp_path: Path
) -> None:
    out = ("--scale", "smoke", "--out", str(tmp_path))
    assert run("run", "gd-tab99", *out)[0] == 0
    numbers = tmp_path / "gd-tab99" / "numbers.json"
    whole = numbers.read_text(encoding="utf-8")
    numbers.write_text(whole.replace('"format": 2', '"format": 7'), encoding="utf-8")
    for action in (("run", "gd-fig2"), ("status",)):
        refused(run(*action, *out), "format 7", "another version")
    refused(run("verify", "--out", str(tmp_path)), "format 7", "another version")
    assert not (tmp_path / "gd-fig2").exists()
    numbers.write_text(whole, encoding="utf-8")
    (first, *_) = sorted((tmp_path / ".cells").glob("*/result.json"))
    cell = json.loads(first.read_text())
    first.write_text(json.dumps({**cell, "format": 7}))
    refused(run("run", "gd-tab99", *out), "cells must be of format 1", "format 7")
    assert json.loads(first.read_text())["format"] == 7


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_full_disk_loses_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    out = ("--scale", "smoke", "--out", str(tmp_path / "out"))
    sync, left = os.fsync, [12]

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    code, _, errors = run("run", "gd-fig2", "gd-fig7", "lm-fig4", *out, "--jobs", "1")
    assert code == 2
    assert errors.count("\n") == 1
    assert "is full: what is finished is kept" in errors
    assert list((tmp_path / "out").rglob("*.unfinished")) == []
    finished = {path: path.read_bytes() for path in (tmp_path / "out").rglob("result.json")}
    assert (
        len(finished) == 2
    )  # each of these cells writes three files, and a file is synced with its folder
    monkeypatch.setattr(os, "fsync", sync)
    code, output, _ = run("run", "gd-fig2", "gd-fig7", "lm-fig4", *out, "--jobs", jobs)
    assert code == 0
    assert "2 of 3 cells were finished before." in output
    assert all(path.read_bytes() == content for path, content in finished.items())
    assert run("verify", "--out", str(tmp_path / "out"))[0] == 0


def test_verify_ends_with_1_and_a_line_for_each_thing_changed(
    run: Run, made_up: Experiment, tmp_path: Path
) -> None:
    assert run("run", "gd-tab99", "--scale", "smoke", "--out", str(tmp_path))[0] == 0
    page = tmp_path / "gd-tab99" / "README.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("| all | 8.00 |", "| all | 9.00 |"), encoding="utf-8")
    code, output, errors = run("verify", "gd-tab99", "--out", str(tmp_path))
    assert (code, errors) == (1, "")
    (line,) = output.splitlines()
    assert line.startswith("gd-tab99: README.md, line ")
    assert "table 'Cells', row 'all', column 'count'" in line
    page.write_text(text, encoding="utf-8")
    assert run("verify", "--out", str(tmp_path))[0] == 0
    refused(run("verify", "gd-tab98", "--out", str(tmp_path)), "such as gd-tab99", "'gd-tab98'")
    refused(run("verify", "--out", str(tmp_path / "none")), "--out", "folder with results")


@pytest.mark.slow
def test_the_same_id_and_seeds_give_the_same_numbers(run: Run, tmp_path: Path) -> None:
    found = []
    for name, jobs in (("first", "1"), ("second", "2")):
        out = ("--scale", "smoke", "--jobs", jobs, "--out", str(tmp_path / name))
        assert run("run", "gd-tab1", *out)[0] == 0
        values = json.loads((tmp_path / name / "gd-tab1" / "numbers.json").read_text())
        found.append({key: values[key] for key in ("verdict", "tables", "charts")})
    assert found[0] == found[1]


def test_smoke_scale_has_a_folder_of_its_own(
    run: Run, made_up: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("run", "gd-tab99", "--scale", "desk")[0] == 0
    before = {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
    code, output, _ = run("run", "gd-tab99", "--scale", "smoke")
    assert code == 0
    assert str(Path("results-smoke/gd-tab99/README.md")) in output
    assert {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()} == (
        before
    )
    _, output, _ = run("status", "--scale", "smoke")
    rows = [line.split() for line in output.splitlines()]
    result = ["smoke,", "seeds:", "2,", "shown"]
    assert ["gd-tab99", "8", "8", "0", "100", "%", *result] in rows
    words = ("'results'", "a larger scale than smoke, such as gd-tab99", "--replace-larger")
    refused(run("run", "gd-fig2", "--scale", "smoke", "--out", "results"), *words)
    for folder in ("results", "results-smoke"):
        assert run("verify", "--out", folder)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "wanted"), [("desk", "smoke"), ("paper", "smoke"), ("paper", "desk")]
)
def test_a_smaller_scale_does_not_replace_a_larger_one(
    run: Run, made_up: Experiment, tmp_path: Path, there: str, wanted: str
) -> None:
    out = ("--out", str(tmp_path), "--yes")
    assert run("run", "gd-tab99", "--scale", there, *out)[0] == 0
    numbers = tmp_path / "gd-tab99" / "numbers.json"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    command = ("run", "gd-fig2", "gd-tab99", "--scale", wanted, *out)
    words = (repr(str(tmp_path / "gd-tab99")), f"{there} scale", f"--scale {wanted}")
    refused(run(*command), *words, "--replace-larger")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert run("run", "gd-tab99", "--scale", there, *out)[0] == 0
    assert run(*command, "--replace-larger")[0] == 0
    assert json.loads(numbers.read_text())["scale"] == wanted
    assert run("run", "gd-tab99", "--scale", there, *out)[0] == 0, "a larger one may replace it"
    assert json.loads(numbers.read_text())["scale"] == there


def test_compare_sets_a_rerun_beside_the_committed_results(
    run: Run, made_up: Experiment, tmp_path: Path
) -> None:
    for name, seeds in (("committed", "2"), ("own", "2"), ("more", "3")):
        scope = ("--scale", "smoke", "--seeds", seeds)
        assert run("run", "gd-tab99", *scope, "--out", str(tmp_path / name))[0] == 0
    committed = ("--out", str(tmp_path / "committed"))
    code, output, _ = run("compare", str(tmp_path / "own"), *committed)
    assert code == 0
    assert output.splitlines()[-1].split() == ["gd-tab99", "1", "0.00", "-", "shown"]
    _, output, _ = run("compare", str(tmp_path / "more"), *committed)
    *_, row, remark = output.splitlines()
    assert "inf" in row
    assert "Cells, all, count: 12 against 8" in row
    assert remark == "gd-tab99: 3 seeds, the other has 2."
    assert run("run", "gd-fig2", "--scale", "desk", "--out", str(tmp_path / "fig"))[0] == 0
    refused(run("compare", str(tmp_path / "fig"), *committed), "FOLDER", "has none of them")
    refused(run("compare", str(tmp_path / "none"), *committed), "FOLDER", "folder with results")
    assert run("run", "gd-tab99", "--out", str(tmp_path / "desk"))[0] == 0
    _, output, _ = run("compare", str(tmp_path / "desk"), *committed)
    assert output == ("gd-tab99: it is of desk scale, the other of smoke scale: not compared.\n")


def test_fewer_seeds_do_not_replace_more(run: Run, made_up: Experiment, tmp_path: Path) -> None:
    command, numbers = ("run", "gd-tab99"), tmp_path / "gd-tab99" / "numbers.json"
    out = ("--scale", "smoke", "--out", str(tmp_path))
    assert run(*command, *out, "--seeds", "3")[0] == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    words = ("--out", "3 seeds", "with 2 seeds", "--replace-larger")
    for seeds in (("--seeds", "2"), ()):  # two are usual at this scale
        refused(run(*command, *out, *seeds), repr(str(tmp_path / "gd-tab99")), *words)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert run(*command, "--scale", "smoke", "--seeds", "2", "--out", str(tmp_path / "b"))[0] == 0
    assert run(*command, *out, "--seeds", "2", "--replace-larger")[0] == 0
    assert json.loads(numbers.read_text())["seeds"] == [0, 1]
    assert run(*command, *out, "--seeds", "4")[0] == 0, "more seeds may replace fewer"
    assert run(*command, "--scale", "desk", "--out", str(tmp_path), "--seeds", "2")[0] == 0


@pytest.mark.parametrize("place", ["out", "out/below", "out/.cells"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    run: Run, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: Any) -> None:
        raise AssertionError("nothing may be run")

    monkeypatch.setattr("softmargin.papers.store.CellStore.run", work)
    blocked = tmp_path / ("out/.cells" if place == "out/.cells" else "out")
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("a file")
    out = str(tmp_path / place.removesuffix("/.cells"))
    refused(run("run", "gd-fig2", "--scale", "smoke", "--out", out), "--out", repr(out))
    assert blocked.read_text() == "a file"


def test_a_command_that_fails_leaves_no_folder(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    out = ("--scale", "smoke", "--out", str(tmp_path / "new" / "out"))
    refused(run("run", "gd-fig2", "--ray", "127.0.0.1:1", *out), "--ray")
    assert list(tmp_path.iterdir()) == []


def slow(config: Any, folder: Path, progress: Any) -> Result:
    """Tell of no progress at all."""
    time.sleep(config["seconds"])
    return Result()


@pytest.mark.slow
def test_progress_is_told_however_seldom_the_work_tells_of_it(
    run: Run, made_up: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from softmargin import _progress

    assert _progress.SAY_EVERY <= 10
    monkeypatch.setattr(_progress, "SAY_EVERY", 0.05)
    cell = Cell(f"{__name__}:slow", {"seconds": 1.0}, "a slow one")
    object.__setattr__(made_up, "cells", lambda setting: [cell])
    code, _, errors = run("run", "gd-tab99", "--scale", "smoke", "--out", str(tmp_path))
    assert code == 0
    lines = errors.splitlines()
    assert len(lines) >= 2
    assert "0 %: a slow one" in lines


def test_a_cluster_that_does_not_answer_is_refused(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    out = ("--scale", "smoke", "--out", str(tmp_path))
    refused(run("run", "gd-fig2", "--ray", "127.0.0.1:1", *out), "--ray", "'127.0.0.1:1'")


def test_a_missing_ray_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    out = ("--scale", "smoke", "--out", str(tmp_path))
    refused(run("run", "gd-fig2", "--ray", "local", *out), 'pip install "softmargin[lab,ray]"')
