"""``softmargin fit`` and ``softmargin predict`` as a user types them."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from table_models import HEADER, QUICK, cells, fit_trees, refused, text_of, weights

from softmargin.cli import main
from softmargin.data.columns import read_columns
from softmargin.estimators import TableModel, resuming
from softmargin.training import arrays
from tests.chromium_page import CHROMIUM, browser


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a table and the model fitted on it."""
    return fit_trees(tmp_path_factory.mktemp("fit"))


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """Return a copy of it to work in."""
    shutil.copytree(made, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


# --- fit


def test_the_candidates_are_printed_and_one_folder_is_written(folder, capsys):
    assert main(["fit", "trees.csv", "--target", "kind", *QUICK, "--out", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "trees.csv: 40 rows, 2 classes." in shown
    assert re.search(r"\n1( ←)? +no +\d\.\d{4} \[\d\.\d{4}, \d\.\d{4}\]", shown)
    assert len(re.findall(r"\n[13]( ←)? +(no|yes) ", shown)) == 4
    assert shown.count(" ← ") == 1 + shown.count("; ← ")
    assert "Left out, since all values are different: 'id'." in shown
    assert "On rows that neither training nor choice has seen: NLL" in shown
    assert shown.splitlines()[-1].startswith("Do this next: ")
    names = {"index.html", "model.json", "temperature.json", "weights.npz"}
    assert {path.name for path in Path("mine").iterdir()} == names
    assert {path.name for path in folder.iterdir()} == {"trees.csv", "trees-csv-model", "mine"}
    assert weights("mine") == weights("trees-csv-model")
    page = Path("mine/index.html").read_text()
    assert page.count("<svg role") == 2
    assert not re.search(r'(src|href)="(https?:)?//', page)


FORMATS = {
    "t.tsv": lambda text: text.replace(",", "\t").encode(),
    "t.csv": lambda text: text.replace(",", ";").replace(".", ",").encode("utf-8-sig"),
    "t.csv.gz": lambda text: gzip.compress(text.encode()),
    "T.CSV": lambda text: text.replace("\n", "\r\n").encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_table_gives_the_same_model_in_every_format(name, folder, capsys):
    Path(name).write_bytes(FORMATS[name](text_of(cells())))
    assert main(["fit", name, "--target", "kind", *QUICK, "--out", "mine"]) == 0
    assert weights("mine") == weights("trees-csv-model")


@pytest.mark.slow
def test_the_index_that_pandas_writes_is_not_learned_from(folder, capsys):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv("trees.csv").sample(frac=1, random_state=0)
    frame.to_csv("t.csv")
    frame.to_parquet("t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert main(["fit", name, "--target", "kind", *QUICK, "--out", f"m-{name}"]) == 0
        kept = json.loads(Path(f"m-{name}/model.json").read_text())["preparation"]
        assert kept["names"] == HEADER[:-1]
    assert weights("m-t.csv") == weights("m-t.parquet")


def test_parquet_and_its_predictions_too(folder, capsys):
    import pyarrow
    from pyarrow import parquet

    found = read_columns(Path("trees.csv")).columns
    table = pyarrow.table({k: pyarrow.array(v, from_pandas=True) for k, v in found.items()})
    parquet.write_table(table, "t.parquet")
    assert main(["fit", "t.parquet", "--target", "kind", *QUICK]) == 0
    assert weights("t-parquet-model") == weights("trees-csv-model")
    assert main(["predict", "t-parquet-model", "t.parquet", "--out", "p.parquet"]) == 0
    written = parquet.read_table("p.parquet")
    assert written.column_names == ["prob_ash", "prob_oak", "predicted"]
    expected = TableModel.load("t-parquet-model").predict_proba(found)
    assert (written.column("prob_ash").to_numpy() == expected[:, 0]).all()


def test_embeddings(folder, capsys):
    random = np.random.default_rng(0)
    y = np.arange(30) % 3
    x = random.normal(size=(30, 5)).astype(np.float32) + y[:, None]
    np.savez("a.npz", embeddings=x, labels=y)
    np.savez("b.npz", x=x)
    np.savez("c.npz", x=x[:, 1:])
    assert main(["fit", "a.npz", *QUICK]) == 0
    capsys.readouterr()
    assert main(["predict", "a-npz-model", "b.npz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "prob_0,prob_1,prob_2,predicted"
    assert len(lines) == 31
    refused(["predict", "a-npz-model", "c.npz"], capsys, "must hold 5 features", "holds 4")
    refused(["fit", "b.npz", "--out", "m"], capsys, "FILE 'b.npz' must have an array of")


BAD_TABLES = {
    "no such target": (text_of(cells()), "knd", ["mean 'kind'?", "'size', 'weight', 'colour'"]),
    "one class": ("a,y\n1,u\n2,u\n3,u\n", "y", ["at least two classes", "'u'"]),
    "a class with one row": ("a,y\n1,u\n2,u\n3,v\n4,v\n5,w\n", "y", ["2 rows", "'w' has one row"]),
    "measurements": ("a,y\n1,.1\n2,.2\n3,.3\n", "y", ["3 of its 3 values"]),
    "a missing target": ("a,y\n1,u\n2,\n3,v\n4,nan\n", "y", ["line 3, and 1 more are empty"]),
    "an empty file": ("", "y", ["it is empty"]),
    "no rows": ("a,y\n", "y", ["must hold rows"]),
    "no features": ("y\nu\nv\nu\nv\n", "y", ["column to learn from"]),
    "nothing to learn from": ("a,y\n1,u\n1,v\n1,u\n1,v\n", "y", ["'a': all values are the same"]),
    "infinite": ("a,y\n1,u\ninf,v\n3,u\n4,v\n", "y", ["column 'a'", "finite"]),
    "ragged": ("a,y\n1,u\n2,v,w\n", "y", ["cannot be read", "2 columns, got 3"]),
    "names twice": ("a,a,y\n1,2,u\n", "y", ["'a' came twice"]),
    "no name": ("a,,y\n1,2,u\n", "y", ["column 2 has no name"]),
    "no header": ("\na,y\n1,u\n", "y", ["column 1 has no name"]),
    "row numbers": ("a,y\n5,u\n6,v\n7,u\n8,v\n", "y", ["'a': it numbers the rows"]),
    "no text": (b"a,y\n\xff,u\n\xfe,v\n", "y", ["cannot be read"]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_gets_one_sentence_and_nothing_is_written(name, tmp_path, monkeypatch, capsys):
    text, target, said = BAD_TABLES[name]
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(["fit", "t.csv", "--target", target, *QUICK], capsys, *said)


def test_files_that_are_no_tables_are_refused(folder, capsys):
    Path("t.txt.xz").write_bytes(b"x")
    Path("t.csv.gz").write_bytes(b"not packed")
    Path("t.npz").write_bytes(b"no archive")
    Path("t.parquet").write_bytes(b"no table")
    refused(["fit", "t.txt.xz", "--target", "y"], capsys, "must end in .csv")
    for name in ("t.csv.gz", "t.npz", "t.parquet"):
        refused(["fit", name, "--target", "y"], capsys, "cannot be read")
    refused(["fit", "trees.csv", "--out", "m"], capsys, "--target", "'kind'")
    words = ["fit", "trees.csv", "--target", "kind", "--out", "m", "--ignore", "colours"]
    refused(words, capsys, "--ignore", "'colour'")


def test_a_model_is_not_overwritten_unless_asked(folder, capsys):
    words = ["fit", "trees.csv", "--target", "kind", *QUICK]
    refused(words, capsys, "--out", "--overwrite")
    Path("other").mkdir()
    Path("other/mine.txt").write_text("mine")
    refused([*words, "--out", "other", "--overwrite"], capsys, "holds 'mine.txt'")
    assert main([*words, "--overwrite", "--ignore", "colour"]) == 0
    assert weights("trees-csv-model") != b""
    kept = json.loads(Path("trees-csv-model/model.json").read_text())["preparation"]
    assert (kept["numbers"], kept["words"]) == (["size", "weight"], [])
    assert sorted(os.listdir()) == ["other", "trees-csv-model", "trees.csv"]


# the process kills itself as soon as the second look is written
KILLED = """
import os, signal, sys
from softmargin.cli import main
from softmargin.estimators import resuming
from softmargin.training.ensemble import run
write, looks = resuming.write_arrays, []
def write_two(path, arrays):
    looks.append(write(path, arrays))
    if len(looks) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
resuming.write_arrays = write_two
run.SAVE_EVERY = 0.0
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.slow
def test_what_was_finished_before_a_kill_is_used(folder, monkeypatch, capsys):
    words = ["fit", "trees.csv", "--target", "kind", "--betas", "1", "--folds", "2"]
    words += ["--epochs", "60", "--out", "mine"]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    seen = {path.name for path in Path(".mine.unfinished/looks-0").glob("*.npz")}
    assert len(seen) == 2
    assert not Path("mine").exists()
    used = []
    earlier = resuming.Earlier
    monkeypatch.setattr(resuming, "Earlier", lambda path: used.append(path.name) or earlier(path))
    assert main(words) == 0
    assert set(used) == seen
    assert sorted(os.listdir()) == ["mine", "trees-csv-model", "trees.csv"]
    assert main([*words[:-1], "whole"]) == 0
    assert weights("mine") == weights("whole")
    assert Path("mine/temperature.json").read_text() == Path("whole/temperature.json").read_text()


def test_work_on_another_table_is_thrown_away(folder, capsys):
    left = Path(".mine.unfinished")
    (left / "looks-0").mkdir(parents=True)
    (left / "looks-0" / "1-0.npz").write_bytes(b"of something else")
    (left / "of.json").write_text('{"key": "another"}')
    assert main(["fit", "trees.csv", "--target", "kind", *QUICK, "--out", "mine"]) == 0
    assert not left.exists()
    assert weights("mine") == weights("trees-csv-model")


def test_a_folder_that_another_process_works_in_is_left_to_it(folder, capsys):
    from softmargin.training.folder import RunFolder

    left = Path(".mine.unfinished")
    with RunFolder(left).locked():
        (left / "of.json").write_text("its own")
        words = ["fit", "trees.csv", "--target", "kind", *QUICK, "--out", "mine"]
        refused(words, capsys, "no other run is working in")


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(arrays, "write_file", full)
    words = ["fit", "trees.csv", "--target", "kind", *QUICK, "--out", "a/b/mine"]
    refused(words, capsys, "is full: nothing was written")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_the_page_fits_a_phone_and_loads_nothing(folder, tmp_path):
    with browser(tmp_path / "profile") as page:
        for width in (1280, 390):
            page.open(folder / "trees-csv-model" / "index.html", width=width)
            assert page.run("document.documentElement.scrollWidth") == width
            assert page.complaints() == []
            assert len(page.requests()) == 1
