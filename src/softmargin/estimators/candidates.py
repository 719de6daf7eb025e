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
        self.logits: list[torch.Tensor] = []  # (looks, seeds, rows, classes), by settings
        self.temperatures: dict[int, torch.Tensor] = {}  # (looks, folds), by settings
        self.sizes = np.array([len(test) for test in tested])
        self.trainer: Callable[..., EnsembleResult] = train_together

    def train(self, x: NDArray[Any], group: Sequence[Mapping[str, Any]], looks: int) -> None:
        """Train settings that can be trained together, on all folds and seeds."""
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
            numbers = range(place * per, (place + 1) * per)
            rows = [torch.cat([kept[number, taken] for number in numbers]) for taken in wanted]
            shape = len(wanted), len(self.seeds), len(self.y), -1
            self.logits.append(torch.stack(rows).view(shape))

    def scaled(self, place: int, scaling: str) -> torch.Tensor:
        """Return held-out logits of every look, each fold's by the temperature of the others."""
        logits = self.logits[place]
        if scaling == "temperature":
            logits = logits / self._temperatures(place)[:, None, self.fold_of, None]
        return logits

    def _temperatures(self, place: int) -> torch.Tensor:
        """Return temperatures (looks, folds) of settings, each fitted on the other folds."""
        if place not in self.temperatures:
            found = fold_temperatures(self.logits[place], self.y, self.fold_of)
            self.temperatures[place] = found
        return self.temperatures[place]

    def judged(self, place: int, scalings: Sequence[str]) -> list[Candidate]:
        """Return how settings did after every number of epochs, with every scaling."""
        found, sizes = {}, self.sizes.tolist()
        for scaling in scalings:
            scores = row_scores(self.scaled(place, scaling), self.y)
            rows = {name: each.mean(1) for name, each in scores.items()}
            folds = {
                name: torch.stack([own.mean(1) for own in torch.split(each, sizes, 1)], 1).numpy()
                for name, each in rows.items()
            }
            means = {name: each.mean(1).tolist() for name, each in rows.items()}
            for look, epochs in enumerate(self.looks[place]):
                by_fold = {name: each[look] for name, each in folds.items()}
                mean = {name: each[look] for name, each in means.items()}
                own = Candidate(self.settings[place], epochs, scaling, by_fold, mean)
                found[look, scaling] = own
        return [found[key] for key in itertools.product(range(len(self.looks[place])), scalings)]

    def temperature(self, place: int, look: int) -> float:
        """Return the temperature fitted on the held-out rows of all folds."""
        return one_temperature(self.logits[place][look], self.y)

    def place_of(self, candidate: Candidate) -> int:
        """Return where the settings of a candidate are."""
        return next(i for i, each in enumerate(self.settings) if each is candidate.settings)

    def look_of(self, candidate: Candidate) -> int:
        """Return which look a candidate's number of epochs is."""
        return self.looks[self.place_of(candidate)].index(candidate.epochs)
