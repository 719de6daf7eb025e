"""What training did to each sample: confidence, margins, angles, features and gradients."""

from softmargin.diagnostics.angles import (
    AngleHistogram,
    AngleStatistics,
    angle_histogram,
    angle_statistics,
    intra_class_angles,
)
from softmargin.diagnostics.confidence import (
    ConfidenceGroups,
    confidence_groups,
    confidence_histogram,
)
from softmargin.diagnostics.data_maps import DataMap, data_map
from softmargin.diagnostics.features import FeatureSpread, feature_spread
from softmargin.diagnostics.gradients import GradientByConfidence, gradient_by_confidence
from softmargin.diagnostics.plots import plot_data_map, plot_groups
from softmargin.diagnostics.recorder import ConfidenceRecorder

__all__ = [
    "AngleHistogram",
    "AngleStatistics",
    "ConfidenceGroups",
    "ConfidenceRecorder",
    "DataMap",
    "FeatureSpread",
    "GradientByConfidence",
    "angle_histogram",
    "angle_statistics",
    "confidence_groups",
    "confidence_histogram",
    "data_map",
    "feature_spread",
    "gradient_by_confidence",
    "intra_class_angles",
    "plot_data_map",
    "plot_groups",
]
