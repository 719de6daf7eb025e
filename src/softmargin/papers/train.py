"""The kinds of work of cells: a network by itself, many fully connected ones at once, MNIST."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softmargin import data, models
from softmargin._files import read_sealed, seal, write_file
from softmargin.data import Dataset
from softmargin.papers import measure
from softmargin.papers.core import Array, Progress, Result
from softmargin.papers.desk import MNIST_METHODS
from softmargin.papers.grid import of_seed
from softmargin.papers.images import as_trained, load_part
from softmargin.papers.regimes import WITHIN_UNIT
from softmargin.training import RunFolder, TrainingConfig, train, train_together
from softmargin.training.parts import make_head
from softmargin.training.trainer import find_device

CURVES = ("accuracy", "nll", "ece")
TRAINING = 0.95  # of the work; the rest is measuring


def training_config(
    config: Mapping[str, Any], method: Mapping[str, Any] | None = None
) -> TrainingConfig:
    """Return how a cell, or one method of a cell, is trained.

    Args:
        config: of the cell.
        method: options of one method of those trained together, with its ``name``.
    """
    own = {key: value for key, value in (method or {}).items() if key != "name"}
    # methods trained together are recorded together
    record = "bias" in config["measures"] and method is None
    return TrainingConfig.from_dict(
        {
            **{key: config[key] for key in ("data", "model", "seed")},
            **config["training"],
            **own,
            "record": record,
        }
    )


def curves_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scores of every epoch that are kept."""
    return (*CURVES, "held_out_nll") if "own held-out" in config["measures"] else CURVES


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, so that numbers do not depend on how many cells run at a time.

    Two cells side by side take no longer than one after the other with two threads each. Where
    there is a GPU nothing changes.
    """
    before = torch.get_num_threads()
    if find_device("auto").type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def train_one(config: Mapping[str, Any], folder: Path, progress: Progress) -> Result:
    """Train one network as the recipe says, and measure it.

    The same call goes on where it stopped. Arrays besides those of :func:`measure.measured`: the
    scores of ``CURVES`` by epoch, (1, epochs), and where asked for ``mean_bias`` (1, epochs) and
    ``angle_counts`` (1, epochs + 1, bins), the first before training.
    """
    images = load_part(config["data"], config["part"], config["seed"])
    training = training_config(config)
    run = RunFolder(folder / "run")
    samples = len(as_trained(images.dataset, training).train)
    steps = training.epochs * -(-samples // training.batch)
    by_epoch = "angles by epoch" in config["measures"]
    watch = _Angles(run, training, images.dataset) if by_epoch else None

    def tell(epoch: int, step: int, loss: float) -> None:
        if watch is not None:
            watch.keep(epoch)
        progress(TRAINING * step / steps)

    train(training, run.path, dataset=images.dataset, progress=tell)
    model = model_of(run, training, images.dataset)
    result = measure.measured(
        [measure.Trained(config["method"], training, model)], images, config["measures"]
    )
    for name in curves_of(config):
        curve = [epoch.get(name, np.nan) for epoch in run.metrics()]
        result.arrays[name] = np.array([curve])
    if training.record:
        state: Any = run.load(torch.device("cpu"))
        result.arrays["mean_bias"] = torch.stack(state["recorder"]["biases"], 1).numpy()
    if watch is not None:
        result.arrays["angle_counts"] = watch.counts()[None]
    progress(1.0)
    return result


@one_thread()
def train_many(config: Mapping[str, Any], folder: Path, progress: Progress) -> Result:
    """Train all methods of a cell from the same weights and batches, and measure them.

    Arrays besides those of :func:`measure.measured`: the scores of ``CURVES`` by epoch, (methods,
    epochs), and where asked for ``mean_bias`` (methods, epochs).
    """
    images = load_part(config["data"], config["part"], config["seed"])
    configs = [training_config(config, method) for method in config["methods"]]
    together = train_together(
        configs,
        dataset=images.dataset,
        out=folder / "models",
        record="bias" in config["measures"],
        progress=lambda done, total: progress(TRAINING * done / total),
    )
    trained = [
        measure.Trained(method["name"], configs[number], together.classifier(number))
        for number, method in enumerate(config["methods"])
    ]
    result = measure.measured(trained, images, config["measures"])
    for name in curves_of(config):
        result.arrays[name] = together.history(name).numpy()
    if "bias" in config["measures"]:
        found = [together.recorder(number) for number in range(len(trained))]
        curves = [recorder.mean_bias[place] for recorder, place in found]
        result.arrays["mean_bias"] = torch.stack(curves).numpy()
    progress(1.0)
    return result


def model_of(run: RunFolder, config: TrainingConfig, dataset: Dataset) -> models.Classifier:
    """Return the network of a run as its last checkpoint has it, or as it begins."""
    device = find_device("auto")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # network and head in the trainer's order
        shape = dataset.train.batch(torch.arange(1))[0].shape[1:]
        network = models.build(config.model, shape, **config.model_options)
        head = make_head(
            config.head, network.out_features, dataset.num_classes, config.head_options
        )
    model = models.Classifier(network, head).to(device)
    state = run.load(device)
    if state is not None:
        model.load_state_dict(state["model"])
    return model.eval()


class _Angles:
    """Histograms of intra-class angles after every epoch, from the checkpoints of a run.

    While an epoch runs, the checkpoint is that of the last one: whatever stops the run, the
    histogram of an epoch can be made until the next one ends, and each has its file.
    """

    def __init__(self, run: RunFolder, config: TrainingConfig, dataset: Dataset) -> None:
        self.run, self.config, self.dataset = run, config, as_trained(dataset, config)
        self.kept: set[int] = set()

    def keep(self, epoch: int) -> None:
        """Make the histogram after so many epochs, unless it is there."""
        if epoch in self.kept or self._path(epoch).exists():
            return
        counts = measure.angle_counts(model_of(self.run, self.config, self.dataset), self.dataset)
        buffer = io.BytesIO()
        np.save(buffer, counts.numpy())
        self._path(epoch).parent.mkdir(exist_ok=True)
        write_file(self._path(epoch), seal(buffer.getvalue()))
        self.kept.add(epoch)

    def counts(self) -> Array:
        """Return all histograms, (epochs + 1, bins), after the last epoch."""
        self.keep(self.config.epochs)
        remedy = f"delete the folder {str(self.run.path)!r} and run the same command again"
        paths = [self._path(epoch) for epoch in range(self.config.epochs + 1)]
        found = [np.load(io.BytesIO(read_sealed(path, remedy))) for path in paths]
        stacked: Array = np.stack(found).reshape(-1, measure.BINS)
        return stacked

    def _path(self, epoch: int) -> Path:
        return self.run.path / "angles" / f"{epoch:04d}.npy"


# --- MNIST

PIXELS = data.Normalize((0.0,), (1.0,))  # from 0 to 1, as they are
MNIST_VARIANTS = {method.short_name: method for method in MNIST_METHODS}


def train_mnist(config: Mapping[str, Any], folder: Path, progress: Progress) -> Result:
    """Train every variant of a cell from one seed or several, and measure them.

    Besides what :func:`measure.recorded` returns there are the numbers ``variants`` (their names,
    with the seed where there are several, the variants of the first seed first), ``samples`` and
    ``inputs``, and the scores of ``CURVES`` and the training loss by epoch, (variants, epochs).
    """
    dataset = data.load(config["data"], seed=config["seed"])
    variants = config["variants"]
    names, seeds = list(variants), config.get("seeds", [config["seed"]])
    if "seeds" in config:
        names = [of_seed(variant, seed) for seed in seeds for variant in variants]
    normalize = PIXELS if config.get("inputs") == WITHIN_UNIT else None
    together = train_together(
        [mnist_config({**config, "seed": seed}, each) for seed in seeds for each in variants],
        dataset=dataset,
        out=folder / "models",
        record=True,
        parts=1 if "seeds" in config else None,  # tiny networks: steps cost more than products
        normalize=normalize,
        progress=lambda done, total: progress(TRAINING * done / total),
    )
    result = measure.recorded(
        together,
        dataset,
        range(len(variants)),
        variants.index("1"),
        features=config["features"],
        normalize=normalize,
    )
    result.numbers["variants"] = names
    result.numbers["samples"] = len(dataset.train)
    result.numbers["inputs"] = dataset.train.x[0].numel()
    for name in ("train_loss", *CURVES):
        result.arrays[name] = together.history(name).numpy()
    progress(1.0)
    return result


def mnist_config(config: Mapping[str, Any], variant: str) -> TrainingConfig:
    """Return how one variant of a cell of MNIST is trained."""
    of_model = ("widths", "last_activation")
    others = ("variants", "warm_up", "features", "inputs", "seeds")
    return TrainingConfig.from_dict(
        {
            **{name: each for name, each in config.items() if name not in (*of_model, *others)},
            "model": "fcnn",
            "model_options": {name: config[name] for name in of_model},
            **MNIST_VARIANTS[variant].training,
        }
    )
