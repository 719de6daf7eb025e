"""What a step computes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softmargin import models
from softmargin.center import CenterLoss


def check_loss(loss: nn.Module, value: Tensor) -> None:
    """Refuse a loss that is not one number per batch."""
    if value.ndim:
        raise ValueError(
            f"loss must be one number for a batch, but {loss} gave the shape {tuple(value.shape)}."
        )


class Objective(nn.Module):
    """The model with its loss: what a step computes, as one module that processes can share."""

    def __init__(
        self,
        model: models.Classifier,
        loss: nn.Module,
        center: CenterLoss | None,
        *,
        recorded: bool,
    ) -> None:
        """Keep the parts."""
        super().__init__()
        self.model, self.loss, self.center, self.recorded = model, loss, center, recorded

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the logits to record: those of inference, if any are recorded.

        A process may have no share of the last batch. It takes part in everything that processes
        do together all the same, and its loss is 0: the mean over nothing would be NaN.
        """
        features = self.model.features(x)
        head = self.model.head
        logits = head(features, y)
        loss = self.loss(logits, y)
        check_loss(self.loss, loss)
        added = head.added_loss(features, y)
        if added is not None:
            loss = loss + added
        if self.center is not None:
            loss = loss + self.center(features, y)
        if not len(y):
            loss = loss.nan_to_num(0.0)
        if self.recorded and head.needs_target:
            with torch.no_grad():
                logits = head.inference_logits(features)
        return loss, logits.detach()
