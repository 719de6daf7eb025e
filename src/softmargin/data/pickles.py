"""The pickles of CIFAR, read without unpickling.

``pickletools`` takes a pickle apart into its instructions without following them. Those that build
dicts, lists, numbers, text and NumPy arrays are followed here, in plain Python: nothing is imported
or called by name, and damage of any kind ends in an exception.
"""

from __future__ import annotations

import math
import pickletools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from softmargin._text import printable
from softmargin.data.errors import BrokenFileError

LIMIT = 2**29  # the largest file of CIFAR has 155 MB
_BROKEN = (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, SyntaxError)


def read_numbers(file: IO[bytes], path: Path) -> dict[str, Any]:
    """Read a pickled dict of numbers, text and arrays; refuse anything else by the file's name."""
    content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise BrokenFileError(f"{path} is larger than {LIMIT >> 20} MB, and no file of CIFAR is.")
    try:
        result = _Reader().read(content)
    except _BROKEN as error:
        why = printable(str(error)).rstrip(".") or type(error).__name__
        raise BrokenFileError(
            f"{path} must be a pickle of arrays, text and numbers only, but {why}."
        ) from None
    if not isinstance(result, dict):
        raise BrokenFileError(f"{path} must hold a dict, but holds something else.")
    return {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in result.items()}


@dataclass(eq=False)
class _Name:
    """What a pickle asks to import: noted, never imported."""

    text: str


@dataclass(eq=False)
class _Type:
    """The type of an array's numbers, under construction."""

    code: str
    order: str = "="


@dataclass(eq=False)
class _Array:
    """An array under construction."""

    array: npt.NDArray[Any] | None = None


_NAMES = {
    "numpy.core.multiarray _reconstruct",
    "numpy ndarray",
    "numpy dtype",
    "_codecs encode",  # how old protocols write bytes
}
_MARK = object()
# instructions whose argument is the value
_NUMBERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
_BYTES = {"STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
_TEXTS = {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_VALUES = _NUMBERS | _BYTES | _TEXTS
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": _MARK}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Reader:
    """Follows the instructions of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self, content: bytes) -> Any:
        """Return what the pickle describes; raise one of ``_BROKEN`` with a phrase."""
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name in _VALUES:
                self.stack.append(argument)
            elif opcode.name in _CONSTANTS:
                self.stack.append(_CONSTANTS[opcode.name])
            else:
                self.follow(opcode.name, argument)
        result = _finished(self.pop())
        if self.stack:
            raise ValueError("it ends too soon")
        return result

    def follow(self, name: str, argument: Any) -> None:
        """Do what one instruction says."""
        push = self.stack.append
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "EMPTY_DICT":
                push({})
            case "EMPTY_LIST":
                push([])
            case "TUPLE":
                push(tuple(self.pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                taken = [_finished(self.pop()) for _ in range(_TUPLES[name])]
                push(tuple(reversed(taken)))
            case "LIST":
                push(self.pop_to_mark())
            case "APPEND" | "APPENDS":
                items = self.pop_to_mark() if name == "APPENDS" else [_finished(self.pop())]
                self.top(list).extend(items)
            case "DICT":
                items = self.pop_to_mark()
                push({})
                self.set_items(items)
            case "SETITEM":
                value, key = _finished(self.pop()), self.pop()
                self.set_items([key, value])
            case "SETITEMS":
                self.set_items(self.pop_to_mark())
            case "GLOBAL":
                push(_name(argument))
            case "STACK_GLOBAL":
                last, module = self.pop(), self.pop()
                push(_name(f"{_plain(module)} {_plain(last)}"))
            case "REDUCE":
                arguments, what = self.pop(), self.pop()
                push(_called(what, arguments))
            case "BUILD":
                state = self.pop()
                _build(self.stack[-1], state)
            case "MEMOIZE" | "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                if argument not in self.memo:
                    raise ValueError("it repeats a value that it does not have")
                push(self.memo[argument])
            case _:
                raise ValueError(f"it has the instruction {name}")

    def pop(self) -> Any:
        """Take the last value."""
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a value is missing in it")
        return value

    def pop_to_mark(self) -> list[Any]:
        """Take the values since the last mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                taken = self.stack[place + 1 :]
                del self.stack[place:]
                return [_finished(value) for value in taken]
        raise ValueError("a mark is missing in it")

    def top(self, kind: type) -> Any:
        """Return the last value, which must be of this kind."""
        if not isinstance(self.stack[-1], kind):
            raise ValueError(f"it extends what is no {kind.__name__}")
        return self.stack[-1]

    def set_items(self, items: list[Any]) -> None:
        """Fill a dict with keys and values that take turns."""
        known = self.top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int)):
                raise ValueError("a key in it is neither text nor a number")
            if isinstance(value, (_Name, _Type)):
                raise ValueError("it holds a name where a value should be")
            known[key] = value


