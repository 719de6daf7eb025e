"""Training whose looks at held-out rows survive the end of the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from softmargin.training import EnsembleResult, TrainingConfig, train_together
from softmargin.training.arrays import read_arrays, write_arrays

REMEDY = "delete its folder and run the same command again"


class Resuming:
    """Trains as :func:`train_together` does, and goes on where it was stopped.

    Logits that a look has seen are written before the checkpoint of the same epoch is, so that a
    later run has either the logits or the epochs in which they are computed again.
    """

    def __init__(
        self, folder: Path | None, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Keep checkpoints in a folder, or none; ``progress`` is that of train_together."""
        self.folder, self.progress, self.calls = folder, progress, 0

    def __call__(
        self,
        configs: Sequence[TrainingConfig],
        *,
        look: Callable[[int, Any], None],
        **options: Any,
    ) -> EnsembleResult:
        """Train, and let ``look`` see every epoch, those of an earlier run too."""
        if self.folder is None:
            return train_together(configs, look=look, progress=self.progress, **options)
        out = self.folder / f"search-{self.calls}"
        looks = self.folder / f"looks-{self.calls}"
        self.calls += 1
        looks.mkdir(parents=True, exist_ok=True)
        for path in sorted(looks.glob("*.npz")):
            look(int(path.name.split("-")[0]), Earlier(path))

        def seen(taken: int, result: EnsembleResult) -> None:
            watched = Watched(result)
            look(taken, watched)
            if watched.logits:
                write_arrays(looks / f"{taken}-{result.numbers[0]}.npz", watched.logits)

        return train_together(configs, look=seen, progress=self.progress, out=out, **options)


class Watched:
    """A result that remembers the logits it was asked for."""

    def __init__(self, result: EnsembleResult) -> None:
        """Look at a result."""
        self.result, self.numbers = result, result.numbers
        self.logits: dict[str, Any] = {}

    def predictions(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one model's logits and classes of its test rows."""
        logits, y = self.result.predictions(number)
        self.logits[str(number)] = logits.numpy()
        return logits, y


class Earlier:
    """What a look in an earlier run has seen."""

    def __init__(self, path: Path) -> None:
        """Read it."""
        self.arrays = read_arrays(path, REMEDY)
        self.numbers = sorted(map(int, self.arrays))

    def predictions(self, number: int) -> tuple[torch.Tensor, None]:
        """Return one model's logits of its test rows."""
        return torch.from_numpy(self.arrays[str(number)]), None
