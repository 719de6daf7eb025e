"""All metrics from one pass: an accumulator whose size does not depend on how much it has seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import torch
import torch.distributed as dist

from softmargin._docs import document_arguments
from softmargin.calibration._batch import (
    Array,
    check_bins,
    check_ignore_index,
    check_whole,
    prediction_batch,
    worker,
)
from softmargin.calibration._rows import check_declared_logits, measure
from softmargin.calibration._sums import Sums, summarize
from softmargin.calibration.binning import ConfidenceCells
from softmargin.calibration.result import CalibrationResult
from softmargin.functional._checks import check_flag

SETTINGS = ("num_classes", "from_logits", "bins", "top_k", "classwise", "ignore_index", "closed")
PREDICTION_ARGUMENTS = {
    "predictions": "logits or probabilities, of shape (N, C) or (N, C, d1, ...).",
    "target": "class indices of shape (N,) or (N, d1, ...).",
    "num_classes": "number of classes C, at least 2.",
    "from_logits": "whether predictions are logits (True) or probabilities (False).",
    "sample_weight": "one number of at least 0 per target; by default all weights are 1.",
    "bins": """number of bins M, of equal width for the ECE and MCE and of equal mass for the
        equal-mass ECE.""",
    "top_k": "k of the top-k accuracy.",
    "classwise": """whether to count the bins of every class. Without them there is no class-wise
        ECE and no decomposition of the Brier score, the state is small for any number of classes,
        and counting takes about two thirds of the time.""",
    "ignore_index": "a target whose rows do not count; None if there is none.",
    "closed": 'which edge belongs to a bin, ``"right"`` or ``"left"``.',
    "device": """where to keep the sums, by default the CPU; predictions are counted on their own
        device. Apple's GPUs have no float64, so theirs are counted on the CPU.""",
    "confidence_level": "level of the intervals, such as 0.95; None for no intervals.",
    "resamples": "number of bootstrap resamples.",
    "seed": "seed of the bootstrap; the same seed gives the same intervals.",
}


