"""Downloads from a real server on loopback: whole or not at all."""

import contextlib
import hashlib
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from data_files import cifar_files, idx_bytes, mnist_arrays, tar_of, write_mnist
from loopback import Handler, entry_on, files_in, with_layout

from softmargin.data import BrokenFileError, DownloadError, MissingDataError, load, registry
from softmargin.data.download import fetch


def md5(content):
    return ["md5:" + hashlib.md5(content).hexdigest()]


@pytest.fixture
def mnist(server, tmp_path, monkeypatch):
    """Put a small MNIST on the server, with its own checksums in the registry."""
    changed = entry_on(server, tmp_path / "source")
    monkeypatch.setitem(registry.ENTRIES, "mnist", changed)
    return changed


def test_a_download_is_verified_and_kept(mnist, server, cache):
    data = load("mnist")
    assert np.array_equal(data.train.images[:, 0], mnist_arrays()["train-images-idx3-ubyte"])
    assert len(server.requests) == 4
    assert len(files_in(cache)) == 4
    assert all(record.verified for record in data.provenance.files)
    load("mnist")
    assert len(server.requests) == 4


def test_root_is_where_downloads_go(mnist, server, cache, tmp_path):
    (tmp_path / "mine").mkdir()
    load("mnist", root=tmp_path / "mine")
    assert len(files_in(tmp_path / "mine" / "MNIST" / "raw")) == 4
    assert files_in(cache) == []


@pytest.mark.parametrize("fault", ["cut", "cut without length", "corrupt"])
def test_a_bad_transfer_is_refused_by_name_and_leaves_nothing(mnist, server, cache, fault):
    name = "t10k-images-idx3-ubyte.gz"
    server.faults[f"/{name}"] = fault
    with pytest.raises(DownloadError) as caught:
        load("mnist")
    message = str(caught.value)
    assert name in message
    assert "mnist" in message
    assert "SOFTMARGIN_DATA" in message
    assert ("the connection was cut" if fault == "cut" else "arrived damaged") in message
    assert "\n" not in message
    assert files_in(cache) == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]
    server.faults.clear()  # only what is missing is fetched again
    assert len(load("mnist").train) == 30
    assert len(server.requests) == 5


def test_a_file_that_is_gone(mnist, server):
    server.files.clear()
    with pytest.raises(DownloadError, match="the server answered 404"):
        load("mnist")


def test_no_network_and_no_data_is_one_sentence(mnist, server, monkeypatch, cache):
    with socket.socket() as silent:  # it holds the port, and does not listen
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        changed = with_layout(mnist, 0, url=f"http://127.0.0.1:{port}/x")
        monkeypatch.setitem(registry.ENTRIES, "mnist", changed)
        with pytest.raises(DownloadError) as caught:
            load("mnist")
    assert str(caught.value) == (
        f"mnist is not on this machine and could not be downloaded from 127.0.0.1:{port} "
        "(no connection): connect to the internet and try again, or set SOFTMARGIN_DATA to a "
        "folder that has MNIST/raw/train-images-idx3-ubyte.gz."
    )
    assert files_in(cache) == []


def test_download_can_be_forbidden(mnist, server):
    with pytest.raises(MissingDataError, match="softmargin data fetch mnist"):
        load("mnist", download=False)
    assert server.requests == []


