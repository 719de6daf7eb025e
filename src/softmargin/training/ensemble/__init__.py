"""Thousands of small networks trained at once, each exactly as it would be alone."""

from softmargin.training.ensemble.members import Fold
from softmargin.training.ensemble.result import EnsembleResult
from softmargin.training.ensemble.run import train_together

__all__ = ["EnsembleResult", "Fold", "train_together"]