@document_arguments(PREDICTION_ARGUMENTS)
class CalibrationMetrics:
    """Count predictions batch by batch, then compute every calibration metric over all of them.

    The result does not depend on how predictions are split into batches, accumulators, processes
    or devices, nor on their order. Sums are float64. The state has O(bins × classes) numbers: a
    fine histogram of confidence (about 4000 cells), bins × classes sums, and a few more.

    Example:
        >>> import torch
        >>> from softmargin.calibration import CalibrationMetrics
        >>> metrics = CalibrationMetrics(num_classes=3, from_logits=True, bins=2)
        >>> metrics.update(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
        >>> metrics.update(torch.tensor([[0.0, 3.0, 0.0]]), torch.tensor([2]))
        >>> result = metrics.compute()
        >>> round(result.ece, 4), result.accuracy
        (0.3482, 0.5)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        from_logits: bool,
        bins: int = 10,
        top_k: int = 5,
        classwise: bool = True,
        ignore_index: int | None = None,
        closed: str = "right",
        device: torch.device | str | None = None,
    ) -> None:
        """Start with nothing counted."""
        check_whole("num_classes", num_classes, 2)
        check_whole("top_k", top_k, 1)
        check_flag("from_logits", from_logits)
        check_flag("classwise", classwise)
        check_ignore_index(ignore_index)
        check_bins(bins, closed)
        self.num_classes = num_classes
        self.from_logits = from_logits
        self.bins = bins
        self.top_k = top_k
        self.classwise = classwise
        self.ignore_index = ignore_index
        self.closed = closed
        self._cells = ConfidenceCells(bins, closed)
        self._sums = self._zeros(worker(torch.device("cpu" if device is None else device)))

    @document_arguments(PREDICTION_ARGUMENTS)
    def update(self, predictions: Array, target: Array, sample_weight: Array | None = None) -> None:
        """Count a batch; if it raises an error, none of the batch counts."""
        batch = prediction_batch(predictions, target, sample_weight, self.ignore_index)
        if batch.num_classes != self.num_classes:
            raise ValueError(
                f"predictions must hold {self.num_classes} classes in dimension 1, "
                f"but got {batch.num_classes}."
            )
        at_once = self.from_logits and not self.classwise
        if at_once and self._sums.count_logits(batch, self._cells, self.top_k):
            return
        sums = self._zeros(batch.target.device)
        threshold = self._cells.first_edge if self.classwise else None
        for rows in measure(batch, from_logits=self.from_logits, threshold=threshold):
            sums.count_rows(rows, self._cells, self.top_k)
            if self.classwise:
                sums.count_classes(rows, self._cells)
        self._add(sums)

    def merge(self, *others: CalibrationMetrics) -> Self:
        """Add what other accumulators have counted, which must have the same settings."""
        for other in others:
            if not isinstance(other, CalibrationMetrics):
                raise TypeError(
                    f"other must be a CalibrationMetrics to merge, but got {type(other).__name__}."
                )
            if other._settings != self._settings:
                raise ValueError(
                    "merge needs accumulators with the same settings, "
                    f"but got {self._settings} and {other._settings}."
                )
            self._add(other._sums)
        return self

    def all_reduce(self, group: dist.ProcessGroup | None = None) -> CalibrationMetrics:
        """Return a new accumulator with what all processes of a group have counted.

        Every process must call it, with the same settings. This accumulator is not changed, so it
        can be called again later. The sums must be on a device that the group's backend supports:
        a CPU for gloo, a GPU for NCCL.
        """
        merged = type(self)(**self._settings, device=self._sums.totals.device)
        flat = torch.cat([each.flatten() for each in self._sums])
        dist.all_reduce(flat, group=group)
        parts = torch.split(flat, [each.numel() for each in self._sums])
        merged._add(Sums(*(a.view_as(b) for a, b in zip(parts, self._sums, strict=True))))
        return merged

    @document_arguments(PREDICTION_ARGUMENTS)
    def compute(
        self, confidence_level: float | None = None, *, resamples: int = 1000, seed: int = 0
    ) -> CalibrationResult:
        """Return all metrics of what has been counted.

        Raises:
            ValueError: if nothing has been counted, or if all rows are declared as logits but
                look like probabilities.
        """
        samples = int(self._sums.totals[0])
        if not samples:
            raise ValueError("compute needs at least one counted prediction, but there is none.")
        if samples < self.bins:
            warnings.warn(
                f"{samples} predictions in {self.bins} bins say little about calibration; "
                "use fewer bins.",
                stacklevel=2,
            )
        check_declared_logits(int(self._sums.totals[4]), samples)
        return summarize(
            Sums(*(each.cpu() for each in self._sums)),
            self._cells,
            self.num_classes,
            min(self.top_k, self.num_classes),
            confidence_level,
            resamples,
            seed,
        )

    def reset(self) -> None:
        """Forget everything counted."""
        for each in self._sums:
            each.zero_()

    def to(self, device: torch.device | str) -> Self:
        """Keep the sums on another device."""
        self._sums = Sums(*(each.to(worker(torch.device(device))) for each in self._sums))
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the settings and copies of the sums."""
        sums = {name: each.clone() for name, each in self._sums._asdict().items()}
        return {"settings": self._settings, **sums}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the sums of an accumulator with the same settings."""
        if not isinstance(state, Mapping):
            raise TypeError(f"state must be a dict, but got {type(state).__name__}.")
        if state.get("settings") != self._settings:
            raise ValueError(
                f"state must be of an accumulator with the settings {self._settings}, "
                f"but got {state.get('settings')}."
            )
        device = self._sums.totals.device
        self._sums = Sums(*(state[name].to(device, copy=True) for name in Sums._fields))

    def __repr__(self) -> str:
        """Return the settings and how much has been counted."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings.items())
        return f"CalibrationMetrics({settings}, samples={int(self._sums.totals[0])})"

    @property
    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SETTINGS}

    def _zeros(self, device: torch.device) -> Sums:
        return Sums.zeros(self._cells, self.num_classes if self.classwise else 0, device)

    def _add(self, sums: Sums) -> None:
        for mine, theirs in zip(self._sums, sums, strict=True):
            mine += theirs.to(mine.device)
