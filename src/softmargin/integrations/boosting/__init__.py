"""Gradient boosting with gradient decay: the β loss as an objective of XGBoost and LightGBM.

The objectives need NumPy alone, the classifiers their library.
"""

from typing import TYPE_CHECKING

from softmargin._lazy import lazy
from softmargin.integrations.boosting.objective import (
    GradientDecayObjective,
    LightGBMObjective,
    XGBoostObjective,
    class_probabilities,
    gradient_and_hessian,
)

if TYPE_CHECKING:
    from softmargin.integrations.boosting.lightgbm import GradientDecayLGBMClassifier
    from softmargin.integrations.boosting.xgboost import GradientDecayXGBClassifier

__all__ = [
    "GradientDecayLGBMClassifier",
    "GradientDecayObjective",
    "GradientDecayXGBClassifier",
    "LightGBMObjective",
    "XGBoostObjective",
    "class_probabilities",
    "gradient_and_hessian",
]

__getattr__, __dir__ = lazy(
    __name__,
    {"lightgbm": "GradientDecayLGBMClassifier", "xgboost": "GradientDecayXGBClassifier"},
)
