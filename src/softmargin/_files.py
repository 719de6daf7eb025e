"""Files that are whole or not there: one writer for everything, and a checksum in what it writes.

A reader never sees half a file, two writers never share a temporary name, and a file that was
damaged or altered after it was written is refused with one sentence.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEAL = b"softmargin sha256 "
SEAL_LENGTH = len(SEAL) + 64
ZIP_END = b"PK\x05\x06"
CHECKSUM = "sha256"
UNFINISHED = ".unfinished"  # the end of a temporary name; only a killed writer leaves one behind
UMASK = os.umask(0)  # it can only be read by setting it
os.umask(UMASK)


class DamagedFileError(ValueError):
    """A file that is not what was written; the message names it and says what to do."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        """Say which file, what is wrong with it and what to do."""
        super().__init__(path, reason, remedy)  # as arguments: workers send errors to each other

    def __str__(self) -> str:
        """Return the sentence."""
        path, reason, remedy = self.args
        return f"{str(path)!r} is damaged: {reason.rstrip('.')}; {remedy.rstrip('.')}."


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all, even after a power cut."""
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~UMASK)  # temporary files are private, this one is like any other
        os.replace(name, path)
    except BaseException:  # such as a full disk: give back what this has taken
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _flush_folder(path.parent)


def _flush_folder(path: Path) -> None:
    """Make the new name last, too, where a folder can be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def seal(content: bytes) -> bytes:
    """Return the content of a .npz, .pt or .npy file with its checksum at its end.

    In an archive the checksum is the comment that the format provides for; what follows the array
    in a .npy file is read by nobody else. Other programs read both as before.
    """
    if content[-22:-18] == ZIP_END and content[-2:] == b"\0\0":
        content = content[:-2] + SEAL_LENGTH.to_bytes(2, "little")
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def read_sealed(path: Path, remedy: str) -> bytes:
    """Return a file's content, refusing one that is empty or does not match its checksum.

    A file without a checksum, from elsewhere or from an earlier version, is returned as it is.
    """
    content = path.read_bytes()
    if not content:
        raise DamagedFileError(path, "it is empty", remedy)
    mark = content[-SEAL_LENGTH:]
    if mark.startswith(SEAL):
        content = content[:-SEAL_LENGTH]
        if hashlib.sha256(content).hexdigest().encode() != mark[len(SEAL) :]:
            raise DamagedFileError(path, "it does not match its checksum", remedy)
        if content[-22:-18] == ZIP_END:
            content = content[:-2] + b"\0\0"
    return content


def write_json(
    path: Path, content: dict[str, Any], dumps: Callable[[dict[str, Any]], str] | None = None
) -> None:
    """Write an object as JSON, with a checksum of everything else in it.

    ``dumps`` lays the text out in another way than with a value on every line.
    """
    kept = {name: value for name, value in content.items() if name != CHECKSUM}
    kept[CHECKSUM] = _checksum(kept)
    text = json.dumps(kept, indent=1, ensure_ascii=False) if dumps is None else dumps(kept)
    write_file(path, text + "\n")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Return what :func:`write_json` wrote, refusing what is damaged; the checksum is left out.

    A file without a checksum, from an earlier version, is returned as it is.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # broken JSON, or bytes that are no text
        raise DamagedFileError(path, f"it cannot be read as JSON ({error})", remedy) from None
    if not isinstance(content, dict):
        raise DamagedFileError(path, "it holds no names and values", remedy)
    expected = content.pop(CHECKSUM, None)
    if expected is not None and expected != _checksum(content):
        raise DamagedFileError(path, "it does not match its checksum", remedy)
    return content


def _checksum(content: dict[str, Any]) -> str:
    # as it will be read: tuples are lists then, and keys are text
    plain = json.loads(json.dumps(content))
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
