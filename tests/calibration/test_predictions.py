"""Files of predictions: every format gives the same numbers, and every mistake one sentence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from prediction_files import LABELS, LOGITS, ONE, columns, npz, table_csv
from pyarrow import csv, parquet

from softmargin.calibration.predictions import open_predictions


@pytest.fixture
def files(tmp_path):
    """Write the same predictions in every format."""
    np.savez(tmp_path / "plain.npz", logits=LOGITS, labels=LABELS)
    np.savez_compressed(tmp_path / "packed.npz", logits=LOGITS, y=LABELS, other=LOGITS)
    np.save(tmp_path / "val_logits.npy", LOGITS)
    np.save(tmp_path / "truth.npy", LABELS)
    table = pa.table({"id": np.arange(500), **columns("logit_"), "label": LABELS})
    csv.write_csv(table, tmp_path / "table.csv")
    parquet.write_table(table, tmp_path / "table.parquet", row_group_size=100)
    lists = pa.table({"logits": pa.array(list(LOGITS)), "target": LABELS})
    parquet.write_table(lists, tmp_path / "lists.parquet")
    # columns out of order: the number at the end counts, not the place
    shuffled = pa.table({"label": LABELS, **columns("logit", reversed(range(12)))})
    csv.write_csv(shuffled, tmp_path / "shuffled.csv")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "plain.npz",
        "packed.npz",
        "val_logits.npy",
        "table.csv",
        "table.parquet",
        "lists.parquet",
        "shuffled.csv",
    ],
)
def test_every_format_reads_the_same(files, name):
    labels = files / "truth.npy" if name.endswith(".npy") else None
    found = open_predictions(files / name, labels)
    np.testing.assert_allclose(found.values, LOGITS, rtol=1e-6)  # text has fewer digits
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.from_logits
    assert found.source.startswith(f"{name}: logits from 'logit")


def test_nothing_is_left_on_disk(files, monkeypatch):
    spool = files / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    found = open_predictions(files / "plain.npz")
    assert not list(spool.iterdir())  # the copy has no name, so that no crash leaves it behind
    np.testing.assert_array_equal(found.values, LOGITS)
    with pytest.raises(ValueError, match="labels"):
        open_predictions(npz(files, logits=LOGITS, labels=LABELS[:9]))
    assert not list(spool.iterdir())


def test_progress_reaches_the_end(files):
    seen = []
    open_predictions(files / "table.parquet", progress=lambda *p: seen.append(p))
    assert seen[-1] == (500, 500)


def test_names_given_and_kinds_said(tmp_path):
    path = npz(tmp_path, outputs=np.full((500, 12), 1 / 12), truth=LABELS)
    found = open_predictions(path, predictions="outputs", labels="truth", from_logits=False)
    assert not found.from_logits
    with pytest.raises(ValueError, match="say --logits or --probabilities: the name 'outputs'"):
        open_predictions(path, predictions="outputs", labels="truth")


def test_columns_are_in_the_order_of_their_numbers(tmp_path):
    """z10 comes after z2, blanks and quotes are no part of a name, other columns do not matter."""
    order = [10, 2, 0, 1, 11, 9, 8, 7, 6, 5, 4, 3]
    names = ", ".join(f'"z{i}"' for i in order)
    rows = "\n".join(",".join([*map(str, order), str(k), "a, b"][:13]) for k in range(12))
    path = table_csv(tmp_path, f"\ufeff{names}, label\n{rows}\n")
    found = open_predictions(path)
    assert found.values.tolist() == [[float(i) for i in range(12)]] * 12
    assert found.labels.tolist() == list(range(12))
    assert found.source == "a.csv: logits from 'z0 … z11', labels from 'label'"


def test_whole_numbers_of_any_size_stay_what_they_are(tmp_path):
    values = np.array([[2**24 + 1, 2**24], [0, 1]])
    found = open_predictions(npz(tmp_path, logits=values, labels=ONE))
    assert found.values.tolist() == values.tolist()
    half = np.array([[0.3, 0.7], [0.6, 0.4]], np.float16)
    found = open_predictions(npz(tmp_path, probs=half, labels=ONE))
    assert found.values.dtype == np.float16


def test_a_later_block_may_hold_fractions(tmp_path, monkeypatch):
    monkeypatch.setattr("softmargin.calibration._tables.LONGEST_LINE", 64)
    rows = "".join(f"{i},{i}.5,0\n" if i > 20 else f"{i},1,1\n" for i in range(40))
    found = open_predictions(table_csv(tmp_path, "z0,z1,label\n" + rows))
    assert found.values[-1].tolist() == [39.0, 39.5]
    with pytest.raises(ValueError, match="but line 42 holds 'x'"):
        open_predictions(table_csv(tmp_path, "z0,z1,label\n" + rows + "1,x,0\n"))
