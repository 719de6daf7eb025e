"""Training of one model: exact, resumable, on one process or many.

Written on ``torch.distributed`` directly: what a run needs of it is one broadcast, one wrapper and
one all-reduce, and exact resumption asks for control over order and state that a framework's loop
would hide.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
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
from softmargin.schedules import CalibratedBeta
from softmargin.training.batches import Batches, statistics
from softmargin.training.config import DivergedError, TrainingConfig, naming
from softmargin.training.folder import HELD_OUT, PREDICTIONS, RunFolder
from softmargin.training.held_out import is_due, make_controller, updates_of
from softmargin.training.objective import Objective
from softmargin.training.parts import make_network, make_parts, make_schedules
from softmargin.training.prepared import check_data, prepared_data
from softmargin.training.processes import find_device, processes
from softmargin.training.rates import learning_rate

__all__ = ["Progress", "Trainer", "find_device", "train"]

Progress = Callable[[int, int, float], None]
"""(epoch, step, loss), called after every step."""

NOTED_OF_HELD_OUT = ("accuracy", "nll", "ece", "mean_confidence")
AUTOCAST = {"bf16": torch.bfloat16, "16": torch.float16}


def train(
    config: TrainingConfig,
    out: Path,
    *,
    device: str = "auto",
    checkpoint_steps: int | None = None,
    progress: Progress | None = None,
    tensorboard: bool = False,
    overwrite: bool = False,
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
        overwrite: whether to remove a run that is in the folder, and to start again.
        dataset: the data, if it is already there; by default ``config.data`` is loaded.

    Returns:
        The final metrics of the test set.
    """
    folder = RunFolder(out)
    make_writer = _writer() if tensorboard else None
    with processes(find_device(device)) as (rank, world):
        if rank > 0:
            trainer = Trainer(config, folder, device, rank, world, dataset)
            if overwrite:
                dist.barrier()  # until the first process has removed the old run
            return trainer.run(None, progress)
        with folder.locked():
            if not overwrite:
                folder.check(config)
                if (result := folder.result()) is not None and world == 1:
                    return result
            trainer = Trainer(config, folder, device, rank, world, dataset)
            folder.clean()
            if overwrite:
                folder.clear()
                if world > 1:
                    dist.barrier()
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
        dataset, kept = prepared_data(config, dataset)
        self.dataset = dataset
        shape = dataset.train.batch(torch.arange(1))[0].shape[1:]
        check_data(config, dataset, shape, world)
        normalize = statistics(dataset.train)
        augment = data.Augment(flip=dataset.mirrorable) if config.augment else None
        dtype = torch.float64 if config.precision == "64" else torch.float32
        where: Any = {"device": self.device, "dtype": dtype, "rank": rank, "world": world}
        seed, batch = config.seed, config.batch
        self.batches = Batches(dataset.train, normalize, batch, seed=seed, augment=augment, **where)
        self.tested = Batches(dataset.test, normalize, batch, **where)
        where |= {"rank": 0, "world": 1}  # what every process sees all of
        self.held_out = None if kept is None else Batches(kept, normalize, batch, **where)
        held = 0 if kept is None else len(kept)
        torch.manual_seed(seed)
        network = make_network(config.model, shape, config.model_options)
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
        self.controller = make_controller(config, self.loss, held, held + len(dataset.train))
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
        optional = {
            "center": self.center,
            "recorder": self.recorder,
            "controller": self.controller if self.controller is not self.loss else None,
        }
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
        losses: list[Tensor] = []
        for x, y, chosen in self.batches.of_epoch(epoch, start):
            value = self.one_step(objective, x, y, chosen)
            losses.append(value)
            if self.device.type == "cpu":  # elsewhere a look at every loss would cost time
                self.check_finite(losses)
            self.steer(objective)
            if progress is not None:
                progress(epoch, self.step, value)
            # not after the last step: the checkpoint of an epoch holds its evaluation, too
            due = checkpoint_steps is not None and self.step % checkpoint_steps == 0
            if due and self.step % len(self.batches) and self.rank == 0:
                self.folder.save(self.state_dict())
        self.check_finite(losses)
        if self.recorder is not None:
            self.recorder.end_epoch()

    def check_finite(self, losses: list[Tensor]) -> None:
        """Raise if a loss of the last steps is not finite, and forget those that are."""
        if losses and self.config.precision != "16":  # where the scaler skips such steps
            bad = ~torch.stack(losses).isfinite()
            if bad.any():
                raise DivergedError(self.step - len(losses) + 1 + int(bad.int().argmax()))
        losses.clear()

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

    def steer(self, objective: nn.Module) -> None:
        """Move β, or AdaFocal's γ, by what held-out rows say, where it is due."""
        if self.controller is None:
            return
        if not is_due(self.step, len(self.batches), updates_of(self.controller)):
            return
        assert self.held_out is not None
        self.controller.update(*self.all_logits(self.held_out))
        objective.train()

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
                logits = at_least_float32(self.model(x))
            if not logits.isfinite().all():
                raise DivergedError(self.step)
            yield logits, y

    def all_logits(self, batches: Batches) -> tuple[Tensor, Tensor]:
        """Return logits of inference and classes of this process's rows at once."""
        logits, y = zip(*self.logits(batches), strict=True)
        return torch.cat(logits), torch.cat(y)

    def evaluate(self) -> dict[str, Any]:
        """Return the metrics of the test set, over all processes, and of what is held out."""
        found = self.metrics_of(self.tested)
        if self.held_out is not None:
            held = self.metrics_of(self.held_out)
            found |= {f"held_out_{name}": held[name] for name in NOTED_OF_HELD_OUT}
        if isinstance(self.controller, CalibratedBeta):
            found["beta"] = float(self.controller.value)
        return found

    def metrics_of(self, batches: Batches) -> dict[str, Any]:
        """Return the metrics of some rows, over all processes."""
        metrics = CalibrationMetrics(self.dataset.num_classes, from_logits=True, device=self.device)
        for logits, y in self.logits(batches):
            metrics.update(logits, y)
        if batches.world > 1:
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
            self.tested.rank, self.tested.world = 0, 1  # all of it here
            if self.held_out is not None:
                self.folder.save_predictions(HELD_OUT, *self.all_logits(self.held_out))
            self.folder.save_predictions(PREDICTIONS, *self.all_logits(self.tested))
            self.folder.save_result(result)
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


def _optimizer(config: TrainingConfig, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    shared: Any = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=config.momentum, **shared)
    make = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return make(parameters, **shared)
