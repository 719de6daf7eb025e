"""Schedules and recording in a ``Trainer``, by a callback."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from softmargin.diagnostics import ConfidenceRecorder
from softmargin.integrations._extras import need
from softmargin.integrations._following import as_schedules, check_learned, go_to, values
from softmargin.integrations.loggers import as_logger
from softmargin.integrations.transformers.loss import ComputeLoss, logits_of
from softmargin.schedules import Schedule, Schedules

transformers = need("transformers", "transformers", "5.0")

RECORDS = "softmargin_recorder.pt"


class MarginCallback(transformers.TrainerCallback):  # type: ignore[name-defined]
    """Move settings with the optimiser's steps, record every sample's confidence, log both.

    A schedule's value depends on the step alone, and Trainer restores the step: a resumed run goes
    on exactly where it was. Records are kept in each checkpoint.

    Args:
        schedules: a schedule of :mod:`softmargin.schedules` or several, over settings of the
            criterion or of a head. A step is one of the optimiser, however many batches it takes.
        recorder: where to record the confidence of every training sample. The data set then needs
            a column ``index`` of the samples' numbers, ``TrainingArguments`` needs
            ``remove_unused_columns=False``, and training one process.
        loss: what :func:`compute_loss` returned, if it is Trainer's ``compute_loss_func``: it knows
            the labels that a recorder needs, and the criterion whose parameters must be learned.
        logger: where the settings are written whenever Trainer logs: anything that
            :func:`softmargin.integrations.loggers.as_logger` takes.
        index: name of the column with the samples' numbers.

    Example:
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.integrations.transformers import MarginCallback
        >>> from softmargin.schedules import Linear
        >>> criterion = GradientDecayLoss()
        >>> callback = MarginCallback(Linear(criterion, "beta", start=0.1, end=1.0, steps=1000))
    """

    def __init__(
        self,
        schedules: Schedule | Schedules | Iterable[Schedule] | None = None,
        *,
        recorder: ConfidenceRecorder | None = None,
        loss: ComputeLoss | None = None,
        logger: Any = None,
        index: str = "index",
    ) -> None:
        """Keep the parts; they are attached when training begins."""
        self.schedules = as_schedules(schedules)
        self.recorder, self.loss, self.index = recorder, loss, index
        self.logger = None if logger is None else as_logger(logger)
        self._samples: Tensor | None = None
        self._hooks: list[Any] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Go to the step that training starts from, and attach the recorder."""
        go_to(self.schedules, state.global_step)
        if self.loss is not None and parts.get("optimizer") is not None:
            check_learned(self.loss.criterion, [parts["optimizer"]])
        if self.recorder is None:
            return
        if args.remove_unused_columns:
            raise ValueError(
                "TrainingArguments must have remove_unused_columns=False for a recorder, or "
                f"Trainer drops the column {self.index!r}."
            )
        records = Path(args.output_dir) / f"checkpoint-{state.global_step}" / RECORDS
        if state.global_step and records.exists():
            self.recorder.load_state_dict(torch.load(records, weights_only=True))
        model = parts["model"]
        self._hooks = [
            model.register_forward_pre_hook(self._take_index, with_kwargs=True),
            model.register_forward_hook(self._take_outputs, with_kwargs=True),
        ]
        if self.loss is not None:
            self.loss.observers.append(self._record)

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Go on with the schedules after a step of the optimiser."""
        go_to(self.schedules, state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """End the recorder's epoch."""
        if self.recorder is not None:
            self.recorder.end_epoch()

    def on_save(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Keep the records in the checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.recorder is not None and folder.is_dir():
            torch.save(self.recorder.state_dict(), folder / RECORDS)

    def on_log(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Write the settings to the logger."""
        if self.logger is not None and state.is_world_process_zero:
            self.logger.log(values(self.schedules), state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Detach the recorder."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self.loss is not None and self._record in self.loss.observers:
            self.loss.observers.remove(self._record)

    def _take_index(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Keep the samples' numbers, which the model does not know."""
        kwargs = dict(kwargs)
        self._samples = kwargs.pop(self.index, None)
        if model.training and self._samples is None:
            raise ValueError(
                f"the batch must hold {self.index!r} for the recorder, the samples' numbers, but "
                f"got {', '.join(kwargs)}."
            )
        if not model.training:
            self._samples = None
        return args, kwargs

    def _take_outputs(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any
    ) -> None:
        """Record outputs of a model that was given its labels."""
        labels = kwargs.get("labels")
        if labels is not None:
            self._record(logits_of(outputs).detach(), labels)

    def _record(self, logits: Tensor, labels: Tensor) -> None:
        if self.recorder is None or self._samples is None:
            return
        self.recorder.update(self._samples.cpu(), logits.float(), labels)
        self._samples = None
