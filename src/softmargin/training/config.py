"""What a training run is: one frozen set of options, from the command line or a YAML file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from softmargin.functional._checks import check_choice, check_count, check_number

OPTIMIZERS = ("sgd", "adam", "adamw")
PRECISIONS = ("32", "64", "bf16", "16")


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the numbers of a run. Two runs with equal ones give equal numbers.

    Attributes:
        data: name of a data set of :mod:`softmargin.data`.
        model: name of a network of :mod:`softmargin.models`.
        head: name of a head, such as ``"linear"`` or ``"arcface"``.
        loss: name of a loss, such as ``"gradient_decay"`` or ``"focal"``.
        model_options: arguments of the network.
        head_options: arguments of the head.
        loss_options: arguments of the loss.
        center: weight λ of the center loss that is added, with running centers; 0 adds none.
        schedules: settings that move, such as ``"beta=linear:0.1:1:30%"``.
        epochs: passes over the training set.
        batch: samples per step, over all processes.
        lr: learning rate at its base.
        lr_schedule: how it moves, see :func:`softmargin.training.rates.learning_rate`.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adamw"``.
        momentum: of SGD.
        weight_decay: of all parameters.
        clip: largest norm of the gradient, or None.
        augment: whether to crop with 4 pixels of padding and flip; of pictures in a folder, to cut
            a random part out, scale and flip it.
        fraction: share of the training set to keep, or None.
        pollute: share of training labels to move to another class.
        seed: of weights, order, augmentation, fraction and pollution.
        precision: ``"32"``, ``"64"``, ``"bf16"`` or ``"16"``, the last two with autocast.
        record: whether to record every training sample's confidence at every epoch.
    """

    data: str = "digits"
    model: str = "fcnn"
    head: str = "linear"
    loss: str = "gradient_decay"
    model_options: Mapping[str, Any] = field(default_factory=dict)
    head_options: Mapping[str, Any] = field(default_factory=dict)
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    center: float = 0.0
    schedules: tuple[str, ...] = ()
    epochs: int = 10
    batch: int = 100
    lr: float = 0.01
    lr_schedule: str = "constant"
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float | None = None
    augment: bool = False
    fraction: float | None = None
    pollute: float = 0.0
    seed: int = 0
    precision: str = "32"
    record: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        object.__setattr__(self, "schedules", tuple(self.schedules))
        check_count("epochs", self.epochs, 1)
        check_count("batch", self.batch, 1)
        check_count("seed", self.seed, 0)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("precision", str(self.precision), PRECISIONS)
        check_number("lr", self.lr)
        check_number("momentum", self.momentum, inclusive=True, below=1.0)
        check_number("weight_decay", self.weight_decay, inclusive=True)
        check_number("center", self.center, inclusive=True)
        check_number("pollute", self.pollute, inclusive=True, below=1.0)
        if self.clip is not None:
            check_number("clip", self.clip)
        if self.fraction is not None:
            check_number("fraction", self.fraction, below=math.nextafter(1.0, 2.0))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        values = dataclasses.asdict(self)
        values["schedules"] = list(self.schedules)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Return the configuration of plain values; an unknown name is refused."""
        names = [each.name for each in dataclasses.fields(cls)]
        for name in values:
            check_choice("every option", name, names)
        return cls(**values)

    def difference(self, other: TrainingConfig) -> list[str]:
        """Return the names of the options in which two configurations differ."""
        mine, theirs = self.as_dict(), other.as_dict()
        return [name for name in mine if mine[name] != theirs[name]]
