"""One file from the internet, within limits: whole and with the right checksum, or not at all."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from softmargin import _progress
from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.files import check_file

IDLE = 30.0  # seconds without a byte
GRACE, SLOWEST = 60.0, 20_000  # seconds that any file may take, and bytes per second beyond them
SMALL = 2**24  # bytes that any file may have
BLOCK = 2**16


class TransferError(Exception):
    """A file did not arrive; ``where`` it should have come from, ``why`` it did not."""

    def __init__(self, url: str, why: str, *, is_network: bool) -> None:
        """Keep the address, one phrase, and whether it was the network's fault."""
        super().__init__(why)
        self.where, self.why, self.is_network = urlsplit(url).netloc, why, is_network

    @property
    def advice(self) -> str:
        """What the user may do."""
        return "connect to the internet and try again" if self.is_network else "try again later"


def transfer(
    url: str, target: Path, checksums: Sequence[str], *, megabytes: int, progress: bool
) -> None:
    """Download a file to a name that nobody else uses or reads.

    Args:
        url: Its address.
        target: Where it goes. When this raises, there may be a part of it.
        checksums: What it must be, none where that is not known.
        megabytes: What it has at most, rounded down.
        progress: Whether to show a progress bar.
    """
    limit = max(SMALL, (megabytes + 1) * 10**6)
    with _progress.progress(hidden=not progress) as show:
        say = partial(show, text=target.name)
        _within(url, GRACE + limit / SLOWEST, lambda over: _receive(url, target, limit, say, over))
    try:
        check_file(target, checksums)
    except BrokenFileError:
        why = f"{target.name} arrived damaged: its checksum is not {' '.join(checksums)}"
        raise TransferError(url, why, is_network=False) from None


def _within(url: str, seconds: float, work: Callable[[threading.Event], None]) -> None:
    """Do something that may take so long; a socket has a limit for every byte, but none in all.

    What takes longer is told so, and is left to itself: a server can keep it from listening.
    """
    over, problems = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(over)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:  # also when the user interrupts
        over.set()
    if thread.is_alive():
        raise TransferError(url, f"it took longer than {seconds / 60:.0f} minutes", is_network=True)
    if problems:
        raise problems[0]


def _receive(
    url: str, target: Path, limit: int, say: Callable[[int, int], None], over: threading.Event
) -> None:
    """Write what arrives, until it ends or is no longer wanted."""
    with contextlib.closing(_blocks(url, limit)) as blocks, target.open("wb") as file:
        for block, done, total in blocks:
            if over.is_set():
                return
            file.write(block)
            say(done, total)
        file.flush()
        os.fsync(file.fileno())


def _blocks(url: str, limit: int) -> Generator[tuple[bytes, int, int]]:
    """Give what arrives, how much that is so far, and of how much, 0 where that is not known."""
    too_long = f"it is longer than {limit // 10**6} MB, which the published file is not"
    opener = urllib.request.build_opener(_Redirects)
    request = urllib.request.Request(url, headers={"User-Agent": "softmargin"})
    started, done, total = False, 0, 0
    try:
        with opener.open(request, timeout=IDLE) as answer:
            started, total = True, _length(answer)
            if total > limit:
                raise TransferError(url, too_long, is_network=False)
            while block := answer.read1(BLOCK):
                done += len(block)
                if done > limit:
                    raise TransferError(url, too_long, is_network=False)
                yield block, done, total
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TransferError(url, _reason(error, started), is_network=True) from None
    if done < total:
        raise TransferError(url, "the connection was cut", is_network=True)


def _length(answer: Any) -> int:
    """Return how long an answer is by its own account, 0 where it does not say."""
    text = str(answer.headers.get("Content-Length", ""))
    chunked = answer.headers.get("Transfer-Encoding")
    return int(text[:20]) if text.isascii() and text.isdigit() and not chunked else 0


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server elsewhere, but never from https to anything else, nor to a file."""

    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        """Make the request again where the server points to, if that is as secure."""
        where = headers.get("location") or headers.get("uri") or ""
        scheme = urlsplit(urljoin(req.full_url, where)).scheme
        if scheme != "https" and (scheme, req.type) != ("http", "http"):
            raise _RedirectError(printable(where))
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _RedirectError(OSError):
    """A server pointed to an address that is not followed."""


def _reason(error: BaseException, started: bool) -> str:
    """Return one phrase for a request that failed."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        return _reason(error.reason, started)
    if isinstance(error, _RedirectError):
        return f"the server pointed to {str(error)!r}, which is not secure"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the server's certificate is not valid"
    if isinstance(error, TimeoutError):
        return "the server stopped answering" if started else "no answer"
    if started or isinstance(error, (ConnectionResetError, http.client.IncompleteRead)):
        return "the connection was cut"
    if isinstance(error, (http.client.HTTPException, ValueError)):
        return "the server's answer makes no sense"
    return "no connection"
