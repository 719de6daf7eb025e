"""One file from the internet, within limits: whole and with the right checksum, or not at all."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from softmargin import _progress
from softmargin._text import printable
from softmargin.data.errors import BrokenFileError
from softmargin.data.files import check_file

IDLE = 30.0  # seconds without a byte
GRACE, SLOWEST = 60.0, 20_000  # seconds that any file may take, and bytes per second beyond them
SMALL = 2**24  # bytes that any file may have
BLOCK = 2**16
Say = Callable[[int, int], None]
"""Takes how many bytes have come, and of how many, 0 where that is not known."""


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


def transfer(url: str, target: Path, checksum: str, *, megabytes: int, progress: bool) -> None:
    """Download a file to a name that nobody else uses or reads.

    Args:
        url: Its address.
        target: Where it goes. When this raises, there may be a part of it.
        checksum: What it must be, "" where that is not known.
        megabytes: What it has at most, rounded down.
        progress: Whether to show a progress bar.
    """
    limit = max(SMALL, (megabytes + 1) * 10**6)
    with _progress.progress(hidden=not progress) as show:
        say = partial(show, text=target.name)
        _within(url, GRACE + limit / SLOWEST, lambda over: _receive(url, target, limit, say, over))
    try:
        check_file(target, checksum)
    except BrokenFileError:
        why = f"{target.name} arrived damaged: its checksum is not {checksum}"
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


def _receive(url: str, target: Path, limit: int, say: Say, over: threading.Event) -> None:
    with _opened(url, limit) as answer, target.open("wb") as file:
        _copy(url, answer, file, limit, say, over)
        file.flush()
        os.fsync(file.fileno())


def _opened(url: str, limit: int) -> Any:
    """Return the answer to a request, if it is not too long already by its own account."""
    opener = urllib.request.build_opener(_Redirects)
    request = urllib.request.Request(url, headers={"User-Agent": "softmargin"})
    try:
        answer = opener.open(request, timeout=IDLE)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TransferError(url, _reason(error), is_network=True) from None
    length = _length(answer)
    if length is not None and length > limit:
        answer.close()
        raise TransferError(url, _too_long(limit), is_network=False)
    return answer


def _length(answer: Any) -> int | None:
    text = str(answer.headers.get("Content-Length", ""))
    chunked = answer.headers.get("Transfer-Encoding")
    return int(text[:20]) if text.isascii() and text.isdigit() and not chunked else None


def _copy(
    url: str, answer: Any, file: IO[bytes], limit: int, say: Say, over: threading.Event
) -> None:
    """Write what arrives, until it ends, is too much or is no longer wanted."""
    total, expected = 0, _length(answer)
    while not over.is_set():
        try:
            block = answer.read1(BLOCK)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = _reason(error, started=True)
            raise TransferError(url, reason, is_network=True) from None
        total += len(block)
        if total > limit:
            raise TransferError(url, _too_long(limit), is_network=False)
        if not block:
            break
        file.write(block)
        say(total, expected or 0)
    if expected is not None and total < expected:
        raise TransferError(url, "the connection was cut", is_network=True)


def _too_long(limit: int) -> str:
    return f"it is longer than {limit // 10**6} MB, which the published file is not"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server elsewhere, but never from https to anything else, nor to a file."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request to make instead."""
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (scheme, req.type) != ("http", "http"):
            raise _RedirectError(printable(newurl))
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        """Say ourselves where the server pointed, also where urllib would refuse."""
        where = headers.get("location") or headers.get("uri") or ""
        scheme = urlsplit(where).scheme
        if scheme not in ("", "http", "https"):
            raise _RedirectError(printable(where))
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _RedirectError(OSError):
    """A server pointed to an address that is not followed."""


def _reason(error: BaseException, *, started: bool = False) -> str:
    """Return one phrase for a request that failed."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        return _reason(error.reason, started=started)
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
