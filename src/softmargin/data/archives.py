"""Tar archives that strangers made: only the files that are asked for, and within limits."""

from __future__ import annotations

import tarfile
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Self

from softmargin.data.errors import reading

UNPACKED = 2**30  # bytes; CIFAR has 190 MB
MEMBERS = 10_000  # CIFAR has 9
HEADER = 2**20  # bytes of one header, which is read into memory


def tar_files(archive: Path, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    """Give the name and content of each file whose name is wanted, whatever its folder is."""
    total = 0
    with reading(archive, " as an archive"), tarfile.open(archive, tarinfo=_Header) as opened:
        for count, member in enumerate(opened, start=1):
            total += member.size
            if count > MEMBERS:
                raise ValueError(f"it has more than {MEMBERS} members")
            if total > UNPACKED:
                raise ValueError(f"it would be larger than {UNPACKED >> 20} MB")
            name = member.name.rpartition("/")[2]
            if name in wanted and member.isfile():
                file = opened.extractfile(member)
                assert file is not None
                yield name, file.read()


class _Header(tarfile.TarInfo):
    """A header that is not read into memory where it is absurdly long."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the header that starts with these bytes."""
        header = super().frombuf(buf, encoding, errors)
        if header.size > HEADER and header.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE):
            raise tarfile.ReadError("a header is too long")
        return header
