"""Candidates of a search: their training on all folds at once, and how they did."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from softmargin.calibration._held_out import fold_temperatures, one_temperature, row_scores
from softmargin.estimators.classifier import Floats, MarginClassifier, as_dataset, configuration
from softmargin.training import EnsembleResult, Fold, train_together


@dataclass(frozen=True)
class Candidate:
    """Settings, a number of epochs and a scaling, and how they did on the rows of every fold."""

    settings: Mapping[str, Any]
    epochs: int
    scaling: str
    by_fold: Mapping[str, Floats]
    mean: Mapping[str, float]

    def error(self, score: str) -> float:
        """Return the standard error of a score over folds."""
        folds = self.by_fold[score]
        return float(folds.std(ddof=1) / np.sqrt(len(folds))) if len(folds) > 1 else 0.0

    def without(self, fold: int, sizes: NDArray[np.int64], score: str) -> Candidate:
        """Return how it did by one score on all folds but one, given their numbers of rows."""
        kept = np.arange(len(sizes)) != fold
        values, rows = self.by_fold[score][kept], sizes[kept]
        mean = float(values @ rows / rows.sum())
        return replace(self, by_fold={score: values}, mean={score: mean})


class Runs:
    """The logits of held-out rows, by settings, number of epochs and seed."""

    def __init__(
        self,
        base: MarginClassifier,
        folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        target: NDArray[np.int64],
        seeds: Sequence[int],
    ) -> None:
        self.base, self.seeds, self.target = base, seeds, target
        self.folds = [Fold(*(torch.as_tensor(rows) for rows in fold)) for fold in folds]
        tested = [test for _, test in folds]
        self.y = torch.from_numpy(target[np.concatenate(tested)])
        self.fold_of = torch.cat([torch.full((len(t),), i) for i, t in enumerate(tested)])
        self.settings: list[Mapping[str, Any]] = []
        self.looks: list[list[int]] = []  # numbers of epochs, by settings
        self.logits: dict[tuple[int, int], torch.Tensor] = {}  # (seeds, rows, classes)
        self.temperatures: dict[int, torch.Tensor] = {}  # (looks, folds), by settings
        self.sizes = np.array([len(test) for test in tested])
        self.trainer: Callable[..., EnsembleResult] = train_together

    def train(self, x: NDArray[Any], group: Sequence[Mapping[str, Any]], looks: int) -> None:
        """Train settings that can be trained together, on all folds and seeds."""
        first = len(self.settings)
        smallest = min(len(fold.train) for fold in self.folds)
        estimators = [clone(self.base).set_params(**settings) for settings in group]
        data = as_dataset(x, self.target, int(self.target.max()) + 1)
        pairs = itertools.product(estimators, self.seeds)
        by_pair = [configuration(own, smallest, seed, x.dtype) for own, seed in pairs]
        configs = [config for config in by_pair for _ in self.folds]  # one for all folds
        epochs = configs[0].epochs
        steps = [round(epochs * (i + 1) / looks) for i in range(looks)]
        wanted = sorted({max(1, step) for step in steps})
        kept: dict[tuple[int, int], torch.Tensor] = {}

        def look(taken: int, result: EnsembleResult) -> None:
            if taken in wanted:
                for number in result.numbers:
                    kept[number, taken] = result.predictions(number)[0].double()

        self.trainer(
            configs,
            folds=self.folds * len(by_pair),
            dataset=data,
            evaluate_every=None,
            look=look,
        )
        per = len(self.seeds) * len(self.folds)
        for place, settings in enumerate(group):
            self.settings.append(settings)
            self.looks.append(wanted)
            for number, taken in enumerate(wanted):
                own = [kept[place * per + i, taken] for i in range(per)]
                by_seed = [
                    torch.cat(own[i : i + len(self.folds)]) for i in range(0, per, len(self.folds))
                ]
                self.logits[first + place, number] = torch.stack(by_seed)

    def scaled(self, place: int, look: int, scaling: str) -> torch.Tensor:
        """Return held-out logits, each fold's by the temperature of the others."""
        logits = self.logits[place, look]
        if scaling == "temperature":
            logits = logits / self._temperatures(place)[look, self.fold_of, None]
        return logits

    def _temperatures(self, place: int) -> torch.Tensor:
        """Return temperatures (looks, folds) of settings, each fitted on the other folds."""
        if place not in self.temperatures:
            logits = torch.stack([self.logits[place, i] for i in range(len(self.looks[place]))])
            self.temperatures[place] = fold_temperatures(logits, self.y, self.fold_of)
        return self.temperatures[place]

    def judged(self, place: int, look: int, scaling: str) -> Candidate:
        """Return how settings did after a number of epochs, with a scaling."""
        logits = self.scaled(place, look, scaling)
        rows = {name: each.mean(0) for name, each in row_scores(logits, self.y).items()}
        by_fold = {
            name: np.array([float(own.mean()) for own in torch.split(value, self.sizes.tolist())])
            for name, value in rows.items()
        }
        mean = {name: float(value.mean()) for name, value in rows.items()}
        return Candidate(self.settings[place], self.looks[place][look], scaling, by_fold, mean)

    def temperature(self, place: int, look: int) -> float:
        """Return the temperature fitted on the held-out rows of all folds."""
        return one_temperature(self.logits[place, look], self.y)

    def place_of(self, candidate: Candidate) -> int:
        """Return where the settings of a candidate are."""
        return next(i for i, each in enumerate(self.settings) if each is candidate.settings)

    def look_of(self, candidate: Candidate) -> int:
        """Return which look a candidate's number of epochs is."""
        return self.looks[self.place_of(candidate)].index(candidate.epochs)
