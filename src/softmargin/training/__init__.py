"""Training: one model, in a folder that survives anything."""

from softmargin.training.config import TrainingConfig
from softmargin.training.folder import RunFolder
from softmargin.training.trainer import train

__all__ = ["RunFolder", "TrainingConfig", "train"]
