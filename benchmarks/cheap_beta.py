"""How often the β chosen on cached features is the one that full training would choose.

``python -m benchmarks.cheap_beta run [--cells FOLDER] [--work FOLDER] [SEED ...]`` trains one
residual network with β = 1 for each seed (about three minutes of one core), gives the features of
its held-out images to ``tune_last_layer``, and writes that NLL beside the held-out NLL of the
networks trained in full with each β, which the cells of sm-headline have. Seeds that are in
``results/cheap-beta/choices.csv`` are not trained again, and a training goes on where it was
stopped. ``python -m benchmarks.cheap_beta page`` writes the page.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from softmargin import tune_last_layer
from softmargin._files import write_file
from softmargin._table import markdown_table
from softmargin.papers import desk
from softmargin.papers.images import load_part
from softmargin.papers.measure import outputs
from softmargin.papers.train import model_of, training_config
from softmargin.training import RunFolder, train

RESULTS = Path(__file__).parents[1] / "results"
CHOICES = RESULTS / "cheap-beta" / "choices.csv"
COLUMNS = ("seed", "beta", "cheap_nll", "full_nll")
BETAS = (0.01, 0.1, 1.0, 5.0, 10.0, 20.0, 50.0)
METHODS = {f"β = {beta:g}": beta for beta in BETAS}
TASK = desk.USEFUL_10_PLAIN
NEAR = 0.01  # nats above the best: a choice that costs so little is as good


def full_nll(cells: Path) -> dict[tuple[int, float], float]:
    """Return the held-out NLL of networks trained in full, by seed and β."""
    found = {}
    for path in sorted(cells.glob("*.json")):
        cell = json.loads(path.read_text(encoding="utf-8"))
        config = cell["config"]
        if config.get("task") == TASK.name and config["method"] in METHODS:
            beta = METHODS[config["method"]]
            (found[config["seed"], beta],) = cell["numbers"]["held_out"]["raw"]["nll"]
    return found


def cheap_nll(seed: int, work: Path) -> dict[float, float]:
    """Train one network with β = 1, and return the NLL of its last layer trained with each β."""
    cell = {
        "data": TASK.data,
        "model": TASK.model,
        "seed": seed,
        "training": {**TASK.training, "loss_options": {"beta": 1.0}},
        "measures": (),
    }
    images = load_part(TASK.data, TASK.part, seed)
    config, run = training_config(cell), RunFolder(work / f"seed-{seed}")
    train(config, run.path, dataset=images.dataset)
    model = model_of(run, config, images.dataset)
    features = outputs(model.features, images.held_out, images.dataset)
    found = tune_last_layer(features, images.held_out.y, BETAS, temperature=False)
    return {each.beta: each.score["nll"] for each in found.candidates}


def read_choices() -> dict[int, list[dict[str, float]]]:
    """Return the lines by seed."""
    found = defaultdict(list)
    if CHOICES.exists():
        for line in csv.DictReader(CHOICES.read_text(encoding="utf-8").splitlines()):
            found[int(line["seed"])].append({name: float(line[name]) for name in COLUMNS})
    return dict(sorted(found.items()))


def run(seeds: Sequence[int], cells: Path, work: Path) -> None:
    """Train what is not there yet."""
    full = full_nll(cells)
    CHOICES.parent.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        there = read_choices()
        betas = [beta for beta in BETAS if (seed, beta) in full]
        if seed in there or 1.0 not in betas:
            print(f"seed {seed}: {'is there' if seed in there else 'no cells'}", flush=True)
            continue
        cheap = cheap_nll(seed, work)
        lines = [",".join(COLUMNS)]
        for own in there.values():
            lines += [",".join(f"{each[name]:.6g}" for name in COLUMNS) for each in own]
        lines += [f"{seed},{beta:g},{cheap[beta]:.6g},{full[seed, beta]:.6g}" for beta in betas]
        write_file(CHOICES, "\n".join(lines) + "\n")
        print(f"seed {seed}: {cheap}", flush=True)


def page() -> str:
    """Return what came out, in words and as a table."""
    rows, same, near, costs = [], 0, 0, []
    by_seed = read_choices()
    for seed, lines in by_seed.items():
        cheap = min(lines, key=lambda each: each["cheap_nll"])
        full = min(lines, key=lambda each: each["full_nll"])
        plain = next(each for each in lines if each["beta"] == 1)
        cost = cheap["full_nll"] - full["full_nll"]
        same, near = same + (cheap is full), near + (cost <= NEAR)
        costs.append(cost)
        cells = [cheap["full_nll"], full["full_nll"], plain["full_nll"]]
        rows.append(
            [str(seed), f"{cheap['beta']:g}", f"{full['beta']:g}", *(f"{v:.3f}" for v in cells)]
        )
    headings = ["seed", "cheap β", "full β", "NLL, cheap β", "NLL, full β", "NLL, β = 1"]
    every = [
        [f"{beta:g}", *(f"{_mean(by_seed, beta, name):.3f}" for name in COLUMNS[2:])]
        for beta in BETAS
    ]
    return f"""# The cheap β beside the full one

One residual network per seed ({TASK.name};
15 epochs, 18,000 training images) was trained with β = 1. The features of its 2,000 held-out images
were given to `tune_last_layer`, which trains the last layer alone with every β (five folds, three
seeds) and chooses by NLL. Beside it stands the choice by held-out NLL among networks trained in
full with every β, from the cells of
[sm-headline](../sm-headline/README.md).

**Of {len(rows)} seeds, the cheap choice was the full one in {same}, and cost at most {NEAR:g} nats
of held-out NLL in {near}.** On average it cost {sum(costs) / len(costs):.3f} nats. Five seeds were
planned; `python -m benchmarks.cheap_beta run` adds those that are missing.

{markdown_table(headings, rows, "rrrrrr")}

NLL of held-out images by networks that were trained in full. The choice among those is made on the
same images, so that its NLL is a little too good.

{markdown_table(["β", "last layer alone", "trained in full"], every, "rrr")}

Held-out NLL of every β, means over seeds.

Written by `python -m benchmarks.cheap_beta page` from `choices.csv`.
"""


def _mean(by_seed: dict[int, list[dict[str, float]]], beta: float, name: str) -> float:
    values = [each[name] for own in by_seed.values() for each in own if each["beta"] == beta]
    return sum(values) / len(values)


def main(arguments: Sequence[str]) -> None:
    """Run, or write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.cheap_beta", description=__doc__)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--cells", type=Path, default=RESULTS / "cells")
    parser.add_argument("--work", type=Path, default=RESULTS / ".cheap-beta")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if given.command == "run":
        run(given.seeds, given.cells, given.work)
    write_file(CHOICES.parent / "README.md", page())


if __name__ == "__main__":
    main(sys.argv[1:])
