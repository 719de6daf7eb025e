"""Rows held out of training, and what is steered by them: β, or AdaFocal's γ."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from softmargin.data.sampling import mixed_seed, stratified_indices
from softmargin.losses import AdaFocalLoss
from softmargin.schedules import CalibratedBeta
from softmargin.schedules.feedback import FEWEST
from softmargin.training.config import OptionError, TrainingConfig, is_calibrated, naming

HELD_OUT = 3  # what is drawn: beside the order, changes and crops of :mod:`.batches`
UPDATES = 5  # of β per epoch; AdaFocal has one
# At first every network is under-confident. Unless β stays at 1 or above by then, it falls so low
# on small data that training does not recover.
Controller = CalibratedBeta | AdaFocalLoss
DEFAULTS = {"gain": 3.0, "lowest": 1.0, "highest": 1e4}


def hold_out(y: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and those held out, a stratified share of all.

    Example:
        >>> import torch
        >>> from softmargin.training.held_out import hold_out
        >>> train, held = hold_out(torch.tensor([0, 1]).repeat(50), 0.1, seed=0)
        >>> len(train), len(held)
        (90, 10)
    """
    if not share:
        return torch.arange(len(y)), torch.arange(0)
    with naming("held_out", "fraction"):
        held = stratified_indices(y, share, mixed_seed(seed, HELD_OUT))
    train = torch.ones(len(y), dtype=torch.bool).index_fill_(0, held, value=False)
    return train.nonzero()[:, 0], held


def is_due(step: int, steps: int, updates: int = UPDATES) -> bool:
    """Whether there is an update after so many steps, in epochs of ``steps``."""
    return step % max(1, round(steps / updates)) == 0


def updates_of(controller: Controller) -> int:
    """Return how often per epoch a controller is updated: AdaFocal once, as published."""
    return 1 if isinstance(controller, AdaFocalLoss) else UPDATES


def make_controller(
    config: TrainingConfig, loss: nn.Module, held: int, rows: int
) -> Controller | None:
    """Return what is steered: β, where the configuration says ``beta=calibrated``, or AdaFocal.

    Args:
        config: the configuration.
        loss: whose β it is.
        held: how many rows are held out.
        rows: of how many.
    """
    specs = [spec for spec in config.schedules if is_calibrated(spec)]
    if not specs and isinstance(loss, AdaFocalLoss):
        _check_enough(config, held, rows, "the loss adafocal", max(FEWEST, loss.bins))
        return loss
    if not specs:
        return None
    others = [spec.partition("=")[0].removeprefix("loss.") for spec in config.schedules]
    if others.count("beta") > 1:
        raise OptionError(
            "schedules", "schedule must move beta once, but got it twice beside beta=calibrated."
        )
    (spec,) = specs
    numbers: Any = {**DEFAULTS, **dict(zip(DEFAULTS, _numbers(spec), strict=False))}
    try:
        with naming("schedules"):
            controller = CalibratedBeta(loss, **numbers)
    except OptionError as error:
        if not str(error).startswith("criterion"):
            raise OptionError("schedules", f"schedule {spec!r}: {error}") from None
        raise OptionError(
            "schedules",
            "schedule beta=calibrated must be used with a loss whose beta is one number, such as "
            f"gradient_decay, but got {config.loss!r}.",
        ) from None
    _check_enough(config, held, rows, "beta", FEWEST)
    return controller


def _check_enough(config: TrainingConfig, held: int, rows: int, what: str, fewest: int) -> None:
    if held < fewest:
        enough = math.ceil(100 * fewest / max(rows, 1)) / 100
        needed = f"; {enough:.2f} would be enough" if enough <= 0.5 else ""
        raise OptionError(
            "held_out",
            f"held_out must keep at least {fewest} of the {rows} training rows to steer {what} by, "
            f"but got {config.held_out:g}, which keeps {held}{needed}.",
        )


def _numbers(spec: str) -> list[float]:
    try:
        numbers = [float(text) for text in spec.partition("=")[2].split(":")[1:]]
        if len(numbers) not in (0, 1, 3):
            raise ValueError
    except ValueError:
        raise OptionError(
            "schedules",
            "schedule must look like beta=calibrated, beta=calibrated:GAIN or "
            f"beta=calibrated:GAIN:LOWEST:HIGHEST, but got {spec!r}.",
        ) from None
    return numbers
