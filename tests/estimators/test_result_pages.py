"""The pages of the estimators' benchmarks are what their committed numbers give."""

import shutil
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"
cheap_beta = pytest.importorskip("benchmarks.cheap_beta")
tables = pytest.importorskip("benchmarks.tables")


@pytest.mark.skipif(not tables.SCORES.exists(), reason="results are not part of a release")
def test_the_page_of_tables_is_up_to_date(tmp_path):
    from benchmarks.tables_page import write_page

    shutil.copy(RESULTS / "estimators" / "speed.json", tmp_path)
    lines = [*tables.read_scores(tables.SCORES), *tables.read_scores(tables.NESTED_SCORES)]
    write_page(lines, tmp_path / "README.md")
    written = (RESULTS / "estimators" / "README.md").read_text("utf-8")
    assert (tmp_path / "README.md").read_text("utf-8") == written


@pytest.mark.skipif(not cheap_beta.CHOICES.exists(), reason="results are not part of a release")
def test_the_page_of_the_cheap_beta_is_up_to_date():
    assert (RESULTS / "cheap-beta" / "README.md").read_text("utf-8") == cheap_beta.page()


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("table,split\niris,0\niris,1\nir", encoding="utf-8")
    assert [line["split"] for line in tables.read_scores(path)] == ["0", "1"]
