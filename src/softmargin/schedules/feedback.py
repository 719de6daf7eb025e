"""β by feedback: moved during training so that held-out predictions are calibrated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings
from softmargin.functional._checks import check_choice, check_count, check_number

SIGNALS = ("overconfidence", "nll_slope")
FEWEST = 100  # held-out rows: with fewer, over-confidence has a standard error above 5 points
FEWEST_OF_CLASS = 10
PATIENCE = 10  # updates at a bound before it is said that the goal is out of reach
CLOSE = {"nll_slope": 0.05, "overconfidence": 0.01}  # what counts as calibrated


class CalibratedBeta:
    r"""Integral control of log β: β rises while held-out predictions are over-confident.

    .. math:: \log \beta \leftarrow \log \beta + \mathrm{gain} \cdot e

    where e is measured on held-out rows: ``"overconfidence"`` is mean confidence minus accuracy;
    ``"nll_slope"`` is the derivative of their NLL as all logits grow by a common factor, the mean
    of :math:`\sum_j p_j z_j - z_c`, in nats. Both are 0 where predictions are calibrated on
    average.

    Raising β only weakens the pull of samples that are right already: it cannot take back
    confidence that was reached before. So update often and from the start, some five times per
    epoch. Optimisers that rescale gradients (Adam) undo part of what β does; SGD does not. The
    held-out rows steer training: they are no longer fresh for choosing between models.

    Args:
        criterion: a loss with a ``beta`` that is not learned.
        gain: how far log β moves per unit of e.
        lowest: the smallest β, above 0; with 1 it never sharpens what is under-confident early on.
        highest: the largest β.
        signal: ``"overconfidence"`` or ``"nll_slope"``.
        num_classes: for a β per class, each moved by the rows predicted as that class; by default
            there is one β for all.

    Example:
        >>> import torch
        >>> from softmargin import GradientDecayLoss
        >>> from softmargin.schedules import CalibratedBeta
        >>> criterion = GradientDecayLoss()
        >>> controller = CalibratedBeta(criterion)
        >>> logits = torch.tensor([[5.0, 0.0], [5.0, 0.0]]).repeat(50, 1)
        >>> error = controller.update(logits, torch.tensor([0, 1]).repeat(50))  # sure, half right
        >>> criterion.beta > 1
        tensor(True)
    """

    def __init__(
        self,
        criterion: nn.Module,
        *,
        gain: float = 3.0,
        lowest: float = 1.0,
        highest: float = 1e4,
        signal: str = "overconfidence",
        num_classes: int | None = None,
    ) -> None:
        """Check everything, and set β to its own value within the bounds."""
        self.criterion = getattr(criterion, "_orig_mod", criterion)  # what torch.compile wraps
        if not isinstance(self.criterion, ModuleWithSettings) or "beta" not in (
            self.criterion.settings
        ):
            raise TypeError(
                f"criterion must be a loss with a beta, but got {type(criterion).__name__}."
            )
        if self.criterion.learns("beta"):
            raise ValueError("criterion must have a beta that is not learned, but it is learned.")
        check_number("gain", gain)
        check_number("lowest", lowest)
        check_number("highest", highest, above=lowest)
        check_choice("signal", signal, SIGNALS)
        self.gain, self.lowest, self.highest, self.signal = gain, lowest, highest, signal
        self.num_classes = num_classes
        self.updates, self.stuck = 0, 0
        start = torch.as_tensor(self.criterion.beta, dtype=torch.float64).detach().cpu().log()
        if num_classes is not None:
            check_count("num_classes", num_classes, 2)
            start = start.expand(num_classes).clone()
        elif start.ndim:
            raise ValueError(
                "num_classes must be given for a criterion with a beta per class, but got None."
            )
        self._set(start)
        self.criterion.moving.add("beta")

    @property
    def value(self) -> Tensor:
        """The present β, in float64: one number, or one per class."""
        return self.log_beta.exp()

    @torch.no_grad()
    def update(self, logits: Tensor, target: Tensor) -> float:
        """Move β by what held-out rows say, and return their error.

        Args:
            logits: of inference, (N, C), of at least 100 rows.
            target: classes (N,).
        """
        if logits.ndim != 2 or target.shape != logits.shape[:1]:
            raise ValueError(
                "logits must have shape (N, C) and target (N,), but got "
                f"{tuple(logits.shape)} and {tuple(target.shape)}."
            )
        if len(logits) < FEWEST:
            raise ValueError(
                f"logits must hold at least {FEWEST} held-out rows to steer by, but got "
                f"{len(logits)}."
            )
        errors = self._errors(logits.detach().double().cpu(), target.cpu())
        error = float(errors.mean())
        if not math.isfinite(error):
            raise ValueError("logits must be finite, but got NaN or infinity: training diverged.")
        move = torch.tensor(error, dtype=torch.float64)
        if self.num_classes is not None:
            move = self._by_class(errors, logits.argmax(1).cpu())
        self._set(self.log_beta + self.gain * move)
        self.updates += 1
        self._watch(error)
        return error

    def _errors(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return e of every row."""
        p = logits.softmax(1)
        if self.signal == "overconfidence":
            return p.amax(1) - (logits.argmax(1) == target).double()
        return (p * logits).sum(1) - logits.gather(1, target[:, None])[:, 0]

    def _by_class(self, errors: Tensor, predicted: Tensor) -> Tensor:
        """Return e of the rows predicted as each class; 0 where there are too few."""
        assert self.num_classes is not None
        counts = torch.bincount(predicted, minlength=self.num_classes)
        sums = errors.new_zeros(self.num_classes).index_add_(0, predicted, errors)
        return torch.where(counts >= FEWEST_OF_CLASS, sums / counts.clamp(min=1), 0.0)

    @property
    def _ends(self) -> tuple[float, float]:
        return math.log(self.lowest), math.log(self.highest)

    def _set(self, log_beta: Tensor) -> None:
        self.log_beta = log_beta.clamp(*self._ends)
        self.criterion.beta = self.value if self.log_beta.ndim else float(self.value)

    def _watch(self, error: float) -> None:
        """Say once that the goal is out of reach."""
        (lowest, highest), over = self._ends, error > 0
        at_end = self.log_beta.amax() >= highest if over else self.log_beta.amin() <= lowest
        self.stuck = self.stuck + 1 if at_end and abs(error) > CLOSE[self.signal] else 0
        if self.stuck == PATIENCE:
            end, way = (self.highest, "over") if over else (self.lowest, "under")
            warnings.warn(
                f"held-out predictions stay {way}-confident ({self.signal} {error:+.3f}) at "
                f"beta = {end:g}: update more often or with a larger gain, or fit a temperature "
                "after training.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {"log_beta": self.log_beta, "updates": self.updates, "stuck": self.stuck}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where a ``state_dict`` of the same controller stopped."""
        if set(state_dict) != {"log_beta", "updates", "stuck"}:
            got = ", ".join(map(str, state_dict)) or "nothing"
            raise ValueError(f"state_dict must hold log_beta, updates and stuck, but got {got}.")
        if state_dict["log_beta"].shape != self.log_beta.shape:
            raise ValueError(
                f"state_dict must be of a controller of {self.log_beta.numel()} values, but got "
                f"{state_dict['log_beta'].numel()}."
            )
        self.updates, self.stuck = int(state_dict["updates"]), int(state_dict["stuck"])
        self._set(state_dict["log_beta"].double().cpu())

    def __repr__(self) -> str:
        """Show what moves, by what, and where it is."""
        value = self.value
        now = f"{float(value):g}" if not value.ndim else f"{value.amin():g} to {value.amax():g}"
        owner = type(self.criterion).__name__
        return f"CalibratedBeta({owner}.beta, gain={self.gain:g}, {self.signal}): {now}"
