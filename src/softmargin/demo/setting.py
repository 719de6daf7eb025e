"""What the demo runs: its setting, and the configurations it compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softmargin.functional._checks import check_number

LARGEST_SEED = 2**63


@dataclass(frozen=True)
class DemoSetting:
    """Everything that decides the demo's numbers."""

    betas: Sequence[float] = (20.0, 5.0, 1.0, 0.1, 0.01)
    first_seed: int = 0
    num_seeds: int = 5
    train_images: int = 200
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
            raise ValueError(f"first_seed must be from 0 to 2^63, but got {self.first_seed}.")

    @property
    def seeds(self) -> range:
        """Return the seeds."""
        return range(self.first_seed, self.first_seed + self.num_seeds)

    @property
    def configurations(self) -> list[Configuration]:
        """Return one configuration per β, and the warm-up."""
        warm_up = Configuration(self.warm_up_to, self.warm_up_from, self.warm_up_share)
        return [*map(Configuration, self.betas), warm_up]


@dataclass(frozen=True)
class Configuration:
    """A β, or a way from one β to another (GD eq. 24)."""

    beta: float
    warm_up_from: float | None = None
    warm_up_share: float = 0.0

    @property
    def label(self) -> str:
        """Return its name in tables and legends."""
        if self.warm_up_from is None:
            return f"{self.beta:g}"
        return f"{self.warm_up_from:g}→{self.beta:g}"

    def beta_at(self, done: float) -> float:
        """Return β when a share ``done`` of all iterations is over."""
        if self.warm_up_from is None or done >= self.warm_up_share:
            return self.beta
        return self.warm_up_from + (self.beta - self.warm_up_from) * done / self.warm_up_share
