"""A criterion as the ``compute_loss_func`` of a ``Trainer``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

IGNORED = -100  # what Trainer leaves out when it counts the items of a batch


def compute_loss(criterion: nn.CrossEntropyLoss, *, causal: bool = False) -> ComputeLoss:
    """Return a criterion as ``Trainer(compute_loss_func=...)`` takes it.

    With gradient accumulation a batch is a part of what one step sees. Trainer says how many items
    the whole has, and the loss of the part is its sum over that number: the gradients are then
    those of one large batch. A mean over each part would be too large by the number of parts.

    Class weights weigh the items in the sum, over the number of items. The criterion's own mean is
    returned where Trainer gives no number.

    Args:
        criterion: a criterion of :mod:`softmargin.losses`, or ``nn.CrossEntropyLoss``, with
            ``reduction="mean"`` and ``ignore_index=-100``.
        causal: whether the model is a causal language model, whose labels are its input and whose
            logits at a token are for the next one.

    Example:
        >>> import torch
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.integrations.transformers import compute_loss
        >>> loss = compute_loss(GradientDecayLoss(beta=5.0))
        >>> logits, labels = torch.zeros(2, 3), torch.tensor([0, 1])
        >>> loss({"logits": logits}, labels), loss({"logits": logits}, labels, torch.tensor(8))
        (tensor(1.9459), tensor(0.4865))
    """
    return ComputeLoss(criterion, causal=causal)


class ComputeLoss:
    """What :func:`compute_loss` returns.

    Attributes:
        criterion: the criterion, whose settings may move.
        observers: functions of logits (N, C) and labels (N,) that are called at every loss.
    """

    def __init__(self, criterion: nn.CrossEntropyLoss, *, causal: bool = False) -> None:
        """Check that the criterion counts as Trainer does."""
        if not isinstance(criterion, nn.CrossEntropyLoss):
            raise TypeError(
                "criterion must be a criterion of softmargin.losses or nn.CrossEntropyLoss, but "
                f"got {type(criterion).__name__}."
            )
        if criterion.reduction != "mean":
            raise ValueError(
                f'criterion must have reduction="mean", but got {criterion.reduction!r}.'
            )
        if criterion.ignore_index != IGNORED:
            raise ValueError(
                f"criterion must have ignore_index={IGNORED}, which Trainer counts by, but got "
                f"{criterion.ignore_index}."
            )
        self.criterion = criterion
        self.causal = causal
        self.observers: list[Callable[[Tensor, Tensor], None]] = []

    def __call__(
        self,
        outputs: Any,
        labels: Tensor | None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Return the loss of a model's outputs."""
        if labels is None:
            raise ValueError(
                "labels must be in the batch for compute_loss, but there are none: give the data "
                'set a column "labels".'
            )
        logits, labels = rows(logits_of(outputs), labels, causal=self.causal)
        for observer in self.observers:
            observer(logits.detach(), labels)
        if num_items_in_batch is None:
            loss: Tensor = self.criterion(logits, labels)
            return loss
        total: Tensor = self._summing()(logits, labels)
        items: Tensor | float = num_items_in_batch
        if isinstance(items, Tensor):
            items = items.to(total.device)
        if labels.ndim == 2:  # Trainer has counted the probabilities of every class
            items = items / labels.shape[1]
        return total / items

    def _summing(self) -> nn.Module:
        """Return the same criterion, with the same tensors, that gives the sum."""
        summing = copy.copy(self.criterion)
        summing.reduction = "sum"
        return summing


def logits_of(outputs: Any) -> Tensor:
    """Return the logits of a model's outputs, in whichever form they are."""
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        found = outputs.get("logits")
    else:
        found = outputs[0] if isinstance(outputs, tuple) and outputs else None
    if not isinstance(found, Tensor):
        names = ", ".join(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise ValueError(f"outputs must hold logits, but got {names}.")
    return found


def rows(logits: Any, labels: Any, *, causal: bool) -> tuple[Any, Any]:
    """Return logits (N, C) and labels (N,), or (N, C) for probabilities, one row per item."""
    if causal:
        logits, labels = logits[..., :-1, :], labels[..., 1:]
    classes = logits.shape[-1]
    soft = labels.shape == logits.shape
    if not soft and labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"labels must have shape {tuple(logits.shape[:-1])} for these logits, "
            f"but got {tuple(labels.shape)}."
        )
    labels = labels.reshape(-1, classes) if soft else labels.reshape(-1)
    return logits.reshape(-1, classes), labels
