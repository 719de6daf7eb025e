"""Excel 97 workbooks: one made by another library, and as many as wanted made here."""

import base64
import struct
import zlib

# made once by xlwt 1.3.0: sheets Description and Data, the latter being SAMPLE_ROWS
SAMPLE = zlib.decompress(
    base64.b85decode(
        "c-rk)O-NKx6#njeZ&IgmoG}eFkip2xTof&8k&XG2v`DOtAwfNLtU;NPnQ2iAvuvPE5VR`X2yWU~Zu-H3+O-I"
        "bS_DC))vh){NelIL&Ux>d+AN$X$#~yz&%5{BbH97uz32YSdodNB9-XM1!3rFNjs>d-8<yx4r6RWw0@Yg<XWe"
        "HZCCkIQLQx@2<OUxmi=P+p9P)h6K*L?*DM{cxrIQ#yTQU)gtRWi32UD>R^~#{w(=b9QhzjwmRAjfvO(O4z?I"
        "V#5qPZrro@}R8C#IrpwfmhoKA}}hU67>0eQEPXG<#5vXB@{DuPfWuheN5j+5c}=R2cz`fo85XmWZXy{%Mra6"
        "prDW6#>4wYxPOQ)32>wf%M;(>kD$|Z)gTE1nacoK+IAoQ>+s<qB)lCPQ?c@@nj;406KiEHqdNl%sI5kUdt%}"
        "B$Am(=4?D2p(RSox5-S$B3sG4sozYeDW;F?R!|eVPRqqik?b{l49Q3QyrIhm5L&hY6w9&*knBN;<ioN!Le%B"
        "l?JqBncC|-OiDpQgu#bjq{4TI?iCa+P;9`v}Yo*05k(Y&ai{vXsmQhI4v!=b=$s8UQn=4XVL;dU(yozpLlHW"
        "o3?5AT7s<I!VJ1IZjI&-0H{B?8`)pS(#P<#FjqfXVSTQ?aGqwZ5Vo5)*{6~AmKg<8n*-Ez*q63oLd*|2>`YN"
        "fcxrnKSw#9EB1u_)K;s2Vv(mEYJdxuav3G%D$fC7nu!!=+Ym4QhVTg=NgyUI`bkADu=|3D>*XSYv1JP=jsFe"
        "6w^IGM|=%PZK`B!)MPNvp<%1WxiS;TbvQ!m_^UQq6<sVVbO(!gTt<4mdVeS#Xjod(a1SmJ@9egphOvRMVSW="
        "9z1yP;K9RhK*{9_&V>bXP2#Iff%9Ewp3;K%ndHC4aU|)Np}(aqNYFEd^LfS3X84rLrB>O-{a(oEpx#sHLzno"
        "`mv{Wq1zatCpH(*u{kbKSZ~qJV`1zOn{{gaW60Z"
    )
)
SAMPLE_ROWS = [
    ["Case #", "Class", "I0", "α"],
    ["1.0", "car", "524.7940719572033", "-3.0"],
    ["2.0", "fad", "330.0", "0.25"],
    ["3.0", "car", "-12.34", "1e+300"],
]


def record(number, content=b""):
    return struct.pack("<HH", number, len(content)) + content


def shared_strings(strings, limit):
    """Return the records of the shared strings, each at most ``limit`` bytes long."""
    pieces = [struct.pack("<II", len(strings), len(strings))]
    for text in strings:
        wide = int(any(ord(letter) > 255 for letter in text))
        if len(pieces[-1]) + 4 > limit:
            pieces.append(b"")
        pieces[-1] += struct.pack("<HB", len(text), wide)
        for letter in text:
            coded = letter.encode("utf-16-le" if wide else "latin-1")
            if len(pieces[-1]) + len(coded) > limit:
                pieces.append(bytes([wide]))
            pieces[-1] += coded
    return b"".join(record(0x3C if i else 0xFC, piece) for i, piece in enumerate(pieces))


def sheet_records(rows, strings):
    content = record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0, 0, 0, 0))
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            place = struct.pack("<HHH", i, j, 0)
            if isinstance(value, str):
                content += record(0xFD, place + struct.pack("<I", strings.index(value)))
            else:
                content += record(0x203, place + struct.pack("<d", value))
    return content + record(0x0A)


def workbook(sheets, limit=8224):
    """Return a workbook of {name: rows of numbers and text}."""
    strings = sorted({v for rows in sheets.values() for row in rows for v in row if type(v) is str})
    before = record(0x809, struct.pack("<HHHHII", 0x600, 0x05, 0, 0, 0, 0))
    after = shared_strings(strings, limit) + record(0x0A)
    parts = [sheet_records(rows, strings) for rows in sheets.values()]
    at = len(before) + sum(4 + 8 + len(name) for name in sheets) + len(after)
    for name, part in zip(sheets, parts, strict=True):
        named = struct.pack("<IBBBB", at, 0, 0, len(name), 0) + name.encode()
        before += record(0x85, named)
        at += len(part)
    return compound(before + after + b"".join(parts))


def compound(stream):
    """Return a compound file that holds one stream, "Workbook"."""
    stream += b"\0" * (max(4096, len(stream) + -len(stream) % 512) - len(stream))
    used = len(stream) // 512
    tables = -(-(used + 2) // 128)
    tables = -(-(used + 1 + tables) // 128)
    chain = [*range(1, used), 0xFFFFFFFE, 0xFFFFFFFE, *[0xFFFFFFFD] * tables]
    chain += [0xFFFFFFFF] * (128 * tables - len(chain))
    heads = [used + 1 + i for i in range(tables)]
    header = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(16)
    header += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    header += struct.pack("<IIIIII", tables, used, 0, 4096, 0xFFFFFFFE, 0)
    header += struct.pack("<II", 0xFFFFFFFE, 0)
    header += struct.pack("<109I", *heads, *[0xFFFFFFFF] * (109 - tables))
    entries = [
        ("Root DatasetEntry", 5, 0xFFFFFFFE, 0, 1),
        ("Workbook", 2, 0, len(stream), 0xFFFFFFFF),
    ]
    folder = b""
    for name, kind, start, size, child in entries:
        coded = (name + "\0").encode("utf-16-le")
        folder += coded.ljust(64, b"\0") + struct.pack("<HBB", len(coded), kind, 1)
        folder += struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, child) + bytes(36)
        folder += struct.pack("<IIHH", start, size, 0, 0)
    folder += bytes(256)
    return header + stream + folder + struct.pack(f"<{len(chain)}I", *chain)
