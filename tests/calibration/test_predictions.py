"""Files of predictions: every format gives the same numbers, and every mistake one sentence."""

from __future__ import annotations

import gzip
import io
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import torch
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
        r"FILE must end in .npz, .npy, .csv, .tsv, .csv.gz, .*, .pt, but got 'a.txt'",
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
        lambda d: npz(d, logits=LOGITS.reshape(500, 3, 4), labels=LABELS),
        {},
        r"predictions must have shape \(N, C\), but got \(500, 3, 4\)",
    ),
    "labels' shape": (
        lambda d: npz(d, logits=LOGITS, labels=LABELS[:7]),
        {},
        r"labels 'labels' must have shape \(500,\), as many as predictions, but got \(7,\)",
    ),
    "fractions": (
        lambda d: npz(d, logits=LOGITS, labels=LABELS + 0.5),
        {},
        r"labels 'labels' must be whole numbers, but row 0 \(counting from 0\) holds \d+.5",
    ),
    "empty": (
        lambda d: npz(d, logits=LOGITS[:0], labels=LABELS[:0]),
        {},
        "FILE 'a.npz' must hold predictions, but is empty",
    ),
    "gap in a table": (
        lambda d: table_csv(d, "logit_0,logit_1,label\n1,2,0\n3,,1\n"),
        {},
        "column 'logit_1' must hold numbers, but line 3 is empty",
    ),
    "words in a table": (
        lambda d: table_csv(d, "logit_0,logit_1,label\na,2,0\nb,3,1\n"),
        {},
        "column 'logit_0' must hold numbers, but line 2 holds 'a'",
    ),
    "ragged table": (
        lambda d: table_csv(d, "logit_0,logit_1,label\n1,2,0\n1,2\n"),
        {},
        "FILE 'a.csv' must hold 3 values in every line, as its first does, but line 3 holds 2",
    ),
    "not parquet": (
        lambda d: (d / "a.parquet").write_bytes(b"no") and d / "a.parquet",
        {},
        "FILE 'a.parquet' cannot be read",
    ),
}


def parquet_of(folder, **columns):
    parquet.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def with_names(folder, names, columns):
    table = pa.Table.from_arrays([pa.array(each) for each in columns], names=names)
    parquet.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def two_npy(folder, values, labels, **options):
    np.save(folder / "logits.npy", values, **options)
    np.save(folder / "y.npy", labels)
    return folder / "logits.npy", folder / "y.npy"


def archive_of(folder, names):
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for name, values in names:
            buffer = io.BytesIO()
            np.save(buffer, values)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zipfile warns of names that are there already
                archive.writestr(name, buffer.getvalue())
    return folder / "a.npz"


