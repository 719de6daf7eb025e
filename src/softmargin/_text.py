"""Text from files, made safe to show."""

from __future__ import annotations

LENGTH = 200


def printable(text: str) -> str:
    r"""Return text that can be printed: no control characters, and not too long.

    Control characters, those that turn the direction of writing and the like become visible
    escapes, so that text from a file cannot give orders to a terminal.

    >>> printable("cat\x1b[2J")
    'cat\\x1b[2J'
    """
    shown = escaped(text[: LENGTH + 1])
    return shown if len(text) <= LENGTH and len(shown) <= LENGTH else shown[:LENGTH] + "…"


def escaped(text: str) -> str:
    """Return the same text with visible escapes in place of what cannot be printed."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
