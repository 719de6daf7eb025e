"""Text from elsewhere: made safe to show, and compared with the names that are known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 200


def printable(text: str, longest: int | None = LONGEST) -> str:
    r"""Return text that cannot steer a terminal: what is not a visible sign becomes an escape.

    Control characters, text direction marks, line separators and halves of characters are written
    as Python writes them; a text that is too long is cut.

    Args:
        text: from a file, an argument or a library.
        longest: how many characters to keep; None for all.

    Example:
        >>> print(printable("a\x1b[31m\nb"), printable("β and 日本語"))
        a\x1b[31m\nb β and 日本語
    """
    shown = "".join(char if _is_visible(char) else _escape(char) for char in text[:longest])
    if longest is not None and max(len(text), len(shown)) > longest:
        return shown[:longest] + "…"
    return shown


def one_line(text: str) -> str:
    r"""Return a message as one line that is safe to show.

    Example:
        >>> one_line("a sentence\n  of two lines\x1b.")
        'a sentence of two lines\\x1b.'
    """
    return printable(re.sub(r"\s*\n\s*", " ", text.strip()), None)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> list[str]:
    """Return up to three known names that look like this one, the most similar first.

    Capitals make no difference.

    Args:
        name: what was typed.
        known: the names to choose from.
        cutoff: how similar a name must be, from 0 (anything goes) to 1 (equal).

    Example:
        >>> nearest("cifar", ["mnist", "cifar10", "CIFAR100"])
        ['cifar10', 'CIFAR100']
    """
    spelled = {each.lower(): each for each in known}
    close = get_close_matches(str(name)[:LONGEST].lower(), spelled, n=3, cutoff=cutoff)
    return [spelled[each] for each in close]


def _is_visible(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