TWO, ONE = [[0.5, 2.0], [1.0, 0.5]], [0, 1]
# what could be read as something else: each is refused, by what is wrong and where
MISREADINGS = {
    "label twice": (
        lambda d: table_csv(d, "label,z0,z1,label\n0,1,2,1\n"),
        {},
        "'label' occurs more than once in 'a.csv': rename all but one",
    ),
    "logits named as the label": (
        lambda d: table_csv(d, "y,y,z0,z1\n0,1,2,1\n"),
        {"labels": "y"},
        "'y' occurs more than once in 'a.csv'",
    ),
    "column twice": (
        lambda d: table_csv(d, "z0,z0,label\n1,2,0\n"),
        {},
        "'z0' occurs more than once in 'a.csv'",
    ),
    "column twice, prefix": (
        lambda d: table_csv(d, "out0,out0,out1,label\n1,2,3,0\n"),
        {"predictions": "out", "from_logits": True},
        "'out0' occurs more than once in 'a.csv'",
    ),
    "column twice, blanks": (
        lambda d: table_csv(d, "z0, z0,label\n1,2,0\n"),
        {},
        "'z0' occurs more than once in 'a.csv'",
    ),
    "parquet column twice": (
        lambda d: with_names(d, ["z0", "z1", "label", "label"], [[1.0], [2.0], [0], [1]]),
        {},
        "'label' occurs more than once in 'a.parquet'",
    ),
    "array twice": (
        lambda d: archive_of(d, [("logits.npy", TWO), ("y.npy", ONE), ("y.npy", ONE)]),
        {},
        "'y' occurs more than once in 'a.npz'",
    ),
    "number twice": (
        lambda d: table_csv(d, "z0,z1,z01,label\n1,2,3,0\n"),
        {},
        "must be numbered from 0 or 1 on, each number once, but 'z1' comes where 2 should",
    ),
    "number missing": (
        lambda d: table_csv(d, "z0,z1,z3,label\n1,2,3,0\n"),
        {},
        "numbered from 0 or 1 on, each number once, but 'z3' comes where 2 should",
    ),
    "numbers from 5": (
        lambda d: table_csv(d, "z5,z6,label\n1,2,0\n"),
        {},
        "numbered from 0 or 1 on, each number once, but 'z5' comes where 1 should",
    ),
    "some numbered": (
        lambda d: table_csv(d, "z1,z,z2,label\n1,2,3,0\n"),
        {},
        "must all end in a number or none of them, but 'z' does not and 'z1' does",
    ),
    "from 1, and labels?": (
        lambda d: table_csv(d, "z1,z2,z3,label\n1,2,3,1\n1,2,3,2\n"),
        {},
        "are numbered from 1, and no label is 0: number columns and labels from 0",
    ),
    "lists of unequal length": (
        lambda d: parquet_of(d, logits=[[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]], label=[0, 1, 0]),
        {},
        r"lists of one length, 2 as in the first row, but row 1 \(counting from 0\) has 1",
    ),
    "a gap in a list": (
        lambda d: parquet_of(d, logits=[[1.0, 2.0], [3.0, None]], label=[0, 1]),
        {},
        r"lists of numbers, but one in row 1 \(counting from 0\) is empty",
    ),
    "two columns of lists": (
        lambda d: parquet_of(d, z0=[[1.0, 2.0]], z1=[[1.0, 2.0]], label=[0]),
        {},
        "must hold predictions in one column of lists or in several of numbers",
    ),
    "labels in lists": (
        lambda d: parquet_of(d, logits=[[1.0, 2.0]], label=[[0, 2]]),
        {},
        "must be classes, or one-hot rows with a single 1 and else 0, but row 0 .* holds 0 2",
    ),
    "struct": (
        lambda d: parquet_of(d, logits=[{"a": 1.0, "b": 2.0}], label=[0]),
        {},
        "column 'logits' in 'a.parquet' must hold numbers or lists of numbers, but holds 'struct",
    ),
    "lists of lists": (
        lambda d: parquet_of(d, logits=[[[1.0], [2.0]]], label=[0]),
        {},
        "must hold numbers or lists of numbers, but holds 'list",
    ),
    "truth values": (
        lambda d: parquet_of(d, z0=[1.0], z1=[2.0], z2=[2.0], label=[True]),
        {},
        "labels 'label' must be classes from 0 to 2, but row 0 .* holds a truth value",
    ),
    "not a number in a line": (
        lambda d: table_csv(d, "z0,z1,label\n1,2,0\n\n3,nan,1\n"),
        {},
        "column 'z1' must hold numbers, but line 4 holds 'nan'",
    ),
    "after a quoted line break": (
        lambda d: table_csv(d, 'note,z0,z1,label\n"two\nlines",1,2,0\nx,1,b,0\n'),
        {},
        "column 'z1' must hold numbers, but line 4 holds 'b'",
    ),
    "after a header of two lines": (
        lambda d: table_csv(d, '\n"a\nnote",z0,z1,label\nx,1,2,0\nx,1,b,0\n'),
        {},
        "column 'z1' must hold numbers, but line 5 holds 'b'",
    ),
    "infinite in a line": (
        lambda d: table_csv(d, "z0,z1,label\r\n1,2,0\r\n\r\n1,-inf,0\r\n"),
        {},
        r"'z0 … z1' in 'a.csv' must hold finite logits .*, but line 4 holds -inf",
    ),
    "sum in a line": (
        lambda d: table_csv(d, "p0,p1,label\n0.5,0.5,0\n0.5,0.8,0\n"),
        {},
        "with a sum of 1 in every row, within 0.001, but that of line 3 is 1.3, off by 0.3",
    ),
    "label in a line": (
        lambda d: table_csv(d, "z0,z1,label\n1,2,0\n1,2,2\n"),
        {},
        "labels 'label' must be classes from 0 to 1, but line 3 holds 2",
    ),
    "too many values": (
        lambda d: table_csv(d, "z0,z1,label\n1,2,0,9\n"),
        {},
        "must hold 3 values in every line, as its first does, but line 2 holds 4",
    ),
    "negative label": (
        lambda d: npz(d, logits=TWO, labels=[0, -1]),
        {},
        r"labels 'labels' must be classes from 0 to 1, but row 1 \(counting from 0\) holds -1",
    ),
    "label past int64": (
        lambda d: npz(d, logits=TWO, labels=np.array([0, 2**64 - 1], np.uint64)),
        {},
        "labels 'labels' must be classes from 0 to 1",
    ),
    "label of 1e300": (
        lambda d: npz(d, logits=TWO, labels=[0, 1e300]),
        {},
        "labels 'labels' must be classes from 0 to 1, but row 1 .* holds 1e.300",
    ),
    "more labels": (
        lambda d: two_npy(d, TWO, [0, 1, 1]),
        {},
        r"labels 'y.npy' must have shape \(2,\), as many as predictions, but got \(3,\)",
    ),
    "one-hot labels": (
        lambda d: two_npy(d, TWO, np.eye(3)[:2]),
        {},
        r"labels 'labels' must be classes, or one-hot rows of 2 numbers, but row 0 .* holds 3",
    ),
    "a logit of 1e300": (
        lambda d: two_npy(d, [[1e300, 0.0], [0.5, 2.0]], ONE),
        {},
        r"must hold finite logits of size up to 1e\+100, but row 0 .* holds 1e\+300",
    ),
    "long double": (
        lambda d: two_npy(d, np.array([["1e4000", "0"], ["1", "2"]]).astype(np.longdouble), ONE),
        {},
        "must hold finite logits of size up to",
    ),
    "probabilities as logits": (
        lambda d: npz(d, logits=[[0.5, 0.5], [0.1, 0.9]], labels=ONE),
        {},
        "its name says that 'logits' in 'a.npz' holds logits, but every row .* --probabilities",
    ),
    "logits as probabilities": (
        lambda d: npz(d, logits=TWO, labels=ONE),
        {"from_logits": False},
        "must hold probabilities from 0 to 1, but row 0 .* holds 2; if they are logits, say --log",
    ),
    "objects": (
        lambda d: two_npy(d, np.array([[{}, {}]], object), [0], allow_pickle=True),
        {},
        "FILE 'logits.npy' must hold numbers, got object",
    ),
    "complex": (lambda d: two_npy(d, [[1j, 2.0]], [0]), {}, "must hold numbers, got complex128"),
    "words as labels": (
        lambda d: two_npy(d, TWO, ["a", "b"]),
        {},
        "labels 'labels' must be one of 0, 1, but row 0 .* holds 'a'; an array 'classes'",
    ),
    "a pickle": (
        lambda d: (
            ((d / "z.npy").write_bytes(b"\x80\x04N."), two_npy(d, TWO, ONE)[1])
            and (d / "z.npy", d / "y.npy")
        ),
        {},
        "FILE 'z.npy' cannot be read: it is no array in NumPy's format",
    ),
    "nothing": (
        lambda d: table_csv(d, ""),
        {},
        "FILE 'a.csv' must hold names in its first line, but that is empty",
    ),
    "only a header": (
        lambda d: table_csv(d, "z0,z1,label\n"),
        {},
        "FILE 'a.csv' must hold predictions, but is empty",
    ),
    "no arrays": (lambda d: archive_of(d, []), {}, "FILE 'a.npz' must hold arrays, but there are"),
    "escapes": (
        lambda d: table_csv(d, "\x1b[31mz0,z1,label\n1,2,0\n"),
        {"labels": "\x1b]0;x"},
        r"must be one of \\x1b\[31mz0, z1, label in 'a.csv', but got '\\x1b\]0;x'",
    ),
    "escapes in a cell": (
        lambda d: table_csv(d, "z0,z1,label\n1,\x1b[2J,0\n"),
        {},
        r"line 2 holds '\\x1b\[2J'",
    ),
}
MISTAKES |= MISREADINGS


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_sentence(tmp_path, name):
    make, options, message = MISTAKES[name]
    paths = make(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        open_predictions(*(paths if isinstance(paths, tuple) else (paths,)), **options)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400


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


P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
Y = [0, 1, 2, 1]
NAMES = ["cat", "dog", "bird"]


def text_of(names, separator=",", labels=None, values=P, decimal="."):
    labels = [NAMES[i] for i in Y] if labels is None else labels
    lines = [separator.join(names)]
    for row, label in zip(values, labels, strict=True):
        cells = [str(x).replace(".", decimal) for x in np.atleast_1d(row)]
        lines.append(separator.join([*cells, str(label)]))
    return "\n".join(lines) + "\n"


def written(folder, name, text):
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def saved(folder, content):
    torch.save(content, folder / "a.pt")
    return folder / "a.pt"


PROBABILITIES = {"from_logits": False}
# files as people have them: all of the same four predictions
COMMON = {
    "prefix and text": (
        lambda d: table_csv(d, text_of(["prob_cat", "prob_dog", "prob_bird", "y"])),
        {},
    ),
    "brackets": (lambda d: table_csv(d, text_of(["p[cat]", "p[dog]", "p[bird]", "y"])), {}),
    "class names": (lambda d: table_csv(d, text_of([*NAMES, "label"])), PROBABILITIES),
    "listed": (
        lambda d: table_csv(d, text_of([*NAMES, "label"])),
        {"predictions": "cat,dog,bird", **PROBABILITIES},
    ),
    "own prefix": (
        lambda d: table_csv(d, text_of(["out cat", "out dog", "out bird", "label"])),
        {"predictions": "out", **PROBABILITIES},
    ),
    "from a data frame": (
        lambda d: table_csv(d, text_of(["0", "1", "2", "label"], labels=Y)),
        PROBABILITIES,
    ),
    "semicolons": (
        lambda d: table_csv(d, text_of(["p0", "p1", "p2", "y"], ";", Y)),
        {},
    ),
    "decimal commas": (
        lambda d: table_csv(d, text_of(["p0", "p1", "p2", "y"], ";", Y, decimal=",")),
        {},
    ),
    "tabs": (lambda d: written(d, "a.tsv", text_of(["p0", "p1", "p2", "y"], "\t", Y)), {}),
    "tabs in .csv": (lambda d: table_csv(d, text_of(["p0", "p1", "p2", "y"], "\t", Y)), {}),
    "packed": (lambda d: written(d, "a.csv.gz", text_of(["p0", "p1", "p2", "y"], ",", Y)), {}),
    "packed tabs": (
        lambda d: written(d, "a.tsv.gz", text_of(["p0", "p1", "p2", "y"], "\t", Y)),
        {},
    ),
    "numbers as text": (
        lambda d: parquet_of(d, probs=P.tolist(), label=[str(y) for y in Y]),
        {},
    ),
    "categories": (
        lambda d: parquet_of(
            d,
            **{f"prob_{name}": P[:, i] for i, name in enumerate(NAMES)},
            label=pa.array([NAMES[y] for y in Y]).dictionary_encode(),
        ),
        {},
    ),
    "one-hot": (lambda d: npz(d, probs=P, labels=np.eye(3)[Y]), {}),
    "one-hot lists": (lambda d: parquet_of(d, probs=P.tolist(), label=np.eye(3)[Y].tolist()), {}),
    "one-hot columns": (
        lambda d: parquet_of(
            d,
            **{f"p_{i}": P[:, i] for i in range(3)},
            **{f"y_{i}": np.eye(3, dtype=int)[Y][:, i] for i in range(3)},
        ),
        {},
    ),
    "labels in a column": (lambda d: npz(d, probs=P, labels=np.array(Y)[:, None]), {}),
    "names in an array": (
        lambda d: npz(d, probs=P, labels=np.array(NAMES)[Y], classes=np.array(NAMES)),
        {},
    ),
    "tensors": (
        lambda d: saved(d, {"probs": torch.tensor(P), "labels": torch.tensor(Y), "epoch": 3}),
        {},
    ),
    "tensors and names": (
        lambda d: saved(
            d, {"probs": torch.tensor(P), "y": [NAMES[y] for y in Y], "classes": NAMES}
        ),
        {},
    ),
    "a pair of tensors": (
        lambda d: saved(d, (torch.tensor(P), torch.tensor(Y))),
        {"predictions": "0", "labels": "1", **PROBABILITIES},
    ),
}


@pytest.mark.parametrize("name", COMMON)
def test_files_as_people_have_them(tmp_path, name):
    make, options = COMMON[name]
    found = open_predictions(make(tmp_path), **options)
    np.testing.assert_allclose(found.values, P)
    assert found.labels.tolist() == Y
    assert not found.from_logits


S, T = np.array([0.9, 0.2, 0.6]), [1, 0, 1]
BINARY = {
    "vector": (lambda d: npz(d, probs=S, labels=T), {}),
    "column": (lambda d: npz(d, probs=S[:, None], labels=np.array(T)[:, None]), {}),
    "csv": (lambda d: table_csv(d, text_of(["y_prob", "y_true"], labels=T, values=S)), {}),
    "score": (lambda d: table_csv(d, text_of(["score", "y"], labels=T, values=S)), PROBABILITIES),
    "truth values": (lambda d: parquet_of(d, p=S, y=[True, False, True]), {}),
    "true and false": (
        lambda d: table_csv(d, text_of(["p", "y"], labels=["True", "False", "True"], values=S)),
        {},
    ),
    "positive": (
        lambda d: table_csv(d, text_of(["p", "y"], labels=["yes", "no", "yes"], values=S)),
        {"positive": "yes"},
    ),
    "minus and plus": (lambda d: npz(d, probs=S, labels=[1, -1, 1]), {"positive": "1"}),
    "tensors": (lambda d: saved(d, {"probs": torch.tensor(S), "y": torch.tensor(T)}), {}),
}


@pytest.mark.parametrize("name", BINARY)
def test_a_score_of_one_class_is_two_columns(tmp_path, name):
    make, options = BINARY[name]
    found = open_predictions(make(tmp_path), **options)
    np.testing.assert_allclose(found.values, np.stack([1 - S, S], 1), atol=1e-7)
    assert found.labels.tolist() == T


def test_logits_of_one_class(tmp_path):
    found = open_predictions(npz(tmp_path, logits=[2.0, -1.0], labels=[1, 0]))
    assert found.values.tolist() == [[0.0, 2.0], [0.0, -1.0]]
    two = two_npy(tmp_path, np.array([[2.0], [-1.0]]), [[1], [0]])
    assert open_predictions(*two).values.tolist() == [[0.0, 2.0], [0.0, -1.0]]
    torch.save(torch.tensor([[0.5, 2.0]]), tmp_path / "logits.pt")
    torch.save(torch.tensor([1]), tmp_path / "y.pt")
    found = open_predictions(tmp_path / "logits.pt", tmp_path / "y.pt")
    assert (found.values.tolist(), found.labels.tolist()) == ([[0.5, 2.0]], [1])


@pytest.mark.parametrize("labels", [[1, 0, 1], ["true", "false", "true"]])
def test_confidence_and_correctness(tmp_path, labels):
    path = table_csv(tmp_path, text_of(["confidence", "correct"], labels=labels, values=S))
    found = open_predictions(path)
    assert found.confidence_only
    assert found.values[:, 0].tolist() == S.tolist()
    assert found.labels.tolist() == T
    assert found.source == "a.csv: confidence from 'confidence', correctness from 'correct'"


ODD = {
    "no such class": (
        lambda d: table_csv(d, text_of(["p_cat", "p_dog", "p_cow", "y"])),
        {},
        "labels 'y' must be one of cat, dog, cow, but line 4 holds 'bird'",
    ),
    "no label": (
        lambda d: table_csv(
            d, text_of(["p_cat", "p_dog", "p_bird", "y"], labels=["cat", "", "", ""])
        ),
        {},
        "labels 'y' must be classes, but line 3 holds nothing",
    ),
    "kind of class names": (
        lambda d: table_csv(d, text_of([*NAMES, "label"])),
        {},
        "say --logits or --probabilities: the name 'cat' in 'a.csv' does not tell",
    ),
    "a class without rows": (
        lambda d: table_csv(d, text_of([*NAMES, "label"], labels=["cat", "dog", "dog", "cat"])),
        {"from_logits": True},
        "--predictions must name the columns of the classes in 'a.csv', such as cat,dog,…: 'bird'",
    ),
    "the same of probabilities": (
        lambda d: table_csv(d, text_of([*NAMES, "label"], labels=["cat", "dog", "dog", "cat"])),
        PROBABILITIES,
        "with a sum of 1 in every row",
    ),
    "which is positive": (
        lambda d: table_csv(d, text_of(["p", "y"], labels=["yes", "no", "yes"], values=S)),
        {},
        "must be one of 0, 1, but line 2 holds 'yes'; --positive says of which label the score is",
    ),
    "no such positive": (
        lambda d: table_csv(d, text_of(["p", "y"], labels=["yes", "no", "yes"], values=S)),
        {"positive": "ja"},
        "labels 'y' must be two texts, one of them 'ja', but line 2 holds 'yes'",
    ),
    "positive of many": (
        lambda d: npz(d, probs=P, labels=Y),
        {"positive": "1"},
        "--positive is only for a score of one class",
    ),
    "two ones": (
        lambda d: npz(d, probs=P, labels=[[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]),
        {},
        "one-hot rows with a single 1 and else 0, but row 0 .* holds 1 1 0",
    ),
    "a score past 1": (
        lambda d: npz(d, probs=[0.5, 1.25], labels=[0, 1]),
        {},
        "must hold probabilities from 0 to 1, but row 1 .* holds 1.25",
    ),
    "a confidence past 1": (
        lambda d: npz(d, confidence=[0.5, 1.25], correct=[0, 1]),
        {},
        "'confidence' in 'a.npz' must hold probabilities from 0 to 1, but row 1 .* holds 1.25",
    ),
    "code": (
        lambda d: saved(d, {"logits": Exception("x"), "labels": torch.tensor(Y)}),
        {},
        "FILE 'a.pt' cannot be read: it must be a file by torch.save that holds only tensors",
    ),
    "half a file": (
        lambda d: written(d, "a.csv.gz", "p0,p1,y\n") and cut(d / "a.csv.gz"),
        {},
        "FILE 'a.csv.gz' cannot be read",
    ),
    "not packed": (
        lambda d: (d / "a.csv.gz").write_text("p0,p1,y\n") and d / "a.csv.gz",
        {},
        "FILE 'a.csv.gz' cannot be read",
    ),
}


def cut(path):
    path.write_bytes(path.read_bytes()[:-12])
    return path


@pytest.mark.parametrize("name", ODD)
def test_odd_files_get_one_sentence(tmp_path, name):
    make, options, message = ODD[name]
    with pytest.raises(ValueError, match=message) as raised:
        open_predictions(make(tmp_path), **options)
    assert str(raised.value).isprintable()


def test_a_packed_file_may_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("softmargin.calibration._tables.HARMLESS_BYTES", 1000)
    path = written(tmp_path, "a.csv.gz", "p0,p1,y\n" + "0.5,0.5,0\n" * 100_000)
    with pytest.raises(ValueError, match="must not be compressed more than 200 times"):
        open_predictions(path)
