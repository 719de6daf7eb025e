"""The papers' learning rates, as functions of the step alone, so that a resume needs no state."""

from __future__ import annotations

import math
from collections.abc import Callable

from softmargin._plain_checks import check_choice

RATES = ("constant", "step", "log_linear", "one_cycle")
Rate = Callable[[int], float]


def learning_rate(spec: str, base: float, total: int) -> Rate:
    """Return the learning rate at every step of a training of ``total`` steps.

    - ``"constant"``: ``base``.
    - ``"step"``: divided by 10 at 50 % and 75 % (GD); ``"step:40%,80%"`` for other places.
    - ``"log_linear"``: from ``base`` to 1e-4 in equal ratios (LM); ``"log_linear:1e-5"``.
    - ``"one_cycle"``: up from ``base``/25 over 30 % of the steps and down to ``base``/250000,
      both along cosines (AG), as PyTorch's ``OneCycleLR`` has it.

    Example:
        >>> from softmargin.training.rates import learning_rate
        >>> rate = learning_rate("step", 0.1, total=100)
        >>> [round(rate(step), 6) for step in (0, 49, 50, 75)]
        [0.1, 0.1, 0.01, 0.001]
    """
    kind, _, detail = spec.partition(":")
    check_choice("lr_schedule", kind, RATES)
    try:
        if kind == "step":
            places = [_share(part) * total for part in (detail or "50%,75%").split(",")]
            return lambda step: base * 0.1 ** sum(step >= place for place in places)
        if kind == "log_linear":
            end = float(detail or 1e-4)
            if not 0 < end < math.inf:
                raise ValueError
            return lambda step: base * (end / base) ** (step / max(1, total - 1))
    except ValueError:
        raise ValueError(
            f"lr_schedule must look like step:50%,75% or log_linear:1e-4, but got {spec!r}."
        ) from None
    if detail:
        raise ValueError(f"lr_schedule {kind} takes no numbers, but got {spec!r}.")
    return _one_cycle(base, total) if kind == "one_cycle" else lambda _: base


def _share(text: str) -> float:
    if not text.endswith("%") or not 0 < (share := float(text[:-1]) / 100) < 1:
        raise ValueError
    return share


def _one_cycle(base: float, total: int) -> Rate:
    top = 0.3 * total - 1
    last = total - 1
    low, end = base / 25, base / 25 / 1e4

    def rate(step: int) -> float:
        if step <= top:
            start, stop, share = low, base, step / top
        else:
            start, stop, share = base, end, (step - top) / max(1e-12, last - top)
        return stop + (start - stop) * (1 + math.cos(math.pi * min(1.0, share))) / 2

    return rate
