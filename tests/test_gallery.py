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
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
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
    notebook = pages.run(path)
    ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in ran] == list(range(1, len(ran) + 1))
    for cell in ran:
        kinds = {out.output_type for out in cell.outputs}
        assert "error" not in kinds
        assert "print(" not in cell.source or "stream" in kinds
        assert "plt.show()" not in cell.source or "display_data" in kinds

    page = pages.page_of(notebook, path, tmp_path / "figures", "figures")
    assert page.startswith("# ")
    assert (tmp_path / "figures" / f"{path.stem}.png").stat().st_size > 5000
    assert page.count("figures/") == 1  # the picture of the list is the one on the page
    for word in ("nan", "Traceback", str(tmp_path), str(Path.home())):
        assert word not in page


@pytest.mark.slow
def test_every_program_has_a_kernel_and_a_folder_of_its_own(pages, tmp_path):
    from nbclient.exceptions import CellExecutionError

    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text('"""# First"""\nkept = 1\nprint(kept, file=open("file", "w"))\nkept\n')
    second.write_text('"""# Second"""\nprint(__import__("os").listdir())\nprint(kept)\n')
    page = pages.page_of(pages.run(first), first, tmp_path, "figures")
    assert "```text\n1\n```" in page
    with pytest.raises(CellExecutionError, match="name 'kept' is not defined") as raised:
        pages.run(second)
    assert "[]\n" in str(raised.value)
    assert list(tmp_path.glob("file")) == []


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
