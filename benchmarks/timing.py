"""How every benchmark here measures: contenders take turns, and the best turn counts.

Taking turns spreads a noisy neighbour over all contenders; the best of many turns is the least
disturbed one. Only ratios between contenders of one run mean anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_times(
    contenders: Mapping[str, Callable[[], object]], seconds: float = 2.0, least: int = 5
) -> dict[str, float]:
    """Return the best time of each contender in seconds, from turns over about ``seconds``."""
    for contender in contenders.values():
        contender()
    best = dict.fromkeys(contenders, float("inf"))
    turns, start = 0, time.perf_counter()
    while turns < least or time.perf_counter() - start < seconds:
        for name, contender in contenders.items():
            begin = time.perf_counter()
            contender()
            best[name] = min(best[name], time.perf_counter() - begin)
        turns += 1
    return best


def report(title: str, rows: list[tuple[str, float, float, float | None]]) -> None:
    """Print rows of (what, peer's seconds, our seconds, allowed ratio or None)."""
    print(f"\n{title}")
    print(f"{'':38}{'peer':>12}{'ours':>12}{'ratio':>8}{'bound':>8}")
    for what, peer, ours, bound in rows:
        limit = "" if bound is None else f"{bound:.2f}"
        verdict = "" if bound is None else ("  ok" if ours / peer <= bound else "  ABOVE")
        print(f"{what:38}{_show(peer):>12}{_show(ours):>12}{ours / peer:8.2f}{limit:>8}{verdict}")


def _show(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:.1f} ms"
