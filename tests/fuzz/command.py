"""The command: many calls, each from the seed and its own number, so that one can be repeated."""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings

import numpy as np
import torch

from fuzz import heads, losses, metrics, odd

AREAS = {"losses": losses.run, "heads": heads.run, "metrics": metrics.run, "odd": odd.run}
SHARES = {"losses": 0.4, "heads": 0.25, "metrics": 0.05, "odd": 0.3}


def call(seed, number, area=None):
    """Make one call; return its area and what is wrong with it, or None."""
    rng = np.random.default_rng([seed, number])
    drawn = str(rng.choice(list(SHARES), p=list(SHARES.values())))
    area = area or drawn
    try:
        return area, AREAS[area](rng)
    except Exception as error:  # of the library, or of the fuzz itself: both are to be seen
        return area, f"{type(error).__name__}: {error}"


def run(calls, seed, area=None, report=lambda number, counts, found: None, first=0):
    """Make calls and return what is wrong, as (number of the call, area, sentence)."""
    found, counts = [], collections.Counter()
    for number in range(first, first + calls):
        drawn, wrong = call(seed, number, area)
        counts[drawn] += 1
        if wrong is not None:
            found.append((number, drawn, wrong))
        report(number, counts, found)
    return found


def main(argv=None):
    """Return 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="how many calls")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn from")
    parser.add_argument("--first", type=int, default=0, help="number of the first, to share work")
    parser.add_argument("--area", choices=AREAS, help="only calls of one area")
    parser.add_argument("--case", type=int, help="only the call of this number")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.case is not None:
        area, wrong = call(options.seed, options.case, options.area)
        print(f"{area}: {wrong or 'nothing is wrong'}")
        return int(wrong is not None)
    start, shown = time.monotonic(), [0.0]

    def report(number, counts, found):
        if found and found[-1][0] == number:
            print(f"FOUND {repeat(options, *found[-1])}", flush=True)
        if time.monotonic() - shown[0] > 10 or sum(counts.values()) == options.calls:
            shown[0] = time.monotonic()
            parts = ", ".join(f"{count} {area}" for area, count in sorted(counts.items()))
            print(
                f"{sum(counts.values())} of {options.calls} calls ({parts}) in "
                f"{time.monotonic() - start:.0f} s, {len(found)} findings",
                file=sys.stderr,
                flush=True,
            )

    found = run(options.calls, options.seed, options.area, report, options.first)
    by_area = collections.Counter(area for _, area, _ in found)
    print(f"{options.calls} calls, seed {options.seed}: {len(found)} findings {dict(by_area)}")
    return int(bool(found))


def repeat(options, number, area, wrong):
    """Return a finding with the command that repeats it."""
    chosen = f" --area {options.area}" if options.area else ""
    again = f"python -m tests.fuzz --seed {options.seed}{chosen} --case {number}"
    return f"{area} {number}: {wrong}\n  again: {again}"