def test_a_flipped_byte_is_refused_by_name(mnist, cache):
    load("mnist")
    path = next(cache.rglob("train-labels*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BrokenFileError, match="train-labels-idx1-ubyte.gz is damaged: its sha256"):
        load("mnist")


def test_sums_of_the_folder_are_checked_where_none_are_published(tmp_path):
    write_mnist(tmp_path / "FashionMNIST/raw", mnist_arrays(), packed=False)
    name = "FashionMNIST/raw/t10k-labels-idx1-ubyte"
    assert len(load("fashion_mnist", root=tmp_path).test) == 10
    content = (tmp_path / name).read_bytes()
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    records = load("fashion_mnist", root=tmp_path).provenance.files
    assert [record.verified for record in records] == [False, False, False, True]
    sums.write_text(f"{hashlib.sha256(b'').hexdigest()}  {name}\n")
    with pytest.raises(BrokenFileError, match="t10k-labels-idx1-ubyte is damaged"):
        load("fashion_mnist", root=tmp_path)


@pytest.fixture
def cifar(server, monkeypatch):
    import pickle

    entry = registry.ENTRIES["cifar10"]
    files = {path: pickle.dumps(content, 2) for path, content in cifar_files("cifar10").items()}
    archive = tar_of(files)
    server.files["/cifar-10-python.tar.gz"] = archive
    sums = {path.rpartition("/")[2]: md5(content) for path, content in files.items()}
    changed = with_layout(entry, 0, files=sums)
    packed = {"cifar-10-python.tar.gz": md5(archive)}
    changed = with_layout(changed, 1, url=server.base, files=packed)
    monkeypatch.setitem(registry.ENTRIES, "cifar10", changed)
    return changed


def test_an_archive_is_unpacked_and_not_kept(cifar, cache, server):
    assert len(load("cifar10").train) == 30
    assert len(files_in(cache)) == 7
    assert not list(cache.rglob("*.tar.gz"))
    path = cache / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(BrokenFileError, match="data_batch_2 is damaged"):
        load("cifar10")


def test_a_malicious_archive_writes_nothing(cifar, cache, server, monkeypatch):
    archive = tar_of({"cifar-10-batches-py/data_batch_1": b"x", "../../evil": b"x"})
    server.files["/cifar-10-python.tar.gz"] = archive
    changed = with_layout(cifar, 1, files={"cifar-10-python.tar.gz": md5(archive)})
    monkeypatch.setitem(registry.ENTRIES, "cifar10", changed)
    with pytest.raises(BrokenFileError, match="tar.gz must hold data_batch_2, data_batch_3, "):
        load("cifar10")
    assert files_in(cache) == []
    assert not list(cache.parent.parent.rglob("evil"))


def test_many_at_once_download_once(cifar, cache, server):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(fetch(cifar, cache, progress=False)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert len(server.requests) == 1


def test_a_folder_that_cannot_be_written_to(mnist, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOFTMARGIN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DownloadError, match="mnist could not be written to .*file.*: Not a"):
        load("mnist")


@pytest.mark.parametrize("progress", [True, False])
def test_progress_goes_to_the_one_display(mnist, server, cache, monkeypatch, progress):
    said, hide = [], []

    @contextlib.contextmanager
    def display(*, hidden: bool):
        hide.append(hidden)
        yield lambda done, total, text: said.append((done, total, text))

    monkeypatch.setattr("softmargin._progress.progress", display)
    fetch(mnist, cache, progress=progress)
    assert hide == [not progress] * 4
    for address, content in server.files.items():
        assert (len(content), len(content), address[1:]) in said


def test_a_bar_is_not_needed(mnist, cache, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    fetch(mnist, cache, progress=True)
    assert len(files_in(cache)) == 4
    assert capsys.readouterr().err == ""


def test_an_interrupted_download_leaves_no_file_under_its_name(server, tmp_path):
    """A process killed in the middle of a file: the next one starts afresh."""
    content = idx_bytes(np.zeros((1500, 100, 100), np.uint8))
    started = threading.Event()

    class Slow(Handler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:500_000])
            started.set()
            threading.Event().wait(20)

    server.RequestHandlerClass = Slow
    code = (
        "import sys; from pathlib import Path; from dataclasses import replace;"
        "from softmargin.data import registry; from softmargin.data.download import fetch;"
        "e = registry.ENTRIES['mnist'];"
        "layouts = (replace(e.layouts[0], url=sys.argv[1]),);"
        "fetch(replace(e, layouts=layouts), Path(sys.argv[2]))"
    )
    child = subprocess.Popen([sys.executable, "-c", code, f"{server.base}/x", str(tmp_path / "c")])
    assert started.wait(60)
    child.kill()
    child.wait()
    assert not list((tmp_path / "c").rglob("MNIST"))  # at most in the hidden folder
