"""Tables as they are: preparation, its JSON, held-out probabilities, and the saved model."""

import json

import numpy as np
import pytest

pytest.importorskip("sklearn")

from softmargin.data.columns import TableError, as_columns
from softmargin.estimators import MarginClassifier, MarginClassifierCV, TableModel
from softmargin.estimators.preparation import MOST, Preparation


def table(rows=90):
    random = np.random.default_rng(1)
    size = random.normal(size=rows)
    return {
        "size": size,
        "gaps": np.where(random.random(rows) < 0.3, np.nan, random.normal(size=rows)),
        "colour": [("red", "blue", None)[i % 3] for i in range(rows)],
        "town": [f"town {random.integers(50)}" for _ in range(rows)],
        "flag": [bool(i % 2) for i in range(rows)],
    }


def quick(**options):
    return MarginClassifierCV(
        [1.0, 5.0], estimator=MarginClassifier(epochs=5), cv=3, random_state=0, **options
    )


def test_numbers_have_medians_and_an_indicator_and_text_has_categories():
    columns = as_columns(table())
    found = Preparation().fit(columns)
    x = found.transform(columns)
    assert (found.numbers, found.words) == (["size", "gaps"], ["colour", "town", "flag"])
    gaps = np.isnan(columns["gaps"])
    assert (x[gaps, 1] == np.median(columns["gaps"][~gaps])).all()
    assert (x[:, 2] == gaps).all()
    assert x[:, 3:6].sum(1).tolist() == [1.0] * len(x)  # blue, red, missing
    assert x.shape[1] <= 3 + 3 + MOST + 2
    assert not np.isnan(x).any()


def test_what_was_learned_survives_json_to_the_last_digit():
    columns = as_columns(table())
    found = Preparation().fit(columns)
    again = Preparation.from_dict(json.loads(json.dumps(found.as_dict())))
    new = as_columns({**table(), "town": ["nowhere"] * 90, "size": [None] * 90})
    for each in (columns, new):
        assert (again.transform(each) == found.transform(each)).all()
    assert again.as_dict() == found.as_dict()
    assert again.unknown(new) == {"town": ["nowhere"] * 90}


@pytest.mark.parametrize("y", [["a", "b"] * 45, [3, 7] * 45])
def test_a_saved_model_gives_the_same_probabilities(tmp_path, y):
    rows = table()
    model = TableModel(quick()).fit(rows, y)
    model.save(tmp_path / "model")
    again = TableModel.load(tmp_path / "model")
    assert (again.predict_proba(rows) == model.predict_proba(rows)).all()
    assert (again.predict(rows) == model.predict(rows)).all()
    assert again.classes.tolist() == model.classes.tolist() == sorted(set(y))
    assert {each.suffix for each in (tmp_path / "model").iterdir()} == {".json", ".npz"}


def test_a_frame_and_an_array_are_tables_too():
    pandas = pytest.importorskip("pandas")
    rows, y = table(), ["a", "b"] * 45
    frame = pandas.DataFrame(rows)
    model = TableModel(quick()).fit(rows, y)
    assert (model.predict_proba(frame) == model.predict_proba(rows)).all()
    array = np.random.default_rng(0).normal(size=(90, 3))
    assert TableModel(quick()).fit(array, y).predict_proba(array).shape == (90, 2)


def test_only_names_can_be_saved(tmp_path):
    from softmargin.heads import LinearHead

    search = MarginClassifierCV([1.0], estimator=MarginClassifier(head=LinearHead, epochs=2), cv=2)
    model = TableModel(search).fit(table(), ["a", "b"] * 45)
    with pytest.raises(TypeError, match="head must be given by name"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "y", "said"),
    [
        ({"a": [1, 2, 3]}, ["u"] * 3, "two classes"),
        ({"a": [1, 2, 3]}, ["u", "u", "v"], "'v' has one row"),
        ({"a": [1, 1, 1, 1]}, ["u", "v"] * 2, "'a': all values are the same"),
        (np.zeros(4), ["u", "v"] * 2, "shape \\(N, D\\)"),
        ({"a": [1, 2], "b": [1]}, ["u", "v"], "one length"),
    ],
)
def test_bad_tables_are_refused(rows, y, said):
    with pytest.raises(TableError, match=said):
        TableModel(quick()).fit(rows, y)


def test_held_out_probabilities_are_of_all_rows_and_of_other_models():
    random = np.random.default_rng(2)
    x, y = random.normal(size=(60, 4)), np.arange(60) % 2  # nothing to learn
    search = quick().fit(x, y)
    proba = search.held_out_proba_
    assert proba.shape == (60, 2)
    assert np.allclose(proba.sum(1), 1)
    nll = -np.log(proba[np.arange(60), y]).mean()
    assert nll >= search.best_score_ - 1e-9  # the best of many is too good


def test_held_out_probabilities_are_those_of_the_only_candidate():
    random = np.random.default_rng(2)
    y = np.arange(60) % 2
    x = random.normal(size=(60, 4)) + y[:, None]
    search = MarginClassifierCV(
        [2.0],
        estimator=MarginClassifier(epochs=5),
        grid={},
        temperature=False,
        looks=1,
        cv=3,
        random_state=0,
    ).fit(x, y)
    nll = -np.log(search.held_out_proba_[np.arange(60), y]).mean()
    assert nll == pytest.approx(search.best_score_, rel=1e-12)
