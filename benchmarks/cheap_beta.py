"""How often the β chosen on cached features is the one that full training would choose.

``python -m benchmarks.cheap_beta run [--cells FOLDER] [--work FOLDER] [SEED ...]`` trains one
residual network with β = 1 for each seed (about three minutes of one core), gives its features to
``tune_last_layer``, those of its training images with the held-out ones, and the held-out ones
alone, and writes both NLL beside the held-out NLL of the networks trained in full with each β,
which the cells of sm-headline have. Seeds that are in
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
from functools import partial
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
COLUMNS = ("seed", "beta", "cheap_nll", "cheap_alone_nll", "full_nll")
WAYS = {"cheap_nll": "training features", "cheap_alone_nll": "held-out features alone"}
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


def cheap_nll(seed: int, work: Path) -> dict[str, dict[float, float]]:
    """Train one network with β = 1; return the NLL of its last layer by way and β."""
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
    known, new = (
        (outputs(model.features, split, images.dataset), split.y)
        for split in (images.dataset.train, images.held_out)
    )
    tune = partial(tune_last_layer, betas=BETAS, temperature=False)
    found = {
        "cheap_nll": tune(*known, held_out=new, weight_decay=config.weight_decay),
        "cheap_alone_nll": tune(*new),
    }
    return {
        name: {each.beta: each.score["nll"] for each in own.candidates}
        for name, own in found.items()
    }


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
        for beta in betas:
            values = [*(cheap[name][beta] for name in WAYS), full[seed, beta]]
            lines.append(",".join([f"{seed},{beta:g}", *(f"{value:.6g}" for value in values)]))
        write_file(CHOICES, "\n".join(lines) + "\n")
        print(f"seed {seed}: {cheap}", flush=True)


def page() -> str:
    """Return what came out, in words and as a table."""
    by_seed = read_choices()
    rows, costs = [], {name: [] for name in WAYS}
    same = dict.fromkeys(WAYS, 0)
    for seed, lines in by_seed.items():
        full = min(lines, key=lambda each: each["full_nll"])
        plain = next(each for each in lines if each["beta"] == 1)
        chosen = {name: min(lines, key=lambda each: each[name]) for name in WAYS}
        for name, own in chosen.items():
            same[name] += own is full
            costs[name].append(own["full_nll"] - full["full_nll"])
        betas = [f"{each['beta']:g}" for each in (*chosen.values(), full)]
        values = [each["full_nll"] for each in (*chosen.values(), full, plain)]
        rows.append([str(seed), *betas, *(f"{value:.3f}" for value in values)])
    count = len(rows)
    told = "\n".join(
        f"- By {title} the choice was the full one in {same[name]} of {count} seeds, was within\n"
        f"  {NEAR:g} nats of its NLL in {sum(cost <= NEAR for cost in costs[name])}, and cost "
        f"**{sum(costs[name]) / count:.3f} nats** on average."
        for name, title in WAYS.items()
    )
    gain = sum(float(row[-1]) - float(row[-2]) for row in rows) / count
    every = [
        [f"{beta:g}", *(f"{_mean(by_seed, beta, name):.3f}" for name in COLUMNS[2:])]
        for beta in BETAS
    ]
    headings = ["seed", *(f"β, {title}" for title in WAYS.values()), "β, in full"]
    headings += [*(f"NLL, {title}" for title in WAYS.values()), "NLL, in full", "NLL, β = 1"]
    return f"""# The cheap β beside the full one

One residual network per seed ({TASK.name};
15 epochs, 18,000 training images) was trained with β = 1, and its features were given to
`tune_last_layer`, which trains the last layer alone with every β and chooses by NLL: once those of
its training images, judged by its 2,000 held-out ones, with the network's own weight decay (three
seeds); and once those of the held-out images alone (five folds, three seeds). Beside it stands the
choice by held-out NLL among networks trained in full with every β, from the cells of
[sm-headline](../sm-headline/README.md).

{told}
- The full choice gains {gain:.3f} nats over β = 1.

{markdown_table(headings, rows, "r" * len(headings))}

NLL of held-out images by networks that were trained in full with the β that was chosen. The choice
among those is made on the same images, so that its NLL is a little too good.

{markdown_table(["β", *WAYS.values(), "in full"], every, "rrrr")}

Held-out NLL of every β, means over seeds.

That training features and the network's own weight decay are what the last layer needs was found
with seeds 0 and 1, where other optimisers, rates and decays were tried; the other seeds were run
once, afterwards.

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
