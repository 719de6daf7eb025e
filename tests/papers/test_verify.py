"""Verifying results: what is right passes, and every changed number is caught and named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up_runs import run

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from softmargin._files import write_json
from softmargin.calibration import calibration_metrics
from softmargin.papers.core import Cell, Result, find_all
from softmargin.papers.rescoring import SCORES, allowances, score_again, scores_of
from softmargin.papers.store import CellStore
from softmargin.papers.verify import differences, is_close, verify
from softmargin.papers.write import dumps

IDS = ("ag-tab1", "gd-fig2", "gd-tab1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "results"
    run(out, *IDS, seeds=None)
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


@pytest.fixture
def fresh_clone(out: Path) -> Path:
    shutil.rmtree(out / ".cells")
    return out


@pytest.fixture
def clone(fresh_clone: Path) -> Path:
    """Return results of an earlier version, which committed no cells."""
    shutil.rmtree(fresh_clone / "cells")
    return fresh_clone


def problems(out: Path, *ids: str) -> list[str]:
    return [f"{each.id}: {line}" for each in verify(out, ids) for line in each.problems]


def change(path: Path, edit: Callable[[Any], None], seal: bool = False) -> None:
    """Change a JSON file; a sealed one has the checksum of what it then holds."""
    values = json.loads(path.read_text(encoding="utf-8"))
    edit(values)
    if seal:
        write_json(path, values, dumps)
    else:
        path.write_text(dumps(values), encoding="utf-8")


def test_results_as_written_pass_with_their_cells(out: Path) -> None:
    found = {each.id: each for each in verify(out)}
    assert [each.problems for each in found.values()] == [[]] * 4
    assert list(found) == [*IDS, "README.md"]
    cells = {name: found[name].cells for name in IDS}
    assert cells == {"ag-tab1": 2, "gd-fig2": 1, "gd-tab1": 2}
    assert found["gd-tab1"].scores == 2 * 2 * 7 * len(SCORES)  # regimes, seeds, variants


def test_results_as_written_pass_in_a_clone_without_cells(clone: Path) -> None:
    assert problems(clone) == []
    assert [each.cells for each in verify(clone)] == [0, 0, 0, 0]


@pytest.mark.slow
def test_a_fresh_clone_concludes_everything_again(fresh_clone: Path) -> None:
    assert problems(fresh_clone) == []
    assert [each.cells for each in verify(fresh_clone)] == [2, 1, 2, 0]
    assert [each.scores for each in verify(fresh_clone)] == [0, 0, 0, 0]


@pytest.mark.slow
def test_a_fresh_clone_catches_changed_verdicts_and_cells(fresh_clone: Path) -> None:
    def edit(values: Any) -> None:
        values["verdict"]["word"] = "holds"

    numbers = fresh_clone / "gd-tab1" / "numbers.json"
    before = numbers.read_bytes()
    change(numbers, edit, seal=True)
    expected = "gd-tab1: verdict, word: 'holds' is written, but it is 'path only'"
    assert expected in problems(fresh_clone)
    numbers.write_bytes(before)

    (experiment,) = find_all(["gd-tab1"])
    cell = experiment.cells(experiment.scope("smoke"))[0]
    path = CellStore(fresh_clone).committed(cell)
    whole = path.read_text()
    path.write_text(whole.replace('"label": "digits', '"label": "Digits'))
    assert any("does not match its checksum" in line for line in problems(fresh_clone))

    def count(values: Any) -> None:
        values["numbers"]["histogram"][1][0] += 1

    path.write_text(whole)
    change(path, count, seal=True)
    assert any(line.startswith("gd-tab1: table ") for line in problems(fresh_clone))

    def reseed(values: Any) -> None:
        values["config"]["seed"] = 7

    change(path, reseed, seal=True)
    assert any("it has the numbers of another cell" in line for line in problems(fresh_clone))


@pytest.mark.parametrize("with_cells", [True, False])
def test_a_changed_value_is_named_by_table_row_and_column(out: Path, with_cells: bool) -> None:
    if not with_cells:
        shutil.rmtree(out / ".cells")

    def edit(values: Any) -> None:
        table = values["tables"][0]
        entry = next(each for each in table["entries"] if each["comparison"])
        entry["values"][0] += 10
        place.extend([table["title"], entry["row"], entry["column"]])

    place: list[str] = []
    change(out / "gd-tab1" / "numbers.json", edit, seal=True)
    title, row, column = place
    found = problems(out)
    expected = f"gd-tab1: table {title!r}, row {row!r}, column {column!r}"
    assert any(line.startswith(expected) for line in found), found
    pages = [line for line in found if line.startswith("gd-tab1: README.md, line ")]
    assert len(pages) == 2  # the table, and that of intervals
    assert all(f"row {row!r}, column {column!r}" in line for line in pages)
    assert all(line.startswith("gd-tab1") for line in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "move"),
    [("low", 0.01), ("high", -0.01), ("p", 0.001), ("difference", 0.01), ("adjusted", 0.001)],
)
def test_changed_statistics_are_caught_without_cells(clone: Path, name: str, move: float) -> None:
    for experiment in ("gd-tab1", "ag-tab1"):

        def edit(values: Any) -> None:
            entry = next(
                each
                for table in values["tables"]
                for each in table["entries"]
                if each["comparison"] and 0.01 < each["comparison"]["p"] < 0.9
            )
            (entry if name == "adjusted" else entry["comparison"])[name] += move

        change(clone / experiment / "numbers.json", edit, seal=True)
    found = problems(clone)
    for experiment in ("gd-tab1", "ag-tab1"):
        assert any(line.startswith(f"{experiment}: table ") for line in found), found


def test_any_change_breaks_the_checksum(clone: Path) -> None:
    def edit(values: Any) -> None:
        values["charts"][0]["series"][0]["y"][3] += 1e-4

    path = clone / "gd-fig2" / "numbers.json"
    change(path, edit)
    (found,) = problems(clone)
    assert found.startswith(f"gd-fig2: {str(path)!r} is damaged: it does not match its checksum; ")
    assert "run its id again" in found


def test_a_changed_curve_or_verdict_is_caught_from_the_cells(out: Path) -> None:
    def edit(values: Any) -> None:
        values["charts"][0]["series"][0]["y"][3] += 1e-3
        values["verdict"]["word"] = "holds"

    change(out / "gd-fig2" / "numbers.json", edit, seal=True)
    first, second, *pages = problems(out)
    assert first == "gd-fig2: verdict, word: 'holds' is written, but it is 'shown'"
    assert second.startswith("gd-fig2: chart ")
    assert ", y[3]: " in second
    # its page, and in the page over all its line and the count
    expected = ["gd-fig2: README.md", "README.md: README.md", "README.md: README.md"]
    assert [line.split(",")[0] for line in pages] == expected


def test_a_changed_page_is_named_by_table_row_and_column(clone: Path) -> None:
    path = clone / "gd-tab1" / "README.md"
    lines = path.read_text(encoding="utf-8").split("\n")
    number = next(i for i, line in enumerate(lines) if line.startswith("| β = 0.5 |"))
    cells = lines[number].split("|")
    cells[3] = cells[3].replace("0", "7", 1) if "0" in cells[3] else " 7 "
    lines[number] = "|".join(cells)
    path.write_text("\n".join(lines), encoding="utf-8")
    (found,) = problems(clone)
    assert found.startswith(f"gd-tab1: README.md, line {number + 1}, table ")
    assert "row 'β = 0.5', column '0.2 < p ≤ 0.4': " in found
    path.unlink()
    assert "README.md cannot be read" in problems(clone)[0]


@pytest.mark.slow
def test_a_changed_cell_is_caught(out: Path) -> None:
    (experiment,) = find_all(["gd-tab1"])
    cell = experiment.cells(experiment.scope("smoke"))[0]
    path = CellStore(out).folder(cell) / "result.json"

    def count(values: Any) -> None:
        values["numbers"]["histogram"][1][0] += 1

    def score(values: Any) -> None:
        values["numbers"]["final"]["nll"][1] += 0.1

    before = path.read_bytes()
    change(path, count)
    assert any("does not match its checksum" in each for each in problems(out))
    path.write_bytes(before)
    change(path, count, seal=True)
    first, *found = problems(out)
    assert first.startswith(f"gd-tab1: cell {cell.label!r} ({cell.key}): what is committed of it")
    assert "histogram[1]" in first
    assert found
    assert all(line.startswith(("gd-tab1: table ", "gd-tab1: chart ")) for line in found)
    path.write_bytes(before)
    change(path, score, seal=True)
    assert any(
        f"({cell.key}): nll[1] of test_logits is stored as" in each for each in problems(out)
    )
    path.write_text("{")
    assert any("cannot be read" in each for each in problems(out))


def test_changed_logits_are_caught(out: Path) -> None:
    (experiment,) = find_all(["gd-tab1"])
    cell = experiment.cells(experiment.scope("smoke"))[0]
    path = CellStore(out).folder(cell) / "arrays.npz"
    arrays = dict(np.load(path))
    arrays["test_logits"][2] = arrays["test_logits"][2][::-1]
    np.savez_compressed(path, **arrays)
    assert any("does not match its checksum" in line for line in problems(out, "gd-tab1"))
    # a cell of an earlier version has no checksum
    change(path.with_name("result.json"), lambda values: values.pop("arrays"), seal=True)
    found = problems(out, "gd-tab1")
    assert any("accuracy[2] of test_logits" in line for line in found)
    path.write_bytes(path.read_bytes()[:1000])
    assert any("cannot be read" in line for line in problems(out))


def test_another_recipe_and_a_changed_configuration_are_caught(clone: Path) -> None:
    def edit(values: Any) -> None:
        values["configuration"]["common"]["lr"] = 0.5

    change(clone / "gd-tab1" / "numbers.json", edit, seal=True)
    found = problems(clone)
    assert len(found) == 2
    assert all("its configuration has the key" in line for line in found)

    def reseed(values: Any) -> None:
        values["seeds"] = [0, 1, 2]

    change(clone / "gd-tab1" / "numbers.json", reseed, seal=True)
    assert any("a recipe that this version does not have" in line for line in problems(clone))


def test_a_missing_figure_is_named(clone: Path) -> None:
    figure, _ = sorted((clone / "gd-tab1").glob("*.svg"))
    figure.unlink()
    assert problems(clone) == [f"gd-tab1: {figure.name} is missing"]


def test_unknown_formats_are_refused(clone: Path) -> None:
    change(clone / "gd-fig2" / "numbers.json", lambda values: values.update(format=1))
    with pytest.raises(ValueError, match="another version of softmargin"):
        list(verify(clone))


@pytest.mark.parametrize("seed", range(5))
def test_half_precision_never_moves_scores_further_than_allowed(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = (2000, 10)
    logits = (10.0 ** generator.uniform(-1, 2) * generator.normal(size=size)).astype(np.float32)
    # close calls, and confidences at the edges of bins
    logits[:200] = np.sort(logits[:200], 1)
    logits[:200, -1] = logits[:200, -2] * (1 + generator.uniform(-1e-3, 1e-3, 200))
    labels = np.where(
        generator.random(2000) < 0.7, logits.argmax(1), generator.integers(0, 10, 2000)
    )
    exact = calibration_metrics(
        torch.from_numpy(logits), torch.from_numpy(labels), from_logits=True, classwise=False
    )
    stored = logits.astype(np.float16)
    again, allowed = scores_of(stored, labels), allowances(stored, labels)
    for name in SCORES:
        assert abs(getattr(exact, name) - again[name]) <= allowed[name], name
    assert allowed["nll"] < 0.05
    assert allowed["accuracy"] < 0.11


def test_scores_of_what_is_stored_must_be_exact() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 50, 3)).astype(np.float16)
    labels = np.arange(50) % 3
    scores = [scores_of(each, labels) for each in logits]
    numbers = {"final": {name: [each[name] for each in scores] for name in SCORES}}
    arrays = {"test_logits": logits, "test_labels": labels}
    cell = Cell("train", {}, "made up")
    assert list(score_again(cell, Result(numbers, arrays))) == [""] * 6
    numbers["final"]["ece"][1] += 2e-6
    (found,) = filter(None, score_again(cell, Result(numbers, arrays)))
    assert found.startswith("ece[1] of test_logits is stored as ")
    assert found.endswith(" (to 1e-06)")
    unlabelled = Result(numbers, {"test_logits": logits})
    assert list(score_again(cell, unlabelled)) == []


def test_a_network_that_diverged_has_no_scores() -> None:
    labels = np.zeros(4, dtype=np.int16)
    for logits in (np.zeros((4, 3), np.float16), np.full((4, 3), np.nan, np.float32)):
        assert all(np.isnan(value) for value in scores_of(logits, labels).values())
    assert allowances(np.full((4, 3), np.inf, np.float16), labels)["nll"] == np.inf


def test_differences_are_found_to_a_millionth() -> None:
    assert is_close(1e6, 1e6 + 0.5)
    assert not is_close(0.5, 0.500002)
    assert is_close(float("nan"), float("nan"))
    assert not is_close(0.0, float("nan"))
    assert list(differences({"a": [1, None]}, {"a": [1, None]})) == []
    assert list(differences({"a": [1, None]}, {"a": [1, 2.0]})) == [
        "a[1]: None is written, but it is 2.0"
    ]
    assert "is written" in next(differences({"a": 1}, {"b": 1}))
