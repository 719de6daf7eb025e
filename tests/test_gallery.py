"""The programs of the documentation run, print what their pages show, and draw a picture."""

import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOKS = sorted(DOCS.glob("notebooks/*.ipynb"))
PROGRAMS = [*sorted(DOCS.glob("gallery/*.py")), *NOTEBOOKS]
NEEDS = {"boosting": "lightgbm"}


@pytest.fixture
def pages(monkeypatch):
    pytest.importorskip("myst_parser")
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(DOCS)
    import executed_pages

    yield executed_pages
    del sys.modules["executed_pages"]


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_and_draws(path, pages, tmp_path):
    pytest.importorskip("sklearn")
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    page = pages.executed(path, tmp_path / "figures", "figures")
    assert page.startswith("# ")
    assert (tmp_path / "figures" / f"{path.stem}.png").stat().st_size > 5000
    assert page.count("figures/") == 1  # the picture of the list is the one on the page
    for word in ("nan", "Traceback", str(tmp_path), str(Path.home())):
        assert word not in page


def test_every_program_is_in_the_gallery():
    text = (DOCS / "gallery" / "index.md").read_text("utf-8")
    (block,) = re.findall(r"```\{gallery\}\n(.*?)```", text, re.S)
    listed = {(DOCS / "gallery" / name).resolve() for name in block.split()}
    assert listed == {path.with_suffix("") for path in PROGRAMS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_results(path):
    notebook = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
