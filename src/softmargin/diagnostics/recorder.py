"""The confidence recorder, which follows every sample through training by its logits."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softmargin.calibration._batch import worker
from softmargin.diagnostics._epoch import COLUMNS, Epoch, check_index
from softmargin.diagnostics._tensor_checks import check_integers
from softmargin.diagnostics.confidence import (
    ConfidenceGroups,
    confidence_groups,
    confidence_histogram,
)
from softmargin.diagnostics.data_maps import DataMap, Totals
from softmargin.functional._checks import check_count

SIZES = ("num_samples", "models")
HISTOGRAM_BINS = 5


class ConfidenceRecorder:
    """Record every sample's confidence, margin and correctness while a model trains.

    It uses the logits that a training step computes anyway. A sample that is not seen in an epoch
    is NaN there; if it is seen twice, the last time counts.

    For every sample and model it keeps two bytes per epoch, the confidence in float16, and about
    60 bytes in addition: the current epoch in float32 and running sums in float64. Up to 64 steps
    are buffered and processed together, fewer if they hold more than 65,536 logits (4,194,304 on
    an accelerator).

    Args:
        num_samples: number of training samples N.
        models: K if K models are trained at once; None for one model.
        device: where to keep the records, by default the CPU; logits are processed on their own
            device. Apple's GPUs have no float64, so theirs go to the CPU.

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
        # one tensor per epoch: confidences (K, N), counts (K, 5), means of ρ̂ (K,)
        self._confidences: list[Tensor] = []
        self._histograms: list[Tensor] = []
        self._biases: list[Tensor] = []

    def update(self, index: Tensor, logits: Tensor, target: Tensor) -> None:
        """Record a training step, without a second forward pass and without gradients.

        Args:
            index: the indices of the samples in the data set, of shape (B,), or (K, B) if each
                model has its own batch. With K models, -1 marks a padding row.
            logits: of shape (B, C) or (K, B, C), of any floating-point type.
            target: class indices of shape (B,) or (K, B).
        """
        self._epoch.add(index, logits, target)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """End the epoch.

        Raises:
            ValueError: if there was no update since the last epoch, or if logits were NaN. The
                epoch then stays open and can be corrected by an update of the same samples.
        """
        self._epoch.settle()
        rows = self._epoch.rows.view(-1, self.num_samples, COLUMNS)
        margin, bias, right = (column.contiguous() for column in rows.unbind(-1))
        seen = ~right.isnan()
        if not bool(seen.any()):
            raise ValueError("end_epoch needs at least one update since the last epoch, got none.")
        # not torch.sigmoid, whose last bit depends on the position in memory
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
        # model by model, so that the order of summation is that of a single model
        self._biases.append(torch.stack([each.nanmean() for each in bias]))
        self._final.copy_(confidence)
        self._epoch.clear()

    def record_pass(self, logits: Tensor, target: Tensor) -> None:
        """Record a whole pass over the data in order, such as an evaluation, as an epoch.

        To record it in batches, call :meth:`update` with the indices of the samples and then
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
        """Return the counts of GD's Table 1 in an epoch, of shape (5,) or (K, 5).

        They are counted in float64 at the end of the epoch; see :func:`confidence_histogram`.
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
        """Return a summary of all epochs for each sample, see :class:`DataMap`."""
        self._need_epoch("data_map")
        result = self._totals.data_map()
        return DataMap(**{name: self._of_models(value) for name, value in vars(result).items()})

    def state_dict(self) -> dict[str, Any]:
        """Return copies of everything recorded, including the current epoch."""
        self._epoch.settle()
        return copy.deepcopy(self._parts())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a recorder with the same number of samples and models.

        Raises:
            ValueError: if it is not such a state; then nothing is changed.
        """
        _check_state(state, self._parts())
        self._epoch = Epoch(self.num_samples, self.models, self._device)
        self._epoch.rows.copy_(state["under_way"])
        self._final.copy_(state["final"])
        for name, total in vars(self._totals).items():
            total.copy_(state["totals"][name])
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
            "totals": vars(self._totals),
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


def _check_state(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless the state is that of a recorder of the same size as ours."""
    _check_names("state", state, own)
    ours, theirs = (tuple(each[name] for name in SIZES) for each in (own, state))
    if ours != theirs:
        raise ValueError(
            f"state must be of a recorder with (num_samples, models) = {ours}, but got {theirs}."
        )
    final = own["final"]
    counts = torch.zeros(len(final), HISTOGRAM_BINS, dtype=torch.int64)
    like = {"confidences": [final.half()], "histograms": [counts], "biases": [final[:, 0]]}
    _check_like("state", state, {**own, **like})
    lengths = [len(state[name]) for name in like]
    if len(set(lengths)) > 1:
        raise ValueError(f"state must hold as many {', '.join(like)} as epochs, but got {lengths}.")
    for epoch, confidence in enumerate(state["confidences"]):
        if bool(((confidence < 0) | (confidence > 1)).any()):
            raise ValueError(f"state['confidences'][{epoch}] must be between 0 and 1, but is not.")


def _check_like(name: str, value: Any, like: Any) -> None:
    """Raise ``ValueError`` unless a part of a state is built like one of ours.

    A list may have any length; all its entries are like the one of ours.
    """
    if isinstance(like, Tensor):
        wanted = f"a tensor of {like.dtype} and shape {tuple(like.shape)}"
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} must be {wanted}, but got {type(value).__name__}.")
        if value.dtype != like.dtype or value.shape != like.shape:
            got = f"{value.dtype}, {tuple(value.shape)}"
            raise ValueError(f"{name} must be {wanted}, but got {got}.")
    elif isinstance(like, dict):
        _check_names(name, value, like)
        for key, each in like.items():
            _check_like(f"{name}[{key!r}]", value[key], each)
    elif isinstance(like, list):
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, but got {type(value).__name__}.")
        for place, each in enumerate(value):
            _check_like(f"{name}[{place}]", each, like[0])


def _check_names(name: str, value: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dict, but got {type(value).__name__}.")
    if missing := [key for key in wanted if key not in value]:
        raise ValueError(f"{name} must hold {', '.join(wanted)}, but {missing[0]!r} is missing.")
