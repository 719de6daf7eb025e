"""The page of verdicts says what the results say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from softmargin.cli import main
from softmargin.papers.verdicts import verdicts_page
from softmargin.papers.write import read_results

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    page = ROOT / "docs" / "verdicts.md"
    assert page.read_text(encoding="utf-8") == verdicts_page(ROOT / "results")


def test_every_result_has_its_line() -> None:
    page = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    results = read_results(ROOT / "results")
    assert results
    for meta, outcome in results:
        (line,) = [each for each in page.splitlines() if f"[{meta['id']}](" in each]
        assert meta["claim"].replace("|", "\\|") in line
        assert f"**{outcome.verdict.word}**" in line


def test_the_readme_counts_them_right() -> None:
    results = read_results(ROOT / "results")
    words = Counter(outcome.verdict.word for _, outcome in results)
    said = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"Of all {len(results)} claims, two of them our own, {words['holds']} hold, "
        f"{words['holds in part']} hold in part, {words['does not hold']} do not, "
        f"{words['left open']} stay open, and {words['shown']} are figures of theory." in said
    )
    assert sum(meta["paper"] == "SM" for meta, _ in results) == 2


def test_the_results_in_the_repository_verify(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "verify", "--out", str(ROOT / "results")]) == 0, (
        capsys.readouterr().out
    )


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="results must be a folder with results, but .* has none"):
        verdicts_page(tmp_path / "nowhere")
