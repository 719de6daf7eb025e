"""Networks trained together beside the same ones trained one by one, by processor time.

The cases are those of ``softmargin bench --only together``, here on one thread, so that what else
the machine does counts for little; then the time of a model and step by the number of models.
"""

from __future__ import annotations

import torch

from benchmarks.timing import processor_times
from softmargin.bench.together import BATCH, EPOCHS, members, of_together, several

TURNS = 5
NUMBERS = (1, 10, 100, 1000)


def beside_peers() -> None:
    """Print the ratio of both cases, with its bound."""
    for case in of_together(quick=False):
        best = processor_times(case.contenders, TURNS)
        whole = {name: best[name] / case.shares.get(name, 1.0) for name in best}
        ours = whole.pop("together")
        for peer, seconds in whole.items():
            bound = 1 / case.bounds["together"]
            print(
                f"{case.work}: {peer} {seconds:.1f} s, together {ours:.2f} s, "
                f"{seconds / ours:.1f} × (at least {bound:.0f})",
                flush=True,
            )


def by_number() -> None:
    """Print the time of a model and step for more and more softmax networks."""
    for number in NUMBERS:
        configs, folds = members({"softmax": {}}, number)
        seconds = processor_times({"together": several(configs, folds)}, 3)["together"]
        steps = EPOCHS * -(-len(folds[0].train) // BATCH)
        print(f"{number} models: {1e6 * seconds / number / steps:.1f} µs per model and step")


def main() -> None:
    """Print all of it."""
    torch.set_num_threads(1)
    beside_peers()
    by_number()


if __name__ == "__main__":
    main()
