"""Training of one model: exact, resumable, on one process or many.

Written on ``torch.distributed`` directly: what a run needs of it is one broadcast, one wrapper and
one all-reduce, and exact resumption asks for control over order and state that a framework's loop
would hide.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from softmargin import data, models
from softmargin.calibration import CalibrationMetrics
from softmargin.diagnostics import ConfidenceRecorder
from softmargin.functional.margins import at_least_float32
from softmargin.heads._distributed import gathered
from softmargin.training.batches import Batches, statistics
from softmargin.training.config import OptionError, TrainingConfig, naming
from softmargin.training.folder import RunFolder
from softmargin.training.objective import Objective
from softmargin.training.parts import make_parts, make_schedules
from softmargin.training.processes import find_device, processes
from softmargin.training.rates import learning_rate

__all__ = ["Progress", "Trainer", "find_device", "train"]

Progress = Callable[[int, int, float], None]
"""(epoch, step, loss), called after every step."""

AUTOCAST = {"bf16": torch.bfloat16, "16": torch.float16}


def train(
    config: TrainingConfig,
    out: Path,
    *,
    device: str = "auto",
    checkpoint_steps: int | None = None,
    progress: Progress | None = None,
    tensorboard: bool = False,
    dataset: data.Dataset | None = None,
) -> dict[str, Any]:
    """Train a model, or go on where it was, or return what it gave if it is finished.

    Args:
        config: what to train.
        out: the run's folder; see :mod:`softmargin.training.folder`.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` and so on.
        checkpoint_steps: write a checkpoint every so many steps too, not only after epochs.
        progress: called after every step.
        tensorboard: whether to write the metrics for TensorBoard, too.
        dataset: the data, if it is already there; by default ``config.data`` is loaded.

    Returns:
        The final metrics of the test set.
    """
    folder = RunFolder(out)
    make_writer = _writer() if tensorboard else None
    with processes(find_device(device)) as (rank, world):
        if rank > 0:
            return Trainer(config, folder, device, rank, world, dataset).run(None, progress)
        with folder.locked():
            folder.check(config)
            if (result := folder.result()) is not None and world == 1:
                return result
            trainer = Trainer(config, folder, device, rank, world, dataset)
            folder.clean()
            folder.freeze(config)  # only now: what could not be built must not be frozen
            if make_writer is not None:
                trainer.writer = make_writer(str(out / "tensorboard"))
            return trainer.run(checkpoint_steps, progress)


class Trainer:
    """One run in one process."""

    def __init__(
        self,
        config: TrainingConfig,
        folder: RunFolder,
        device: str,
        rank: int,
        world: int,
        dataset: data.Dataset | None,
    ) -> None:
        """Build everything from the seed; nothing is trained yet."""
        self.config, self.folder, self.rank, self.world = config, folder, rank, world
        self.device = find_device(device)
        self.dataset = dataset = _prepared_data(config, dataset)
        shape = dataset.train.batch(torch.arange(1))[0].shape[1:]
        _check_data(config, dataset, shape, world)
        normalize = statistics(dataset.train)
        augment = data.Augment(flip=dataset.mirrorable) if config.augment else None
        dtype = torch.float64 if config.precision == "64" else torch.float32
        where: Any = {"device": self.device, "dtype": dtype, "rank": rank, "world": world}
        seed, batch = config.seed, config.batch
        self.batches = Batches(dataset.train, normalize, batch, seed=seed, augment=augment, **where)
        self.held_out = Batches(dataset.test, normalize, batch, **where)
        torch.manual_seed(seed)
        with naming("model", "name"):
            network = models.build(config.model, shape, **config.model_options)
        head, loss, center = make_parts(config, network.out_features, dataset.num_classes)
        self.model = models.Classifier(network, head).to(self.device, dtype)
        if network.channels_last:
            models.to_channels_last(self.model)
        if world > 1:
            models.synchronize_batch_norm(self.model, self.device)
        self.loss = loss.to(self.device)
        self.center = center if center is None else center.to(self.device, dtype)
        self.objective = Objective(self.model, self.loss, self.center, recorded=config.record)
        self.total = config.epochs * len(self.batches)
        self.schedules = make_schedules(config.schedules, self.loss, head, self.total)
        with naming("lr_schedule"):
            self.rate = learning_rate(config.lr_schedule, config.lr, self.total)
        self.optimizer = _optimizer(config, [*self.model.parameters(), *self.loss.parameters()])
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "16")
        self.step = 0
        self.history: list[dict[str, Any]] = []  # the metrics of every epoch
        self.threads = [torch.get_num_threads()]  # that steps were taken with
        self.writer: Any = None
        self.recorder = ConfidenceRecorder(len(dataset.train)) if config.record else None
        self.parts: dict[str, Any] = {  # what a checkpoint holds the state of
            "model": self.model,
            "loss": self.loss,
            "optimizer": self.optimizer,
            "schedules": self.schedules,
            "scaler": self.scaler,
        }
        optional = {"center": self.center, "recorder": self.recorder}
        self.parts |= {name: part for name, part in optional.items() if part is not None}

    def run(self, checkpoint_steps: int | None, progress: Progress | None) -> dict[str, Any]:
        """Train to the end and return the final metrics."""
        self.restore()
        objective: nn.Module = self.objective
        if self.world > 1:
            dist.barrier()  # nobody writes before everybody has read
            objective = DistributedDataParallel(self.objective)
        steps = len(self.batches)
        while self.step < self.total:
            epoch = self.step // steps
            self.one_epoch(objective, epoch, checkpoint_steps, progress)
            self.history.append({"epoch": epoch + 1, "step": self.step, **self.evaluate()})
            if self.rank == 0:
                self.show(self.history[-1])
                self.folder.save(self.state_dict())
                self.publish(epoch + 1)
        return self.finish()

    def one_epoch(
        self,
        objective: nn.Module,
        epoch: int,
        checkpoint_steps: int | None,
        progress: Progress | None,
    ) -> None:
        """Take the steps of an epoch that have not been taken yet."""
        objective.train()
        start = self.step % len(self.batches)
        for x, y, chosen in self.batches.of_epoch(epoch, start):
            value = self.one_step(objective, x, y, chosen)
            if progress is not None:
                progress(epoch, self.step, value)
            # not after the last step: the checkpoint of an epoch holds its evaluation, too
            due = checkpoint_steps is not None and self.step % checkpoint_steps == 0
            if due and self.step % len(self.batches) and self.rank == 0:
                self.folder.save(self.state_dict())
        if self.recorder is not None:
            self.recorder.end_epoch()

    def one_step(self, objective: nn.Module, x: Tensor, y: Tensor, chosen: Tensor) -> Any:
        """Take one step; return its loss, still on the device."""
        config = self.config
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.step)
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss, logits = objective(x, y)
        if self.recorder is not None:
            own = chosen[self.rank :: self.world].to(self.device)
            every = gathered(logits.reshape(-1)).view(-1, logits.shape[-1])
            self.recorder.update(gathered(own), every, gathered(y))
        # processes average their gradients: weigh each by its share of the batch
        share = len(y) * self.world / len(chosen)
        self.scaler.scale(loss if share == 1 else loss * share).backward()
        if config.clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        self.schedules.step()
        return loss.detach()

    def autocast(self) -> Any:
        """Return the context that the forward pass runs in."""
        dtype = AUTOCAST.get(self.config.precision)
        return torch.autocast(self.device.type, dtype or torch.bfloat16, enabled=dtype is not None)

    @torch.no_grad()
    def logits(self, batches: Batches) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield logits of inference and classes, in the order of the split."""
        self.model.eval()
        for x, y in batches.in_order():
            with self.autocast():
                yield at_least_float32(self.model(x)), y

    def evaluate(self) -> dict[str, Any]:
        """Return the metrics of the test set, over all processes."""
        metrics = CalibrationMetrics(self.dataset.num_classes, from_logits=True, device=self.device)
        for logits, y in self.logits(self.held_out):
            metrics.update(logits, y)
        if self.world > 1:
            metrics = metrics.all_reduce()
        return {each.name: each.value for each in metrics.compute().estimates()}

    def show(self, metrics: dict[str, Any]) -> None:
        """Hand the metrics of an epoch to TensorBoard."""
        if self.writer is not None:
            for name, value in metrics.items():
                self.writer.add_scalar(name, value, metrics["epoch"])
            self.writer.flush()

    def publish(self, *epochs: int) -> None:
        """Write what follows from the checkpoint: the metrics, and confidences of some epochs."""
        self.folder.save_metrics(self.history)
        if self.recorder is not None and epochs:
            recorded = self.recorder.confidence
            for epoch in epochs:
                self.folder.save_confidence(epoch, recorded[epoch - 1])

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on after a step."""
        return {
            "config": self.config.as_dict(),
            "step": self.step,
            "metrics": self.history,
            "threads": self.threads,
            "random": torch.get_rng_state(),
            **{name: part.state_dict() for name, part in self.parts.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.step, self.history = int(state["step"]), list(state["metrics"])
        self.threads = sorted({*state["threads"], *self.threads})
        torch.set_rng_state(state["random"].cpu())

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one."""
        why = "it is not of this model and data"
        state = self.folder.restore(self.load_state_dict, why, self.device)
        if state is None:
            if self.rank == 0:
                (self.folder.path / "metrics.jsonl").unlink(missing_ok=True)
            return
        if self.rank == 0:
            if self.threads != state["threads"] and self.device.type == "cpu":
                begun = state["threads"][0]
                warnings.warn(
                    f"this run was begun with {begun} thread{'s' if begun > 1 else ''} and goes "
                    f"on with {torch.get_num_threads()}: its numbers will differ in their last "
                    "digits from those of a run with one number of threads.",
                    stacklevel=2,
                )
            self.publish(*range(1, len(self.history) + 1))

    def finish(self) -> dict[str, Any]:
        """Write the test set's logits and the final metrics."""
        result = self.history[-1]
        if self.rank == 0:
            self.held_out.rank, self.held_out.world = 0, 1  # all of it here
            found = zip(*self.logits(self.held_out), strict=True)
            self.folder.save_result(result, *(torch.cat(parts) for parts in found))
        if self.world > 1:
            dist.barrier()  # nobody leaves while another still works
        return result


