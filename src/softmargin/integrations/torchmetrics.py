"""Calibration as metrics of torchmetrics: in collections, in ``self.log`` and across processes.

All of them count into the same sums, so that a ``MetricCollection`` counts once for all.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin.calibration import CalibrationMetrics, CalibrationResult
from softmargin.integrations._extras import need

torchmetrics = need("torchmetrics", "torchmetrics", "1.0")

METRIC_ARGUMENTS = {
    "num_classes": "number of classes C, at least 2.",
    "from_logits": "whether predictions are logits (True) or probabilities (False).",
    "bins": "number of bins of confidence.",
    "top_k": "k of the top-k accuracy.",
    "ignore_index": "a target whose rows do not count; None if there is none.",
    "closed": 'which edge belongs to a bin, ``"right"`` or ``"left"``.',
    "options": "those of ``torchmetrics.Metric``.",
}


class CalibrationMetric(torchmetrics.Metric):  # type: ignore[name-defined]
    """Base of the metrics: sums of :class:`softmargin.calibration.CalibrationMetrics` as states.

    The sums are float64 and have a size that does not depend on how much was counted; processes
    add theirs up. The value is the same however predictions are split into batches and processes.
    """

    is_differentiable = False
    full_state_update = False
    higher_is_better: bool | None = False
    plot_lower_bound = 0.0
    metric: ClassVar[str] = ""
    """The field of :class:`softmargin.calibration.CalibrationResult` that is the value."""

    def __init__(
        self,
        num_classes: int,
        *,
        from_logits: bool,
        bins: int = 10,
        top_k: int = 5,
        ignore_index: int | None = None,
        closed: str = "right",
        **options: Any,
    ) -> None:
        """Make the states, one for each kind of sum."""
        super().__init__(**options)
        self._arguments: dict[str, Any] = {
            "num_classes": num_classes,
            "from_logits": from_logits,
            "bins": bins,
            "top_k": top_k,
            "ignore_index": ignore_index,
            "closed": closed,
        }
        state = CalibrationMetrics(**self._arguments).state_dict()
        self._settings = state.pop("settings")
        self._sums = tuple(state)
        for name, zeros in state.items():
            self.add_state(name, default=zeros, dist_reduce_fx="sum")

    def update(
        self,
        preds: Tensor | None = None,
        target: Tensor | None = None,
        sample_weight: Tensor | None = None,
        *others: Any,
    ) -> None:
        """Count a batch of logits or probabilities (N, C, ...) against class indices (N, ...)."""
        if preds is None or target is None or others:
            got = "no predictions" if preds is None else "no target"
            raise TypeError(
                f"{type(self).__name__} must be updated with predictions and target, as in "
                "update(preds, target) or update(preds, target, sample_weight), but got "
                f"{f'{3 + len(others)} arguments' if others else got}."
            )
        batch = CalibrationMetrics(**self._arguments, device=preds.device)
        batch.update(preds.detach(), target, sample_weight)
        for name, more in batch.state_dict().items():
            if name in self._sums:
                mine = getattr(self, name)
                setattr(self, name, mine + more.to(mine.device))

    def result(self) -> CalibrationResult:
        """Return every metric of what was counted, with its bins for a reliability diagram."""
        counted = CalibrationMetrics(**self._arguments)
        sums = {name: getattr(self, name) for name in self._sums}
        counted.load_state_dict({"settings": self._settings, **sums})
        return counted.compute()

    def compute(self) -> Any:
        """Return the metric as a tensor."""
        return self._tensor(getattr(self.result(), self.metric))

    def _tensor(self, value: float) -> Tensor:
        return torch.tensor(value, device=self.device)


@document_arguments(METRIC_ARGUMENTS)
class Calibration(CalibrationMetric):
    """Every calibration metric at once, by name.

    Example:
        >>> import torch
        >>> from softmargin.integrations.torchmetrics import Calibration
        >>> metric = Calibration(num_classes=3, from_logits=True, bins=2)
        >>> metric.update(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
        >>> metric.update(torch.tensor([[0.0, 3.0, 0.0]]), torch.tensor([2]))
        >>> metric.compute()["ece"]
        tensor(0.3482)
    """

    higher_is_better = None

    def compute(self) -> dict[str, Tensor]:
        """Return the metrics by name."""
        return {each.name: self._tensor(each.value) for each in self.result().estimates()}


@document_arguments(METRIC_ARGUMENTS)
class ExpectedCalibrationError(CalibrationMetric):
    """Mean gap between confidence and accuracy over bins of equal width, for logits too.

    Example:
        >>> import torch
        >>> from torchmetrics import MetricCollection
        >>> from softmargin.integrations.torchmetrics import (
        ...     ExpectedCalibrationError, NegativeLogLikelihood
        ... )
        >>> options = {"num_classes": 2, "from_logits": True, "bins": 2}
        >>> ece, nll = ExpectedCalibrationError(**options), NegativeLogLikelihood(**options)
        >>> metrics = MetricCollection({"ece": ece, "nll": nll})
        >>> metrics.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        >>> metrics.compute()
        {'ece': tensor(0.3059), 'nll': tensor(0.7201)}
    """

    metric = "ece"


@document_arguments(METRIC_ARGUMENTS)
class MaximumCalibrationError(CalibrationMetric):
    """Largest gap between confidence and accuracy over the bins that are not empty."""

    metric = "mce"


@document_arguments(METRIC_ARGUMENTS)
class RMSCalibrationError(CalibrationMetric):
    """Root of the mean squared gap between confidence and accuracy."""

    metric = "rms_error"


@document_arguments(METRIC_ARGUMENTS)
class DebiasedCalibrationError(CalibrationMetric):
    """Root mean squared gap without what noise adds to it (Kumar et al., 2019)."""

    metric = "debiased_error"


@document_arguments(METRIC_ARGUMENTS)
class EqualMassCalibrationError(CalibrationMetric):
    """Mean gap between confidence and accuracy over bins of equal mass."""

    metric = "equal_mass_ece"


@document_arguments(METRIC_ARGUMENTS)
class KSCalibrationError(CalibrationMetric):
    """Kolmogorov-Smirnov calibration error, which has no bins (Gupta et al., 2021)."""

    metric = "ks_error"


@document_arguments(METRIC_ARGUMENTS)
class ClasswiseCalibrationError(CalibrationMetric):
    """Mean over classes of each class's own expected calibration error."""

    metric = "classwise_ece"


@document_arguments(METRIC_ARGUMENTS)
class Overconfidence(CalibrationMetric):
    """Mean confidence minus accuracy; below 0 is under-confident."""

    metric = "overconfidence"
    higher_is_better = None


@document_arguments(METRIC_ARGUMENTS)
class NegativeLogLikelihood(CalibrationMetric):
    """Mean negative log-likelihood of the target, in nats."""

    metric = "nll"


@document_arguments(METRIC_ARGUMENTS)
class BrierScore(CalibrationMetric):
    """Mean of Σ_k (p_k - y_k)², summed over classes and not halved."""

    metric = "brier"
