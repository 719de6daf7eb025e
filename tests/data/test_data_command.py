"""``softmargin data``, through its own parser."""

import argparse
import hashlib

import pytest
from data_files import mnist_arrays, write_files, write_mnist

from softmargin.data import MissingDataError, load, names
from softmargin.data.command import declare, run


def command(*arguments):
    parser = argparse.ArgumentParser()
    declare(parser)
    run(parser.parse_args(arguments))


def refused(*arguments):
    with pytest.raises((ValueError, OSError)) as caught:
        command(*arguments)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def write_sums(root):
    files = [p for p in root.rglob("*") if p.is_file()]
    lines = [
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(root).as_posix()}\n"
        for p in files
    ]
    (root / "SHA256SUMS").write_text("".join(lines))


@pytest.fixture
def fashion(tmp_path):
    write_mnist(tmp_path / "FashionMNIST/raw", mnist_arrays(), packed=False)
    write_sums(tmp_path)
    return tmp_path


def test_list_names_every_data_set_and_where_it_is(capsys, fashion, monkeypatch):
    monkeypatch.setenv("SOFTMARGIN_DATA", str(fashion))
    command("list")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", *names()]
    rows = {line.split()[0]: line for line in lines}
    assert str(fashion / "FashionMNIST/raw") in rows["fashion_mnist"]
    assert "to download, 170 MB" in rows["cifar10"]
    assert "scikit-learn" in rows["digits"]
    assert "to download, under 1 MB" in rows["uci/hayes_roth"]
    assert "missing" in rows["imagenet"]
    command("list", "mnist")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_path(capsys, fashion, cache):
    command("path", "fashion_mnist", "--root", str(fashion))
    command("path")
    assert capsys.readouterr().out.splitlines() == [
        str(fashion / "FashionMNIST/raw"),
        str(cache),
    ]
    assert "mnist was not found" in refused("path", "mnist")
    assert "scikit-learn" in refused("path", "digits")


def test_verify_says_what_is_whole_and_what_is_not(capsys, fashion):
    command("verify", "--root", str(fashion))
    assert capsys.readouterr().out == "fashion_mnist: 4 files verified\n"
    path = fashion / "FashionMNIST/raw/train-images-idx3-ubyte"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    message = refused("verify", "--root", str(fashion))
    assert f"{path} is damaged" in message
    (fashion / "SHA256SUMS").unlink()
    command("verify", "fashion_mnist", "--root", str(fashion))
    assert "0 files verified, 4 without a checksum" in capsys.readouterr().out


def test_verify_without_data(tmp_path):
    assert "no data set to verify" in refused("verify", "--root", str(tmp_path))
    assert "mnist was not found" in refused("verify", "mnist", "--root", str(tmp_path))


def test_verify_counts_the_damaged(fashion):
    write_files(fashion, {"uci/haberman.csv": b"", "uci/iris.csv": b""})
    message = refused("verify", "--root", str(fashion))
    assert "haberman.csv is damaged" in message
    assert "(and 1 more)" in message


def test_fetch_of_what_is_there(capsys, fashion):
    command("fetch", "fashion_mnist", "digits", "--root", str(fashion))
    out = capsys.readouterr().out
    assert f"fashion_mnist: {fashion}" in out
    assert "digits: in scikit-learn" in out


def test_fetch_of_what_has_no_download():
    assert "folders train and val" in refused("fetch", "imagenet")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cifar", "cifar10, cifar100"),
        ("MNIST", "mnist"),
        ("fashion-mnist", "fashion_mnist"),
        ("hayes_roth", "uci/hayes_roth"),
        ("uci/hayes-roth", "uci/hayes_roth"),
        ("uci/pima", "uci/"),
        ("tinyimagenet", "tiny_imagenet"),
        ("", "mnist"),
        ("xyzzy", "mnist"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(name, nearest):
    with pytest.raises(ValueError) as caught:
        load(name)
    assert nearest in str(caught.value)
    assert f"got {name!r}." in str(caught.value)
    assert nearest in refused("list", name)
    with pytest.raises(TypeError, match="name must be text"):
        load(3)


def test_folders_that_do_not_exist(tmp_path, monkeypatch):
    missing = str(tmp_path / "missing")
    assert refused("list", "--root", missing) == (
        f"root must name a folder that exists, but got {missing!r}."
    )
    with pytest.raises(MissingDataError, match="root must name a folder"):
        load("mnist", root=missing)
    monkeypatch.setenv("SOFTMARGIN_DATA", missing)
    with pytest.raises(MissingDataError, match="SOFTMARGIN_DATA must name a folder"):
        load("mnist")


def test_picture_folders_without_classes(tmp_path):
    (tmp_path / "imagenet/train").mkdir(parents=True)
    (tmp_path / "imagenet/val").mkdir()
    with pytest.raises(MissingDataError, match="one folder per class"):
        load("imagenet", root=tmp_path)
    for part in ("train", "val"):
        (tmp_path / f"imagenet/{part}/a").mkdir()
    with pytest.raises(MissingDataError, match="must hold pictures"):
        load("imagenet", root=tmp_path)
    (tmp_path / "imagenet/val/b").mkdir()
    with pytest.raises(ValueError, match="also has 'b'"):
        load("imagenet", root=tmp_path)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci/iris.csv").symlink_to(tmp_path / "uci")
    with pytest.raises((ValueError, OSError), match="iris.csv"):
        load("uci/iris", root=tmp_path)
