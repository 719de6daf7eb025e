"""Predictions, and how the tests stream them."""

from calibration_reference import simulate

from softmargin.calibration import (
    CalibrationMetrics,
)

LOGITS, TARGET = simulate(2000, 12)


def counted(*batches, **settings):
    metrics = CalibrationMetrics(12, from_logits=True, **settings)
    for batch in batches:
        metrics.update(*batch)
    return metrics
