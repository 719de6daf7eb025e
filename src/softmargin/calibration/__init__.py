"""How sure a model is, and how often it is right when it is that sure."""

from softmargin.calibration.metrics import (
    BinStatistics,
    bin_statistics,
    expected_calibration_error,
    maximum_calibration_error,
)
from softmargin.calibration.reliability import reliability_diagram

__all__ = [
    "BinStatistics",
    "bin_statistics",
    "expected_calibration_error",
    "maximum_calibration_error",
    "reliability_diagram",
]
