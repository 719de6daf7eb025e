"""Every calibration metric: as a plain function, and all at once in one streaming pass."""

from softmargin.calibration.accumulator import CalibrationMetrics
from softmargin.calibration.binning import BinStatistics, bin_statistics
from softmargin.calibration.confidence_errors import (
    debiased_calibration_error,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    overconfidence,
    rms_calibration_error,
)
from softmargin.calibration.result import CalibrationResult, Estimate
from softmargin.calibration.scores import (
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
from softmargin.calibration.smooth import smooth_calibration_error

__all__ = [
    "BinStatistics",
    "BrierDecomposition",
    "CalibrationMetrics",
    "CalibrationResult",
    "Estimate",
    "TopLabel",
    "accuracy",
    "bin_statistics",
    "brier_decomposition",
    "brier_score",
    "calibration_metrics",
    "classwise_calibration_error",
    "debiased_calibration_error",
    "equal_mass_calibration_error",
    "expected_calibration_error",
    "ks_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "overconfidence",
    "rms_calibration_error",
    "smooth_calibration_error",
    "top_k_accuracy",
    "top_label",
]
