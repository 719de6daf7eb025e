"""Checks of plain values: words, numbers, counts and flags.

Nothing here imports PyTorch, so that a mistake on the command line is answered without it. Checks
of tensors are in :mod:`softmargin.functional._checks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

LARGE = 2**63  # whole numbers from here on do not fit into a tensor


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``allowed``."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, but got {value!r}.")


def check_number(
    name: str,
    value: float,
    *,
    above: float = 0.0,
    inclusive: bool = False,
    below: float = math.inf,
) -> None:
    """Raise unless ``value`` is a finite number above (or at) one bound and below the other."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number or a tensor, but got {value!r}.")
    if isinstance(value, int) and abs(value) >= LARGE:
        raise ValueError(f"{name} must be given as a float if it is so large, but got {value}.")
    good = value < below and (value >= above if inclusive else value > above)
    if not (math.isfinite(value) and good):
        bounds = []
        if above != -math.inf:
            bounds.append(f"{'of at least' if inclusive else 'above'} {above:g}")
        if below != math.inf:
            bounds.append(f"below {below:g}")
        allowed = " ".join(["a finite number", " and ".join(bounds)]).strip()
        raise ValueError(f"{name} must be {allowed}, but got {value}.")


def check_flag(name: str, value: bool) -> None:
    """Raise ``TypeError`` unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but got {value!r}.")


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, but got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but got {value}.")
    if value >= LARGE:
        raise ValueError(f"{name} must be a number that memory can hold, but got {value}.")
