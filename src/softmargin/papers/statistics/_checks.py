"""Argument checks of the statistics, and where their distributions come from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmargin.functional._checks import check_number

Floats = NDArray[np.float64]


def distributions() -> Any:
    """Return ``scipy.stats``, or say what to install."""
    try:
        from scipy import stats
    except ImportError:
        raise ImportError(
            'Statistics need scipy, which is missing: pip install "softmargin[lab]".'
        ) from None
    return stats


def check_level(level: float) -> None:
    """Raise unless a confidence level is a share, such as 0.95."""
    check_number("level", level, below=1.0)


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless a number of things is an integer that is large enough."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, but got {value!r}.")


def finite_values(name: str, values: ArrayLike) -> Floats:
    """Return values as one row of finite numbers, whatever their shape."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if not flat.size:
        raise ValueError(f"{name} must hold at least one value, but got none.")
    if bad := int((~np.isfinite(flat)).sum()):
        raise ValueError(f"{name} must be finite, but {bad} of {flat.size} values are not.")
    return flat


def score_table(scores: ArrayLike, least_methods: int = 1) -> Floats:
    """Return scores of shape (data sets, methods), each finite or NaN."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < least_methods:
        raise ValueError(
            f"scores must have shape (data sets, methods) with at least {least_methods} "
            f"method{'s'[: least_methods > 1]}, but got {table.shape}."
        )
    if np.isinf(table).any():
        raise ValueError(
            f"scores must be finite, or NaN where a method is not defined, "
            f"but {int(np.isinf(table).sum())} of {table.size} are infinite."
        )
    return table
