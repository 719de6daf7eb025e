"""What came of models trained together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softmargin import models
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble.engine import Part
from softmargin.training.ensemble.kinds import make_parts
from softmargin.training.ensemble.members import build_network


class EnsembleResult:
    """Scores, logits, weights and confidences of models trained together, by their number."""

    def __init__(
        self, configs: Sequence[TrainingConfig], parts: Sequence[Part], shape: Sequence[int]
    ) -> None:
        """Keep the parts; nothing is copied."""
        self.configs, self._parts, self._shape = list(configs), parts, shape
        self._places: dict[int, tuple[Part, int, int]] = {
            number: (part, m, s)
            for part in parts
            for m, row in enumerate(part.numbers)
            for s, number in enumerate(row)
        }
        self._tested: dict[int, Any] = {}

    def __len__(self) -> int:
        """Return the number of models."""
        return len(self.configs)

    @property
    def numbers(self) -> list[int]:
        """The models that are here: all, except while they are trained in parts."""
        return sorted(self._places)

    def history(self, name: str) -> Tensor:
        """Return a score after every epoch, (K, epochs): train_loss, accuracy, nll or ece."""
        rows = []
        for number in range(len(self)):
            part, m, s = self._places[number]
            rows.append(torch.stack([values[m, s] for values in part.history[name]]))
        return torch.stack(rows)

    def final(self, name: str) -> Tensor:
        """Return a score after the last epoch, (K,)."""
        places = [self._places[number] for number in range(len(self))]
        return torch.stack([part.history[name][-1][m, s] for part, m, s in places])

    def predictions(self, number: int) -> tuple[Tensor, Tensor]:
        """Return one model's logits and classes of its test rows."""
        part, m, s = self._places[number]
        if id(part) not in self._tested:
            self._tested[id(part)] = part.tested()
        logits, y, there = self._tested[id(part)]
        return logits[m, s, there[s]], y[s, there[s]]

    def recorder(self, number: int) -> tuple[Any, int]:
        """Return the confidence recorder that a model is in, and its place there."""
        part, m, s = self._places[number]
        if part.recorder is None:
            raise ValueError("record must be True for confidences to be there, but got False.")
        return part.recorder, m * part.s + s

    def classifier(self, number: int) -> models.Classifier:
        """Return one model, in evaluation mode."""
        part, m, s = self._places[number]
        config = self.configs[number]
        with torch.random.fork_rng(devices=[]):
            network = build_network(config, self._shape)
            head = make_parts(config, network.out_features, part.classes)[0]
        whole = models.Classifier(network, head).to(part.x.dtype).eval()
        body, own = part.state_of(m, s)
        network.load_state_dict(body)
        head.moving.update(own)  # what a schedule moved is no surprise
        head.load_state_dict(own, strict=False)  # settings that do not move are there already
        return whole
