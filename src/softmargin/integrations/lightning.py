"""Lightning: schedules, calibration and recording by a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor

from softmargin.calibration import CalibrationMetrics
from softmargin.diagnostics import ConfidenceRecorder
from softmargin.functional._checks import check_choice
from softmargin.integrations._extras import need
from softmargin.integrations._following import as_schedules, check_learned, values
from softmargin.losses import LogitLoss
from softmargin.schedules import Schedule, Schedules

lightning = need("lightning.pytorch", "lightning", "2.2")

METRICS = (
    "accuracy",
    "top_k_accuracy",
    "mean_confidence",
    "overconfidence",
    "nll",
    "brier",
    "ece",
    "mce",
    "rms_error",
    "debiased_error",
    "equal_mass_ece",
    "ks_error",
    "classwise_ece",
)
MadeBy = Callable[[Any], Schedule | Schedules | Iterable[Schedule]]


class MarginCallback(lightning.Callback):  # type: ignore[name-defined]
    """Move settings with the optimiser's steps, log calibration, record every sample's confidence.

    Everything is kept in the checkpoint: a resumed run goes on exactly where it was.

    Args:
        schedules: a schedule of :mod:`softmargin.schedules` or several, or a function that makes
            them of the ``LightningModule``. A step is one of the optimiser, however many batches it
            takes. The values are logged by the settings' names.
        metrics: which metrics of :class:`softmargin.calibration.CalibrationResult` to log after
            every validation and test, over all of their samples and processes, as ``val_ece`` or
            ``test_ece``. ``validation_step`` and ``test_step`` then return a dict with ``logits``
            and ``target``.
        recorder: where to record the confidence of every training sample; ``training_step`` then
            returns a dict with ``loss``, ``logits``, ``target`` and ``index``, the samples' numbers
            in the data set. Of several processes each records its own samples.
        bins: number of bins of confidence.

    Example:
        >>> from softmargin.integrations.lightning import MarginCallback
        >>> from softmargin.schedules import Linear
        >>> callback = MarginCallback(
        ...     lambda module: Linear(module.criterion, "beta", start=0.1, end=1.0, steps=1000),
        ...     metrics=["accuracy", "ece"],
        ... )
    """

    def __init__(
        self,
        schedules: Schedule | Schedules | Iterable[Schedule] | MadeBy | None = None,
        *,
        metrics: Sequence[str] = (),
        recorder: ConfidenceRecorder | None = None,
        bins: int = 10,
    ) -> None:
        """Keep the parts; schedules that a function makes are made when fitting begins."""
        super().__init__()
        for name in metrics:
            check_choice("metrics", name, METRICS)
        self._make = schedules if callable(schedules) else None
        self.schedules = as_schedules(None if callable(schedules) else schedules)
        self.metrics, self.recorder, self.bins = tuple(metrics), recorder, bins
        self._seen = 0  # steps of optimisers
        self._counted: CalibrationMetrics | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Make the schedules, before a checkpoint is restored."""
        if self._make is not None and stage == "fit" and not len(self.schedules):
            self.schedules = as_schedules(self._make(pl_module))

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check that the criterion's parameters, if it has any, are learned."""
        for module in pl_module.modules():
            if isinstance(module, LogitLoss):
                check_learned(module, trainer.optimizers)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log the settings that the batch was trained with, and go on after a step."""
        if len(self.schedules):
            pl_module.log_dict(values(self.schedules), on_step=True, on_epoch=False)
        if trainer.global_step != self._seen:
            self._seen = trainer.global_step
            self.schedules.step()
        if self.recorder is not None:
            found = _taken("training_step", outputs, ("logits", "target", "index"))
            logits, target, index = (each.detach() for each in found)
            self.recorder.update(index.cpu(), logits.float(), target)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """End the recorder's epoch."""
        if self.recorder is not None:
            self.recorder.end_epoch()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, *batch: Any, **options: Any
    ) -> None:
        """Count a batch of validation."""
        self._count("validation_step", pl_module, outputs)

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, *batch: Any, **options: Any
    ) -> None:
        """Count a batch of a test."""
        self._count("test_step", pl_module, outputs)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the metrics of a validation."""
        self._log("val", trainer, pl_module)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the metrics of a test."""
        self._log("test", trainer, pl_module)

    def _count(self, step: str, pl_module: Any, outputs: Any) -> None:
        if not self.metrics:
            return
        logits, target = _taken(step, outputs, ("logits", "target"))
        if self._counted is None:
            classwise = "classwise_ece" in self.metrics
            self._counted = CalibrationMetrics(
                logits.shape[1],
                from_logits=True,
                bins=self.bins,
                classwise=classwise,
                ignore_index=-100,
                device=pl_module.device,
            )
        self._counted.update(logits.detach(), target)

    def _log(self, prefix: str, trainer: Any, pl_module: Any) -> None:
        counted, self._counted = self._counted, None
        if counted is None or trainer.sanity_checking:
            return
        if dist.is_available() and dist.is_initialized():
            counted = counted.all_reduce()
        result = counted.compute()
        found = {f"{prefix}_{name}": float(getattr(result, name)) for name in self.metrics}
        # every process has the value over all of them
        pl_module.log_dict(found, sync_dist=False, rank_zero_only=False)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        state: dict[str, Any] = {"seen": self._seen, "schedules": self.schedules.state_dict()}
        if self.recorder is not None:
            state["recorder"] = self.recorder.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a checkpoint was."""
        self._seen = state_dict["seen"]
        if len(self.schedules):  # there are none outside of fitting
            self.schedules.load_state_dict(state_dict["schedules"])
        if self.recorder is not None and "recorder" in state_dict:
            self.recorder.load_state_dict(state_dict["recorder"])


def _taken(step: str, outputs: Any, names: Sequence[str]) -> list[Tensor]:
    """Return tensors of what a step returned, or raise one sentence that says what to return."""
    found = outputs if isinstance(outputs, Mapping) else {}
    missing = [name for name in names if not isinstance(found.get(name), Tensor)]
    if missing:
        got = f"a dict without {', '.join(missing)}" if found else type(outputs).__name__
        raise ValueError(
            f"{step} must return a dict with tensors {', '.join(names)} for MarginCallback, "
            f"but returned {got}."
        )
    return [found[name] for name in names]
