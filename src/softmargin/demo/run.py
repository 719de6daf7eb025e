"""What the demo runs, and what is measured on the way.

Per seed, every β starts from the same weights and sees the same images in the same order, so
that β is the only difference.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from softmargin import data
from softmargin.calibration import (
    BinStatistics,
    CalibrationMetrics,
    TemperatureScaling,
    accuracy,
)
from softmargin.functional import gradient_decay_loss
from softmargin.functional._checks import check_number
from softmargin.theory import gradient_magnitude
from softmargin.training import EnsembleResult, Fold, TrainingConfig, train_together
from softmargin.training.config import LARGEST_SEED
from softmargin.training.held_out import hold_out

NUM_CLASSES, NUM_PIXELS, NUM_IMAGES = 10, 64, 1797
SEEDS_TOGETHER = 20
# gradients are measured before these epochs: densely at first, when confidence moves most
STEERED = "beta=calibrated"
MEASURED_EPOCHS = (1, 2, 3, 5, 8, 12, 20, 40)


@dataclass(frozen=True)
class DemoSetting:
    """Everything that decides the demo's numbers."""

    betas: Sequence[float] = (20.0, 5.0, 1.0, 0.1, 0.01)
    first_seed: int = 0
    num_seeds: int = 5
    train_images: int = 300
    held_out_images: int = 100
    hidden_units: int = 128
    epochs: int = 60
    batch_size: int = 20
    learning_rate: float = 0.1
    momentum: float = 0.9
    warm_up_from: float = 0.01
    warm_up_to: float = 1.0
    warm_up_share: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what cannot be run, in one sentence."""
        if not self.betas:
            raise ValueError("betas must hold at least one number above 0, but it is empty.")
        for beta in self.betas:
            check_number("betas", beta)
            if list(self.betas).count(beta) > 1:
                raise ValueError(f"betas must name each number once, but got {beta:g} twice.")
        if self.num_seeds < 1:
            raise ValueError(f"num_seeds must be at least 1, but got {self.num_seeds}.")
        if not 0 <= self.first_seed <= LARGEST_SEED - self.num_seeds:
            raise ValueError(f"first_seed must be from 0 to 2^62, but got {self.first_seed}.")

    @property
    def seeds(self) -> range:
        """Return the seeds."""
        return range(self.first_seed, self.first_seed + self.num_seeds)

    @property
    def configurations(self) -> list[Configuration]:
        """Return one configuration per β, and what stands beside them.

        That is the warm-up, and the two that hold images out: β = 1 with a temperature, and the β
        that calibrates itself.
        """
        share = self.held_out_images / self.train_images
        return [
            *map(Configuration, self.betas),
            self.warm_up,
            Configuration(1.0, held_out=share),
            Configuration(1.0, held_out=share, steered=True),
        ]

    @property
    def warm_up(self) -> Configuration:
        """Return the configuration whose β rises."""
        return Configuration(self.warm_up_to, self.warm_up_from, self.warm_up_share)


@dataclass(frozen=True)
class Configuration:
    """A β, fixed or moving.

    It may rise from another one over a share of the iterations (GD eq. 24). With a share of the
    images held out, the network is calibrated by them: by a temperature after training or, where
    it is steered, by β during training.
    """

    beta: float
    warm_up_from: float | None = None
    warm_up_share: float = 0.0
    held_out: float = 0.0
    steered: bool = False

    @property
    def fixed(self) -> bool:
        """Whether nothing but β is chosen, and β does not move."""
        return self.warm_up_from is None and not self.held_out

    @property
    def label(self) -> str:
        """Return its name in tables and legends."""
        if self.steered:
            return "calibrated"
        if self.held_out:
            return f"{self.beta:g} + T"
        start = "" if self.warm_up_from is None else f"{self.warm_up_from:g}→"
        return f"{start}{self.beta:g}"

    def training(self, setting: DemoSetting, seed: int) -> TrainingConfig:
        """Return how its network is trained from a seed."""
        schedules: tuple[str, ...] = (STEERED,) if self.steered else ()
        if self.warm_up_from is not None:
            share = 100 * self.warm_up_share
            schedules = (f"beta=linear:{self.warm_up_from}:{self.beta}:{share}%",)
        return TrainingConfig(
            data="digits",
            model="fcnn",
            model_options={"widths": [setting.hidden_units]},
            loss_options={"beta": self.beta},
            schedules=schedules,
            held_out=self.held_out,
            epochs=setting.epochs,
            batch=setting.batch_size,
            lr=setting.learning_rate,
            momentum=setting.momentum,
            seed=seed,
        )


def no_predictions() -> CalibrationMetrics:
    """Return metrics of test predictions, of none so far."""
    return CalibrationMetrics(NUM_CLASSES, from_logits=True, classwise=False)


@dataclass
class Run:
    """One network: its curves by epoch, its test predictions and their metrics, its gradients.

    ``gradients`` are pairs: the confidence p at which each was measured, and |∂J/∂z_c|.
    """

    seed: int
    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    gradients: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    test: CalibrationMetrics = field(default_factory=no_predictions)

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """Return the numbers of the table, as shares (and nats for the NLL)."""
        test = self.test.compute()
        return {
            "accuracy": test.accuracy,
            "ece": test.ece,
            "nll": test.nll,
            "confidence": test.mean_confidence,
            "gap": test.overconfidence,
            "train_accuracy": self.train_accuracy[-1],
        }


@dataclass(frozen=True)
class Outcome:
    """One configuration over all seeds."""

    configuration: Configuration
    runs: list[Run]

    def values(self, metric: str) -> list[float]:
        """Return one metric for every seed."""
        return [run.metrics[metric] for run in self.runs]

    def pooled_bins(self) -> BinStatistics:
        """Return the bins of all seeds' test predictions together."""
        return no_predictions().merge(*(run.test for run in self.runs)).compute().bins

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return all seeds' measured p and gradient magnitudes; only a fixed β has any."""
        p, magnitude = zip(*(pair for run in self.runs for pair in run.gradients), strict=True)
        return torch.cat(p), torch.cat(magnitude)

    def largest_deviation(self) -> float:
        """Return how far a measured gradient is from theory at most."""
        p, magnitude = (each.numpy() for each in self.gradients())
        theory = gradient_magnitude(p, self.configuration.beta)
        return float(np.abs(magnitude - theory).max())


