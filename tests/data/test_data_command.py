"""``softmargin data``, through its own parser."""

import argparse
import hashlib

import pytest
from data_files import mnist_arrays, write_files, write_mnist

from softmargin.cli import main
from softmargin.commands import data as data_command
from softmargin.commands.data import act as run
from softmargin.commands.data import declare
from softmargin.data import MissingDataError, load, names, registry


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


def test_fetch_downloads_everything_only_when_asked(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(data_command, "obtain", lambda entry, *_: asked.append(entry.name))
    message = refused("fetch")
    assert message.startswith("argument NAME: must name what to fetch, of mnist, fashion_mnist, ")
    assert "uci/<table>; --all fetches all that can be downloaded (876 MB)." in message
    assert "'mnist' was given too" in refused("fetch", "mnist", "--all")
    assert asked == []
    monkeypatch.setattr(data_command, "check", lambda found: ())
    command("fetch", "--all")
    assert asked == [name for name, entry in registry.ENTRIES.items() if entry.has_download]
    asked.clear()
    command("fetch", "mnist", "uci", "mnist", "uci/", "uci/iris")
    assert asked == ["mnist", *(name for name in names() if name.startswith("uci/"))]


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
    for action in ("list", "fetch", "verify", "path"):
        message = refused(action, name)
        assert message.startswith("argument NAME: must be ")
        assert nearest in message
        assert message.endswith(f"but got {name!r}.")
    with pytest.raises(TypeError, match="name must be text"):
        load(3)


def test_folders_that_do_not_exist(tmp_path, monkeypatch):
    missing = str(tmp_path / "missing")
    for wrong in (missing, "", "x" * 5000, str(tmp_path / "file")):
        (tmp_path / "file").write_text("")
        for action in ("list", "fetch", "verify", "path"):
            message = refused(action, "mnist", "--root", wrong)
            assert message.startswith("argument --root: must name a folder that exists, but got '")
            assert len(message) < 300
    assert missing in refused("list", "--root", missing)
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


def test_the_command_line_names_what_was_typed(capsys, tmp_path):
    """Through the whole command line: what the user typed, and the nearest names."""
    assert main(["train", "--data", "mnits", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == (
        "softmargin train: --data must be a data set such as mnist, digits, but got 'mnits'.\n"
    )
    assert not (tmp_path / "run").exists()
    assert main(["data", "fetch", "mnits"]) != 0
    assert "softmargin data: argument NAME: must be a data set such as mnist" in (
        capsys.readouterr().err
    )
    config = tmp_path / "config.yaml"
    config.write_text("data: mnits\n")
    assert main(["train", "--config", str(config), "--out", str(tmp_path / "run")]) != 0
    assert (
        f"softmargin train: data in {str(config)!r} must be a data set" in capsys.readouterr().err
    )


def test_errors_of_the_system_have_no_number(capsys, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise FileExistsError(17, "File exists", str(tmp_path / "a\x1b[2Jb"))

    monkeypatch.setattr(data_command, "find", fails)
    assert main(["data", "list"]) != 0
    assert capsys.readouterr().err == (f"softmargin data: {tmp_path}/a\\x1b[2Jb: File exists.\n")


def test_text_from_files_gives_no_orders_to_a_terminal(tmp_path):
    orders = "n\x1b[2J\x9b31m\u202e\n" + "y" * 1000
    (tmp_path / "imagenet/train" / orders[:200]).mkdir(parents=True)
    (tmp_path / "imagenet/train" / orders[:200] / "a.png").write_bytes(b"no picture")
    (tmp_path / "imagenet/val/other\x1b[2J").mkdir(parents=True)
    messages = []
    with pytest.raises(ValueError) as caught:
        load("imagenet", root=tmp_path)
    messages.append(str(caught.value))
    (tmp_path / "imagenet/val/other\x1b[2J").rename(tmp_path / "imagenet/val" / orders[:200])
    (tmp_path / "imagenet/val" / orders[:200] / "a.png").write_bytes(b"no picture")
    with pytest.raises(ValueError) as caught:
        load("imagenet", root=tmp_path).train[0]
    messages.append(str(caught.value))
    write_files(tmp_path, {"uci/iris.csv": f'a,b,class\n1,2,x\n"{orders}",2,x\n'.encode()})
    with pytest.raises(ValueError) as caught:
        load("uci/iris", root=tmp_path, verify=False)
    messages.append(str(caught.value))
    with pytest.raises(ValueError) as caught:
        load(orders)
    messages.append(str(caught.value))
    for message in messages:
        assert message.isprintable()
        assert "\\x1b[2J" in message
        assert len(message) < 600
