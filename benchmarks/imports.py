"""What ``import softmargin`` adds to ``import torch``."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import best_times, report


def main() -> None:
    """Print the time of both imports in fresh processes; at most 0.2 s may be added."""

    def start(module: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    best = best_times(
        {"peer": lambda: start("torch"), "ours": lambda: start("softmargin")}, seconds=15.0
    )
    added = best["ours"] - best["peer"]
    report("import softmargin against import torch", [("import", best["peer"], best["ours"], None)])
    print(f"added: {added:.3f} s of 0.2 s allowed{'' if added <= 0.2 else '  ABOVE'}")


if __name__ == "__main__":
    main()
