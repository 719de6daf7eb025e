"""The numbers of a finished cell in one small file, which can be committed.

``cells/<key>.json`` holds all that conclusions read: what the cell is, its numbers with eight
significant digits, and its arrays with a few. Test logits stay behind, and what is only drawn of
the first seed is kept of that one. Conclusions are always drawn from rounded values, whether they
come from this file or from the full cell, so that both give the same.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from softmargin.papers.core import Array, Cell, Result
from softmargin.papers.outcome import plain

FORMAT = 1
LEFT_OUT = ("test_logits", "test_labels")
OF_FIRST_SEED = ("traces", "traced", "features", "labels", "weights")
DIGITS, ARRAY_DIGITS = 8, 5  # significant ones
FOLD_DIGITS = 8  # of single folds, whose means over many are shown with four decimals
FOLDS = ("table", "depths")  # kinds of work that give them


def rounded(cell: Cell, result: Result) -> Result:
    """Return a result as conclusions read it: rounded, with test logits as they are.

    What is not finite becomes NaN.
    """
    digits = FOLD_DIGITS if cell.work in FOLDS else ARRAY_DIGITS
    arrays = {
        name: each if name in LEFT_OUT else _rounded_array(each, digits)
        for name, each in result.arrays.items()
    }
    numbers: dict[str, Any] = rounded_numbers(result.numbers)
    return Result(numbers, arrays, result.seconds, result.data)


def packed(cell: Cell, result: Result) -> dict[str, Any]:
    """Return a rounded result as plain values, without what conclusions do not read."""
    is_first = not cell.config.get("seed", 0)
    return {
        "format": FORMAT,
        "work": cell.work,
        "config": plain(cell.config),
        "label": cell.label,
        "seconds": result.seconds,
        "data": plain(result.data),
        "numbers": plain(result.numbers),
        "arrays": {
            name: _packed_array(each)
            for name, each in result.arrays.items()
            if name not in LEFT_OUT and (is_first or name not in OF_FIRST_SEED)
        },
    }


def unpacked(stored: Mapping[str, Any]) -> Result:
    """Return the result that :func:`packed` made plain values of.

    Raises:
        KeyError, TypeError, ValueError: where they are not what it made.
    """
    arrays = {name: _unpacked_array(each) for name, each in stored["arrays"].items()}
    numbers: dict[str, Any] = _with_nan(stored["numbers"])
    return Result(numbers, arrays, float(stored["seconds"]), dict(stored["data"]))


def dumps(content: Mapping[str, Any]) -> str:
    """Return JSON with a line for every name."""
    lines = [
        f"{json.dumps(name)}: "
        + json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        for name, value in content.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def rounded_numbers(value: Any) -> Any:
    """Return nested values with floats at eight significant digits, NaN for what is not finite.

    Example:
        >>> rounded_numbers({"nll": [0.123456789012, math.inf], "samples": 20000})
        {'nll': [0.12345679, nan], 'samples': 20000}
    """
    return _with_nan(_short(plain(value)))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _with_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_nan(each) for each in value]
    return math.nan if value is None else value


def _rounded_array(values: Array, digits: int) -> Array:
    """Return floats at some significant digits in float64; whole numbers as they are."""
    if values.dtype.kind != "f":
        return values
    texts = [f"{value:.{digits}g}" for value in values.ravel().tolist()]
    found: Array = np.array(texts, dtype=np.float64).reshape(values.shape)
    found[~np.isfinite(found)] = np.nan
    return found


def _packed_array(values: Array) -> dict[str, Any]:
    """Return an array as its kind, shape and values; text of numbers packs well."""
    kind = "f" if values.dtype.kind == "f" else "i"
    text = ",".join(f"{value:.{DIGITS}g}" if kind == "f" else str(value) for value in values.flat)
    content = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return {"kind": kind, "shape": list(values.shape), "values": content}


def _unpacked_array(stored: Mapping[str, Any]) -> Array:
    text = zlib.decompress(base64.b64decode(stored["values"], validate=True)).decode()
    values = np.array(text.split(",") if text else [], dtype=np.float64)
    found: Array = values.reshape(stored["shape"])
    return found if stored["kind"] == "f" else found.astype(np.int64)
