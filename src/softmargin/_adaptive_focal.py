"""AdaFocal: focal loss that is steered by held-out rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softmargin import functional
from softmargin._docs import document_arguments
from softmargin._logit_loss import CRITERION_ARGUMENTS, LogitLoss
from softmargin._settings import Setting
from softmargin.functional import _checks as checks

FEWEST = 100  # held-out rows: with fewer, over-confidence has a standard error above 5 points


@document_arguments(
    CRITERION_ARGUMENTS,
    bins="number of ranges of confidence, each with as many held-out rows.",
    rate="how far the logarithm of the size of γ moves per unit of over-confidence.",
    lowest="the smallest γ, below 0.",
    highest="the largest γ.",
    switch="the smallest size of γ; where it would fall below, γ changes its sign.",
)
class AdaFocalLoss(LogitLoss):
    r"""Focal loss with a γ per range of confidence, moved by held-out rows (Ghosh et al., 2022).

    After every epoch, hand it the logits of held-out rows: ``update`` sorts them by confidence
    into ranges of equal numbers of rows, and moves the γ of each range by its over-confidence E,
    mean confidence minus accuracy:

    .. math:: \gamma \leftarrow \gamma \, e^{\mathrm{rate} \cdot E} \;\text{ where }
              \gamma > 0, \qquad
              \gamma \leftarrow \gamma \, e^{-\mathrm{rate} \cdot E} \;\text{ where } \gamma < 0

    So over-confidence leads to a larger γ, which lets go of confident samples, and
    under-confidence to a smaller one, down to ``switch``: from there on it is inverse focal loss,
    with γ below 0, which pulls harder at them. A training sample takes the γ of the range that its
    confidence in the target falls into. Until the first update γ = 1 everywhere.

    The rule, the switch of the sign, 15 ranges, γ = 1 at first, rate 1, bounds -2 and 20, the
    switch at 0.2, one update per epoch, and confidence in the prediction for held-out rows but in
    the target for training samples are the authors', as in the program that they published
    (``3mcloud/adafocal``). Ours are where a range ends, at its last held-out row instead of between
    two of them, the mean of a batch where they take its sum, and that fewer than 100 held-out rows
    are refused.

    The γ and the upper ends of the ranges are ``gammas`` and ``edges``, kept in ``state_dict``.
    See :func:`softmargin.functional.adaptive_focal_loss` for the loss itself, and
    :class:`softmargin.schedules.CalibratedBeta` for β by feedback.

    Example:
        >>> import torch
        >>> from softmargin.losses import AdaFocalLoss
        >>> criterion = AdaFocalLoss(bins=2)
        >>> logits = torch.tensor([[1.0, 0.0], [5.0, 0.0]]).repeat(50, 1)
        >>> error = criterion.update(logits, torch.tensor([0, 0, 0, 1]).repeat(25))
        >>> criterion.gammas  # right but unsure below, sure but half right above
        tensor([0.7642, 1.6377], dtype=torch.float64)
    """

    function = staticmethod(functional.adaptive_focal_loss)
    gammas = Setting(above=-math.inf, per_class=True)  # one per range
    edges = Setting(inclusive=True, per_class=True)
    tau = Setting(neutral=1.0)

    @checks.no_weight_in_its_place
    def __init__(
        self,
        bins: int = 15,
        rate: float = 1.0,
        *,
        lowest: float = -2.0,
        highest: float = 20.0,
        switch: float = 0.2,
        tau: float | Tensor = 1.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        checks.check_count("bins", bins, 2)
        checks.check_number("rate", rate)
        checks.check_number("switch", switch, below=1.0)
        checks.check_number("highest", highest, above=1.0, inclusive=True)
        checks.check_number("lowest", lowest, above=-math.inf, below=-switch)
        ends = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device="cpu")[1:-1]
        ones = torch.ones(bins, dtype=torch.float64, device="cpu")
        own = {"gammas": ones, "edges": ends, "tau": tau}
        super().__init__(own, weight, ignore_index, reduction, label_smoothing)
        self.moving |= {"gammas", "edges"}
        self.bins, self.rate, self.switch = bins, rate, switch
        self.lowest, self.highest = lowest, highest

    @torch.no_grad()
    def update(self, logits: Tensor, target: Tensor) -> float:
        """Move every γ by what held-out rows say, and return their mean over-confidence.

        Args:
            logits: of inference, (N, C), of at least 100 rows, and as many as there are bins.
            target: classes (N,).
        """
        fewest = max(FEWEST, self.bins)
        if logits.ndim != 2 or target.shape != logits.shape[:1]:
            raise ValueError(
                "logits must have shape (N, C) and target (N,), but got "
                f"{tuple(logits.shape)} and {tuple(target.shape)}."
            )
        if len(logits) < fewest:
            raise ValueError(
                f"logits must hold at least {fewest} held-out rows to steer by, but got "
                f"{len(logits)}."
            )
        confidence, predicted = logits.detach().double().cpu().softmax(1).max(1)
        if not bool(confidence.isfinite().all()):
            raise ValueError("logits must be finite, but got NaN or infinity: training diverged.")
        over = confidence - (predicted == target.cpu()).double()
        order = confidence.argsort(stable=True)
        parts = order.tensor_split(self.bins)
        errors = torch.stack([over[rows].mean() for rows in parts])
        ends = [confidence[rows[-1]] for rows in parts[:-1]]
        self.gammas = self._moved(self.gammas.double().cpu(), errors)
        self.edges = torch.stack(ends)
        return float(over.mean())

    def _moved(self, gammas: Tensor, errors: Tensor) -> Tensor:
        """Return every γ after a step; where it becomes small it changes its sign."""
        moved = gammas * (gammas.sign() * self.rate * errors).exp()
        moved = torch.where(moved.abs() < self.switch, -gammas.sign() * self.switch, moved)
        return moved.clamp(self.lowest, self.highest)

    def extra_repr(self) -> str:
        """Show what moves γ, and where it is."""
        return f"bins={self.bins}, rate={self.rate:g}, {super().extra_repr()}"
