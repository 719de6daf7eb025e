"""The numbers and words of an Excel 97 workbook (.xls).

Two of the UCI tables are published only so, and all that they need is the cells of a sheet. The
file is a compound file, a small file system of chained sectors, in which the stream "Workbook" is
a list of records: number, length, content. Reference: Microsoft, [MS-CFB] and [MS-XLS].
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = bytes.fromhex("D0CF11E0A1B11AE1")
_LAST = 0xFFFFFFFA  # sector numbers from here on are marks
_BOF, _EOF, _CONTINUE, _SHEET, _STRINGS = 0x809, 0x0A, 0x3C, 0x85, 0xFC
_FORMULA, _NUMBER, _LABEL, _RK, _MANY_RK, _SHARED = 0x06, 0x203, 0x204, 0x27E, 0xBD, 0xFD

Record = tuple[int, bytes]


def read_sheet(content: bytes, name: str) -> list[list[str]]:
    """Return the rows of the named sheet as text; a number is written so that it reads back.

    Raises:
        ValueError: The file is not such a workbook, or has no sheet of this name.
    """
    try:
        stream = _workbook(content)
        sheets, strings = _globals(stream)
        if name not in sheets:
            raise ValueError(f"it has no sheet {name}")
        return _rows(stream, sheets[name], strings)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"it cannot be read as an Excel workbook ({error})") from None


def _workbook(content: bytes) -> bytes:
    """Return the stream with the records, out of its sectors."""
    if content[:8] != MAGIC:
        raise ValueError("it is not an Excel 97 workbook")
    (shift,) = struct.unpack_from("<H", content, 30)
    size = 1 << shift
    count, start = struct.unpack_from("<II", content, 44)
    heads = struct.unpack_from("<109I", content, 76)[:count]

    def sector(number: int) -> bytes:
        return content[(number + 1) * size : (number + 2) * size]

    table = b"".join(sector(head) for head in heads)
    following = struct.unpack(f"<{len(table) // 4}I", table)

    def chain(number: int) -> bytes:
        parts: list[bytes] = []
        while number < _LAST:
            if len(parts) > len(following):
                raise ValueError("its sectors go in a circle")
            parts.append(sector(number))
            number = following[number]
        return b"".join(parts)

    folder = chain(start)
    for entry in (folder[i : i + 128] for i in range(0, len(folder), 128)):
        (length,) = struct.unpack_from("<H", entry, 64)
        if entry[: max(length - 2, 0)].decode("utf-16-le") in ("Workbook", "Book"):
            first, total = struct.unpack_from("<II", entry, 116)
            return chain(first)[:total]
    raise ValueError("it holds no workbook")


def _records(stream: bytes, at: int = 0) -> Iterator[Record]:
    """Yield the records of one part of the stream, to its end."""
    depth = 0
    while True:
        number, length = struct.unpack_from("<HH", stream, at)
        content = stream[at + 4 : at + 4 + length]
        at += 4 + length
        depth += (number == _BOF) - (number == _EOF)
        if depth <= 0:
            return
        if depth == 1:  # deeper ones belong to a chart inside the sheet
            yield number, content


def _globals(stream: bytes) -> tuple[dict[str, int], list[str]]:
    """Return where each sheet starts, and the strings that all sheets share."""
    sheets: dict[str, int] = {}
    pieces: list[bytes] = []
    previous = 0
    for number, content in _records(stream):
        if number == _BOF and content[:2] != b"\0\6":
            raise ValueError("it is older than Excel 97")
        if number == _SHEET:
            (start,) = struct.unpack_from("<I", content)
            sheets[_text(content[7:], content[6])] = start
        belongs = number == _STRINGS or (number == _CONTINUE and previous == _STRINGS)
        if belongs:
            pieces.append(content)
        previous = _STRINGS if belongs else number
    return sheets, _shared(pieces)


def _text(content: bytes, length: int) -> str:
    """Return a string that starts with its flags; its characters take one or two bytes."""
    wide = content[0] & 1
    return content[1 : 1 + (length << wide)].decode("utf-16-le" if wide else "latin-1")


class _Pieces:
    """A record that was cut into several, read on from one to the next."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.rest = iter(pieces)
        self.here = b""

    def take(self, count: int) -> bytes:
        """Return as many bytes."""
        taken = b""
        while len(taken) < count:
            self.turn()
            missing = count - len(taken)
            taken, self.here = taken + self.here[:missing], self.here[missing:]
        return taken

    def characters(self, length: int, wide: int) -> str:
        """Return as many characters; each further piece starts with how wide they are there."""
        text = ""
        while len(text) < length:
            if not self.here:
                self.turn()
                wide, self.here = self.here[0] & 1, self.here[1:]
            count = min(length - len(text), len(self.here) >> wide)
            text += _text(bytes([wide]) + self.here, count)
            self.here = self.here[count << wide :] if count else b""
        return text

    def turn(self) -> None:
        """Go to the next piece where this one is used up."""
        while not self.here:
            piece = next(self.rest, None)
            if piece is None:
                raise IndexError("its strings end too soon")
            self.here = piece


def _shared(pieces: list[bytes]) -> list[str]:
    """Return the strings that all sheets share."""
    if not pieces:
        return []
    reader = _Pieces(pieces)
    strings = []
    for _ in range(struct.unpack("<II", reader.take(8))[1]):
        length, flags = struct.unpack("<HB", reader.take(3))
        (runs,) = struct.unpack("<H", reader.take(2)) if flags & 8 else (0,)
        (extra,) = struct.unpack("<I", reader.take(4)) if flags & 4 else (0,)
        strings.append(reader.characters(length, flags & 1))
        reader.take(4 * runs + extra)  # fonts and phonetics
    return strings


def _rows(stream: bytes, start: int, strings: list[str]) -> list[list[str]]:
    cells: dict[tuple[int, int], str] = {}
    for number, content in _records(stream, start):
        if number not in (_FORMULA, _NUMBER, _LABEL, _RK, _MANY_RK, _SHARED):
            continue
        row, column = struct.unpack_from("<HH", content)
        if number == _SHARED:
            cells[row, column] = strings[struct.unpack_from("<I", content, 6)[0]]
        elif number == _LABEL:
            cells[row, column] = _text(content[8:], struct.unpack_from("<H", content, 6)[0])
        elif number in (_RK, _MANY_RK):
            for i in range((len(content) - 4) // 6):
                cells[row, column + i] = repr(_rk(struct.unpack_from("<I", content, 6 + 6 * i)[0]))
        elif content[12:14] != b"\xff\xff" or number == _NUMBER:  # a formula's result is a number
            cells[row, column] = repr(struct.unpack_from("<d", content, 6)[0])
    width = 1 + max((column for _, column in cells), default=-1)
    if width > 256:
        raise ValueError("it has more columns than Excel 97 allows")
    used = sorted({row for row, _ in cells})
    return [[cells.get((row, i), "").strip() for i in range(width)] for row in used]


def _rk(packed: int) -> float:
    """Return a number packed into 30 bits: an integer or half a float, perhaps times 100."""
    if packed & 2:
        value = float((packed >> 2) - ((packed & 0x80000000) >> 1))
    else:
        (value,) = struct.unpack("<d", struct.pack("<Q", (packed & 0xFFFFFFFC) << 32))
    return value / 100 if packed & 1 else value
