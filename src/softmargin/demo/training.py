"""Training for the demo, and what is measured on the way.

Per seed, every β starts from the same weights and sees the same images in the same order, so
that β is the only difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from softmargin.calibration import BinStatistics, CalibrationMetrics, accuracy, top_label
from softmargin.demo.setting import Configuration, DemoSetting
from softmargin.functional import gradient_decay_loss
from softmargin.losses import GradientDecayLoss
from softmargin.theory import gradient_magnitude

NUM_CLASSES, NUM_PIXELS = 10, 64
# gradients are measured before these epochs: densely at first, when confidence moves most
MEASURED_EPOCHS = (1, 2, 3, 5, 8, 12, 20, 40)


@dataclass(frozen=True)
class Gradients:
    """Measured gradient magnitudes |∂J/∂z_c|, and the confidence p at which each was measured."""

    p: Tensor
    magnitude: Tensor


@dataclass(frozen=True)
class Run:
    """One network: its curves by epoch, its test predictions and their metrics, its gradients."""

    seed: int
    train_loss: list[float]
    train_accuracy: list[float]
    test_accuracy: list[float]
    test: CalibrationMetrics
    confidence: Tensor
    gradients: Gradients

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
        return _test_metrics().merge(*(run.test for run in self.runs)).compute().bins

    def gradients(self) -> Gradients:
        """Return all seeds' measured gradients together, none for a warm-up."""
        return Gradients(
            torch.cat([run.gradients.p for run in self.runs]),
            torch.cat([run.gradients.magnitude for run in self.runs]),
        )

    def largest_deviation(self) -> float:
        """Return how far a measured gradient is from theory at most."""
        gradients = self.gradients()
        theory = gradient_magnitude(gradients.p.numpy(), self.configuration.beta)
        return float(np.abs(gradients.magnitude.numpy() - theory).max())


@dataclass(frozen=True)
class Digits:
    """Images with pixels from 0 to 1, and their labels, for training and for testing."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


def load_digits(seed: int, train_images: int) -> Digits:
    """Draw the training images from scikit-learn's 1797 digits; all others are for testing."""
    from sklearn import datasets

    images, labels = datasets.load_digits(return_X_y=True)
    # the key [seed, 0] belongs to the split, [seed, epoch] to the order of an epoch
    order = np.random.default_rng([seed, 0]).permutation(len(labels))
    x, y = torch.from_numpy(images[order] / 16).float(), torch.from_numpy(labels[order]).long()
    return Digits(x[:train_images], y[:train_images], x[train_images:], y[train_images:])


def run_demo(
    setting: DemoSetting | None = None, on_epoch: Callable[[], object] = lambda: None
) -> list[Outcome]:
    """Train every configuration with every seed.

    Args:
        setting: what to run; the default is that of the command.
        on_epoch: called after every epoch of every run, for a progress bar.
    """
    setting = setting or DemoSetting()
    outcomes = [Outcome(configuration, []) for configuration in setting.configurations]
    with _one_thread():
        for seed in setting.seeds:
            digits = load_digits(seed, setting.train_images)
            for outcome in outcomes:
                run = train(setting, outcome.configuration, digits, seed, on_epoch)
                outcome.runs.append(run)
    return outcomes


def train(
    setting: DemoSetting,
    configuration: Configuration,
    digits: Digits,
    seed: int,
    on_epoch: Callable[[], object] = lambda: None,
) -> Run:
    """Train one network; the seed alone decides its first weights and the order of the images."""
    network = _network(setting.hidden_units, seed)
    criterion = GradientDecayLoss(configuration.beta_at(0.0))
    optimiser = torch.optim.SGD(
        network.parameters(), lr=setting.learning_rate, momentum=setting.momentum
    )
    losses, train_accuracies, test_accuracies, measured = [], [], [], []
    for epoch in range(1, setting.epochs + 1):
        if epoch in MEASURED_EPOCHS and configuration.warm_up_from is None:
            measured.append(measure_gradients(network, configuration.beta, digits))
        order = np.random.default_rng([seed, epoch]).permutation(len(digits.train_y))
        batches = torch.split(torch.from_numpy(order), setting.batch_size)
        for place, batch in enumerate(batches):
            done = (epoch - 1 + place / len(batches)) / setting.epochs
            criterion.beta = configuration.beta_at(done)
            optimiser.zero_grad()
            criterion(network(digits.train_x[batch]), digits.train_y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            train_logits, test_logits = network(digits.train_x), network(digits.test_x)
        losses.append(gradient_decay_loss(train_logits, digits.train_y).item())
        train_accuracies.append(accuracy(train_logits, digits.train_y))
        test_accuracies.append(accuracy(test_logits, digits.test_y))
        on_epoch()
    test = _test_metrics()
    test.update(test_logits, digits.test_y)
    return Run(
        seed=seed,
        train_loss=losses,
        train_accuracy=train_accuracies,
        test_accuracy=test_accuracies,
        test=test,
        confidence=top_label(test_logits, digits.test_y, from_logits=True).confidence,
        gradients=Gradients(
            torch.cat([each.p for each in measured] or [torch.empty(0, dtype=torch.float64)]),
            torch.cat([each.magnitude for each in measured] or [torch.empty(0)]),
        ),
    )


def measure_gradients(network: nn.Module, beta: float, digits: Digits) -> Gradients:
    """Return the gradient that each training image sends to its target's logit, by autograd."""
    logits = network(digits.train_x).detach().requires_grad_()
    loss = GradientDecayLoss(beta, reduction="sum")(logits, digits.train_y)
    (gradient,) = torch.autograd.grad(loss, logits)
    target = digits.train_y.unsqueeze(1)
    p = logits.detach().double().softmax(-1).gather(1, target).squeeze(1)
    return Gradients(p, gradient.gather(1, target).squeeze(1).abs())


def _network(hidden_units: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(NUM_PIXELS, hidden_units), nn.ReLU(), nn.Linear(hidden_units, NUM_CLASSES)
        )


def _test_metrics() -> CalibrationMetrics:
    return CalibrationMetrics(NUM_CLASSES, from_logits=True, classwise=False)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: networks this small are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
