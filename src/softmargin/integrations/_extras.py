"""Frameworks that are extras: imported where they are used, with an error that says what to do."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any


def need(framework: str, extra: str, least: str) -> Any:
    """Return a framework's module, or raise one sentence that names the extra.

    Args:
        framework: its module's name.
        extra: the extra of this library that brings it, and the module that asks for it.
        least: the lowest version that works.

    Example:
        >>> need("nonesuch", "skorch", "1.0")
        Traceback (most recent call last):
        ...
        ImportError: softmargin.integrations.skorch needs nonesuch, which is missing:
            pip install "softmargin[skorch]".
    """
    subject, remedy = f"softmargin.integrations.{extra}", f'"softmargin[{extra}]"'
    package = framework.partition(".")[0]
    try:
        found = str(getattr(import_module(package), "__version__", least))
    except ModuleNotFoundError as error:
        if error.name != package:  # something else is missing, and says so
            raise
        raise ImportError(
            f"{subject} needs {package}, which is missing: pip install {remedy}."
        ) from None
    if _numbers(found) < _numbers(least):
        raise ImportError(
            f"{subject} needs {package} {least} or newer, but found {found}: "
            f"pip install --upgrade {remedy}."
        )
    return import_module(framework)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
