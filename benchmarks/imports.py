"""How long ``softmargin --help`` takes, in processor time, against Python itself."""

from __future__ import annotations

import resource
import subprocess
import sys

ALLOWED = 0.3  # seconds


def seconds(*words: str) -> float:
    """Return the least processor time of five processes of Python."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(5):
        before = used()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        times.append(used() - before)
    return min(times)


def main() -> None:
    """Print the processor time of an empty program and of the help."""
    print("\nstart-up, processor time of a process")
    print(f"{'python -c pass':38}{seconds('-c', 'pass'):8.3f} s")
    ours = seconds("-m", "softmargin", "--help")
    verdict = "ok" if ours <= ALLOWED else "ABOVE"
    print(f"{'softmargin --help':38}{ours:8.3f} s of {ALLOWED} s allowed  {verdict}")


if __name__ == "__main__":
    main()
