"""What came of models trained together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from softmargin import models
from softmargin.diagnostics import ConfidenceRecorder
from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble.members import build_network
from softmargin.training.ensemble.part import Part
from softmargin.training.parts import make_head


class EnsembleResult:
    """Scores, logits, weights and confidences of models trained together, by their number."""

    def __init__(
        self, configs: Sequence[TrainingConfig], parts: Sequence[Part], shape: Sequence[int]
    ) -> None:
        """Keep the parts; nothing is copied."""
        self.configs, self._parts, self._shape = list(configs), parts, shape
        self._places: dict[int, tuple[Part, int]] = {
            number: (part, place) for part in parts for place, number in enumerate(part.numbers)
        }
        self._tested: dict[Part, tuple[Tensor, Tensor]] = {}

    def __len__(self) -> int:
        """Return the number of models."""
        return len(self.configs)

    @property
    def numbers(self) -> list[int]:
        """The models that are here: all, except while they are trained in parts."""
        return sorted(self._places)

    def history(self, name: str) -> Tensor:
        """Return a score after every epoch, (K, epochs): train_loss, accuracy, nll or ece.

        ``held_out_nll`` is that of rows held out, NaN for models without any.
        """
        by_part = {part: _by_epoch(part, name) for part in self._parts}
        places = [self._places[number] for number in range(len(self))]
        return torch.stack([by_part[part][place] for part, place in places])

    def final(self, name: str) -> Tensor:
        """Return a score after the last epoch, (K,)."""
        return self.history(name)[:, -1]

    def predictions(self, number: int) -> tuple[Tensor, Tensor]:
        """Return one model's logits and classes of its test rows."""
        part, place = self._places[number]
        if part not in self._tested:
            self._tested[part] = part.test()
        logits, y = self._tested[part]
        return logits[place], y[place]

    def recorder(self, number: int) -> tuple[ConfidenceRecorder, int]:
        """Return the confidence recorder that a model is in, and its place there."""
        part, place = self._places[number]
        if part.recorder is None:
            raise ValueError("record must be True for confidences to be there, but got False.")
        return part.recorder, place

    def classifier(self, number: int) -> models.Classifier:
        """Return one model, in evaluation mode."""
        part, place = self._places[number]
        config = self.configs[number]
        with torch.random.fork_rng(devices=[]):
            network = build_network(config, self._shape)
            head = make_head(config.head, network.out_features, part.classes, config.head_options)
        whole = models.Classifier(network, head).to(part.x.dtype).eval()
        body, own = part.state_of(place)
        network.load_state_dict(body)
        head.moving.update(own)  # what a schedule moved is no surprise
        head.load_state_dict(own, strict=False)  # settings that do not move are there already
        return whole


def _by_epoch(part: Part, name: str) -> Tensor:
    """Return a score of the models of a part after every epoch."""
    if name == "held_out_nll" and name not in part.history:
        return torch.full_like(torch.stack(part.history["nll"], 1), math.nan)
    return torch.stack(part.history[name], 1)
