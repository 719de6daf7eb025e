"""How the benchmarks here print what ``softmargin.bench`` measures."""

from __future__ import annotations

from softmargin.bench.measure import best_times as best_times


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
