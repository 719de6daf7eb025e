"""A real server on loopback, whose files can go wrong on their way."""

import contextlib
import hashlib
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from data_files import mnist_arrays, write_mnist

from softmargin.data import registry


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
    entry = registry.ENTRIES["mnist"]
    layout, *others = entry.layouts
    sums = {}
    for name in layout.files:
        content = (source / name).read_bytes()
        server.files[f"/{name}"] = content
        sums[name] = ["sha256:" + hashlib.sha256(content).hexdigest()]
    return replace(entry, layouts=(replace(layout, url=server.base, files=sums), *others))


def with_layout(entry, number, **changes):
    """Return the entry with one of its layouts changed."""
    layouts = list(entry.layouts)
    layouts[number] = replace(layouts[number], **changes)
    return replace(entry, layouts=tuple(layouts))
