"""The pickles of CIFAR, read without unpickling.

``pickletools`` takes a pickle apart into its instructions without following them. Those that build
dicts, lists, numbers, text and NumPy arrays are followed here, in plain Python: nothing is imported
or called by name, and damage of any kind ends in an exception.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Callable
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


class _Reader:
    """Follows the instructions of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self, content: bytes) -> Any:
        """Return what the pickle describes; raise one of ``_BROKEN`` with a phrase."""
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _ACTIONS:
                _ACTIONS[name](self, argument)
            elif name != "STOP":
                raise ValueError(f"it has the instruction {name}")
        result = _finished(self.pop())
        if self.stack:
            raise ValueError("it ends too soon")
        return result

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

    def push_tuple(self, length: int) -> None:
        """Make a tuple of the last values."""
        taken = [self.pop() for _ in range(length)]
        self.stack.append(tuple(_finished(value) for value in reversed(taken)))

    def recall(self, place: int) -> None:
        """Repeat the value under a number."""
        if place not in self.memo:
            raise ValueError("it repeats a value that it does not have")
        self.stack.append(self.memo[place])

    def remember(self, place: int) -> None:
        """Note the last value under a number."""
        self.memo[place] = self.stack[-1]

    def top(self, kind: type) -> Any:
        """Return the last value, which must be of this kind."""
        if not isinstance(self.stack[-1], kind):
            raise ValueError(f"it extends what is no {kind.__name__}")
        return self.stack[-1]

    def name(self, text: str) -> None:
        """Note a name, if it is one of those that rebuild arrays."""
        text = text.replace("numpy._core.", "numpy.core.", 1)
        if text not in _NAMES:
            raise ValueError(f"it asks for {text.replace(' ', '.')}")
        self.stack.append(_Name(text))

    def call(self) -> None:
        """Do what one of the names stands for."""
        arguments, what = self.pop(), self.pop()
        if not isinstance(what, _Name) or not isinstance(arguments, tuple):
            raise ValueError("it calls what is no function")
        if what.text == "_codecs encode":
            text, encoding = (_plain(argument) for argument in arguments)
            if encoding != "latin1":
                raise ValueError("it asks for another encoding than latin1")
            self.stack.append(text.encode("latin1"))
        elif what.text == "numpy dtype":
            self.stack.append(_Type(_plain(arguments[0])))
        elif what.text.endswith("_reconstruct"):
            if not isinstance(arguments[0], _Name) or arguments[0].text != "numpy ndarray":
                raise ValueError("it rebuilds what is no array")
            self.stack.append(_Array())
        else:
            raise ValueError("it calls a type")

    def build(self) -> None:
        """Give an array or its type what it consists of."""
        state, what = self.pop(), self.stack[-1]
        if isinstance(what, _Type):
            what.order = _plain(state[1])
        elif isinstance(what, _Array):
            what.array = _array(state)
        else:
            raise ValueError("it builds what is no array")

    def append(self, items: list[Any]) -> None:
        """Make a list longer."""
        self.top(list).extend(items)

    def push_dict(self, items: list[Any]) -> None:
        """Make a dict of keys and values that take turns."""
        self.stack.append({})
        self.set_items(items)

    def set_item(self) -> None:
        """Put one key and its value into a dict."""
        value, key = _finished(self.pop()), self.pop()
        self.set_items([key, value])

    def name_from_stack(self) -> None:
        """Note the name whose module and self are the last two values."""
        name, module = self.pop(), self.pop()
        self.name(f"{_plain(module)} {_plain(name)}")

    def set_items(self, items: list[Any]) -> None:
        """Fill a dict with keys and values that take turns."""
        known = self.top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int)):
                raise ValueError("a key in it is neither text nor a number")
            if isinstance(value, (_Name, _Type)):
                raise ValueError("it holds a name where a value should be")
            known[key] = value


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


_Action = Callable[[_Reader, Any], None]

# instructions whose argument is the value
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_ACTIONS: dict[str, _Action] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "MARK": lambda reader, _: reader.stack.append(_MARK),
    "NONE": lambda reader, _: reader.stack.append(None),
    "NEWTRUE": lambda reader, _: reader.stack.append(True),
    "NEWFALSE": lambda reader, _: reader.stack.append(False),
    "EMPTY_DICT": lambda reader, _: reader.stack.append({}),
    "EMPTY_LIST": lambda reader, _: reader.stack.append([]),
    "EMPTY_TUPLE": lambda reader, _: reader.stack.append(()),
    "TUPLE": lambda reader, _: reader.stack.append(tuple(reader.pop_to_mark())),
    "TUPLE1": lambda reader, _: reader.push_tuple(1),
    "TUPLE2": lambda reader, _: reader.push_tuple(2),
    "TUPLE3": lambda reader, _: reader.push_tuple(3),
    "LIST": lambda reader, _: reader.stack.append(reader.pop_to_mark()),
    "APPEND": lambda reader, _: reader.append([_finished(reader.pop())]),
    "APPENDS": lambda reader, _: reader.append(reader.pop_to_mark()),
    "DICT": lambda reader, _: reader.push_dict(reader.pop_to_mark()),
    "SETITEM": lambda reader, _: reader.set_item(),
    "SETITEMS": lambda reader, _: reader.set_items(reader.pop_to_mark()),
    "GLOBAL": lambda reader, text: reader.name(text),
    "STACK_GLOBAL": lambda reader, _: reader.name_from_stack(),
    "REDUCE": lambda reader, _: reader.call(),
    "BUILD": lambda reader, _: reader.build(),
    "MEMOIZE": lambda reader, _: reader.remember(len(reader.memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda reader, place: reader.remember(place)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda reader, place: reader.recall(place)),
}
