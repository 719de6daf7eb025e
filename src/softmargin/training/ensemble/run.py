"""``train_together``: many small networks as one computation, resumable, on all cores."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from softmargin import data, models
from softmargin._files import read_json, write_json
from softmargin.functional._checks import check_count, check_number
from softmargin.training.batches import Batches, statistics
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble.allocator import keep_freed_memory
from softmargin.training.ensemble.members import (
    Block,
    Fold,
    blocks_of,
    build_network,
    check_members,
    pool,
)
from softmargin.training.ensemble.part import Part
from softmargin.training.ensemble.result import EnsembleResult
from softmargin.training.folder import RunFolder
from softmargin.training.prepared import load_data

Progress = Callable[[int, int], None]
"""(model-epochs done, of how many), called after every epoch of every part."""

Watch = Callable[[int, dict[int, dict[str, float]]], None]
"""(epoch, scores by name of every model of a part by its number), called as they come in."""

Look = Callable[[int, EnsembleResult], None]
"""(epochs taken, the models of a part as they are), called at the start and after every epoch."""

ANEW = "delete the folder, or name another one, to begin anew"
SAVE_EVERY = 20.0  # seconds between checkpoints
WORTH_TWO = 8e6  # multiplications of a step, below which two threads get in each other's way
MODELS = 400  # of one part: more would not fit the cache, and cost more each


def train_together(
    configs: Sequence[TrainingConfig],
    *,
    folds: Sequence[Fold] | None = None,
    dataset: data.Dataset | None = None,
    out: Path | None = None,
    record: bool = False,
    evaluate_every: int | None = 1,
    parts: int | None = None,
    threads: int | None = None,
    memory: float = 2e9,
    progress: Progress | None = None,
    watch: Watch | None = None,
    look: Look | None = None,
    normalize: data.Normalize | None = None,
    sample_weight: Tensor | None = None,
    start: Sequence[models.Classifier] | None = None,
) -> EnsembleResult:
    """Train many fully connected networks at once; each equals the one trained alone.

    Models may differ in seed, fold, head, loss, their settings and schedules, learning rate,
    weight decay, clipping, share of the data and pollution of labels. Those that share seed and
    fold start from the same weights and see the same batches, so that their difference is the
    method's. Heads and losses may be classes of your own.

    Args:
        configs: one per model.
        folds: rows to train and test on, one per model; by default the data set's own split.
        dataset: the data; by default that of the configurations is loaded.
        out: a folder to keep checkpoints and results in. The same call goes on where it stopped.
        record: whether to record every training sample's confidence at every epoch.
        evaluate_every: epochs between looks at the test rows; None for the end alone.
        parts: into how many parts the models are cut at least; by default two where a step is
            large enough to pay for it. Numbers may depend on it in their last digits, but not on
            ``threads``.
        threads: how many parts are trained side by side; by default ``torch.get_num_threads()``.
        memory: bytes that one part may take; more models are cut into more parts.
        progress: called after every epoch of every part.
        watch: called with every model's scores as they come in, for early looks.
        look: called at the start and after every epoch with the models of a part as they are.
        normalize: the z-score of the samples; by default that of each model's training rows.
        sample_weight: how much each row counts, at least 0, numbered as by ``folds``; by default
            all count the same.
        start: models of the same shape to begin from, one per model, such as those that
            ``classifier`` of a result gives; by default weights are drawn from the seed.

    Returns:
        Scores by epoch, final logits, weights and recorded confidences of every model.

    Example:
        >>> from softmargin.training import TrainingConfig, train_together
        >>> configs = [
        ...     TrainingConfig("iris", "mlp", loss_options={"beta": beta}, seed=seed, batch=32)
        ...     for beta in (1.0, 0.1)
        ...     for seed in (0, 1, 2)
        ... ]
        >>> train_together(configs, threads=1).final("accuracy").shape
        torch.Size([6])
    """
    check_members(configs)
    counts = {"threads": threads, "parts": parts, "evaluate_every": evaluate_every}
    for name, value in counts.items():
        if value is not None:
            check_count(name, value, 1)
    check_number("memory", memory)
    if folds is not None and len(folds) != len(configs):
        raise ValueError(f"folds must hold one per model, {len(configs)}, but got {len(folds)}.")
    config = configs[0]
    dataset = load_data(config) if dataset is None else dataset
    samples, _ = pool(dataset, folded=folds is not None)
    _check_weights(sample_weight, len(samples))
    shape = tuple(samples.shape[1:])
    blocks = blocks_of(configs, dataset, folds)
    x = _normalised(samples, blocks, config, normalize)
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        cut = _cut(blocks, shape, x, parts, memory)
        folder = None if out is None else RunFolder(out)
        if folder is not None:
            stack.enter_context(folder.locked())
            _check_folder(folder, configs, folds, normalize, len(cut))
        classes = dataset.num_classes
        made = [Part(e, x, shape, classes, record=record, weight=sample_weight) for e in cut]
        if start is not None:
            for part in made:
                _begin_from(part, start)

        def show(part: Part) -> None:
            if look is not None:
                look(part.epoch, EnsembleResult(configs, [part], shape))

        total = len(configs) * config.epochs
        job = _Job(folder, evaluate_every, total, progress, watch, show)
        job.run(made, threads or torch.get_num_threads())
        return EnsembleResult(configs, made, shape)


def _check_weights(sample_weight: Tensor | None, samples: int) -> None:
    if sample_weight is None:
        return
    good = sample_weight.shape == (samples,) and bool((sample_weight >= 0).all())
    if not good or not bool(sample_weight.isfinite().all()):
        raise ValueError(
            f"sample_weight must hold a finite number of at least 0 for each of {samples} rows, "
            f"but got shape {tuple(sample_weight.shape)}."
        )


def _begin_from(part: Part, start: Sequence[models.Classifier]) -> None:
    """Give the models of a part the weights of others."""
    for place, number in enumerate(part.numbers):
        try:
            network, head = (start[number].get_submodule(n) for n in ("features", "head"))
            part.start_from(place, network.state_dict(), head.state_dict())
        except (IndexError, KeyError, RuntimeError) as error:
            raise ValueError(
                f"start must hold a model of the same shape for every configuration, but number "
                f"{number} is not: {error}."
            ) from None


def _normalised(
    samples: Tensor,
    blocks: Sequence[Block],
    config: TrainingConfig,
    normalize: data.Normalize | None = None,
) -> Tensor:
    """Return the samples as (folds, samples, inputs), z-scored by each fold's training rows."""
    dtype = torch.float64 if config.precision == "64" else torch.float32
    split = data.Split(samples, torch.zeros(len(samples), dtype=torch.int64))
    folds = {stream.fold: stream.train for block in blocks for stream in block.streams}
    found = []
    for fold in sorted(folds):
        own = normalize or statistics(split.select(folds[fold]))
        ready = Batches(split, own, len(samples), device=torch.device("cpu"), dtype=dtype)
        found.append(ready.prepared(samples).flatten(1))
    return torch.stack(found)


