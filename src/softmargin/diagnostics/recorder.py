"""The confidence recorder: what training did to every sample, from the logits it computes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softmargin.calibration._batch import worker
from softmargin.diagnostics._checks import check_index, check_integers
from softmargin.diagnostics._epoch import COLUMNS, Epoch
from softmargin.diagnostics._state import check_state
from softmargin.diagnostics.confidence import (
    ConfidenceGroups,
    confidence_groups,
    confidence_histogram,
)
from softmargin.diagnostics.data_maps import DataMap, Totals
from softmargin.functional._checks import check_count


class ConfidenceRecorder:
    """Record every sample's confidence, margin and correctness while a model trains.

    It takes the logits that a training step has computed anyway. A sample that is not seen in an
    epoch has NaN there; of one that is seen twice the last counts.

    For every sample and model it keeps two bytes per epoch, the confidence in float16, and about
    60 bytes besides: the epoch under way in float32 and running sums in float64. Up to 64 steps
    wait to be computed together, fewer if they hold more than 65,536 logits (4,194,304 on an
    accelerator).

    Args:
        num_samples: number of training samples N.
        models: K where K models are trained at once; None for one model.
        device: where to keep what is recorded, by default the CPU; logits are computed where they
            are. Apple's GPUs know no float64, so that theirs go to the CPU.

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import ConfidenceRecorder
        >>> recorder = ConfidenceRecorder(num_samples=3)
        >>> for scale in (1.0, 2.0):  # epochs
        ...     logits = scale * torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
        ...     recorder.update(torch.arange(3), logits, torch.tensor([0, 0, 1]))
        ...     recorder.end_epoch()
        >>> recorder.confidence
        tensor([[0.7310, 0.2690, 0.9526],
                [0.8809, 0.1192, 0.9976]], dtype=torch.float16)
        >>> recorder.histogram()
        tensor([1, 0, 0, 0, 2])
        >>> recorder.data_map().aum
        tensor([ 1.5000, -1.5000,  4.5000], dtype=torch.float64)
    """

    def __init__(
        self,
        num_samples: int,
        models: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """Start with no epoch."""
        check_count("num_samples", num_samples, 1)
        if models is not None:
            check_count("models", models, 1)
        self.num_samples, self.models = num_samples, models
        self._device = worker(torch.device("cpu" if device is None else device))
        shape = (models or 1, num_samples)
        self._epoch = Epoch(num_samples, models, self._device)
        self._totals = Totals(shape, self._device)
        self._final = torch.full(shape, torch.nan, dtype=torch.float64, device=self._device)
        # one tensor per epoch: (K, N) confidences, (K, 5) counts, (K,) means of ρ̂
        self._confidences: list[Tensor] = []
        self._histograms: list[Tensor] = []
        self._biases: list[Tensor] = []

    def update(self, index: Tensor, logits: Tensor, target: Tensor) -> None:
        """Take what a step has computed; there is no second forward pass and no gradient.

        Args:
            index: the samples' numbers in the data set, of shape (B,), or (K, B) where each model
                has its own batch. With K models, -1 marks a row that is padding.
            logits: of shape (B, C) or (K, B, C), of any floating-point type.
            target: class indices of shape (B,) or (K, B).
        """
        self._epoch.add(index, logits, target)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Close the epoch.

        Raises:
            ValueError: if there was no update since the last epoch, or logits were NaN. The epoch
                then stays open: an update with sound logits of the same samples mends it.
        """
        self._epoch.settle()
        rows = self._epoch.rows.view(-1, self.num_samples, COLUMNS)
        margin, bias, right = (column.contiguous() for column in rows.unbind(-1))
        seen = ~right.isnan()
        if not bool(seen.any()):
            raise ValueError("end_epoch needs at least one update since the last epoch, got none.")
        # not torch.sigmoid, whose last bit depends on where in memory a number stands
        margin, bias = margin.double(), bias.double()
        confidence = (bias - margin).exp_().add_(1.0).reciprocal_()
        if wrong := int((seen & confidence.isnan()).sum()):
            raise ValueError(
                f"logits must not be NaN or +inf, but those of {wrong} of {int(seen.sum())} "
                "samples in this epoch were."
            )
        self._totals.add(confidence, right == 1, margin)
        self._confidences.append(confidence.half())
        self._histograms.append(confidence_histogram(confidence))
        # model by model, so that each adds up its samples in the order in which it would alone
        self._biases.append(torch.stack([each.nanmean() for each in bias]))
        self._final.copy_(confidence)
        self._epoch.clear()

    def record_pass(self, logits: Tensor, target: Tensor) -> None:
        """Record a whole pass over the data in its order, such as an evaluation, as an epoch.

        To record one in batches, call :meth:`update` with the samples' numbers and then
        :meth:`end_epoch`.

        Args:
            logits: of all samples, of shape (N, C) or (K, N, C).
            target: class indices of shape (N,) or (K, N).

        Example:
            >>> import torch
            >>> from softmargin.diagnostics import ConfidenceRecorder
            >>> recorder = ConfidenceRecorder(num_samples=2)
            >>> recorder.record_pass(torch.zeros(2, 4), torch.tensor([0, 3]))
            >>> recorder.confidence
            tensor([[0.2500, 0.2500]], dtype=torch.float16)
        """
        self.update(torch.arange(self.num_samples), logits, target)
        self.end_epoch()

    @property
    def epochs(self) -> int:
        """Return the number of epochs recorded, E."""
        return len(self._confidences)

    @property
    def confidence(self) -> Tensor:
        """Return every sample's confidence by epoch in float16, of shape (E, N) or (K, E, N)."""
        return self._by_epoch(self._confidences, (self.num_samples,), torch.float16)

    @property
    def final_confidence(self) -> Tensor:
        """Return the last epoch's confidence in float64, of shape (N,) or (K, N)."""
        self._need_epoch("final_confidence")
        return self._of_models(self._final.clone())

    @property
    def mean_bias(self) -> Tensor:
        """Return the mean ρ̂ (LM eq. 7) of the samples seen, float64 of shape (E,) or (K, E)."""
        return self._by_epoch(self._biases, (), torch.float64)

    def histogram(self, epoch: int = -1) -> Tensor:
        """Return GD Table 1's counts in an epoch, of shape (5,) or (K, 5).

        They were counted in float64 at the end of the epoch; see :func:`confidence_histogram`.
        """
        self._need_epoch("histogram")
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            raise TypeError(f"epoch must be a whole number, but got {epoch!r}.")
        if not -self.epochs <= epoch < self.epochs:
            raise IndexError(
                f"epoch must be from {-self.epochs} to {self.epochs - 1}, but got {epoch}."
            )
        return self._of_models(self._histograms[epoch].clone())

    def groups(self, count: int = 5) -> ConfidenceGroups:
        """Return equal groups from hard to easy, see :func:`confidence_groups`."""
        self._need_epoch("groups")
        return confidence_groups(self.confidence, count, self.final_confidence)

    def traces(self, samples: Sequence[int] | Tensor) -> Tensor:
        """Return the confidence of single samples by epoch in float32, (E, S) or (K, E, S)."""
        try:
            chosen = torch.as_tensor(samples, device=self._device).reshape(-1)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"samples must hold whole numbers, but got {samples!r}.") from None
        if chosen.numel():  # an empty list has no type
            check_integers("samples", chosen)
        check_index(chosen, self.num_samples, padded=False)
        return self.confidence[..., chosen.long()].float()

    def data_map(self) -> DataMap:
        """Return what all epochs together say about each sample, see :class:`DataMap`."""
        self._need_epoch("data_map")
        result = self._totals.data_map()
        return DataMap(**{name: self._of_models(value) for name, value in vars(result).items()})

    def state_dict(self) -> dict[str, Any]:
        """Return copies of everything recorded, also of the epoch under way."""
        self._epoch.settle()
        return copy.deepcopy(self._parts())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a recorder for as many samples and models was.

        Raises:
            ValueError: if this is no such state; then nothing is changed.
        """
        check_state(state, self._parts())
        self._epoch = Epoch(self.num_samples, self.models, self._device)
        self._epoch.rows.copy_(state["under_way"])
        self._final.copy_(state["final"])
        for name in Totals.FIELDS:
            getattr(self._totals, name).copy_(state["totals"][name])
        self._confidences, self._histograms, self._biases = (
            [each.to(self._device, copy=True) for each in state[name]]
            for name in ("confidences", "histograms", "biases")
        )

    def __repr__(self) -> str:
        """Return the settings and how much has been recorded."""
        models = "" if self.models is None else f", models={self.models}"
        return f"ConfidenceRecorder(num_samples={self.num_samples}{models}, epochs={self.epochs})"

    def _parts(self) -> dict[str, Any]:
        return {
            "num_samples": self.num_samples,
            "models": self.models,
            "under_way": self._epoch.rows,
            "final": self._final,
            "totals": {name: getattr(self._totals, name) for name in Totals.FIELDS},
            "confidences": self._confidences,
            "histograms": self._histograms,
            "biases": self._biases,
        }

    def _need_epoch(self, what: str) -> None:
        if not self._confidences:
            raise ValueError(f"{what} needs at least one recorded epoch, but there is none.")

    def _of_models(self, value: Tensor) -> Tensor:
        return value[0] if self.models is None else value

    def _by_epoch(self, parts: list[Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        models = self.models or 1
        if not parts:
            return self._of_models(torch.empty(models, 0, *shape, dtype=dtype))
        return self._of_models(torch.stack(parts, 1))
