"""The papers' experiments on images: CIFAR, SVHN, Tiny-ImageNet, ImageNet and Places."""

from softmargin.papers.core import Experiment
from softmargin.papers.images import (
    ag_accuracy,
    ag_angles,
    beyond,
    gd_accuracy,
    gd_calibration,
    gd_reliability,
    lm_ablation,
    lm_comparison,
)
from softmargin.papers.images.training import train_many, train_one

EXPERIMENTS: tuple[Experiment, ...] = (
    *gd_accuracy.EXPERIMENTS,
    *gd_calibration.EXPERIMENTS,
    *gd_reliability.EXPERIMENTS,
    *lm_ablation.EXPERIMENTS,
    *lm_comparison.EXPERIMENTS,
    *ag_accuracy.EXPERIMENTS,
    *ag_angles.EXPERIMENTS,
    *beyond.EXPERIMENTS,
)

__all__ = ["EXPERIMENTS", "train_many", "train_one"]
