"""Training of one model: exact, resumable, on one process or many.

Written on ``torch.distributed`` directly: what a run needs of it is one broadcast, one wrapper and
one all-reduce, and exact resumption asks for control over order and state that a framework's loop
would hide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from softmargin import data, models
from softmargin.calibration import CalibrationMetrics
from softmargin.center import CenterLoss
from softmargin.data.registry import entry_of
from softmargin.diagnostics import ConfidenceRecorder
from softmargin.functional.margins import at_least_float32
from softmargin.heads._distributed import gathered
from softmargin.training.batches import Batches, statistics
from softmargin.training.config import TrainingConfig
from softmargin.training.folder import RunFolder
from softmargin.training.parts import make_center, make_head, make_loss, make_schedules
from softmargin.training.rates import learning_rate

Progress = Callable[[int, int, float], None]
"""(epoch, step, loss), called after every step."""

# where convolutions run faster with their channels last (measured in docs/models.md)
CHANNELS_LAST = ("small_resnet", "resnet", "resnext", "mobilenet")
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
    with processes() as (rank, world):
        if rank > 0:
            return Trainer(config, folder, device, rank, world, dataset).run(None, progress)
        with folder.locked():
            writer = _writer(out) if tensorboard else None
            folder.check(config)
            if (result := folder.result()) is not None and world == 1:
                return result
            trainer = Trainer(config, folder, device, rank, world, dataset)
            trainer.writer = writer
            folder.freeze(config)  # only now: what could not be built must not be frozen
            return trainer.run(checkpoint_steps, progress)


@contextmanager
def processes() -> Iterator[tuple[int, int]]:
    """Join the other processes that a launcher such as ``torchrun`` has started, if any."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 or dist.is_initialized():
        yield (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        dist.destroy_process_group()


def find_device(name: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is an accelerator if there is one."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"device must be auto, cpu, or one that is here, but got {name!r}: {reason}."
        ) from None
    return device


class Objective(nn.Module):
    """The model with its loss: what a step computes, as one module that processes can share."""

    def __init__(
        self,
        model: models.Classifier,
        loss: nn.Module,
        center: CenterLoss | None,
        *,
        recorded: bool,
    ) -> None:
        """Keep the parts."""
        super().__init__()
        self.model, self.loss, self.center, self.recorded = model, loss, center, recorded

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the logits to record: those of inference, if any are recorded."""
        features = self.model.features(x)
        head = self.model.head
        logits = head(features, y)
        loss = self.loss(logits, y)
        added = head.added_loss(features, y)
        if added is not None:
            loss = loss + added
        if self.center is not None:
            loss = loss + self.center(features, y)
        if self.recorded and head.needs_target:
            with torch.no_grad():
                logits = head.inference_logits(features)
        return loss, logits.detach()


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
        if config.batch > len(dataset.train):
            raise ValueError(
                f"batch must be at most the {len(dataset.train)} training samples, "
                f"but got {config.batch}."
            )
        normalize = statistics(dataset.train)
        augment = data.Augment(flip="mnist" not in config.data) if config.augment else None
        dtype = torch.float64 if config.precision == "64" else torch.float32
        where: Any = {"device": self.device, "dtype": dtype, "rank": rank, "world": world}
        seed, batch = config.seed, config.batch
        self.batches = Batches(dataset.train, normalize, batch, seed=seed, augment=augment, **where)
        self.held_out = Batches(dataset.test, normalize, batch, **where)
        torch.manual_seed(seed)
        shape = dataset.train.batch(torch.arange(1))[0].shape[1:]
        network = models.build(config.model, shape, **config.model_options)
        head = make_head(
            config.head, network.out_features, dataset.num_classes, config.head_options
        )
        self.model = models.Classifier(network, head).to(self.device, dtype)
        if models.find(config.model).startswith(CHANNELS_LAST):
            models.to_channels_last(self.model)
        self.loss = make_loss(config.loss, config.loss_options).to(self.device)
        self.center = make_center(config.center, network.out_features, dataset.num_classes)
        if self.center is not None:
            self.center.to(self.device, dtype)
        self.objective = Objective(self.model, self.loss, self.center, recorded=config.record)
        self.total = config.epochs * len(self.batches)
        self.schedules = make_schedules(config.schedules, self.loss, head, self.total)
        self.rate = learning_rate(config.lr_schedule, config.lr, self.total)
        self.optimizer = _optimizer(config, [*self.model.parameters(), *self.loss.parameters()])
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "16")
        self.step = 0
        self.latest: dict[str, Any] = {}
        self.writer: Any = None
        self.recorder = ConfidenceRecorder(len(dataset.train)) if config.record else None

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
            self.latest = {"epoch": epoch + 1, "step": self.step, **self.evaluate()}
            if self.rank == 0:
                if self.recorder is not None:
                    self.folder.save_confidence(epoch + 1, self.recorder.confidence[-1])
                self.folder.append(self.latest)
                if self.writer is not None:
                    for name, value in self.latest.items():
                        self.writer.add_scalar(name, value, epoch + 1)
                    self.writer.flush()
                self.save(epochs=epoch + 1)
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
            if checkpoint_steps and self.step % checkpoint_steps == 0 and self.rank == 0:
                self.save(epochs=epoch)
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

    def save(self, epochs: int) -> None:
        """Write a checkpoint; ``epochs`` have their metrics written."""
        state = {
            "step": self.step,
            "epochs": epochs,
            "model": self.model.state_dict(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedules": self.schedules.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": torch.get_rng_state(),
        }
        for part in ("center", "recorder"):
            if (module := getattr(self, part)) is not None:
                state[part] = module.state_dict()
        self.folder.save(state)

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one."""
        state = self.folder.load(self.device)
        if state is None:
            if self.rank == 0:
                self.folder.keep_metrics(0)
            return
        self.step = state["step"]
        for part in ("model", "loss", "optimizer", "schedules", "scaler"):
            getattr(self, part).load_state_dict(state[part])
        for part in ("center", "recorder"):
            if part in state:
                getattr(self, part).load_state_dict(state[part])
        torch.set_rng_state(state["random"].cpu())
        if self.rank == 0:
            self.folder.keep_metrics(state["epochs"])

    def finish(self) -> dict[str, Any]:
        """Write the test set's logits and the final metrics."""
        result = self.latest or self.folder.metrics()[-1]
        if self.rank == 0:
            whole = Batches(
                self.dataset.test,
                statistics(self.dataset.train),
                self.config.batch,
                device=self.device,
                dtype=self.batches.dtype,
            )
            parts = list(self.logits(whole))
            logits, labels = (torch.cat(each) for each in zip(*parts, strict=True))
            self.folder.save_predictions(logits, labels)
            self.folder.write("result.json", json.dumps(result, indent=1))
        if self.world > 1:
            dist.barrier()  # nobody leaves while another still works
        return result


def _writer(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError(
            "tensorboard needs the package tensorboard, which is missing: pip install tensorboard."
        ) from None
    return SummaryWriter(str(out / "tensorboard"))


def _prepared_data(config: TrainingConfig, dataset: data.Dataset | None) -> data.Dataset:
    """Return the data with what the configuration takes away or spoils."""
    if dataset is None:
        entry_of(config.data, "data")  # an unknown name is the setting's, not that of load
    found = data.load(config.data, seed=config.seed) if dataset is None else dataset
    if config.fraction is not None:
        found = found.subset(config.fraction, config.seed)
    if config.pollute:
        y = data.pollute_labels(found.train.y, config.pollute, found.num_classes, config.seed)
        found = replace(found, train=found.train.with_labels(y))
    return found


def _optimizer(config: TrainingConfig, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    shared: Any = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=config.momentum, **shared)
    make = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return make(parameters, **shared)
