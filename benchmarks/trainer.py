"""The trainer against a bare PyTorch loop that does the same work, epoch by epoch."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import softmargin
from benchmarks.timing import best_times, report
from softmargin import data, heads, models
from softmargin.training import RunFolder, TrainingConfig
from softmargin.training.trainer import Trainer

CASES = {
    "fcnn 784-50-20-10, batch 100": ("fcnn", (1, 28, 28), 6000, 1.15),
    "small_resnet, batch 100": ("small_resnet", (3, 32, 32), 500, 1.05),
}


def made_up(shape: tuple[int, int, int], count: int) -> data.Dataset:
    """Return uint8 noise of the shape of real images; only the time matters here."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, *shape), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, 10, (count,), generator=generator)
    names = tuple("0123456789")
    split = data.Split(x, y)
    return data.Dataset("noise", split, split, names, data.Provenance("made up", "none"))


def bare_epoch(model: str, dataset: data.Dataset) -> Callable[[], None]:
    """Return one epoch as anyone would write it."""
    network = models.build(model, dataset.train.x.shape[1:])
    classifier = nn.Sequential(network, heads.LinearHead(network.out_features, 10))
    if model != "fcnn":
        models.to_channels_last(classifier)
    criterion = softmargin.GradientDecayLoss()
    optimizer = torch.optim.SGD(classifier.parameters(), lr=1e-3, momentum=0.9)
    mean, std = data.channel_statistics(dataset.train.x)
    mean, std = (255 * each.float().view(-1, 1, 1) for each in (mean, std))
    x, y = dataset.train.x, dataset.train.y

    def run() -> None:
        order = torch.randperm(len(x))
        for start in range(0, len(x), 100):
            chosen = order[start : start + 100]
            images = x[chosen].float().sub_(mean).div_(std)
            optimizer.zero_grad()
            criterion(classifier(images), y[chosen]).backward()
            optimizer.step()

    return run


def our_epoch(model: str, dataset: data.Dataset, folder: str) -> Callable[[], None]:
    """Return one epoch of the trainer."""
    config = TrainingConfig(model=model, lr=1e-3, epochs=10**6)
    trainer = Trainer(config, RunFolder(Path(folder)), "cpu", 0, 1, dataset)

    def run() -> None:
        trainer.one_epoch(trainer.objective, trainer.step // len(trainer.batches), None, None)

    return run


def main() -> None:
    """Print the ratios, with the bounds the project holds itself to."""
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, shape, count, bound) in CASES.items():
            dataset = made_up(shape, count)
            best = best_times(
                {
                    "peer": bare_epoch(model, dataset),
                    "ours": our_epoch(model, dataset, folder),
                },
                seconds=8.0,
            )
            rows.append((name, best["peer"], best["ours"], bound))
    report("The trainer's epoch against a bare PyTorch loop of the same work", rows)
    load_mnist()


def load_mnist() -> None:
    """Print how long MNIST takes to load, with its checksums, where it is on this machine."""
    code = (
        "import time, softmargin.data as d; start = time.perf_counter(); "
        "d.load('mnist', download=False); print(time.perf_counter() - start)"
    )
    try:
        times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    except subprocess.CalledProcessError:
        print("MNIST is not on this machine: softmargin data fetch mnist")
        return
    print(f"MNIST loads in {min(times):.2f} s of 2 s allowed{'' if min(times) < 2 else '  ABOVE'}")


if __name__ == "__main__":
    main()
