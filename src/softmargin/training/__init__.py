"""Training: one model, in a folder that is safe to interrupt, or many small ones at once."""

from typing import TYPE_CHECKING

from softmargin._lazy import lazy

if TYPE_CHECKING:
    from softmargin.training.config import DivergedError, TrainingConfig
    from softmargin.training.ensemble import EnsembleResult, Fold, train_together
    from softmargin.training.folder import RunFolder
    from softmargin.training.trainer import train
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "config": "DivergedError TrainingConfig",
            "ensemble": "EnsembleResult Fold train_together",
            "folder": "RunFolder",
            "trainer": "train",
        },
    )

__all__ = [
    "DivergedError",
    "EnsembleResult",
    "Fold",
    "RunFolder",
    "TrainingConfig",
    "train",
    "train_together",
]