def _name(text: str) -> _Name:
    """Note a name, if it is one of those that rebuild arrays."""
    text = text.replace("numpy._core.", "numpy.core.", 1)
    if text not in _NAMES:
        raise ValueError(f"it asks for {text.replace(' ', '.')}")
    return _Name(text)


def _called(what: Any, arguments: Any) -> Any:
    """Return what one of the names makes of its arguments."""
    if not isinstance(what, _Name) or not isinstance(arguments, tuple):
        raise ValueError("it calls what is no function")
    if what.text == "_codecs encode":
        text, encoding = (_plain(argument) for argument in arguments)
        if encoding != "latin1":
            raise ValueError("it asks for another encoding than latin1")
        return text.encode("latin1")
    if what.text == "numpy dtype":
        return _Type(_plain(arguments[0]))
    if what.text == "numpy ndarray":
        raise ValueError("it calls a type")
    if not isinstance(arguments[0], _Name) or arguments[0].text != "numpy ndarray":
        raise ValueError("it rebuilds what is no array")
    return _Array()


def _build(what: Any, state: Any) -> None:
    """Give an array or its type what it consists of."""
    if isinstance(what, _Type):
        what.order = _plain(state[1])
    elif isinstance(what, _Array):
        what.array = _array(state)
    else:
        raise ValueError("it builds what is no array")


def _plain(text: Any) -> str:
    if not isinstance(text, (str, bytes)):
        raise ValueError("it holds something else where text should be")
    return text.decode("latin1") if isinstance(text, bytes) else text


def _array(state: Any) -> npt.NDArray[Any]:
    """Return the array of (version, shape, type, whether columns come first, bytes)."""
    _, shape, kind, by_columns, raw = state
    if not isinstance(kind, _Type) or not re.fullmatch("[biuf][1248]", kind.code):
        raise ValueError("it holds an array of other things than numbers")
    if kind.order not in ("=", "<", ">", "|"):
        raise ValueError("it holds an array of an unknown byte order")
    sizes = shape if isinstance(shape, tuple) else ()
    if not 1 <= len(sizes) <= 8 or not all(type(n) is int and 0 <= n < 2**40 for n in sizes):
        raise ValueError("it holds an array of an impossible shape")
    content = raw.encode("latin1") if isinstance(raw, str) else raw
    dtype = np.dtype(kind.order + kind.code)
    if not isinstance(content, bytes) or len(content) != math.prod(sizes) * dtype.itemsize:
        raise ValueError("it holds an array of another length than its shape says")
    by_columns = isinstance(by_columns, int) and by_columns != 0
    return np.frombuffer(content, dtype).reshape(sizes, order="F" if by_columns else "C")


def _finished(value: Any) -> Any:
    """Return a value as it belongs into a container."""
    if not isinstance(value, _Array):
        return value
    if value.array is None:
        raise ValueError("it holds an array without content")
    return value.array
