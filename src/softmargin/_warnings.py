"""Warnings as a person reads them: one line, once, without the place in the source."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from softmargin._text import one_line

# PyTorch names the line of its own C++ source at the end of some texts
PLACE = re.compile(r"\s*\((Triggered internally|function operator\(\)) at [^)]*\)")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as ``softmargin: warning: …`` on standard error, each text once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = one_line(PLACE.sub("", str(message)))
        if text not in said:
            said.add(text)
            print(f"softmargin: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
