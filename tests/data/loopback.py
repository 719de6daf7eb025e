"""A real server on loopback, whose files can go wrong on their way."""

import contextlib
import hashlib
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from data_files import mnist_arrays, write_mnist

from softmargin.data import registry
from softmargin.data.entry import Remote


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``faults`` says what goes wrong with which; ``answers`` are functions."""

    def __init__(self):
        self.files, self.faults, self.answers, self.requests = {}, {}, {}, []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path in self.server.answers:
            with contextlib.suppress(OSError):  # the other side may hang up
                self.server.answers[self.path](self)
            return
        content, fault = self.server.files.get(self.path), self.server.faults.get(self.path)
        if content is None:
            self.send_error(404)
            return
        if fault == "corrupt":
            content = content[:50] + bytes([content[50] ^ 1]) + content[51:]
        self.send_response(200)
        if fault != "cut without length":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault and "cut" in fault else content)

    def log_message(self, *arguments):
        pass


def files_in(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in found if path.suffix != ".lock")


def entry_on(server, source):
    """Return MNIST on the server, with the checksums of small files."""
    write_mnist(source, mnist_arrays())
    entry, sums, remotes = registry.ENTRIES["mnist"], {}, []
    for remote in entry.remotes:
        name = remote.path.rpartition("/")[2]
        content = (source / name).read_bytes()
        server.files[f"/{name}"] = content
        sums[name] = "sha256:" + hashlib.sha256(content).hexdigest()
        remotes.append(Remote(f"{server.base}/{name}", sums[name], remote.path))
    layouts = tuple(
        replace(layout, files=sums) if set(layout.files) == set(sums) else layout
        for layout in entry.layouts
    )
    return replace(entry, remotes=tuple(remotes), layouts=layouts)