def _cut(
    blocks: Sequence[Block], shape: Sequence[int], x: Tensor, parts: int | None, memory: float
) -> list[Block]:
    """Cut blocks into parts of equal size that fit in memory, whatever the machine."""
    config = blocks[0].variants[0]
    network = build_network(config, shape)
    weights = sum(p.numel() for p in network.parameters())
    if parts is None:
        models = sum(len(block.streams) * len(block.variants) for block in blocks)
        parts = 1 if models * weights * config.batch < WORTH_TWO else 2
    values = 6 * weights
    values += 10 * config.batch * sum(p.shape[0] for p in network.parameters() if p.ndim > 1)
    most = max(1, min(MODELS, int(memory / (max(1, values) * x.element_size()))))
    least = -(-parts // len(blocks))
    cut = []
    for block in blocks:
        streams, variants = len(block.streams), len(block.variants)
        count = max(-(-streams * variants // most), least)
        count = -(-count // least) * least  # no thread idles in the last round
        by_stream = min(count, streams)
        by_variant = min(variants, -(-count // by_stream))
        cut += [
            Block(
                [block.variants[m] for m in some],
                [block.streams[s] for s in chosen],
                [[block.numbers[m][s] for s in chosen] for m in some],
            )
            for some in _chunks(variants, by_variant)
            for chosen in _chunks(streams, by_stream)
        ]
    return cut


def _chunks(size: int, count: int) -> list[range]:
    edges = [size * i // count for i in range(count + 1)]
    return [range(a, b) for a, b in itertools.pairwise(edges) if b > a]


def _check_folder(
    folder: RunFolder,
    configs: Sequence[TrainingConfig],
    folds: Sequence[Fold] | None,
    normalize: data.Normalize | None,
    parts: int,
) -> None:
    """Refuse a folder in which other models, or other parts of them, were begun."""
    digest = hashlib.sha256()
    for fold in folds or ():
        digest.update(fold.train.numpy().tobytes() + b"|" + fold.test.numpy().tobytes())
    content = {
        "configs": [config.as_dict() for config in configs],
        "folds": digest.hexdigest(),
        "parts": parts,
    }
    if normalize is not None:
        content["normalize"] = [list(normalize.mean), list(normalize.std)]
    path = folder.path / "ensemble.json"
    folder.clean()
    if not path.exists():
        folder.save_environment()
        write_json(path, content)
        return
    begun = read_json(path, ANEW)
    # options that were not there yet have their defaults
    begun["configs"] = [TrainingConfig.from_dict(e).as_dict() for e in begun.get("configs", ())]
    if begun != content:
        raise ValueError(
            "out must be a new folder, or one in which the same models were begun in as many "
            f"parts, but got {str(folder.path)!r}."
        )


class _Job:
    """Parts on threads, with checkpoints, progress, and one way to stop."""

    def __init__(
        self,
        folder: RunFolder | None,
        evaluate_every: int | None,
        total: int,
        progress: Progress | None,
        watch: Watch | None,
        look: Callable[[Part], None],
    ) -> None:
        self.folder, self.evaluate_every, self.total, self.done = folder, evaluate_every, total, 0
        self.progress, self.watch, self.look = progress, watch, look
        self.lock, self.stopped = threading.Lock(), threading.Event()

    def run(self, parts: Sequence[Part], threads: int) -> None:
        """Train all parts to their end."""
        keep_freed_memory()
        before = torch.get_num_threads()
        try:
            if threads == 1:
                torch.set_num_threads(1)
                for number, part in enumerate(parts):
                    self.train(number, part)
                return
            # each thread computes alone: two that share one product wait for each other
            with ThreadPoolExecutor(
                threads, initializer=torch.set_num_threads, initargs=(1,)
            ) as ex:
                futures = [ex.submit(self.train, n, part) for n, part in enumerate(parts)]
                try:
                    wait(futures, return_when=FIRST_EXCEPTION)
                finally:
                    self.stopped.set()
                for future in futures:
                    future.result()
        finally:
            torch.set_num_threads(before)

    def train(self, number: int, part: Part) -> None:
        """Train one part, or go on where it was."""
        folder = None if self.folder is None else RunFolder(self.folder.path / f"part-{number:04d}")
        if folder is not None:
            folder.path.mkdir(exist_ok=True)
            if folder.restore(part.load_state_dict, "it is not of these models"):
                self.count(part, part.epoch)
        saved = time.monotonic()
        with self.lock:
            self.look(part)
        while part.epoch < part.config.epochs:
            total = torch.zeros(len(part.numbers), dtype=torch.float64)
            for losses in part.train_epoch():
                if self.stopped.is_set():
                    return
                total += losses
            self.score(part, total / part.steps)
            with self.lock:
                self.look(part)
            last = part.epoch == part.config.epochs
            if folder is not None and (last or time.monotonic() - saved > SAVE_EVERY):
                folder.save(part.state_dict())
                saved = time.monotonic()
            self.count(part, 1)

    def score(self, part: Part, losses: Tensor) -> None:
        """Note the training loss of an epoch and, where it is due, the scores of the test rows."""
        found = {"train_loss": losses}
        last = part.epoch == part.config.epochs
        if last or (self.evaluate_every and part.epoch % self.evaluate_every == 0):
            found |= part.evaluate()
        for name, values in found.items():
            part.history.setdefault(name, []).append(values)
        if self.watch is not None:
            columns = zip(*(values.tolist() for values in found.values()), strict=True)
            scores = [dict(zip(found, column, strict=True)) for column in columns]
            with self.lock:
                self.watch(part.epoch, dict(zip(part.numbers, scores, strict=True)))

    def count(self, part: Part, epochs: int) -> None:
        """Report that so many epochs of a part are done."""
        with self.lock:
            self.done += epochs * len(part.numbers)
            if self.progress is not None:
                self.progress(self.done, self.total)
