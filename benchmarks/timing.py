"""How the benchmarks here print what ``softmargin.bench`` measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from softmargin.bench.measure import best_times as best_times

TURNS = 60


def processor_times(
    contenders: Mapping[str, Callable[[], object]], turns: int = TURNS
) -> dict[str, float]:
    """Return the processor time of each contender: of many turns the one that a tenth are below.

    It does not count the time that a busy machine gives to others, but what they do to the caches.
    """
    for _ in range(min(3, turns // 3)):
        for contender in contenders.values():
            contender()
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, contender in contenders.items():
            begin = time.process_time()
            contender()
            found[name].append(time.process_time() - begin)
    return {name: sorted(times)[turns // 10] for name, times in found.items()}


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