def load_digits() -> data.Dataset:
    """Return scikit-learn's 1797 digits in its order, with pixels from 0 to 16."""
    from sklearn import datasets

    images, labels = datasets.load_digits(return_X_y=True)
    whole = data.Split(torch.from_numpy(images).float(), torch.from_numpy(labels).long())
    none, names = whole.select(torch.arange(0)), tuple("0123456789")
    return data.Dataset("digits", whole, none, names, data.Provenance("scikit-learn", "BSD"))


def draw_images(seed: int) -> Tensor:
    """Return the images in the order of a seed: those to train on come first."""
    return torch.from_numpy(np.random.default_rng([seed, 0]).permutation(NUM_IMAGES))


def run_demo(
    setting: DemoSetting | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Outcome]:
    """Train every configuration with every seed, those of some seeds together.

    Args:
        setting: what to run; the default is that of the command.
        progress: called with the epochs done, over all networks, and their number.
    """
    setting = setting or DemoSetting()
    outcomes = [Outcome(configuration, []) for configuration in setting.configurations]
    per_seed, digits = len(outcomes) * setting.epochs, load_digits()
    for start in range(0, setting.num_seeds, SEEDS_TOGETHER):

        def tell(done: int, _: int, before: int = start * per_seed) -> None:
            if progress is not None:
                progress(before + done, setting.num_seeds * per_seed)

        members = []
        for outcome in outcomes:
            outcome.runs.extend(map(Run, setting.seeds[start : start + SEEDS_TOGETHER]))
            members += [(outcome.configuration, run) for run in outcome.runs[start:]]
        _train(setting, members, digits, tell)
    return outcomes


def _train(
    setting: DemoSetting,
    members: Sequence[tuple[Configuration, Run]],
    digits: data.Dataset,
    progress: Callable[[int, int], None],
) -> None:
    """Train the networks of some runs, and note what is measured on the way."""
    size = setting.train_images
    drawn = {run.seed: draw_images(run.seed) for _, run in members}
    folds = {seed: Fold(rows[:size], rows) for seed, rows in drawn.items()}

    def look(epoch: int, networks: EnsembleResult) -> None:
        for number in networks.numbers:
            configuration, run = members[number]
            logits, y = networks.predictions(number)
            rows, held = hold_out(y[:size], configuration.held_out, run.seed)
            own = logits[rows], y[rows]
            measured = epoch + 1 in MEASURED_EPOCHS and epoch < setting.epochs
            if measured and configuration.fixed:
                run.gradients.append(gradients_of(*own, configuration.beta))
            if epoch:
                run.train_loss.append(gradient_decay_loss(*own).item())
                run.train_accuracy.append(accuracy(*own))
                run.test_accuracy.append(accuracy(logits[size:], y[size:]))
            if epoch == setting.epochs:
                scaled = logits
                if configuration.held_out and not configuration.steered:
                    scaled = TemperatureScaling().fit(logits[held], y[held])(logits)
                run.test.update(scaled[size:], y[size:])

    with warnings.catch_warnings():  # at first all networks are under-confident, whatever β
        warnings.filterwarnings("ignore", "held-out predictions stay")
        _train_all(setting, members, digits, progress, folds, look)


def _train_all(
    setting: DemoSetting,
    members: Sequence[tuple[Configuration, Run]],
    digits: data.Dataset,
    progress: Callable[[int, int], None],
    folds: dict[int, Fold],
    look: Callable[[int, EnsembleResult], None],
) -> None:
    train_together(
        [configuration.training(setting, run.seed) for configuration, run in members],
        folds=[folds[run.seed] for _, run in members],
        dataset=digits,
        evaluate_every=None,
        progress=progress,
        look=look,
        normalize=data.Normalize((0.0,) * NUM_PIXELS, (16.0,) * NUM_PIXELS),
    )


def gradients_of(logits: Tensor, y: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Return each sample's p, and the gradient that it sends to its target's logit, by autograd."""
    z = logits.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(gradient_decay_loss(z, y, beta, reduction="sum"), z)
    target = y.unsqueeze(1)
    p = logits.double().softmax(-1).gather(1, target).squeeze(1)
    return p, gradient.gather(1, target).squeeze(1).abs()
