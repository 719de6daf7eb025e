"""Files of predictions as people have them: text labels, one score, confidence alone."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pytest
import torch
from prediction_files import npz, parquet_of, table_csv, two_npy

from softmargin.calibration.predictions import open_predictions

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
