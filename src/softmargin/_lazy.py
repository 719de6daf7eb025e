"""Packages whose parts are imported when they are first asked for, and PyTorch with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a ``__getattr__`` and a ``__dir__`` for a package.

    Args:
        package: its ``__name__``.
        homes: module within the package → the names that it provides, with blanks between them.

    Example:
        >>> get, _ = lazy("softmargin", {"_text": "printable one_line"})
        >>> get("printable").__name__
        'printable'
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, directory


def import_extra(module: str, need: str) -> Any:
    """Return a module of an optional package; where it is missing, say so in one sentence.

    Args:
        module: its address.
        need: what needs which package, such as ``"Charts need altair"``.

    Example:
        >>> import_extra("nonsense", "This example needs nonsense")
        Traceback (most recent call last):
        ...
        ImportError: This example needs nonsense, which is missing: pip install "softmargin[lab]".
    """
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ImportError:
        raise ImportError(f'{need}, which is missing: pip install "softmargin[lab]".') from None


def load_object(address: str) -> Any:
    """Return what an address "module:name" stands for.

    Example:
        >>> load_object("softmargin._text:one_line").__name__
        'one_line'
    """
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)
