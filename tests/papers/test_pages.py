"""The pages say what the results say, and count what rests on the same networks once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softmargin._files import write_json
from softmargin.cli import main
from softmargin.papers.outcome import VERDICTS, Finding, Outcome, Shortfall, Verdict
from softmargin.papers.pages import (
    claims_page,
    count_verdicts,
    evidence,
    index_page,
    same_networks,
    seeds_told,
)
from softmargin.papers.write import dumps, read_numbers, read_results

ROOT = Path(__file__).parents[2]
CASES = ((0.001, 0.002), (0.2, 0.4))  # p-values, alone and after Holm's correction


def result(name: str, word: str, cells: str, work: str = "train") -> tuple[dict[str, Any], Outcome]:
    """Return a result of a verdict that rests on cells of one letter each."""
    listed = [{"key": key, "work": work} for key in cells]
    return {"id": name, "configuration": {"cells": listed}}, Outcome(Verdict(word))


def test_results_of_the_same_networks_are_one_piece_of_evidence() -> None:
    results = [
        result("one", "holds", "ab"),
        result("two", "holds", "cd"),
        result("three", "holds", "e"),
        result("four", "does not hold", "a"),
        result("five", "holds", "bc"),  # which connects the first two
        result("theory 1", "shown", "x", work="nothing"),
        result("theory 2", "shown", "x", work="nothing"),
    ]
    assert evidence(results) == {
        "holds": [["three"], ["one", "two", "five"]],
        "does not hold": [["four"]],
        "shown": [["theory 1"], ["theory 2"]],
    }
    assert same_networks(results)["one"] == ["four", "five"]
    assert same_networks(results)["theory 1"] == []
    assert count_verdicts(results) == (
        "Of 7 claims, 4 hold (2 distinct trainings), 1 does not hold and 2 are figures of theory."
    )
    assert count_verdicts(results[:1]) == "Of 1 claim, 1 holds."
    meta, _ = results[0]
    far = Outcome(Verdict("holds", shortfalls=[Shortfall("t", 20.0, 70.0)]))
    assert count_verdicts([(meta, far)]).endswith(
        "1 of these verdicts rests on networks with less than half of the paper's accuracy."
    )


def test_the_published_results_are_counted_by_distinct_trainings() -> None:
    results = read_results(ROOT / "results")
    found = evidence(results)
    assert ["gd-fig6", "gd-fig10", "lm-sec3"] in found["holds"]
    assert {word: len(groups) for word, groups in found.items()}["holds"] == 8
    counts = count_verdicts(results)
    for path in ("README.md", "docs/verdicts.md", "results/README.md"):
        assert counts in " ".join((ROOT / path).read_text(encoding="utf-8").split()), path
    assert sum(meta["paper"] == "SM" for meta, _ in results) == 4
    assert "Four of the claims are our own" in (ROOT / "README.md").read_text(encoding="utf-8")


def trained(task: str, *seeds: int) -> list[dict[str, Any]]:
    return [{"config": {"task": task, "seed": seed}} for seed in seeds]


@pytest.mark.parametrize(
    ("common", "cells", "told"),
    [
        ({"data": "mnist"}, trained("a", 0, 1, 2), "3"),
        ({}, [*trained("a", 0, 1), *trained("b", 0, 1, 2), *trained("a", 0)], "2 to 3"),
        ({}, trained("a", 0), "1"),  # although the experiment was run with three
        ({"inputs": "z-scored"}, [{"config": {"seed": 0, "seeds": [0, 1]}}] * 2, "2"),
        ({}, [{"config": {"seed": 0, "width": w, "seeds": [0, w]}} for w in (1, 0)], "1 to 2"),
        ({"runs": 10}, [{"config": {"folds": 10}}], "3"),  # seeds are runs of one cell
    ],
)
def test_a_page_says_how_many_seeds_were_trained(
    common: dict[str, Any], cells: list[dict[str, Any]], told: str
) -> None:
    configuration = {"common": common, "cells": cells}
    assert seeds_told({"seeds": [0, 1, 2], "configuration": configuration}) == told
    assert seeds_told({"seeds": [0], "configuration": configuration}) == ""


def test_where_nothing_is_significant_the_page_says_how_many_seeds_would_be_needed() -> None:
    clear, unclear = (Finding("a", True, p, 0.1, adjusted, 5) for p, adjusted in CASES)
    assert "would need" not in Verdict("holds", [clear, unclear]).significance
    said = Verdict("left open", [unclear, unclear]).significance
    assert said.endswith("the clearest of them would need 23 seeds (power 80 %).")
    assert "would need" not in Verdict("left open", [replace(unclear, pairs=None)]).significance


def test_every_verdict_can_be_counted() -> None:
    for word in VERDICTS:
        many = count_verdicts([result("a", word, "a"), result("b", word, "a")])
        assert many.endswith("(1 distinct training)."), many


@pytest.mark.slow
def test_the_pages_are_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy, claims = shutil.copytree(ROOT / "results", tmp_path / "results"), tmp_path / "verdicts.md"
    assert main(["reproduce", "pages", "--out", str(copy), "--claims", str(claims)]) == 0
    assert "the pages of 44 results" in capsys.readouterr().out
    assert claims.read_bytes() == (ROOT / "docs" / "verdicts.md").read_bytes()
    for path in sorted((ROOT / "results").rglob("*")):
        if path.is_file() and ".cells" not in path.parts:
            assert (copy / path.relative_to(ROOT / "results")).read_bytes() == path.read_bytes()


def test_a_result_takes_the_title_that_its_experiment_has_now(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results" / "gd-fig2", tmp_path / "gd-fig2")
    numbers = tmp_path / "gd-fig2" / "numbers.json"
    values = read_numbers(numbers.parent)
    write_json(numbers, {**values, "title": "an earlier title"}, dumps)
    assert main(["reproduce", "pages", "--out", str(tmp_path)]) == 0
    assert read_numbers(numbers.parent) == values
    assert main(["reproduce", "verify", "--out", str(tmp_path)]) == 0


def test_figures_are_drawn_again_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "results" / "gd-fig7", tmp_path / "gd-fig7")
    for figure in (figures := sorted(folder.glob("*.svg"))):
        figure.write_text("<svg/>")
    assert figures
    assert main(["reproduce", "pages", "--out", str(tmp_path)]) == 0
    assert main(["reproduce", "verify", "--out", str(tmp_path)]) == 1
    assert main(["reproduce", "pages", "--out", str(tmp_path), "--figures"]) == 0
    assert main(["reproduce", "verify", "--out", str(tmp_path)]) == 0


def test_every_result_has_its_line() -> None:
    results = read_results(ROOT / "results")
    page, index = claims_page(results), index_page(results)
    assert results
    for meta, outcome in results:
        (line,) = [each for each in page.splitlines() if f"[{meta['id']}](" in each]
        assert meta["claim"].replace("|", "\\|") in line
        assert f"**{outcome.verdict.told}**" in line
        assert f"| [{meta['id']}]({meta['id']}/README.md) |" in index
        assert outcome.verdict.deciding[1:].replace("|", "\\|") in line
        assert outcome.verdict.counts[1:] in line


@pytest.mark.slow
def test_the_results_in_the_repository_verify(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["reproduce", "verify", "--out", str(ROOT / "results")])
    output = capsys.readouterr().out
    assert (code, output.splitlines()[-1]) == (0, "all 44 results agree"), output


def test_a_folder_without_results_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "pages", "--out", str(tmp_path / "nowhere")]) == 2
    assert "--out: must be a folder with results, as" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    assert main(["reproduce", "pages", "--claims", str(tmp_path / "nowhere" / "file.md")]) == 2
    assert "--claims: must be a file in a folder that exists" in capsys.readouterr().err
