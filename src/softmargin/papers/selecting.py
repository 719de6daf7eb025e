"""Choosing cells by their configuration: ``--only "beta=0.1,model=resnet18"``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmargin.papers.core import Cell

SHOWN = 12  # allowed words in a sentence
Wanted = Mapping[str, Sequence[str]]


def parse_only(text: str) -> dict[str, list[str]]:
    """Read pairs of key and value; a key that comes twice may have either value.

    Example:
        >>> parse_only("beta=0.1, model=resnet18, beta=1")
        {'beta': ['0.1', '1'], 'model': ['resnet18']}
    """
    wanted: dict[str, list[str]] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(
                'argument --only: must be pairs such as "beta=0.1,model=resnet18", '
                f"but got {text!r}."
            )
        wanted.setdefault(key, []).append(value)
    return wanted


def select(cells: Sequence[Cell], wanted: Wanted) -> list[Cell]:
    """Return the cells that have one of the wanted values for every key.

    A key is a name anywhere in the configuration, such as ``beta``, or a whole path, such as
    ``training.lr``. Numbers are compared as numbers: 0.10 is 0.1.

    Raises:
        ValueError: for a key that no cell has, or a value that none has, naming those there are.
    """
    found = {cell.key: values_of(cell.config) for cell in cells}
    for key, texts in wanted.items():
        allowed = [value for values in found.values() for value in values.get(key, ())]
        if not allowed:
            keys = dict.fromkeys(name for values in found.values() for name in values)
            short = [name for name in keys if "." not in name]
            raise ValueError(
                f"argument --only: must name a key that cells have, {_some(short)}, "
                f"but got {key!r}."
            )
        for text in texts:
            if not any(is_same(value, text) for value in allowed):
                raise ValueError(
                    f"argument --only: {key} must be one that cells have, "
                    f"{_some(list(dict.fromkeys(map(as_text, allowed))))}, but got {text!r}."
                )
    chosen = [cell for cell in cells if _has_all(found[cell.key], wanted)]
    if wanted and not chosen:
        together = ", ".join(f"{key}={'|'.join(texts)}" for key, texts in wanted.items())
        raise ValueError(
            f"argument --only: must be values that some cell has together, but none has {together}."
        )
    return chosen


def values_of(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return single values by name and by path; what is in lists is part of a cell, not its name.

    Example:
        >>> values_of({"beta": 0.1, "training": {"lr": 0.01}, "runs": [0, 1]})
        {'beta': [0.1], 'lr': [0.01], 'training.lr': [0.01]}
    """
    found: dict[str, list[Any]] = {}
    for path, value in _leaves(config, ()):
        for name in dict.fromkeys((path[-1], ".".join(path))):
            found.setdefault(name, []).append(value)
    return found


def is_same(value: Any, text: str) -> bool:
    """Return whether a value is what a text says.

    Example:
        >>> is_same(0.1, "0.10"), is_same("0.1", "1e-1"), is_same(True, "true"), is_same(None, "0")
        (True, True, True, False)
    """
    if isinstance(value, bool) or value is None:
        return as_text(value) == text.lower()
    try:
        return math.isclose(float(value), float(text), rel_tol=1e-9)
    except ValueError:
        return str(value) == text


def as_text(value: Any) -> str:
    """Return a value as it is to be typed."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _leaves(config: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        elif not isinstance(value, (list, tuple)):
            yield (*path, key), value


def _has_all(values: Mapping[str, Sequence[Any]], wanted: Wanted) -> bool:
    return all(
        any(is_same(value, text) for value in values.get(key, ()) for text in texts)
        for key, texts in wanted.items()
    )


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return f"such as {', '.join(words[:SHOWN])}{more}" if more else f"one of {', '.join(words)}"
