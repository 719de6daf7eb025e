"""Files of predictions that cannot be read: one sentence each."""

from __future__ import annotations

import io
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from prediction_files import LABELS, LOGITS, ONE, TWO, npz, parquet_of, table_csv, two_npy
from pyarrow import parquet

from softmargin.calibration.predictions import open_predictions


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


def with_names(folder, names, columns):
    table = pa.Table.from_arrays([pa.array(each) for each in columns], names=names)
    parquet.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def archive_of(folder, names):
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for name, values in names:
            buffer = io.BytesIO()
            np.save(buffer, values)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zipfile warns of names that are there already
                archive.writestr(name, buffer.getvalue())
    return folder / "a.npz"


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
