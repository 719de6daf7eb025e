"""Training on one's own table, pictures and network."""

from __future__ import annotations

import csv
import gzip
import random

import pytest
import torch
from torch import nn

from softmargin.cli import main
from softmargin.data.own import load_own_pictures, load_own_table
from softmargin.training import RunFolder, TrainingConfig, train, train_together

Image = pytest.importorskip("PIL.Image")
SHORT = ["--epochs", "15", "--batch", "20", "--lr", "0.05"]


@pytest.fixture
def rows():
    """Two numbers and a category, with gaps; the class follows from them."""
    draw = random.Random(0)
    made = []
    for _ in range(200):
        size, kind = draw.gauss(0, 1), draw.choice(["red", "green", "blue"])
        name = "large" if size > 0 else "green and small" if kind == "green" else "small"
        made.append(["" if draw.random() < 0.05 else f"{size:.4f}", draw.randint(0, 9), kind, name])
    return made


def written(path, rows, delimiter=",", header=("size", "noise", "colour", "what")):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t"), ("d.csv.gz", ",")]
)
def test_a_table_is_numbers_categories_and_classes(tmp_path, rows, name, delimiter):
    table = load_own_table(written(tmp_path / name, rows, delimiter), "what")
    assert table.class_names == ("green and small", "large", "small")
    names = ("size", "noise", "colour_blue", "colour_green", "colour_red")
    assert table.feature_names == names
    assert (len(table.train), len(table.test)) == (180, 20)
    assert bool(table.whole.x.isfinite().all())
    assert torch.equal(table.whole.x[:, 2:].sum(1), torch.ones(200, dtype=torch.float64))


def test_medians_and_categories_are_those_of_the_training_rows(tmp_path, rows):
    path = written(tmp_path / "a.csv", rows)
    table = load_own_table(path, "what", seed=1)
    again = load_own_table(path, "what", seed=1)
    assert torch.equal(table.test.x, again.test.x)
    tested = {tuple(row) for row in table.test.x[:, 1:].tolist()}
    rare = [*rows, ["1.0", 3, "violet", "large"]]
    for seed in range(20):  # until the only violet row is tested on
        table = load_own_table(written(tmp_path / "b.csv", rare), "what", seed=seed)
        if "colour_violet" not in table.feature_names:
            assert table.whole.x[-1, 2:].tolist() == [0, 0, 0]
            break
    else:
        pytest.fail("the row was never tested on")
    assert tested


def test_a_table_is_trained_on(tmp_path, rows, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "table.csv", rows)
    command = ["train", "--data", "table.csv", "--target", "what", "--model", "mlp", *SHORT]
    assert main([*command, "--out", "run"]) == 0
    assert RunFolder(tmp_path / "run").result()["accuracy"] >= 0.8
    assert main([*command, "--out", "run"]) == 0
    assert "was finished before" in capsys.readouterr().out
    config = RunFolder(tmp_path / "run").config()
    found = train_together([config], threads=1).final("nll")
    assert float(found[0]) == pytest.approx(RunFolder(tmp_path / "run").result()["nll"], rel=1e-4)


BAD_TABLES = {
    "no column": ("size,what\n1,a\n2,b\n", "wat", "target must be a column of"),
    "listed": ("size,what\n1,a\n2,b\n", "zzz", "such as size, what, but got 'zzz'"),
    "one class": ("size,what\n1,a\n2,a\n", "what", "must have 2 to 200 classes"),
    "empty target": ("size,what\n1,a\n2,\n", "what", "what is empty in 1 rows, first in row 2"),
    "alone": ("what\na\nb\n", "what", "must have columns beside what"),
    "few": ("size,what\n1,a\n2,b\n", "what", "must hold at least 10 samples"),
    "ragged": ("size,what\n1,a\n2,b,c\n", "what", "cannot be read as a table"),
    "empty": ("", "what", "cannot be read as a table"),
    "twice": ("what,what\n1,a\n2,b\n", "what", "two of its columns have one name"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    text, target, message = BAD_TABLES[name]
    (tmp_path / "t.csv").write_text(text)
    assert main(["train", "--data", "t.csv", "--target", target, "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "none.csv", "--target", "x"], "--data must be a table that exists"),
        (["--data", "none/"], "--data must be a folder that exists, but got 'none/'"),
        (["--data", "t.csv"], "--target must be the column of 't.csv' that holds the classes"),
        (["--data", "digits", "--target", "x"], "--target must be left out for 'digits'"),
        (["--data", "empty/"], "must hold one folder per class, but holds none"),
        (["--data", "one/"], "must hold a folder of pictures for each of 2 classes or more"),
        (["--model", "nowhere.at_all:make"], "--model must be package.module:function"),
        (["--model", "math:pi"], "--model must be a function"),
        (["--model", "math:sqrt"], "--model must be a function from the shape of a sample"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("size,what\n1,a\n2,b\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "a").mkdir(parents=True)
    assert main(["train", *options, "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def pictures(folder, count, brightness):
    folder.mkdir(parents=True)
    for number in range(count):
        Image.new("RGB", (12, 10), (brightness + number, 30, 40)).save(folder / f"{number:02}.png")


def test_a_folder_of_pictures_is_trained_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "mine" / "dark", 20, 10)
    pictures(tmp_path / "mine" / "light", 20, 200)
    dataset = load_own_pictures(tmp_path / "mine")
    assert dataset.class_names == ("dark", "light")
    assert (len(dataset.train), len(dataset.test)) == (36, 4)
    assert dataset.train.batch(torch.arange(2))[0].shape == (2, 3, 10, 10)
    assert main(["train", "--data", "mine", "--out", "run", "--epochs", "5", "--batch", "9"]) == 0
    assert RunFolder(tmp_path / "run").result()["accuracy"] == 1.0


def test_folders_that_are_divided_stay_so(tmp_path):
    for split, count in (("train", 5), ("test", 2)):
        for name in ("a", "b"):
            pictures(tmp_path / split / name, count, 50)
    dataset = load_own_pictures(tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (10, 4)
    pictures(tmp_path / "test" / "c", 1, 50)
    with pytest.raises(ValueError, match="must have the classes of train, but also has 'c'"):
        load_own_pictures(tmp_path)


def my_network(shape, width=16):
    """Return a network without its last layer, as a user would write it."""
    size = torch.Size(shape).numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(size, width), nn.Dropout(0.1), nn.Tanh())


def test_a_network_of_ones_own(tmp_path):
    config = TrainingConfig(model=my_network, model_options={"width": 24}, epochs=2, lr=0.05)
    assert config.model.endswith(":my_network")
    result = train(config, tmp_path / "run")
    assert result["accuracy"] > 0.7
    state = RunFolder(tmp_path / "run").load()["model"]
    assert state["head.weight"].shape == (10, 24)
    with pytest.raises(ValueError, match="model must be a function from the shape"):
        train(TrainingConfig(model=my_network, model_options={"wide": 1}), tmp_path / "other")
