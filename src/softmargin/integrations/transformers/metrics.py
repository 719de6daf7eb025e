"""Calibration as the ``compute_metrics`` of a ``Trainer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from softmargin.calibration import CalibrationMetrics, Calibrator, cross_validated
from softmargin.integrations.transformers.loss import IGNORED, rows

REPORTED = ("accuracy", "nll", "brier", "ece", "classwise_ece", "overconfidence")


class EvaluationMetrics:
    """Accuracy and calibration of every evaluation, for ``Trainer(compute_metrics=...)``.

    It also works with ``batch_eval_metrics=True``, which keeps no logits.

    Args:
        calibrator: a class of calibrator, such as ``TemperatureScaling``: it is fitted on every
            evaluation, and ``calibrated_ece`` and ``calibrated_nll`` are those of rows that each
            fit has not seen. Not together with ``batch_eval_metrics``.
        bins: number of bins of confidence.
        causal: whether the model is a causal language model, as in :func:`compute_loss`.

    Attributes:
        calibrator: fitted on all rows of the last evaluation, or None.

    Example:
        >>> import numpy as np
        >>> from transformers import EvalPrediction
        >>> from softmargin.integrations.transformers import EvaluationMetrics
        >>> logits, labels = np.repeat([[2.0, 0.0]], 20, axis=0), np.array([0] * 15 + [1] * 5)
        >>> found = EvaluationMetrics()(EvalPrediction(predictions=logits, label_ids=labels))
        >>> found["accuracy"], round(found["ece"], 4)
        (0.75, 0.1308)
    """

    def __init__(
        self,
        calibrator: Callable[[], Calibrator] | None = None,
        *,
        bins: int = 10,
        causal: bool = False,
    ) -> None:
        """Start with nothing evaluated."""
        self._scaler, self._bins, self._causal = calibrator, bins, causal
        self._counted: CalibrationMetrics | None = None
        self.calibrator: Calibrator | None = None

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Return the metrics of a prediction, or count a batch of it."""
        whole = self._counted is None and compute_result
        logits, labels = self._rows(prediction)
        if self._counted is None:
            self._counted = CalibrationMetrics(
                logits.shape[-1], from_logits=True, bins=self._bins, ignore_index=IGNORED
            )
        self._counted.update(logits, labels)
        if not compute_result:
            return {}
        result, self._counted = self._counted.compute(), None
        found = {name: float(getattr(result, name)) for name in REPORTED}
        if self._scaler is not None and whole:
            found.update(self._calibrate(self._scaler, logits, labels))
        return found

    def _rows(self, prediction: Any) -> tuple[Tensor, Tensor]:
        logits, labels = prediction.predictions, prediction.label_ids
        logits = logits[0] if isinstance(logits, tuple) else logits
        labels = labels[0] if isinstance(labels, tuple) else labels
        if labels is None:
            raise ValueError("labels must be in the data set for EvaluationMetrics, but are not.")
        found = rows(torch.as_tensor(logits), torch.as_tensor(labels), causal=self._causal)
        return found[0], found[1].long()

    def _calibrate(
        self, scaler: Callable[[], Calibrator], logits: Tensor, labels: Tensor
    ) -> dict[str, float]:
        held_out = cross_validated(scaler, logits.double(), labels, ignore_index=IGNORED)
        self.calibrator = held_out.calibrator
        metrics = CalibrationMetrics(
            logits.shape[-1], from_logits=True, bins=self._bins, ignore_index=IGNORED
        )
        metrics.update(held_out.logits, labels)
        result = metrics.compute()
        found = {"calibrated_nll": result.nll, "calibrated_ece": result.ece}
        temperature = getattr(held_out.calibrator, "temperature", None)
        if isinstance(temperature, Tensor) and temperature.numel() == 1:
            found["temperature"] = temperature.item()
        return found
