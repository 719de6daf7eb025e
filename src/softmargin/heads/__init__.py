"""Heads: from features to logits, with the margin in the classifier.

``head(features)`` gives the logits of inference, ``head(features, target)`` those of training; any
head goes with any loss of :mod:`softmargin.losses`.
"""

from softmargin.heads.angular import ArcGradHead, ASoftmaxHead, LSoftmaxHead
from softmargin.heads.base import Head
from softmargin.heads.cosine import AdaCosHead, ArcFaceHead, CosFaceHead, CosineHead
from softmargin.heads.gaussian import GaussianHead
from softmargin.heads.linear import LinearHead
from softmargin.heads.simplex import SimplexHead

__all__ = [
    "ASoftmaxHead",
    "AdaCosHead",
    "ArcFaceHead",
    "ArcGradHead",
    "CosFaceHead",
    "CosineHead",
    "GaussianHead",
    "Head",
    "LSoftmaxHead",
    "LinearHead",
    "SimplexHead",
]
