"""Pickles as Python 2 wrote them, built byte by byte: CIFAR's files are such."""

import numpy as np


def python2_pickle(content):
    """Return protocol 2 as Python 2 with NumPy wrote it."""
    return b"\x80\x02" + _Writer().value(content) + b"."


class _Writer:
    def __init__(self):
        self.count = 0

    def put(self):
        self.count += 1
        if self.count < 256:
            return b"q" + bytes([self.count])
        return b"r" + self.count.to_bytes(4, "little")

    def value(self, value):
        if isinstance(value, dict):
            put = self.put()
            items = b"".join(self.value(k) + self.value(v) for k, v in value.items())
            return b"}" + put + b"(" + items + b"u"
        if isinstance(value, list):
            put = self.put()
            return b"]" + put + b"(" + b"".join(map(self.value, value)) + b"e"
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self.value, value)) + b"t" + self.put()
        if isinstance(value, np.ndarray):
            return self.array(value)
        if value is None:
            return b"N"
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, int):
            if 0 <= value < 256:
                return b"K" + bytes([value])
            if 0 <= value < 65536:
                return b"M" + value.to_bytes(2, "little")
            return b"J" + value.to_bytes(4, "little", signed=True)
        raw = value.encode("latin1") if isinstance(value, str) else value
        if len(raw) < 256:
            return b"U" + bytes([len(raw)]) + raw + self.put()
        return b"T" + len(raw).to_bytes(4, "little") + raw + self.put()

    def array(self, array):
        code = array.dtype.str[1:]
        start = b"cnumpy.core.multiarray\n_reconstruct\n" + self.put() + b"cnumpy\nndarray\n"
        start += self.put() + b"K\0\x85" + self.put() + b"U\1b" + self.put() + b"\x87"
        start += self.put() + b"R" + self.put()
        dtype = b"cnumpy\ndtype\n" + self.put() + self.value(code) + b"K\0K\1\x87"
        dtype += self.put() + b"R" + self.put()
        dtype += self.value((3, array.dtype.str[0], None, None, None, -1, -1, 0)) + b"b"
        state = b"(" + b"K\1" + self.value(array.shape) + dtype + b"\x89"
        return start + state + self.value(array.tobytes()) + b"t" + self.put() + b"b"