def _writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError(
            "tensorboard needs the package tensorboard, which is missing: pip install tensorboard."
        ) from None
    return SummaryWriter


def _check_data(
    config: TrainingConfig, dataset: data.Dataset, shape: torch.Size, world: int
) -> None:
    """Refuse what does not go with the data."""
    if config.augment and len(shape) != 3:
        raise OptionError(
            "augment", f"augment must be left out for {dataset.name}, which holds no pictures."
        )
    if not world <= config.batch <= len(dataset.train):
        least = f"at least the {world} processes and " if config.batch < world else ""
        raise OptionError(
            "batch",
            f"batch must be {least}at most the {len(dataset.train)} training samples, "
            f"but got {config.batch}.",
        )


def _prepared_data(config: TrainingConfig, dataset: data.Dataset | None) -> data.Dataset:
    """Return the data with what the configuration takes away or spoils."""
    if dataset is None:
        with naming("data", "name"):
            dataset = data.load(config.data, seed=config.seed)
    if config.fraction is not None:
        dataset = dataset.subset(config.fraction, config.seed)
    if config.pollute:
        y = data.label_noise(dataset.train.y, config.pollute, dataset.num_classes, config.seed)
        dataset = replace(dataset, train=dataset.train.with_labels(y))
    return dataset


def _optimizer(config: TrainingConfig, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    shared: Any = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=config.momentum, **shared)
    make = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return make(parameters, **shared)
