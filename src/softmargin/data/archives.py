"""Tar archives that strangers made: within limits, and only into the folder named."""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, Self

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError, reason

UNPACKED = 2**30  # bytes; CIFAR has 190 MB
MEMBERS = 200_000  # CIFAR has 9
HEADER = 2**20  # bytes of one header of a tar archive, which is read into memory


def extract(archive: Path, into: Path, waiting: Path) -> None:
    """Unpack an archive into a folder, all of it or nothing.

    It is first unpacked whole in the folder ``waiting``, which is made for it on the same disk and
    removed again, and then moved in by renaming. A member that would be written outside, and an
    archive of more than a gigabyte, are refused.
    """
    waiting.mkdir()
    try:
        with open_tar(archive) as opened:
            members = list(tar_members(archive, opened))
            opened.extractall(waiting, members, filter="data")
        _move_in(waiting, into)
    except BrokenFileError:
        raise
    except tarfile.FilterError as error:
        _refuse(archive, f"its member '{printable(error.tarinfo.name)}' would leave the folder")
    except Exception as error:  # broken, locked, or packed in an unknown way
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk's fault, not the archive's
        _refuse(archive, f"it cannot be read as an archive ({reason(error)})")
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def _move_in(source: Path, into: Path) -> None:
    for child in sorted(source.iterdir()):
        target = into / child.name
        if child.is_dir() and target.is_dir():  # a copy of which files were missing
            _move_in(child, target)
        else:
            os.replace(child, target)


class _Header(tarfile.TarInfo):
    """A header that is not read into memory where it is absurdly long."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the header that starts with these bytes."""
        header = super().frombuf(buf, encoding, errors)
        if header.size > HEADER and header.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE):
            raise tarfile.ReadError("a header is too long")
        return header


def open_tar(archive: Path) -> tarfile.TarFile:
    """Open a tar archive, packed in whichever way."""
    return tarfile.open(archive, tarinfo=_Header)


def tar_members(archive: Path, opened: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Go through an archive; refuse it as soon as it turns out to be too large."""
    total = 0
    for count, member in enumerate(opened, start=1):
        total += member.size
        if count > MEMBERS:
            _refuse(archive, f"it has more than {MEMBERS} members")
        if total > UNPACKED:
            _refuse(archive, f"it would be larger than {UNPACKED >> 20} MB")
        yield member


def _refuse(archive: Path, why: str) -> NoReturn:
    raise BrokenFileError(f"{archive} was not unpacked: {why}.") from None
