"""``softmargin compare``: models on the same rows."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from softmargin._files import seal
from softmargin.calibration import calibration_metrics
from softmargin.calibration.comparing import compare
from softmargin.calibration.predictions import Predictions
from softmargin.cli import main


def models(rows, first, other, generator):
    """Return two models of different noise and confidence, and what they were drawn from."""
    right = 1.5 * torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(right.softmax(1), 1, generator=generator).squeeze(1)
    noise = 0.5 * torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    return first * right, other * (right + noise), labels


def found_of(a, b, labels, **options):
    each = [
        (name, Predictions(z.numpy(), labels.numpy(), True, name))
        for name, z in zip("ab", (a, b), strict=True)
    ]
    return {x.metric: x for x in compare(each, **options).differences[0]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    a, b, labels = models(800, 1.0, 3.0, torch.Generator().manual_seed(0))
    np.savez(tmp_path / "a.npz", logits=a, labels=labels)
    np.savez(tmp_path / "b.npz", probs=b.softmax(1), labels=labels)
    (tmp_path / "run").mkdir()
    np.savez(tmp_path / "run" / "predictions.npz", logits=b, labels=labels)
    path = tmp_path / "run" / "predictions.npz"
    path.write_bytes(seal(path.read_bytes()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_values_differences_and_page(folder, capsys):
    assert main(["compare", "a.npz", "b.npz", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"] == ["a.npz", "b.npz", "run"]
    a = np.load("a.npz")
    expected = calibration_metrics(
        torch.tensor(a["logits"]), torch.tensor(a["labels"]), from_logits=True
    )
    values = [each["metrics"] for each in found["results"]]
    assert values[0]["ece"]["value"] == pytest.approx(expected.ece)
    for number, differences in enumerate(found["differences"], start=1):
        for metric, gap in differences.items():
            plain = values[number][metric]["value"] - values[0][metric]["value"]
            assert gap["value"] == pytest.approx(plain, abs=1e-9)
            assert gap["low"] < gap["value"] < gap["high"]
    assert main(["compare", "a.npz", "b.npz", "--out", "report"]) == 0
    shown = capsys.readouterr().out
    assert "b.npz against a.npz: worse by" in shown
    page = (folder / "report" / "index.html").read_text()
    assert page.count("<svg") == 1
    assert "Reliability diagram of all models: a.npz ECE" in page
    assert not re.search(r'(src|href)="(https?:)?//', page)


@pytest.mark.slow
def test_reports_of_other_files_have_other_folders(folder, capsys):
    for names in (("a.npz", "b.npz"), ("b.npz", "a.npz"), ("a.npz", "run")):
        assert main(["compare", *names]) == 0
    places = re.findall("Report: (.*)", capsys.readouterr().out)
    assert len(set(places)) == 3


def test_mistakes_get_one_sentence(folder, capsys):
    a = np.load("a.npz")
    np.savez("few.npz", logits=a["logits"][:9], labels=a["labels"][:9])
    labels = a["labels"].copy()
    labels[7] = (labels[7] + 1) % 4
    np.savez("other.npz", logits=a["logits"], labels=labels)
    np.savez("pairs.npz", confidence=[0.5], correct=[1])
    for words, named in {
        "a.npz none.npz": "FILE must be a file or the folder of a run that exists, but got 'none",
        "a.npz ./a.npz": "must be different files, but one is there twice",
        "a.npz few.npz": "a.npz and few.npz must hold predictions of the same rows and classes",
        "a.npz other.npz": "the labels of row 7 (counting from 0) are",
        "a.npz pairs.npz": "pairs.npz must hold logits or probabilities of all classes",
        "a.npz b.npz --out a.npz": "--out: must be a folder that can be written to",
        "a.npz .": "is a folder without predictions.npz",
        "a.npz 1 2 3 4 5 6": "OTHER must be at most 5 files, but got 6",
    }.items():
        assert main(["compare", *words.split()]) == 2
        error = capsys.readouterr().err
        assert error.startswith("softmargin compare: ")
        assert error.count("\n") == 1
        assert named in error


def test_the_same_predictions_do_not_differ():
    a, _, labels = models(300, 1.0, 1.0, torch.Generator().manual_seed(1))
    for each in found_of(a, a.clone(), labels).values():
        assert (each.value, each.low, each.high, each.better) == (0.0, 0.0, 0.0, None)


@pytest.mark.slow
def test_intervals_cover_the_difference():
    """In 40 data sets of 300 rows, against the difference over 200,000."""
    generator = torch.Generator().manual_seed(0)
    truth = found_of(*models(200_000, 1.0, 2.0, generator), resamples=2)
    covered = dict.fromkeys(truth, 0)
    for number in range(40):
        found = found_of(*models(300, 1.0, 2.0, generator), resamples=200, seed=number)
        for metric, each in found.items():
            covered[metric] += each.low <= truth[metric].value <= each.high
    assert min(covered.values()) >= 34  # of 95 %, with a chance of one in 200 for fewer


# --- models of softmargin fit


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Two small models of one table, and another table of the same columns."""
    folder = tmp_path_factory.mktemp("fitted")
    generator = np.random.default_rng(0)
    for name, rows in (("train", 120), ("test", 61)):
        kinds = np.array(["ant", "bee"])[np.arange(rows) % 2]
        x = generator.normal(size=(rows, 2)) + (kinds == "bee")[:, None]
        lines = [f"{a},{b},{kind}" for (a, b), kind in zip(x.tolist(), kinds, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,kind", *lines]) + "\n")
    quick = ["--target", "kind", "--epochs", "4", "--folds", "2"]
    for name, beta in (("one", "1"), ("ten", "10")):
        words = ["fit", str(folder / "train.csv"), "--betas", beta, "--out", str(folder / name)]
        assert main([*words, *quick]) == 0
    return folder


def test_models_on_a_table(fitted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table, one, ten = (str(fitted / name) for name in ("test.csv", "one", "ten"))
    words = ["--test", table, "--target", "kind"]
    capsys.readouterr()
    assert main(["compare", one, ten, *words, "--out", "page", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"] == ["one", "ten"]
    assert main(["predict", one, table, "--out", "p.csv"]) == 0
    lines = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()]
    assert lines[0][:2] == ["prob_ant", "prob_bee"]
    kinds = [line.split(",")[2] for line in (fitted / "test.csv").read_text().splitlines()[1:]]
    pairs = zip(lines[1:], kinds, strict=True)
    own = [float(row[("ant", "bee").index(kind)]) for row, kind in pairs]
    value = found["results"][0]["metrics"]["nll"]["value"]
    assert value == pytest.approx(-np.log(own).mean(), rel=1e-9)
    assert "--test test.csv --target kind" in (tmp_path / "page" / "index.html").read_text()
    with (tmp_path / "p.csv").open("w") as file:  # predictions beside a model
        for row, kind in zip(lines, ["label", *kinds], strict=True):
            file.write(",".join([*row[:2], kind]) + "\n")
    assert main(["compare", "p.csv", one, *words, "--json"]) == 0
    gaps = json.loads(capsys.readouterr().out)["differences"][0]
    assert gaps["nll"]["value"] == pytest.approx(0, abs=1e-9)


def test_mistakes_with_models(fitted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table, one, ten = (str(fitted / name) for name in ("test.csv", "one", "ten"))
    other = (fitted / "test.csv").read_text().replace("ant", "wasp")
    (tmp_path / "other.csv").write_text(other)
    (tmp_path / "p.csv").write_text("prob_0,prob_1,label\n0.5,0.5,0\n")
    (tmp_path / "q.csv").write_text("prob_0,prob_1,label\n0.4,0.6,0\n")
    capsys.readouterr()
    for words, said in (
        ([one, ten], "argument --test: must name a table for models"),
        ([one, ten, "--test", "none.csv"], "argument --test: must be a file that exists"),
        ([one, ten, "--test", table], "argument --target: must name a column"),
        ([one, ten, "--test", table, "--target", "x"], "argument --target:"),
        ([one, ten, "--test", "other.csv", "--target", "kind"], "fitted on, but holds 'wasp'"),
        (["p.csv", "q.csv", "--test", table], "must be left out unless a FILE is a model"),
    ):
        assert main(["compare", *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert said in error
