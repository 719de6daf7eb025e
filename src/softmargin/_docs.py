"""Argument descriptions that several functions share, written once and shown in each docstring."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])
NEXT_SECTION = re.compile(
    r"^(Returns|Yields|Raises|Warns|Shape|Attributes|Example):$", re.MULTILINE
)
WIDTH = 96


def document_arguments(shared: Mapping[str, str], **own: str) -> Callable[[T], T]:
    """Return a decorator that adds an ``Args:`` section to a function's or class's docstring.

    The section lists the arguments in the order of the signature. It stands before the first of
    the sections ``Returns:``, ``Shape:``, ``Example:`` and so on. The function itself is not
    wrapped, so its signature, its types and its doctests are unchanged.

    Args:
        shared: descriptions by the name of the argument; those that do not occur are not used.
        own: descriptions that replace or complete the shared ones for this function.

    Example:
        >>> @document_arguments({"x": "a number.", "y": "another number."}, y="the exponent.")
        ... def power(x: float, y: float) -> float:
        ...     '''Return x to the power of y.'''
        ...     return x**y
        >>> print(power.__doc__)
        Return x to the power of y.
        <BLANKLINE>
        Args:
            x: a number.
            y: the exponent.
    """

    def decorate(target: T) -> T:
        if target.__doc__ is None:  # python -OO
            return target
        texts = {**shared, **own}
        lines = ["Args:"]
        for name in inspect.signature(target).parameters:
            if name in ("self", "cls"):
                continue
            entry = f"{name}: {' '.join(texts[name].split())}"
            lines += textwrap.wrap(
                entry,
                WIDTH,
                initial_indent=" " * 4,
                subsequent_indent=" " * 8,
                break_long_words=False,
                break_on_hyphens=False,
            )
        text = inspect.cleandoc(target.__doc__)
        section = NEXT_SECTION.search(text)
        before, after = (
            (text[: section.start()], text[section.start() :]) if section else (text, "")
        )
        parts = (before.rstrip(), "\n".join(lines), after)
        target.__doc__ = "\n\n".join(part for part in parts if part)
        return target

    return decorate
