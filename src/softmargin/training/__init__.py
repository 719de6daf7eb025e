"""Training: one model, in a folder that is safe to interrupt, or many small ones at once."""

from softmargin.training.config import TrainingConfig
from softmargin.training.ensemble import EnsembleResult, Fold, train_together
from softmargin.training.folder import RunFolder
from softmargin.training.trainer import train

__all__ = ["EnsembleResult", "Fold", "RunFolder", "TrainingConfig", "train", "train_together"]
