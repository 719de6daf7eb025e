"""Calibration: metrics, reliability diagrams, and temperature and vector scaling."""

from softmargin.calibration.accumulator import CalibrationMetrics
from softmargin.calibration.binning import BinStatistics, bin_statistics
from softmargin.calibration.display import ReliabilityDisplay
from softmargin.calibration.errors import (
    calibration_error,
    debiased_calibration_error,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    overconfidence,
    rms_calibration_error,
    smooth_calibration_error,
)
from softmargin.calibration.metrics import (
    BrierDecomposition,
    TopLabel,
    accuracy,
    brier_decomposition,
    brier_score,
    calibration_metrics,
    classwise_calibration_error,
    negative_log_likelihood,
    top_k_accuracy,
    top_label,
)
from softmargin.calibration.reliability import (
    confidence_diagram,
    confidence_histogram,
    reliability_diagram,
    reliability_diagrams,
)
from softmargin.calibration.result import CalibrationResult, Estimate
from softmargin.calibration.scaling import (
    CalibrationWarning,
    Calibrator,
    CrossValidated,
    TemperatureScaling,
    VectorScaling,
    cross_validated,
    held_out_calibrators,
    load_calibrator,
)

__all__ = [
    "BinStatistics",
    "BrierDecomposition",
    "CalibrationMetrics",
    "CalibrationResult",
    "CalibrationWarning",
    "Calibrator",
    "CrossValidated",
    "Estimate",
    "ReliabilityDisplay",
    "TemperatureScaling",
    "TopLabel",
    "VectorScaling",
    "accuracy",
    "bin_statistics",
    "brier_decomposition",
    "brier_score",
    "calibration_error",
    "calibration_metrics",
    "classwise_calibration_error",
    "confidence_diagram",
    "confidence_histogram",
    "cross_validated",
    "debiased_calibration_error",
    "equal_mass_calibration_error",
    "expected_calibration_error",
    "held_out_calibrators",
    "ks_calibration_error",
    "load_calibrator",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "overconfidence",
    "reliability_diagram",
    "reliability_diagrams",
    "rms_calibration_error",
    "smooth_calibration_error",
    "top_k_accuracy",
    "top_label",
]
