"""Files of predictions: every format gives the same numbers, and every mistake one sentence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from softmargin.calibration.predictions import open_predictions

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(500, 12)).astype(np.float32)
LABELS = RNG.integers(0, 12, 500)


def columns(stem, order=range(12)):
    return {f"{stem}{i}": LOGITS[:, i] for i in order}


def npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


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
    with open_predictions(files / name, labels) as found:
        np.testing.assert_allclose(found.values, LOGITS, rtol=1e-6)  # text has fewer digits
        np.testing.assert_array_equal(found.labels, LABELS)
        assert found.from_logits
        assert found.source.startswith(f"{name}: logits from 'logit")


def test_nothing_is_left_on_disk(files, monkeypatch):
    spool = files / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    with open_predictions(files / "plain.npz"):
        assert list(spool.iterdir())
    assert not list(spool.iterdir())
    with pytest.raises(ValueError, match="labels"):
        open_predictions(npz(files, logits=LOGITS, labels=LABELS[:9]))
    assert not list(spool.iterdir())


def test_progress_reaches_the_end(files):
    seen = []
    with open_predictions(files / "table.parquet", progress=lambda *p: seen.append(p)):
        assert seen[-1] == (500, 500)


def test_names_given_and_kinds_said(tmp_path):
    path = npz(tmp_path, outputs=LOGITS, truth=LABELS)
    with open_predictions(path, predictions="outputs", labels="truth", from_logits=False) as found:
        assert not found.from_logits
    with pytest.raises(ValueError, match="say --logits or --probabilities: the name 'outputs'"):
        open_predictions(path, predictions="outputs", labels="truth")


def truncated(folder):
    path = npz(folder, logits=LOGITS, labels=LABELS)
    path.write_bytes(path.read_bytes()[:4000])
    return path


def broken_npy(folder):
    np.save(folder / "logits.npy", LOGITS)
    whole = (folder / "logits.npy").read_bytes()
    (folder / "logits.npy").write_bytes(whole[:2000])
    np.save(folder / "y.npy", LABELS)
    return folder / "logits.npy", folder / "y.npy"


def table_csv(folder, text):
    (folder / "a.csv").write_text(text)
    return folder / "a.csv"


MISTAKES = {
    "missing file": (lambda d: d / "no.npz", {}, "FILE must be a file that exists, but got"),
    "format": (
        lambda d: (d / "a.txt").write_text("x") and d / "a.txt",
        {},
        r"FILE must end in .npz, .npy, .csv, .parquet, but got 'a.txt'",
    ),
    "truncated": (truncated, {}, "FILE 'a.npz' cannot be read"),
    "truncated npy": (broken_npy, {}, "FILE 'logits.npy' cannot be read"),
    "no labels file": (lambda d: broken_npy(d)[0], {}, "LABELS must name the .npy file of labels"),
    "missing key": (
        lambda d: npz(d, logits=LOGITS, labels=LABELS),
        {"predictions": "z"},
        "--predictions must be one of logits, labels in 'a.npz', but got 'z'",
    ),
    "missing label": (
        lambda d: npz(d, logits=LOGITS, other=LABELS),
        {},
        "--labels must name one of logits, other in 'a.npz': none was recognised",
    ),
    "two candidates": (
        lambda d: npz(d, logits=LOGITS, probs=LOGITS, labels=LABELS),
        {},
        "--predictions must choose one of logits, probs in 'a.npz': there is more than one",
    ),
    "pickled": (
        lambda d: npz(d, logits=np.array([{}], object), labels=LABELS[:1]),
        {},
        "'logits' in 'a.npz' must hold numbers, got object",
    ),
    "shape": (
        lambda d: npz(d, logits=LOGITS.ravel(), labels=LABELS),
        {},
        r"predictions must have shape \(N, C\), but got \(6000,\)",
    ),
    "labels' shape": (
        lambda d: npz(d, logits=LOGITS, labels=LABELS[:7]),
        {},
        r"labels 'labels' must have shape \(500,\), as many as predictions, but got \(7,\)",
    ),
    "fractions": (
        lambda d: npz(d, logits=LOGITS, labels=LABELS + 0.5),
        {},
        "labels 'labels' must be whole numbers, but row 0 is",
    ),
    "empty": (
        lambda d: npz(d, logits=LOGITS[:0], labels=LABELS[:0]),
        {},
        "FILE 'a.npz' must hold predictions, but is empty",
    ),
    "gap in a table": (
        lambda d: table_csv(d, "logit_0,logit_1,label\n1,2,0\n3,,1\n"),
        {},
        "column 'logit_1' must hold numbers, but row 1 is empty",
    ),
    "words in a table": (
        lambda d: table_csv(d, "logit_0,logit_1,label\na,2,0\nb,3,1\n"),
        {},
        "column 'logit_0' must hold numbers, but row 0 is 'a'",
    ),
    "ragged table": (
        lambda d: table_csv(d, "logit_0,logit_1,label\n1,2,0\n1,2\n"),
        {},
        "FILE 'a.csv' cannot be read",
    ),
    "not parquet": (
        lambda d: (d / "a.parquet").write_bytes(b"no") and d / "a.parquet",
        {},
        "FILE 'a.parquet' cannot be read",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_sentence(tmp_path, name):
    make, options, message = MISTAKES[name]
    paths = make(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        open_predictions(*(paths if isinstance(paths, tuple) else (paths,)), **options)
    assert "\n" not in str(raised.value)
