"""``softmargin predict`` as a user types it, on models of ``softmargin fit``."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from table_models import cells, fit_trees, refused, text_of

from softmargin.cli import main
from softmargin.data.columns import read_columns
from softmargin.estimators import MarginClassifier, MarginClassifierCV, TableModel


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


# --- predict


def predictions(text):
    """Return names and values of what was written."""
    header, *lines = csv.reader(text.splitlines())
    return (
        header,
        np.array([[float(x) for x in line[:-1]] for line in lines]),
        [line[-1] for line in lines],
    )


def test_the_round_trip_is_exact(folder, capsys):
    columns = dict(read_columns(Path("trees.csv")).columns)
    kind = columns.pop("kind").astype(str)
    search = MarginClassifierCV(
        [1.0, 3.0], estimator=MarginClassifier(epochs=4), cv=2, random_state=0
    )
    model = TableModel(search).fit(columns, kind)
    assert main(["predict", "trees-csv-model", "trees.csv"]) == 0
    names, proba, labels = predictions(capsys.readouterr().out)
    assert names == ["prob_ash", "prob_oak", "predicted"]
    assert (proba == model.predict_proba(columns)).all()
    assert labels == model.predict(columns).tolist()
    assert main(["predict", "trees-csv-model", "trees.csv", "--out", "p.tsv"]) == 0
    again = predictions(Path("p.tsv").read_text().replace("\t", ","))
    assert (again[1] == proba).all()


def test_new_categories_are_unknown_and_counted(folder, capsys):
    table = cells(6)
    table[1][2], table[2][2], table[3][2] = "violet", "pink", "violet"
    Path("new.csv").write_text(text_of(table))
    assert main(["predict", "trees-csv-model", "new.csv"]) == 0
    shown = capsys.readouterr()
    assert "unknown: colour in 3 rows ('violet', 'pink')." in shown.err
    assert np.allclose(predictions(shown.out)[1].sum(1), 1)


def test_other_columns_and_their_order_make_no_difference(folder, capsys):
    table = [["more", *reversed(line[:-1])] for line in cells()]
    Path("new.csv").write_text(text_of(table))
    found = []
    for name in ("trees.csv", "new.csv"):
        assert main(["predict", "trees-csv-model", name]) == 0
        found.append(predictions(capsys.readouterr().out)[1])
    assert (found[0] == found[1]).all()


def test_changed_features_are_refused(folder, capsys):
    table = cells(6)
    Path("less.csv").write_text(text_of([line[1:] for line in table]))
    table[2][0] = "big"
    Path("text.csv").write_text(text_of(table))
    model = "trees-csv-model"
    refused(["predict", model, "less.csv"], capsys, "'size' is not among 'weight', 'colour'")
    refused(["predict", model, "text.csv"], capsys, "column 'size' must hold numbers", "'big'")
    for out, said in (
        ("less.csv", "must not be the file that is read"),
        ("trees.csv", "--overwrite"),
        ("x.txt", "must end in .csv"),
        ("no/x.csv", "can be written"),
    ):
        refused(["predict", model, "less.csv", "--out", out], capsys, "--out", said)


def change(path, **values):
    content = json.loads(path.read_text())
    content.update(values)
    content.pop("sha256")
    path.write_text(json.dumps(content))


BAD_MODELS = {
    "something else": (lambda f: change(f / "model.json", format="x"), "something else"),
    "older": (lambda f: change(f / "model.json", version=0), "version 0"),
    "altered": (
        lambda f: (f / "model.json").write_text(
            (f / "model.json").read_text().replace("oak", "elm")
        ),
        "checksum",
    ),
    "no JSON": (lambda f: (f / "model.json").write_text("x"), "damaged"),
    "no weights": (lambda f: (f / "weights.npz").unlink(), "has no weights.npz"),
    "other weights": (
        lambda f: (f / "weights.npz").write_bytes(b"x" * 200),
        "not the one that model.json belongs to",
    ),
    "too little": (lambda f: change(f / "model.json", preparation={}), "damaged"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_a_model_that_is_none_is_refused(name, folder, capsys):
    damage, said = BAD_MODELS[name]
    damage(folder / "trees-csv-model")
    refused(["predict", "trees-csv-model", "trees.csv"], capsys, said)


def test_a_model_has_nothing_to_run_in_it_and_can_be_moved(folder, capsys):
    shutil.move("trees-csv-model", "elsewhere")
    assert main(["predict", "elsewhere", "trees.csv"]) == 0
    with np.load("elsewhere/weights.npz", allow_pickle=False) as arrays:
        assert {arrays[name].dtype.kind for name in arrays.files} == {"f"}
