"""Data maps: a few numbers per sample that summarise its training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmargin.diagnostics._tensor_checks import check_confidence, check_same_shape


@dataclass(frozen=True)
class DataMap:
    """What training did to each sample; every field has shape (N,), or (K, N) for K models.

    Epochs in which a sample was not seen do not count. For a sample that was never seen, the
    floating-point fields are NaN.

    Attributes:
        confidence: mean probability of its class over the epochs, float64.
        variability: population standard deviation of the same (Swayamdipta et al., 2020).
        correctness: share of the epochs in which it was classified right.
        aum: area under the margin, the mean over the epochs of z_c - max_{i≠c} z_i (Pleiss et
            al., 2020). A value clearly below 0 suggests a wrong label.
        forgetting: how often it was right in one epoch and wrong in the next one in which it was
            seen (Toneva et al., 2019), int64.
        never_learned: whether it was seen but never right. Its ``forgetting`` is then 0, although
            it is far from unforgettable.
    """

    confidence: Tensor
    variability: Tensor
    correctness: Tensor
    aum: Tensor
    forgetting: Tensor
    never_learned: Tensor


def data_map(confidence: Tensor, correct: Tensor, margin: Tensor) -> DataMap:
    """Return the data map of confidences and margins that were recorded elsewhere.

    :meth:`ConfidenceRecorder.data_map` returns the same without storing every epoch's margins.

    Args:
        confidence: probability of the class, of shape (E, N) or (K, E, N) over E epochs; NaN
            where a sample was not seen.
        correct: whether the sample was classified right, of the same shape.
        margin: z_c - max_{i≠c} z_i, of the same shape.

    Example:
        >>> import torch
        >>> from softmargin.diagnostics import data_map
        >>> confidence = torch.tensor([[0.6, 0.1], [0.4, 0.1], [0.8, 0.1]])
        >>> result = data_map(confidence, confidence > 0.5, confidence - 0.5)
        >>> result.variability
        tensor([0.1633, 0.0000], dtype=torch.float64)
        >>> result.forgetting, result.never_learned
        (tensor([1, 0]), tensor([False,  True]))
    """
    check_confidence(confidence, 2)
    _check_outcomes(confidence, correct, margin)
    totals = Totals(confidence[..., 0, :].shape, confidence.device)
    for each in zip(*(x.unbind(-2) for x in (confidence, correct, margin)), strict=True):
        p, right, lead = each
        totals.add(p.double(), right == 1, lead.double())
    return totals.data_map()


class Totals:
    """Running sums over epochs, from which the data map is computed; all attributes are tensors."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        """Start with no epoch."""

        def zeros(dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.seen, self.right, self.forgotten = (zeros(torch.int32) for _ in range(3))
        # Welford's mean and sum of squared deviations: a constant confidence varies by exactly 0
        self.mean, self.squares, self.margin = (zeros(torch.float64) for _ in range(3))
        self.was_right = zeros(torch.bool)

    def add(self, confidence: Tensor, right: Tensor, margin: Tensor) -> None:
        """Add an epoch in float64; the confidence is NaN if a sample was not seen."""
        seen = ~confidence.isnan()
        self.seen += seen
        away = torch.where(seen, confidence - self.mean, 0.0)
        self.mean += away / self.seen.clamp_min(1)
        self.squares += away * torch.where(seen, confidence - self.mean, 0.0)
        self.margin += torch.where(seen, margin, 0.0)
        self.right += right & seen
        self.forgotten += self.was_right & ~right & seen
        self.was_right.copy_(torch.where(seen, right, self.was_right))

    def data_map(self) -> DataMap:
        """Return the data map of the epochs so far."""
        seen = self.seen.double()  # 0/0 is NaN for a sample that was never seen
        return DataMap(
            confidence=torch.where(self.seen > 0, self.mean, torch.nan),
            variability=(self.squares / seen).sqrt(),
            correctness=self.right / seen,
            aum=self.margin / seen,
            forgetting=self.forgotten.long(),
            never_learned=(self.seen > 0) & (self.right == 0),
        )


def _check_outcomes(confidence: Tensor, correct: Tensor, margin: Tensor) -> None:
    """Raise unless every sample that was seen is right (1) or wrong (0) and has a margin."""
    for name, value in (("correct", correct), ("margin", margin)):
        check_same_shape(name, value, confidence.shape, "confidence's ")
    seen = ~confidence.isnan()
    odd = seen & (correct != 0) & (correct != 1)
    if bool(odd.any()):
        raise ValueError(f"correct must hold 0 and 1, but got {correct[odd][0].item()}.")
    if wrong := int((seen & margin.isnan()).sum()):
        raise ValueError(
            f"margin must be a number wherever confidence is, but {wrong} of {int(seen.sum())} "
            "are NaN."
        )
