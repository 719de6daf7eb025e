"""Downloads from servers that misbehave: within limits, one sentence, nothing left behind."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from loopback import entry_on, files_in

from softmargin.data import DownloadError, load, registry
from softmargin.data import transfer as module
from softmargin.data.download import FOLDER

NAME = "train-images-idx3-ubyte.gz"


@pytest.fixture
def mnist(server, tmp_path, monkeypatch):
    monkeypatch.setitem(registry.ENTRIES, "mnist", entry_on(server, tmp_path / "source"))


def refused():
    with pytest.raises(DownloadError) as caught:
        load("mnist")
    message = str(caught.value)
    assert message.startswith("mnist is not on this machine and could not be downloaded from 127.")
    assert message.isprintable()
    return message


def left(cache):
    return [path for path in cache.rglob("*") if path.suffix != ".lock" and path.is_file()]


def start(handler, length=None, **headers):
    handler.send_response(200)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def endless(handler):
    start(handler)
    while True:
        handler.wfile.write(bytes(65536))


def endless_chunks(handler):
    start(handler, Transfer_Encoding="chunked")
    while True:
        handler.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")


@pytest.mark.parametrize("answer", [endless, endless_chunks])
def test_a_body_without_an_end(mnist, server, cache, monkeypatch, answer):
    monkeypatch.setattr(module, "SMALL", 10**6)
    server.answers[f"/{NAME}"] = answer
    assert "it is longer than 13 MB, which the published file is not" in refused()
    assert left(cache) == []


def test_a_length_that_is_too_large_is_refused_unread(mnist, server, cache):
    server.answers[f"/{NAME}"] = lambda handler: start(handler, 10**12)
    assert "it is longer than" in refused()
    assert left(cache) == []


@pytest.mark.parametrize("length", ["-5", "x", "9" * 5000, ""])
def test_a_length_that_is_none(mnist, server, cache, length):
    def answer(handler):
        start(handler, length)
        handler.wfile.write(server.files[f"/{NAME}"])

    server.answers[f"/{NAME}"] = answer
    if length.isdigit():
        refused()
    else:
        assert len(load("mnist").train) == 30


@pytest.mark.parametrize(
    ("change", "why"), [(7, "the connection was cut"), (-7, "arrived damaged: its checksum")]
)
def test_a_length_that_lies(mnist, server, cache, change, why):
    def answer(handler):
        content = server.files[f"/{NAME}"]
        start(handler, len(content) + change)
        handler.wfile.write(content)

    server.answers[f"/{NAME}"] = answer
    assert why in refused()
    assert left(cache) == []


def test_a_body_that_stalls(mnist, server, cache, monkeypatch):
    monkeypatch.setattr(module, "IDLE", 0.3)
    over = threading.Event()

    def answer(handler):
        start(handler, 1000)
        handler.wfile.write(b"x")
        over.wait(300)

    server.answers[f"/{NAME}"] = answer
    assert "the server stopped answering" in refused()
    over.set()
    assert left(cache) == []


def test_no_answer(mnist, server, cache, monkeypatch):
    monkeypatch.setattr(module, "IDLE", 0.3)
    over = threading.Event()
    server.answers[f"/{NAME}"] = lambda _: over.wait(300)
    assert "(no answer)" in refused()
    over.set()


@pytest.mark.parametrize("where", ["head", "body", "trailer"])
def test_an_answer_that_drips(mnist, server, cache, monkeypatch, where):
    """A byte now and then keeps nobody waiting for ever."""
    monkeypatch.setattr(module, "GRACE", 0.3)
    monkeypatch.setattr(module, "SLOWEST", 10**12)
    over = threading.Event()

    def answer(handler):
        if where == "head":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        elif where == "body":
            start(handler, 10**6)
        else:
            handler.protocol_version = "HTTP/1.1"
            start(handler, Transfer_Encoding="chunked")
            handler.wfile.write(b"1\r\nx\r\n0\r\n")
        while not over.wait(0.02):
            handler.wfile.write(b"x\n" if where == "trailer" else b"x")

    server.answers[f"/{NAME}"] = answer
    assert "it took longer than 0 minutes" in refused()
    over.set()
    assert left(cache) == []


def test_nonsense_instead_of_http(mnist, server, cache):
    server.answers[f"/{NAME}"] = lambda handler: handler.wfile.write(b"\x1b[2Jnonsense\r\n\r\n")
    assert "the server's answer makes no sense" in refused()


def redirect(handler, where):
    handler.send_response(302)
    handler.send_header("Location", where)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@pytest.mark.parametrize(
    "where",
    ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "gopher://x/", "FILE:///etc/passwd"],
)
def test_a_server_that_points_to_another_scheme(mnist, server, cache, where):
    server.answers[f"/{NAME}"] = lambda handler: redirect(handler, where)
    assert f"the server pointed to '{where}', which is not secure" in refused()
    assert left(cache) == []


def test_https_is_never_left_for_http():
    opened = []
    handler = module._Redirects()
    handler.parent = SimpleNamespace(open=lambda request, **_: opened.append(request.full_url))
    for old, new, followed in [
        ("https://a/x", "http://a/x", False),
        ("https://a/x", "https://b/x", True),
        ("http://a/x", "https://a/x", True),
        ("http://a/x", "http://b/x", True),
    ]:
        request = module.urllib.request.Request(old)
        request.timeout = 1
        arguments = (request, io.BytesIO(), 302, "Found", {"location": new})
        if followed:
            handler.http_error_302(*arguments)
            assert opened[-1] == new
        else:
            with pytest.raises(OSError, match="http://a/x"):
                handler.http_error_302(*arguments)
            assert opened == []


def test_a_server_that_points_nowhere(mnist, server, cache):
    for where in ("http://[", "http://\u00e9:x/", "//", ""):
        server.answers[f"/{NAME}"] = lambda handler, where=where: redirect(handler, where)
        assert "could not be downloaded" in refused()


def test_a_server_that_points_elsewhere_or_in_a_circle(mnist, server, cache):
    server.answers[f"/{NAME}"] = lambda handler: redirect(handler, f"/{NAME}")
    assert "the server answered 302" in refused()
    server.files["/moved"] = server.files[f"/{NAME}"]
    server.answers[f"/{NAME}"] = lambda handler: redirect(handler, "/moved")
    assert len(load("mnist").train) == 30


LAYOUTS = [layout for entry in registry.ENTRIES.values() for layout in entry.layouts]


def test_every_download_is_secure():
    """By https, or where the server has none by SHA-256."""
    downloads = [layout for layout in LAYOUTS if layout.url]
    plain = {layout.url for layout in downloads if not layout.url.startswith("https://")}
    assert plain == {"http://ufldl.stanford.edu/housenumbers"}
    for layout in downloads:
        assert all("sha256:" in " ".join(sums) for sums in layout.files.values())
    recipes = [entry.recipe for entry in registry.ENTRIES.values() if entry.recipe is not None]
    parts = [part for recipe in recipes for source in recipe.sources for part in source]
    assert all(part.url.startswith("https://") for part in parts)


def test_every_checksum_is_one():
    lengths = {"md5": 32, "sha256": 64}
    for checksums in (sums for layout in LAYOUTS for sums in layout.files.values()):
        for checksum in checksums:
            algorithm, _, digits = checksum.partition(":")
            assert len(digits) == lengths[algorithm]
            assert set(digits) <= set("0123456789abcdef")


CHILD = """
import json, sys
from dataclasses import replace
from pathlib import Path
from softmargin.data import registry, load
entry = registry.ENTRIES["mnist"]
layout = replace(entry.layouts[0], **json.loads(sys.argv[1]))
registry.ENTRIES["mnist"] = replace(entry, layouts=(layout,))
data = load("mnist")
print(len(data.train), int(data.train.images.long().sum()))
"""


def children(server, cache, source, number):
    layout = entry_on(server, source).layouts[0]
    given = {"files": dict(layout.files), "url": layout.url}
    environment = {**os.environ, "SOFTMARGIN_CACHE": str(cache), "TMPDIR": "/nonexistent"}
    return [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(given)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(number)
    ]


@pytest.mark.slow
def test_a_killed_download_leaves_nothing_for_ever(server, cache, tmp_path):
    started, over = threading.Event(), threading.Event()

    def slow(handler):
        start(handler, 10**6)
        handler.wfile.write(bytes(500_000))
        started.set()
        over.wait(300)

    server.answers[f"/{NAME}"] = slow
    (child,) = children(server, cache, tmp_path / "source", 1)
    assert started.wait(300)
    unfinished = cache / FOLDER / "mnist"
    assert unfinished.is_dir()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    over.set()
    assert files_in(cache) in ([], [NAME])  # in the hidden folder, if at all
    assert not list(cache.rglob("MNIST"))
    (cache / FOLDER / "cifar10").mkdir()  # what another one has left
    (cache / FOLDER / "cifar10" / "part").write_bytes(bytes(1000))
    server.answers.clear()
    (child,) = children(server, cache, tmp_path / "again", 1)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert [path.name for path in (cache / FOLDER).iterdir() if path.suffix != ".lock"] == []
    assert len(files_in(cache)) == 4


@pytest.mark.slow
def test_several_processes_download_once(server, cache, tmp_path):
    running = children(server, cache, tmp_path / "source", 3)
    results = [child.communicate(timeout=200) for child in running]
    assert [child.returncode for child in running] == [0] * 3, results
    assert len({out for out, _ in results}) == 1
    assert {err for _, err in results} == {""}
    assert len(server.requests) == 4
    assert [path.name for path in (cache / FOLDER).iterdir() if path.suffix != ".lock"] == []
    assert len(files_in(cache)) == 4


def test_a_full_disk_is_one_sentence_and_gives_back_what_it_took(server, tmp_path, cache):
    """As far as a process can be made to believe in one: its files may not grow."""
    content = os.urandom(3_000_000)
    server.files["/big"] = content
    code = (
        "import resource, sys; from pathlib import Path;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6));"
        "from softmargin.data.entry import DatasetEntry, Layout;"
        "from softmargin.data.download import fetch;"
        "layout = Layout([''], {'big': []}, '', sys.argv[1]);"
        "e = DatasetEntry('big', '', 1, 1, 1, '', '', (layout,));"
        "fetch(e, Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, server.base, str(cache)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"big could not be written to {cache}: File too large." in done.stderr
    assert files_in(cache) == []
