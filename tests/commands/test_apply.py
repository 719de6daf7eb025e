"""``softmargin apply``: what calibrate --save wrote, applied to files of every format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from softmargin.calibration.predictions import open_predictions
from softmargin.calibration.scaling import TemperatureScaling, VectorScaling
from softmargin.cli import main

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(400, 3, generator=GENERATOR, dtype=torch.float64)
LABELS = torch.multinomial((LOGITS / 2).softmax(1), 1, generator=GENERATOR).squeeze(1)
NAMES = ("cat", "dog", "bird")


@pytest.fixture(params=[TemperatureScaling, VectorScaling])
def scaler(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = request.param().fit(LOGITS, LABELS)
    found.save("c.json")
    return found


def table(separator=",", decimal=".", note="a, b"):
    lines = [separator.join(["note", *(f"logit_{name}" for name in NAMES), "label"])]
    for row, label in zip(LOGITS.tolist(), LABELS.tolist(), strict=True):
        cells = [f'"{note}"', *(repr(x).replace(".", decimal) for x in row), NAMES[label]]
        lines.append(separator.join(cells))
    return "\n".join(lines) + "\n"


def write(name):
    z, y = LOGITS.numpy(), LABELS.numpy()
    if name.endswith(".gz"):
        with gzip.open(name, "wt") as file:
            file.write(table())
    elif name.endswith(".csv"):
        with open(name, "w") as file:
            file.write(table(";", ","))
    elif name.endswith(".parquet"):
        columns = {f"z{i}": z[:, i] for i in range(3)}
        parquet.write_table(pa.table({"id": np.arange(400), **columns, "y": y}), name)
    elif name.endswith(".npz"):
        np.savez_compressed(name, logits=z, labels=y, other=np.arange(7))
    elif name.endswith(".pt"):
        torch.save({"logits": LOGITS, "labels": LABELS, "epoch": 3}, name)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.pt"])
def test_every_format_is_written_as_it_was_read(scaler, name, capsys):
    write(name)
    assert main(["apply", "c.json", name]) == 0
    out = name.replace("a.", "a-calibrated.")
    assert capsys.readouterr().out == f"Calibrated: {out}, 400 predictions\n"
    found = open_predictions(Path(out))
    np.testing.assert_allclose(found.values, scaler.transform(LOGITS), rtol=1e-12)
    assert found.labels.tolist() == LABELS.tolist()
    assert {path.name for path in Path().iterdir()} == {"c.json", name, out}
    if name == "a.npz":
        assert np.load(out)["other"].tolist() == list(range(7))
    if name == "a.pt":
        assert torch.load(out)["epoch"] == 3
    if name == "a.csv":
        assert Path(out).read_text().count(",") >= Path(name).read_text().count(",")


def test_arrays_and_probabilities(scaler, tmp_path):
    p = LOGITS.softmax(1)
    np.save("probs.npy", p.numpy())
    assert main(["apply", "c.json", "probs.npy", "--out", "new.npy"]) == 0
    expected = scaler.transform(p.log()).softmax(1)
    np.testing.assert_allclose(np.load("new.npy"), expected, rtol=1e-10)


def test_a_score_of_one_class_stays_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z = 3 * torch.randn(300, generator=GENERATOR, dtype=torch.float64)
    y = torch.bernoulli((z / 3).sigmoid(), generator=GENERATOR).long()
    np.savez("a.npz", probs=z.sigmoid(), labels=y)
    assert main(["calibrate", "a.npz", "--scaling", "temperature", "--save", "c.json"]) == 0
    assert main(["apply", "c.json", "a.npz"]) == 0
    temperature = TemperatureScaling.load("c.json").temperature
    found = np.load("a-calibrated.npz")["probs"]
    np.testing.assert_allclose(found, (z / temperature).sigmoid(), rtol=1e-9)
    np.savez("b.npz", logits=z[:, None])
    assert main(["apply", "c.json", "b.npz"]) == 0
    np.testing.assert_allclose(np.load("b-calibrated.npz")["logits"], (z / temperature)[:, None])


def test_mistakes_get_one_sentence_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    VectorScaling().fit(LOGITS, LABELS).save("c.json")
    np.savez("a.npz", logits=LOGITS)
    np.savez("four.npz", logits=np.zeros((3, 4)))
    np.savez("nan.npz", logits=[[0.0, 1.0, np.nan]])
    np.savez("probs.npz", logits=LOGITS.softmax(1))
    np.savez("pairs.npz", confidence=[0.5], correct=[1])
    np.savez("empty.npz", logits=np.zeros((0, 3)))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "short.csv").write_text("z0,z1,z2\n1,2,3\n1,x,3\n")
    before = {path.name for path in tmp_path.iterdir()}
    for words, named in {
        "none.json a.npz": "CALIBRATOR must be a file that exists, but got 'none.json'",
        "c.json none.npz": "FILE must be a file that exists, but got 'none.npz'",
        "broken.json a.npz": "'broken.json' is damaged: it cannot be read as JSON",
        "other.json a.npz": "must be a file that a calibrator's save has written",
        "c.json four.npz": "'logits' in 'four.npz' must hold 3 classes, as many as CALIBRATOR was",
        "c.json nan.npz": "must hold finite logits of size up to 1e+100, but row 0",
        "c.json probs.npz": "like probabilities: say --probabilities",
        "c.json pairs.npz": "must hold logits or probabilities of all classes",
        "c.json empty.npz": "FILE 'empty.npz' must hold predictions, but is empty",
        "c.json short.csv": "column 'z1' must hold numbers, but line 3 holds 'x'",
        "c.json a.npz --out a.npz": "--out: must not be the file that is read, 'a.npz'",
        "c.json a.npz --out b.csv": "--out: must end in .npz, as FILE does, but got 'b.csv'",
        "c.json a.npz --out no/b.npz": "--out: must be a file that can be written",
        "c.json c.json": "FILE must end in .npz, .npy, .csv",
        "c.json a.npz --predictions q": "--predictions must be one of logits in 'a.npz'",
    }.items():
        assert main(["apply", *words.split()]) == 2
        error = capsys.readouterr().err
        assert error.startswith("softmargin apply: ")
        assert error.count("\n") == 1
        assert named in error
        assert {path.name for path in tmp_path.iterdir()} == before


# --- what a calibrator knows of the predictions that it was fitted on


def as_csv(path, values, stem, names=NAMES):
    lines = [",".join([*(f"{stem}_{name}" for name in names), "label"])]
    for row, label in zip(values.tolist(), LABELS.tolist(), strict=True):
        lines.append(",".join([*map(repr, row), NAMES[label]]))
    Path(path).write_text("\n".join(lines) + "\n")


def saved(stem, scaling, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_csv("fitted.csv", LOGITS if stem == "logit" else LOGITS.softmax(1), stem)
    words = ["calibrate", "fitted.csv", "--scaling", scaling, "--save", "c.json", "--out", "page"]
    assert main(words) == 0
    return json.loads(Path("c.json").read_text())


def test_a_calibrator_knows_its_classes_and_its_kind(tmp_path, monkeypatch, capsys):
    content = saved("logit", "vector", tmp_path, monkeypatch)
    assert content["class_names"] == list(NAMES)
    assert content["fitted_on"] == "logits"
    found = VectorScaling.load("c.json")
    assert found.class_names == NAMES
    other = VectorScaling()
    other.load_state_dict(found.state_dict())
    assert (other.class_names, other.fitted_on) == (NAMES, "logits")
    assert main(["apply", "c.json", "fitted.csv"]) == 0
    as_csv("swapped.csv", LOGITS, "logit", ("dog", "cat", "bird"))
    as_csv("probabilities.csv", LOGITS.softmax(1), "prob")
    capsys.readouterr()
    for name, said in (
        ("swapped.csv", "in their order, but class 0 is 'dog' and was 'cat'."),
        ("probabilities.csv", "must hold logits, which CALIBRATOR was fitted on, but"),
    ):
        assert main(["apply", "c.json", name]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_one_temperature_serves_logits_and_probabilities(tmp_path, monkeypatch):
    content = saved("prob", "temperature", tmp_path, monkeypatch)
    assert content["fitted_on"] == "probabilities"
    as_csv("logits.csv", LOGITS, "logit")
    for name in ("logits.csv", "fitted.csv"):
        assert main(["apply", "c.json", name]) == 0
    scaled = open_predictions(Path("logits-calibrated.csv")).values
    expected = open_predictions(Path("fitted-calibrated.csv")).values
    found = torch.tensor(np.array(scaled)).softmax(1).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_calibrator_from_python_says_nothing_it_does_not_know(scaler):
    content = json.loads(Path("c.json").read_text())
    assert not {"class_names", "fitted_on"} & set(content)
    assert scaler.class_names is None
