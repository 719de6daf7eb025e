"""The pickles of CIFAR, unpickled without running anything that they name.

Only instructions that build dicts, lists, numbers, text and NumPy arrays are let through, and the
few names that arrays need stand for functions of this module: nothing is imported or called by
name. NumPy's own functions are not among them, since some damaged arrays make them end the process.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from softmargin.data.errors import BrokenFileError, reason

TUPLES = 1000  # a key is hashed as deep as its tuples are nested
MEMO = 2**20  # the memory for values that repeat is as long as the largest number of one

_NDARRAY = object()  # stands for numpy.ndarray, which must not be called
_INSTRUCTIONS = """
    PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE
    INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8
    UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST APPEND APPENDS
    EMPTY_DICT DICT SETITEM SETITEMS MEMOIZE PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET
    GLOBAL STACK_GLOBAL REDUCE BUILD
"""


def read_numbers(content: bytes, path: Path) -> dict[str, Any]:
    """Read a pickled dict of numbers, text and arrays; refuse anything else by the file's name."""
    try:
        _check_instructions(content)
        result = _Reader(io.BytesIO(content), encoding="latin1").load()
        if isinstance(result, dict):
            result = {_name(key): _plain(value) for key, value in result.items()}
    except Exception as error:  # damage of any kind
        raise BrokenFileError(
            f"{path} must be a pickle of arrays, text and numbers only, but {reason(error)}."
        ) from None
    if not isinstance(result, dict):
        raise BrokenFileError(f"{path} must hold a dict, but holds something else.")
    return result


def _check_instructions(content: bytes) -> None:
    allowed, tuples = set(_INSTRUCTIONS.split()), 0
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in allowed:
            raise ValueError(f"it has the instruction {opcode.name}")
        tuples += "TUPLE" in opcode.name
        if tuples > TUPLES or ("PUT" in opcode.name and int(argument or 0) > MEMO):
            raise ValueError("it has more parts than a file of CIFAR")


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError("it asks for another encoding than latin1")
    return text.encode("latin1")


def _name(key: Any) -> str:
    if not isinstance(key, (str, bytes, int)):
        raise ValueError("a key in it is neither text nor a number")
    return key.decode("latin1") if isinstance(key, bytes) else str(key)


def _plain(value: Any) -> Any:
    if value is _NDARRAY or isinstance(value, _Type) or callable(value):
        raise ValueError("it holds a name where a value should be")
    return value.view(np.ndarray) if isinstance(value, _Array) else value


class _Reader(pickle.Unpickler):
    """Unpickles with stand-ins for the names that rebuild arrays."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name; a new function each time, since pickles may change it."""
        match module.replace("numpy._core", "numpy.core"), name:
            case "numpy.core.multiarray", "_reconstruct":
                return lambda kind, *_: _Array.empty(kind)
            case "numpy", "ndarray":
                return _NDARRAY
            case "numpy", "dtype":
                return lambda code, *_: _Type(code)
            case "_codecs", "encode":  # how old protocols write bytes
                return partial(_encode)
        raise ValueError(f"it asks for {module}.{name}")


class _Type:
    """The type of an array's numbers: a code such as "u1", and the order of its bytes."""

    def __init__(self, code: object) -> None:
        """Keep the code."""
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        """Take over the order."""
        self.order = state[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type as NumPy has it, if it is one of numbers."""
        if not isinstance(self.code, str) or not re.fullmatch("[biuf][1248]", self.code):
            raise ValueError("it holds an array of other things than numbers")
        if self.order not in ("=", "<", ">", "|"):
            raise ValueError("it holds an array of an unknown byte order")
        return np.dtype(self.order + self.code)


class _Array(np.ndarray[Any, Any]):
    """An array that is filled only with what fits it."""

    @staticmethod
    def empty(kind: object) -> _Array:
        """Return an array to be filled."""
        if kind is not _NDARRAY:
            raise ValueError("it rebuilds what is no array")
        return np.empty(0, np.uint8).view(_Array)

    def __setstate__(self, state: Any, /) -> None:
        """Fill it from (version, shape, type, whether columns come first, bytes)."""
        _, shape, kind, by_columns, raw = state
        if not isinstance(kind, _Type) or not isinstance(shape, tuple):
            raise ValueError("it holds an array of other things than numbers")
        if not 1 <= len(shape) <= 8 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
            raise ValueError("it holds an array of an impossible shape")
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        length = math.prod(shape) * kind.dtype.itemsize
        if not isinstance(content, bytes) or len(content) != length:
            raise ValueError("it holds an array of another length than its shape says")
        super().__setstate__((1, shape, kind.dtype, by_columns, content))
