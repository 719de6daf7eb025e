"""How everything is measured: contenders take turns, and the best of many turns counts.

Taking turns spreads a noisy neighbour over all contenders; the best of many turns is the least
disturbed one. Each contender takes turns with the first one alone, so that both find the caches as
the other left them: in a round of many, all are slower, and the one that comes up most often is
slowed least. Only ratios within a pair mean anything. Their spread is that of the ratios that parts
of the run would have given alone.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

Contenders = Mapping[str, Callable[[], object]]
PARTS = 5


@dataclass(frozen=True)
class Ratio:
    """One contender of one comparison.

    Attributes:
        name: of the contender.
        seconds: the best turn.
        ratio: of that to the first contender's best.
        low: the smallest ratio among parts of the run.
        high: the largest one.
    """

    name: str
    seconds: float
    ratio: float
    low: float
    high: float


def best_by_part(
    contenders: Contenders, seconds: float, parts: int = PARTS
) -> dict[str, list[float]]:
    """Return the best time of each contender in every part of a run of about ``seconds``."""
    for contender in contenders.values():
        contender()
    best: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(parts):
        end = time.perf_counter() + seconds / parts
        found = dict.fromkeys(contenders, math.inf)
        while math.inf in found.values() or time.perf_counter() < end:
            for name, contender in contenders.items():
                begin = time.perf_counter()
                contender()
                found[name] = min(found[name], time.perf_counter() - begin)
        for name, value in found.items():
            best[name].append(value)
    return best


def best_times(
    contenders: Contenders, seconds: float = 2.0, parts: int = PARTS
) -> dict[str, float]:
    """Return the best time of each contender in seconds."""
    return {name: min(times) for name, times in best_by_part(contenders, seconds, parts).items()}


def ratios(contenders: Contenders, seconds: float, parts: int = PARTS) -> list[Ratio]:
    """Return every contender beside the first one, with which it has taken turns."""
    first, *others = contenders
    rows, base = [], math.inf
    for name in others:
        pair = {first: contenders[first], name: contenders[name]}
        theirs, own = best_by_part(pair, seconds, parts).values()
        each = [ours / other for ours, other in zip(own, theirs, strict=True)]
        rows.append(Ratio(name, min(own), min(own) / min(theirs), min(each), max(each)))
        base = min(base, *theirs)
    return [Ratio(first, base, 1.0, 1.0, 1.0), *rows]


def peak_bytes(work: Callable[[], object]) -> int:
    """Return how far what PyTorch has allocated rises during a call, above its lowest before."""
    work()
    with _quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    events = record.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    total = lowest = peak = 0
    for _, change in sorted(changes, key=lambda event: event[0]):
        total += change
        lowest = min(lowest, total)
        peak = max(peak, total - lowest)
    return peak


@contextmanager
def _quiet() -> Iterator[None]:
    """Let nothing through to standard error, where the profiler's own library talks."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return p of the power law seconds ∝ size^p that fits best on logarithmic axes.

    Example:
        >>> round(exponent([10, 100, 1000], [2e-6, 2e-5, 2e-4]), 6)
        1.0
    """
    x, y = ([math.log(value) for value in values] for values in (sizes, seconds))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)
